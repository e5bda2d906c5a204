//! How processes end: by crash, by hanging, by being idle, with their gateway.

use std::ffi::OsStr;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::Duration;

use futures_util::future::join_all;
use http::Method;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Pid, PidfdFlags, Signal};
use tidewire_hosting::{Listen, State};
use tidewire_service::{Body, Code, Outcome, Service};

use crate::{call, gateway, get, host, is_alive, limits, programs, python};

#[tokio::test]
async fn a_crash_in_mid_call_is_a_bad_gateway_and_the_next_call_starts_anew() {
    for program in programs(&[]) {
        let host = host();
        let hosted = host.add(program, crate::patient_limits());
        let before: i32 = get(&hosted, "/pid").await.unwrap().parse().unwrap();
        let error = hosted.call(call(Method::POST, "/crash", "x")).await.unwrap_err();
        assert_eq!((error.code(), error.http_status().as_u16()), (Code::Unavailable, 502));
        assert_eq!(error.outcome(), Outcome::Unknown, "a command is not sent twice");
        let failure = "it ended with exit code 3, in its one call, POST /crash";
        assert_eq!(hosted.status().failure.unwrap(), failure);
        let after: i32 = get(&hosted, "/pid").await.unwrap().parse().unwrap();
        assert_ne!(before, after);
        // A process had no other call when it crashed in this one: no second one is given it.
        let error = get(&hosted, "/crash").await.unwrap_err();
        assert_eq!(error.http_status().as_u16(), 502);
        assert_eq!(hosted.status().starts, 2);
        host.stop().await;
    }
}

#[tokio::test]
async fn a_safe_call_beside_one_that_crashed_is_made_once_more() {
    for program in programs(&[]) {
        let host = host();
        let hosted = host.add(program, crate::patient_limits());
        // Both are with it when it ends: what one was answered is not read yet.
        let open = crate::reply(&hosted, "/pid").await.unwrap();
        let error = get(&hosted, "/crash").await.unwrap_err();
        assert_eq!(error.http_status().as_u16(), 502);
        assert_eq!(hosted.status().starts, 2, "it was tried at another one");
        drop(open);
        host.stop().await;
    }
}

#[tokio::test]
async fn a_call_that_was_never_sent_is_made_once_more_and_not_blamed() {
    let ways = [(Listen::Port, Method::GET), (Listen::Unix, Method::POST)];
    for (listen, method) in ways.into_iter().chain([(Listen::Inherited, Method::GET)]) {
        let host = host();
        let hosted = host.add(python(&[]).listen(listen), crate::patient_limits());
        // It goes on.
        let first: i32 = get(&hosted, "/close").await.unwrap().parse().unwrap();
        let reply = hosted.call(call(method.clone(), "/page", "x")).await.unwrap();
        assert_eq!(reply.status, 200, "{method}");
        assert_eq!(hosted.status().starts, 2, "{method}: it was made at another one");
        hosted.until(|status| !status.pids.contains(&first)).await;
        // It ends meanwhile.
        let pid: i32 = get(&hosted, "/close").await.unwrap().parse().unwrap();
        let called = hosted.call(call(method.clone(), "/page", "x"));
        let ends = async {
            rustix::process::kill_process(Pid::from_raw(pid).unwrap(), Signal::USR1).unwrap();
        };
        let (reply, ()) = futures_util::future::join(called, ends).await;
        assert_eq!(reply.unwrap().status, 200, "{method}");
        // Its end is told, and not as this call's; one that takes its time is stopped instead.
        let failure = hosted.until(|status| !status.pids.contains(&pid)).await.failure;
        let is_told = failure.as_deref() == Some("it ended with exit code 7");
        assert!(is_told || failure.is_none(), "{method}: {failure:?}");
        host.stop().await;
    }
}

#[tokio::test]
async fn a_call_that_ends_its_process_does_not_take_the_service_down() {
    for program in programs(&[]) {
        let host = host();
        let hosted = host.add(program, crate::patient_limits());
        for round in 1..=8 {
            assert_eq!(get(&hosted, "/page").await.unwrap(), "/page", "round {round}");
            let error = get(&hosted, "/crash").await.unwrap_err();
            assert_eq!(error.http_status().as_u16(), 502, "round {round}: {error}");
        }
        let failure = "it ended with exit code 3, in its one call, GET /crash";
        assert_eq!(hosted.status().failure.as_deref(), Some(failure));
        host.stop().await;
    }
}

#[tokio::test]
async fn a_crash_in_mid_stream_breaks_the_answer_off() {
    for program in programs(&[]) {
        let host = host();
        let hosted = host.add(program, crate::patient_limits());
        let reply = hosted.call(call(Method::GET, "/crash-in-stream", Body::Empty)).await.unwrap();
        let error = reply.body.collect(100).await.unwrap_err();
        assert_eq!(error.code(), Code::Unavailable);
        assert_eq!(get(&hosted, "/again").await.unwrap(), "/again");
        host.stop().await;
    }
}

#[tokio::test]
async fn a_call_that_hangs_ends_in_time_and_a_process_that_hangs_is_killed() {
    for program in programs(&[]) {
        let host = host();
        // Long enough for a process that answers on a busy machine.
        let limits = limits(|limits| limits.request_timeout = Duration::from_secs(3));
        let hosted = host.add(program, limits);
        // As long as other calls are answered it is slow, and does not hang.
        for hanging in [2, 2, 3] {
            get(&hosted, "/pid").await.unwrap();
            assert_eq!(hosted.status().starts, 1);
            for ended in join_all((0..hanging).map(|_| get(&hosted, "/hang"))).await {
                assert_eq!(ended.unwrap_err().code(), Code::DeadlineExceeded);
            }
        }
        let killed = "the gateway killed it: 3 calls in a row had no answer within \
                      request_timeout = 3s";
        hosted.until(|status| status.failure.as_deref() == Some(killed)).await;
        assert_eq!(get(&hosted, "/again").await.unwrap(), "/again");
        host.stop().await;
    }
}

#[tokio::test]
async fn a_flood_of_output_hangs_nobody_and_memory_stays_bounded() {
    for program in programs(&[]) {
        let host = host();
        let hosted = host.add(program, crate::patient_limits());
        assert_eq!(get(&hosted, "/flood").await.unwrap(), "flooded");
        host.stop().await;
        // Everything was read: what is kept and what gave way are all of it.
        let kept = hosted.output();
        assert_eq!(u64::try_from(kept.len()).unwrap() + hosted.output_dropped(), 40_000);
        assert!(kept.len() < 3_000, "{}", kept.len());
    }
}

#[tokio::test]
async fn an_idle_process_is_ended_and_the_next_call_starts_another() {
    for program in programs(&[]) {
        let host = host();
        let hosted = host.add(program, limits(|limits| limits.idle_stop = Some(Duration::ZERO)));
        for starts in 1..=3 {
            let pid: i32 = get(&hosted, "/pid").await.unwrap().parse().unwrap();
            let status = hosted.until(|status| status.state == State::Stopped).await;
            assert_eq!((status.starts, status.failure), (starts, None));
            assert!(!is_alive(pid));
        }
        host.stop().await;
    }
}

#[tokio::test]
async fn an_idle_process_is_frozen_and_a_call_thaws_it() {
    for program in programs(&[]) {
        let host = host();
        let hosted = host.add(program, limits(|limits| limits.idle_freeze = Some(Duration::ZERO)));
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
}

#[tokio::test]
async fn calls_that_arrive_as_their_process_is_being_frozen_are_answered_by_it() {
    for program in programs(&[]) {
        let host = host();
        let hosted = host.add(program, limits(|limits| limits.idle_freeze = Some(Duration::ZERO)));
        // Each comes as the end of the one before has it frozen.
        for number in 0..500 {
            let path = format!("/{number}");
            assert_eq!(get(&hosted, &path).await.unwrap(), path);
        }
        assert_eq!(hosted.status().starts, 1);
        host.stop().await;
    }
}

#[tokio::test]
async fn who_waits_for_a_process_that_is_killed_gets_the_frozen_spare() {
    for program in programs(&[]) {
        let host = host();
        let limits = limits(|limits| {
            (limits.spares, limits.instances_max, limits.concurrency) = (1, 1, 1);
            limits.idle_freeze = Some(Duration::ZERO);
        });
        let hosted = host.add(program, limits);
        let _open = crate::open(&hosted).await;
        let pids = hosted.until(|status| status.spares == 1).await.pids;
        let [serving, spare] = pids[..] else { panic!("{pids:?}") };
        until_state(spare, |state| state == 'T').await;
        let waits = tokio::spawn({
            let hosted = hosted.clone();
            async move { get(&hosted, "/pid").await }
        });
        hosted.until(|status| status.waiting == 1).await;
        kill(serving, Signal::KILL);
        assert_eq!(waits.await.unwrap().unwrap(), spare.to_string());
        host.stop().await;
    }
}

#[tokio::test]
async fn what_left_the_group_of_a_process_is_frozen_with_it_and_goes_on_with_it() {
    for program in programs(&[]) {
        let host = host();
        let hosted = host.add(program, limits(|limits| limits.idle_freeze = Some(Duration::ZERO)));
        let mut daemons = Vec::new();
        for path in DAEMONS {
            daemons.push(get(&hosted, path).await.unwrap().parse().unwrap());
        }
        for _ in 0..3 {
            for daemon in &daemons {
                until_state(*daemon, |state| state == 'T').await;
            }
            let open = crate::reply(&hosted, "/pid").await.unwrap();
            for daemon in &daemons {
                until_state(*daemon, |state| state != 'T').await;
            }
            drop(open);
        }
        host.stop().await;
        assert!(!daemons.into_iter().any(is_alive));
    }
}

/// What starts a process that leaves its parent and its session, and one that has no environment
/// either.
const DAEMONS: [&str; 2] = ["/daemon", "/bare-daemon"];

/// Waits until a process is in a state: T is stopped.
async fn until_state(pid: i32, is_so: impl Fn(char) -> bool) {
    let state = || {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).expect("it runs");
        stat.rsplit(") ").next().and_then(|fields| fields.chars().next()).expect("a state")
    };
    crate::until(|| is_so(state())).await;
}

#[tokio::test]
async fn a_process_that_ignores_sigterm_is_killed_after_its_grace() {
    for program in programs(&["deaf"]) {
        let host = host();
        let limits = limits(|limits| {
            limits.idle_stop = Some(Duration::ZERO);
            limits.stop_grace = Duration::from_millis(100);
        });
        let hosted = host.add(program, limits);
        let pid: i32 = get(&hosted, "/pid").await.unwrap().parse().unwrap();
        hosted.until(|status| status.state == State::Stopped).await;
        assert!(!is_alive(pid));
        host.stop().await;
    }
}

#[tokio::test]
async fn garbage_is_a_bad_gateway_and_the_process_goes_on() {
    for program in programs(&[]) {
        let host = host();
        let hosted = host.add(program, crate::patient_limits());
        let pid = get(&hosted, "/pid").await.unwrap();
        for path in ["/garbage", "/garbage-chunk"] {
            let error = crate::reply(&hosted, path).await.unwrap_err();
            assert_eq!((error.code(), error.http_status().as_u16()), (Code::Unavailable, 502));
        }
        // RFC 9112, section 6.3: of two lengths the chunks count, and the other is not passed on.
        let reply = crate::reply(&hosted, "/two-lengths").await.unwrap();
        assert_eq!(reply.headers.get("content-length"), None);
        assert_eq!(&reply.body.collect(100).await.unwrap()[..], b"hello");
        assert_eq!(get(&hosted, "/pid").await.unwrap(), pid);
        host.stop().await;
    }
}

#[tokio::test]
async fn nothing_that_ended_stays_a_zombie() {
    for program in programs(&[]) {
        let host = host();
        let hosted = host.add(program, crate::patient_limits());
        for _ in 0..2 {
            let child: i32 = get(&hosted, "/pid").await.unwrap().parse().unwrap();
            let daemon: i32 = get(&hosted, "/daemon").await.unwrap().parse().unwrap();
            get(&hosted, "/crash").await.unwrap_err();
            for pid in [child, daemon] {
                // A zombie still has its place there.
                crate::until(|| !std::fs::exists(format!("/proc/{pid}")).unwrap()).await;
            }
            hosted.close_breaker();
        }
        host.stop().await;
    }
}

#[tokio::test]
async fn a_daemon_of_a_process_ends_with_it() {
    for program in programs(&[]) {
        let host = host();
        let (hosted, other) = (
            host.add(program.clone(), crate::patient_limits()),
            host.add(program, crate::patient_limits()),
        );
        let others: i32 = get(&other, "/bare-daemon").await.unwrap().parse().unwrap();
        let mut ends = Vec::new();
        for path in DAEMONS {
            ends.push(until_ended(get(&hosted, path).await.unwrap().parse().unwrap()));
        }
        assert!(get(&hosted, "/crash").await.is_err());
        join_all(ends).await;
        assert!(is_alive(others), "it is of another program");
        host.stop().await;
        assert!(!is_alive(others));
    }
}

#[tokio::test]
async fn when_the_warden_is_killed_its_processes_end_and_the_next_call_has_another() {
    for program in programs(&[]) {
        let host = host();
        let hosted = host.add(program, crate::patient_limits());
        let pid: i32 = get(&hosted, "/pid").await.unwrap().parse().unwrap();
        let daemon: i32 = get(&hosted, "/daemon").await.unwrap().parse().unwrap();
        let (ended, daemon_ended) = (until_ended(pid), until_ended(daemon));
        kill(parent(pid), Signal::KILL);
        daemon_ended.await;
        ended.await;
        hosted.until(|status| status.failure.is_some()).await;
        let after: i32 = get(&hosted, "/pid").await.unwrap().parse().unwrap();
        assert_ne!(pid, after);
        host.stop().await;
    }
}

#[tokio::test]
async fn kill_9_of_the_gateway_leaves_no_child_and_no_grandchild() {
    for command in crate::commands() {
        let (mut gateway, socket) = start_gateway("one", command).await;
        let (child, daemon) = (ask(&socket, "/pid"), ask(&socket, "/daemon"));
        assert!(is_alive(child) && is_alive(daemon));
        let (child_ended, daemon_ended) = (until_ended(child), until_ended(daemon));
        gateway.kill().unwrap();
        gateway.wait().unwrap();
        child_ended.await;
        daemon_ended.await;
        std::fs::remove_file(&socket).unwrap();
    }
}

#[tokio::test]
async fn kill_9_of_the_gateway_leaves_no_child_and_no_grandchild_that_it_has_frozen() {
    for command in crate::commands() {
        let at_once = [("IDLE_FREEZE", "0")];
        let (mut gateway, socket) = start_gateway_with("frozen", command, &at_once).await;
        let (child, daemon) = (ask(&socket, "/pid"), ask(&socket, "/daemon"));
        let (child_ended, daemon_ended) = (until_ended(child), until_ended(daemon));
        for pid in [child, daemon] {
            until_state(pid, |state| state == 'T').await;
        }
        gateway.kill().unwrap();
        gateway.wait().unwrap();
        child_ended.await;
        daemon_ended.await;
        std::fs::remove_file(&socket).unwrap();
    }
}

#[tokio::test]
async fn what_a_gateway_and_its_warden_leave_when_both_are_killed_ends_with_the_next_start() {
    for command in crate::commands() {
        let (mut gateway, socket) = start_gateway("both", command).await;
        let (child, daemon) = (ask(&socket, "/pid"), ask(&socket, "/daemon"));
        let ended = until_ended(daemon);
        // The gateway has no time to see that its supervisor is gone.
        let stopped = i32::try_from(gateway.id()).unwrap();
        kill(stopped, Signal::STOP);
        until_state(stopped, |state| state == 'T').await;
        kill(parent(child), Signal::KILL);
        assert_eq!(folders_of(gateway.id()).len(), 1, "it has one for its sockets");
        gateway.kill().unwrap();
        gateway.wait().unwrap();
        // A start in another test may be the next one.
        let host = host();
        ended.await;
        crate::until(|| folders_of(gateway.id()).is_empty()).await;
        host.stop().await;
        std::fs::remove_file(&socket).unwrap();
    }
}

#[tokio::test]
async fn a_warden_that_was_stopped_keeps_no_gateway_from_ending() {
    for program in programs(&[]) {
        let host = host();
        let hosted = host.add(program, crate::patient_limits());
        let pid: i32 = get(&hosted, "/pid").await.unwrap().parse().unwrap();
        let daemon: i32 = get(&hosted, "/daemon").await.unwrap().parse().unwrap();
        let supervisor = parent(pid);
        kill(supervisor, Signal::STOP);
        until_state(supervisor, |state| state == 'T').await;
        host.stop().await;
        assert!(![pid, daemon, supervisor].into_iter().any(is_alive));
    }
}

/// The folders of sockets of a gateway.
fn folders_of(gateway: u32) -> Vec<PathBuf> {
    let parent = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    let parent = parent.filter(|parent| parent.is_dir()).unwrap_or_else(std::env::temp_dir);
    let prefix = format!("tidewire-{gateway:x}.");
    let entries = std::fs::read_dir(parent).unwrap().flatten();
    let of_it = entries.filter(|entry| entry.file_name().to_string_lossy().starts_with(&prefix));
    of_it.map(|entry| entry.path()).collect()
}

/// A gateway in its own process, and the socket that it listens on.
async fn start_gateway(name: &str, program: &[&str]) -> (Child, PathBuf) {
    start_gateway_with(name, program, &[]).await
}

/// One with more in its environment.
pub(crate) async fn start_gateway_with(
    name: &str,
    program: &[&str],
    environment: &[(&str, &str)],
) -> (Child, PathBuf) {
    let mut command = Command::new(gateway());
    command.envs(environment.iter().copied());
    start_gateway_by(command, name, program).await
}

/// One that this command starts.
pub(crate) async fn start_gateway_by(
    mut command: Command,
    name: &str,
    program: &[impl AsRef<OsStr>],
) -> (Child, PathBuf) {
    let file = format!("gateway-{name}-{}", std::process::id());
    let socket = std::env::temp_dir().join(file);
    let gateway = command.arg(&socket).args(program).spawn().expect("the gateway starts");
    until_there(&socket).await;
    (gateway, socket)
}

/// The number that the program of a gateway answers with.
fn ask(socket: &Path, path: &str) -> i32 {
    let body = ask_text(socket, path);
    body.parse().unwrap_or_else(|_| panic!("{path}: {body}"))
}

/// What the program of a gateway answers.
pub(crate) fn ask_text(socket: &Path, path: &str) -> String {
    let mut stream = UnixStream::connect(socket).expect("it listens");
    write!(stream, "GET {path} HTTP/1.0\r\nhost: a\r\n\r\n").expect("it reads");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("it answers");
    answer.split("\r\n\r\n").nth(1).unwrap_or_default().to_owned()
}

/// The parent of a process: of one that is hosted, the supervisor.
fn parent(pid: i32) -> i32 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).expect("it runs");
    let parent = stat.rsplit(") ").next().and_then(|fields| fields.split(' ').nth(1));
    parent.and_then(|parent| parent.parse().ok()).expect("every process has a parent")
}

fn kill(pid: i32, signal: Signal) {
    let pid = Pid::from_raw(pid).expect("no process has id 0");
    rustix::process::kill_process(pid, signal).expect("it runs");
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
async fn until_there(socket: &Path) {
    crate::until(|| UnixStream::connect(socket).is_ok()).await;
}
