//! How processes end: by crash, by hanging, by being idle, with their gateway.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::process::Command;
use std::time::Duration;

use futures_util::future::join_all;
use http::Method;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Pid, PidfdFlags, Signal};
use tidewire_process::{Life, State};
use tidewire_service::{Body, Code, Outcome, Service};

use crate::{call, gateway, get, host, is_alive, life, python};

#[tokio::test]
async fn a_crash_in_mid_call_is_a_bad_gateway_and_the_next_call_starts_anew() {
    let host = host();
    let hosted = host.add(python(&[]), Life::default());
    let before: i32 = get(&hosted, "/pid").await.unwrap().parse().unwrap();
    let error = hosted.call(call(Method::POST, "/crash", "x")).await.unwrap_err();
    assert_eq!((error.code(), error.http_status().as_u16()), (Code::Unavailable, 502));
    assert_eq!(error.outcome(), Outcome::Unknown, "a command is not sent twice");
    assert_eq!(hosted.status().failure.unwrap(), "it ended with exit code 3");
    let after: i32 = get(&hosted, "/pid").await.unwrap().parse().unwrap();
    assert_ne!(before, after);
    // A safe request is tried once more, and no oftener.
    let error = get(&hosted, "/crash").await.unwrap_err();
    assert_eq!(error.http_status().as_u16(), 502);
    assert_eq!(hosted.status().starts, 3);
    host.stop().await;
}

#[tokio::test]
async fn a_crash_in_mid_stream_breaks_the_answer_off() {
    let host = host();
    let hosted = host.add(python(&[]), Life::default());
    let reply = hosted.call(call(Method::GET, "/crash-in-stream", Body::Empty)).await.unwrap();
    let error = reply.body.collect(100).await.unwrap_err();
    assert_eq!(error.code(), Code::Unavailable);
    assert_eq!(get(&hosted, "/again").await.unwrap(), "/again");
    host.stop().await;
}

#[tokio::test]
async fn a_call_that_hangs_ends_in_time_and_a_process_that_hangs_is_killed() {
    let host = host();
    // Long enough for a process that answers on a busy machine.
    let life = life(|life| life.request_timeout = Duration::from_secs(3));
    let hosted = host.add(python(&[]), life);
    // As long as other calls are answered it is slow, and does not hang.
    for hanging in [2, 2, 3] {
        get(&hosted, "/pid").await.unwrap();
        assert_eq!(hosted.status().starts, 1);
        for ended in join_all((0..hanging).map(|_| get(&hosted, "/hang"))).await {
            assert_eq!(ended.unwrap_err().code(), Code::DeadlineExceeded);
        }
    }
    hosted.until(|status| status.failure.as_deref() == Some("it was ended by signal 9")).await;
    assert_eq!(get(&hosted, "/again").await.unwrap(), "/again");
    host.stop().await;
}

#[tokio::test]
async fn a_flood_of_output_hangs_nobody_and_memory_stays_bounded() {
    let host = host();
    let hosted = host.add(python(&[]), Life::default());
    assert_eq!(get(&hosted, "/flood").await.unwrap(), "flooded");
    host.stop().await;
    // Everything was read: what is kept and what gave way are all of it.
    let kept = hosted.output();
    assert_eq!(u64::try_from(kept.len()).unwrap() + hosted.output_dropped(), 40_000);
    assert!(kept.len() < 3_000, "{}", kept.len());
}

#[tokio::test]
async fn an_idle_process_is_ended_and_the_next_call_starts_another() {
    let host = host();
    let hosted = host.add(python(&[]), life(|life| life.idle_stop = Some(Duration::ZERO)));
    for starts in 1..=3 {
        let pid: i32 = get(&hosted, "/pid").await.unwrap().parse().unwrap();
        let status = hosted.until(|status| status.state == State::Stopped).await;
        assert_eq!((status.starts, status.failure), (starts, None));
        assert!(!is_alive(pid));
    }
    host.stop().await;
}

#[tokio::test]
async fn an_idle_process_is_frozen_and_a_call_thaws_it() {
    let host = host();
    let hosted = host.add(python(&[]), life(|life| life.idle_freeze = Some(Duration::ZERO)));
    let pid = get(&hosted, "/pid").await.unwrap();
    for _ in 0..20 {
        hosted.until(|status| status.state == State::Frozen).await;
        assert_eq!(get(&hosted, "/pid").await.unwrap(), pid);
    }
    hosted.until(|status| status.state == State::Frozen).await;
    // Its end is not waited for until a grace is over: it hears of it although it is frozen.
    host.stop().await;
    assert_eq!(hosted.status().starts, 1);
}

#[tokio::test]
async fn a_process_that_ignores_sigterm_is_killed_after_its_grace() {
    let host = host();
    let life = life(|life| {
        life.idle_stop = Some(Duration::ZERO);
        life.stop_grace = Duration::from_millis(100);
    });
    let hosted = host.add(python(&["deaf"]), life);
    let pid: i32 = get(&hosted, "/pid").await.unwrap().parse().unwrap();
    hosted.until(|status| status.state == State::Stopped).await;
    assert!(!is_alive(pid));
    host.stop().await;
}

#[tokio::test]
async fn a_daemon_of_a_process_ends_with_it() {
    let host = host();
    let hosted = host.add(python(&[]), Life::default());
    let daemon: i32 = get(&hosted, "/daemon").await.unwrap().parse().unwrap();
    assert!(is_alive(daemon));
    let ended = until_ended(daemon);
    assert!(get(&hosted, "/crash").await.is_err());
    ended.await;
    host.stop().await;
}

#[tokio::test]
async fn when_the_warden_is_killed_its_processes_end_and_the_next_call_has_another() {
    let host = host();
    let hosted = host.add(python(&[]), Life::default());
    let pid: i32 = get(&hosted, "/pid").await.unwrap().parse().unwrap();
    let ended = until_ended(pid);
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let warden: i32 = stat.rsplit(") ").next().unwrap().split(' ').nth(1).unwrap().parse().unwrap();
    rustix::process::kill_process(Pid::from_raw(warden).unwrap(), Signal::KILL).unwrap();
    ended.await;
    hosted.until(|status| status.failure.is_some()).await;
    let after: i32 = get(&hosted, "/pid").await.unwrap().parse().unwrap();
    assert_ne!(pid, after);
    host.stop().await;
}

#[tokio::test]
async fn kill_9_of_the_gateway_leaves_no_child_and_no_grandchild() {
    let socket = std::env::temp_dir().join(format!("tidewire-gateway-{}", std::process::id()));
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/program.py");
    let mut command = Command::new(gateway());
    let mut gateway = command.arg(&socket).args(["python3", "-I", "-S", script]).spawn().unwrap();
    until_there(&socket).await;
    let ask = |path: &str| -> i32 {
        let mut stream = UnixStream::connect(&socket).unwrap();
        write!(stream, "GET {path} HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n").unwrap();
        let mut lines = BufReader::new(stream);
        while lines.read_line(&mut String::new()).unwrap() > 2 {}
        let mut body = String::new();
        lines.read_to_string(&mut body).unwrap();
        body.parse().unwrap_or_else(|_| panic!("{path}: {body}"))
    };
    let (child, daemon) = (ask("/pid"), ask("/daemon"));
    assert!(is_alive(child) && is_alive(daemon));
    let (child_ended, daemon_ended) = (until_ended(child), until_ended(daemon));
    gateway.kill().unwrap();
    gateway.wait().unwrap();
    child_ended.await;
    daemon_ended.await;
    std::fs::remove_file(&socket).unwrap();
}

/// Waits for the end of any process, child of this one or not.
fn until_ended(pid: i32) -> impl Future<Output = ()> {
    let pid = Pid::from_raw(pid).expect("no process has id 0");
    let fd = rustix::process::pidfd_open(pid, PidfdFlags::empty()).expect("it runs");
    let wait =
        move || poll(&mut [PollFd::new(&fd, PollFlags::IN)], None).expect("it is waited for");
    async move {
        tokio::task::spawn_blocking(wait).await.expect("nothing panics");
    }
}

/// Waits until a socket is listened on.
async fn until_there(socket: &std::path::Path) {
    while tokio::net::UnixStream::connect(socket).await.is_err() {
        tokio::task::yield_now().await;
    }
}
