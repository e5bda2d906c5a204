//! Time that passes while a process is frozen: the clock of the gateway is put forward.

use std::time::Duration;

use serde_json::json;
use tidewire_hosting::{LifeLimits, State};
use tidewire_service::{Call, Codec, Context, Service};

use crate::native::{self, Gateway, go, json_of, node, rust};
use crate::{StoppedClock, get, host, limits, programs, python, some_time_passes};

/// Frozen at once, and never ended.
fn frozen() -> LifeLimits {
    limits(|limits| (limits.idle_freeze, limits.idle_stop) = (Some(Duration::ZERO), None))
}

async fn a_day_passes() {
    some_time_passes(Duration::from_hours(24)).await;
}

#[tokio::test]
async fn a_day_in_the_ice_ends_no_session() {
    for command in [native::python("threads"), native::python("async"), node("fetch"), go(), rust()]
    {
        let gateway = Gateway::start(&command, Codec::Json, frozen()).await;
        let pid = async || {
            let (asked, request) = (gateway.method("Do"), json!({ "text": "pid" }).to_string());
            let call = Call::method(asked, Context::default(), Codec::Json, request);
            json_of(gateway.hosted.call(call).await.unwrap()).await.unwrap()
        };
        let before = pid().await;
        for _ in 0..3 {
            gateway.hosted.until(|status| status.state == State::Frozen).await;
            a_day_passes().await;
            assert_eq!(pid().await, before, "{command:?}");
        }
        gateway.stop().await;
    }
}

#[tokio::test]
async fn a_connection_that_a_program_may_be_about_to_close_is_not_used_again() {
    let host = host();
    let hosted = host.add(python(&[]), crate::patient_limits());
    hosted.start();
    hosted.until(|status| status.state == State::Ready).await;
    let _stopped = StoppedClock::stop();
    // The first one found out that it accepts connections.
    for connection in 2..=4 {
        for _ in 0..2 {
            let connections = get(&hosted, "/connections").await.unwrap();
            assert_eq!(connections, connection.to_string());
        }
        tokio::time::advance(Duration::from_secs(1)).await;
    }
    host.stop().await;
}

#[tokio::test]
async fn a_day_in_the_ice_keeps_no_call_from_a_program_of_plain_http() {
    for program in programs(&[]) {
        let host = host();
        let hosted = host.add(program, frozen());
        let before = get(&hosted, "/pid").await.unwrap();
        for _ in 0..3 {
            hosted.until(|status| status.state == State::Frozen).await;
            a_day_passes().await;
            assert_eq!(get(&hosted, "/pid").await.unwrap(), before);
        }
        host.stop().await;
    }
}
