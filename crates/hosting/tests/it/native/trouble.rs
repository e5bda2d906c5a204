//! How a program fails, whatever its language, and what is left of its answers.

use std::time::{Duration, Instant};

use futures_util::StreamExt;
use futures_util::future::join_all;
use http::header::RETRY_AFTER;
use serde_json::json;
use tidewire_hosting::State;
use tidewire_service::{Body, Code, Codec, Context, Error};

use super::{Gateway, key};

pub(super) async fn all(command: &[String]) {
    let gateway = Gateway::start(command, Codec::Json, crate::patient_limits()).await;
    noise_is_no_part_of_the_protocol(&gateway).await;
    a_crash_within_a_call_is_an_error(&gateway, "crash").await;
    a_crash_within_a_call_is_an_error(&gateway, "garbage").await;
    gateway.stop().await;
    a_crash_within_a_stream_breaks_it_off(command).await;
    a_call_that_hangs_ends_in_time_and_a_process_that_hangs_is_killed(command).await;
    what_is_kept_outlives_an_idle_stop_and_no_crash(command).await;
    what_is_kept_ends_with_the_program_that_is_replaced(command).await;
    work_that_is_no_call_keeps_it_alive(command).await;
    calls_that_find_it_frozen_or_about_to_be_are_answered(command).await;
    calls_beyond_a_full_queue_are_refused_at_once(command).await;
    no_call_fails_while_its_program_is_replaced(command).await;
}

async fn noise_is_no_part_of_the_protocol(gateway: &Gateway) {
    assert_eq!(gateway.text("Do", "noise").await.unwrap(), "noise");
    assert_eq!(gateway.text("Echo", "a").await.unwrap(), "a");
    assert!(gateway.hosted.output().iter().any(|line| line.text == "x".repeat(100)));
}

async fn pid(gateway: &Gateway) -> String {
    gateway.text("Do", "pid").await.unwrap()
}

async fn a_crash_within_a_call_is_an_error(gateway: &Gateway, how: &str) {
    let before = pid(gateway).await;
    let error = gateway.text("Do", how).await.unwrap_err();
    let text = "hosted ended before it answered";
    assert_eq!((error.code(), error.message()), (Code::Aborted, text), "{how}");
    assert_ne!(pid(gateway).await, before, "{how}: another one is started");
}

async fn a_crash_within_a_stream_breaks_it_off(command: &[String]) {
    let gateway = Gateway::start(command, Codec::Json, crate::patient_limits()).await;
    let request = json!({ "text": key() }).to_string();
    let reply = gateway.reply("Drip", Context::default(), request).await.unwrap();
    let Body::Stream(mut frames) = reply.body else { panic!("it streams") };
    frames.next().await.unwrap().unwrap();
    assert!(gateway.text("Do", "crash").await.is_err());
    let error: Error = frames.next().await.unwrap().unwrap_err();
    let text = "hosted ended in the middle of its answer";
    assert_eq!((error.code(), error.message()), (Code::Unavailable, text));
    gateway.stop().await;
}

async fn a_call_that_hangs_ends_in_time_and_a_process_that_hangs_is_killed(command: &[String]) {
    // Long enough for a process that answers on a busy machine.
    let limits = crate::limits(|limits| limits.request_timeout = Duration::from_secs(2));
    let gateway = Gateway::start(command, Codec::Json, limits).await;
    for hanging in [2, 3] {
        // As long as other calls are answered it is slow, and does not hang.
        assert_eq!(gateway.text("Echo", "a").await.unwrap(), "a");
        let keys: Vec<_> = (0..hanging).map(|_| key()).collect();
        for ended in join_all(keys.iter().map(|key| gateway.text("Wait", key))).await {
            let error = ended.unwrap_err();
            let text = "hosted did not answer within 2s";
            assert_eq!((error.code(), error.message()), (Code::DeadlineExceeded, text));
        }
        if hanging == 2 {
            assert_eq!(gateway.text("Heard", &keys[1]).await.unwrap(), keys[1], "it is told");
            assert_eq!(gateway.hosted.status().starts, 1);
        }
    }
    let killed =
        "the gateway killed it: 3 calls in a row had no answer within request_timeout = 2s";
    gateway.hosted.until(|status| status.failure.as_deref() == Some(killed)).await;
    assert_eq!(gateway.text("Echo", "again").await.unwrap(), "again");
    gateway.stop().await;
}

async fn what_is_kept_outlives_an_idle_stop_and_no_crash(command: &[String]) {
    let limits = crate::limits(|limits| limits.idle_stop = Some(Duration::from_millis(50)));
    let gateway = Gateway::start(command, Codec::Json, limits).await;
    let key = key();
    assert_eq!(gateway.number("Get", &key).await, 1);
    gateway.hosted.until(|status| status.state == State::Stopped).await;
    assert_eq!(gateway.number("Get", &key).await, 1);
    assert_eq!(gateway.hosted.status().starts, 1, "a hit wakes nobody");
    gateway.text("Do", "crash").await.unwrap_err();
    gateway.hosted.until(|status| status.failure.is_some()).await;
    // Its memory began anew, so that it counts from one again; that it was asked is to be seen.
    let starts = gateway.hosted.status().starts;
    assert_eq!(gateway.number("Get", &key).await, 1);
    assert_eq!(gateway.hosted.status().starts, starts + 1, "what it kept in memory is lost");
    gateway.stop().await;
}

async fn what_is_kept_ends_with_the_program_that_is_replaced(command: &[String]) {
    let gateway = Gateway::start(command, Codec::Json, crate::patient_limits()).await;
    let key = key();
    assert_eq!(gateway.number("Get", &key).await, 1);
    gateway.text("Set", &key).await.unwrap();
    for _ in 0..2 {
        assert_eq!(gateway.number("Get", &key).await, 2);
    }
    let (program, limits) = gateway.hosted.runs();
    gateway.hosted.replace(program, limits);
    gateway.hosted.until(|status| status.starts == 2).await;
    // That it ends is told in the moment after.
    let began = Instant::now();
    while gateway.number("Get", &key).await == 2 {
        assert!(began.elapsed() < crate::HANG, "it never ends");
    }
    assert_eq!(gateway.number("Get", &key).await, 1, "the new one counts anew");
    gateway.stop().await;
}

async fn work_that_is_no_call_keeps_it_alive(command: &[String]) {
    let short = Some(Duration::from_millis(100));
    let (freezes, stops) = (
        crate::limits(|limits| (limits.idle_freeze, limits.idle_stop) = (short, None)),
        crate::limits(|limits| limits.idle_stop = short),
    );
    for (limits, state) in [(freezes, State::Frozen), (stops, State::Stopped)] {
        let gateway = Gateway::start(command, Codec::Json, limits.clone()).await;
        gateway.text("Do", "busy").await.unwrap();
        let before = pid(&gateway).await;
        // To one that idles as long it happens meanwhile, twice.
        for _ in 0..2 {
            let other = gateway.another(command, limits.clone()).await;
            other.until(|status| status.state == state && status.starts == 1).await;
        }
        assert_eq!(gateway.hosted.status().state, State::Ready, "not {state:?}");
        assert_eq!(pid(&gateway).await, before);
        gateway.text("Do", "idle").await.unwrap();
        gateway.hosted.until(|status| status.state == state).await;
        gateway.stop().await;
    }
}

async fn calls_that_find_it_frozen_or_about_to_be_are_answered(command: &[String]) {
    let limits = crate::limits(|limits| {
        (limits.idle_freeze, limits.queue_max) = (Some(Duration::ZERO), 1000);
    });
    let gateway = Gateway::start(command, Codec::Json, limits).await;
    let echo = async |number: usize| {
        let text = number.to_string();
        assert_eq!(gateway.text("Echo", &text).await.unwrap(), text);
    };
    // Each comes as the end of the one before has it frozen.
    for number in 0..100 {
        echo(number).await;
    }
    gateway.hosted.until(|status| status.state == State::Frozen).await;
    // A socket that nobody reads has room for fewer of them.
    join_all((0..1000).map(echo)).await;
    assert_eq!(gateway.hosted.status().starts, 1);
    gateway.stop().await;
}

async fn calls_beyond_a_full_queue_are_refused_at_once(command: &[String]) {
    let limits = crate::limits(|limits| (limits.queue_max, limits.concurrency) = (1, 1));
    let gateway = Gateway::start(command, Codec::Json, limits).await;
    // One that has begun has the only place; the next waits.
    let request = json!({ "text": key() }).to_string();
    let reply = gateway.reply("Drip", Context::default(), request).await.unwrap();
    let Body::Stream(mut open) = reply.body else { panic!("it streams") };
    open.next().await.unwrap().unwrap();
    let refused = async {
        gateway.hosted.until(|status| status.waiting == 1).await;
        let error = gateway.text("Do", "pid").await.unwrap_err();
        assert_eq!(error.code(), Code::ResourceExhausted);
        // A page too.
        let error = crate::reply(&gateway.hosted, "/a").await.unwrap_err();
        assert_eq!((error.code(), error.http_status().as_u16()), (Code::ResourceExhausted, 503));
        assert_eq!(error.headers().get(RETRY_AFTER).unwrap(), "1");
        drop(open);
    };
    let (waited, ()) = tokio::join!(gateway.text("Do", "pid"), refused);
    waited.unwrap();
    assert_eq!(gateway.hosted.status().starts, 1);
    gateway.stop().await;
}

async fn no_call_fails_while_its_program_is_replaced(command: &[String]) {
    let gateway = Gateway::start(command, Codec::Json, crate::patient_limits()).await;
    let first = pid(&gateway).await;
    // Commands, which are not made twice.
    let calls = async || {
        while gateway.hosted.status().starts < 4 {
            pid(&gateway).await;
        }
    };
    let replaces = async {
        for starts in 1..=3 {
            gateway.hosted.until(|status| status.starts == starts).await;
            let (program, limits) = gateway.hosted.runs();
            gateway.hosted.replace(program, limits);
        }
    };
    tokio::join!(join_all((0..4).map(|_| calls())), replaces);
    assert_ne!(pid(&gateway).await, first);
    gateway.stop().await;
}
