//! An observer that counts outcomes and phases: one end a request, however it ends.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use tidewire::http::StatusCode;
use tidewire::service::{End, EndReason, Observation, Observer, Phase};
use tidewire::{Code, Error, Head};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use super::{Way, ask, things};
use crate::harness::{late, send, start, until};

/// What is told of one request.
#[derive(Debug)]
struct Told {
    target: String,
    phases: Vec<Phase>,
    end: End,
    /// Whether what the gate left was still there when the end was told.
    guarded: bool,
}

struct Watcher {
    told: UnboundedSender<Told>,
    guards: Arc<Mutex<usize>>,
}

struct Watched {
    target: String,
    phases: Mutex<Vec<Phase>>,
    told: UnboundedSender<Told>,
    guards: Arc<Mutex<usize>>,
}

impl Observer for Watcher {
    fn begin(&self, head: &Head) -> Arc<dyn Observation> {
        let (told, guards) = (self.told.clone(), Arc::clone(&self.guards));
        let target = head.target.describe();
        Arc::new(Watched { target, phases: Mutex::default(), told, guards })
    }
}

impl Observation for Watched {
    fn phase(&self, phase: Phase) {
        self.phases.lock().unwrap().push(phase);
    }

    fn end(&self, end: &End) {
        let phases = std::mem::take(&mut *self.phases.lock().unwrap());
        let guarded = *self.guards.lock().unwrap() > 0;
        let (target, end) = (self.target.clone(), end.clone());
        let _ = self.told.send(Told { target, phases, end, guarded });
    }
}

struct Guard(Arc<Mutex<usize>>);

impl Drop for Guard {
    fn drop(&mut self) {
        *self.0.lock().unwrap() -= 1;
    }
}

/// A server that is watched, with a gate that leaves a guard and refuses what is called `refused`.
async fn watched() -> (tidewire::RunningServer, SocketAddr, UnboundedReceiver<Told>) {
    watched_with(Arc::default()).await
}

/// With the count of the guards that are there.
async fn watched_with(
    guards: Arc<Mutex<usize>>,
) -> (tidewire::RunningServer, SocketAddr, UnboundedReceiver<Told>) {
    let (told, heard) = unbounded_channel();
    let left = Arc::clone(&guards);
    let gate = move |head: &mut Head| {
        *left.lock().unwrap() += 1;
        head.leave(Guard(Arc::clone(&left)));
        match head.target.describe().contains("refused") {
            true => Err(Error::resource_exhausted("too many")),
            false => Ok(()),
        }
    };
    let (running, address) = start(things().gate(gate).observer(Watcher { told, guards })).await;
    (running, address, heard)
}

const ANSWERED: [Phase; 4] = [Phase::Gates, Phase::Handler, Phase::FirstByte, Phase::Written];

#[tokio::test]
async fn each_request_ends_once_with_its_outcome_its_phases_and_its_bytes() {
    let (_running, address, mut told) = watched().await;
    for way in [Way::Plain, Way::Rest] {
        for (name, status, code, how, phases) in [
            ("fine", 200, None, EndReason::Answered, &ANSWERED[..]),
            ("missing", 404, Some(Code::NotFound), EndReason::Answered, &ANSWERED[..]),
            ("panic", 500, Some(Code::Internal), EndReason::Panicked, &ANSWERED[..]),
        ] {
            let answer = ask(way, address, name, "").await;
            let told = told.recv().await.unwrap();
            let what = format!("{way:?} {told:?}");
            assert_eq!(
                (answer.status, told.end.status),
                (status, StatusCode::from_u16(status).ok())
            );
            assert_eq!((told.end.code, told.end.how), (code, how), "{what}");
            assert_eq!(told.end.bytes_out, answer.body.len() as u64, "{what}");
            assert_eq!(told.phases, phases, "{what}");
            assert!(told.guarded, "{what}: guards are dropped after the end");
        }
    }
    assert!(told.try_recv().is_err(), "each is told once");
}

#[tokio::test]
async fn a_call_over_live_is_a_request_like_any_other_but_for_a_status() {
    let guards = Arc::default();
    let (_running, address, mut told) = watched_with(Arc::clone(&guards)).await;
    for way in [Way::Live, Way::LivePlain] {
        for (name, code, how, phases) in [
            ("fine", None, EndReason::Answered, &ANSWERED[..]),
            ("missing", Some(Code::NotFound), EndReason::Answered, &ANSWERED[..]),
            ("panic", Some(Code::Internal), EndReason::Panicked, &ANSWERED[..]),
        ] {
            let answer = ask(way, address, name, "").await;
            let told = told.recv().await.unwrap();
            let what = format!("{way:?} {told:?}");
            assert_eq!((told.end.status, told.end.code, told.end.how), (None, code, how), "{what}");
            let bytes = if code.is_none() { answer.body.len() } else { 0 };
            assert_eq!(told.end.bytes_out, bytes as u64, "{what}");
            assert_eq!(told.phases, phases, "{what}");
            assert!(told.guarded, "{what}: guards are dropped after the end");
        }
        let client = tidewire::Client::builder(format!("ws://{address}")).build().unwrap();
        tidewire::Service::call(&client, super::live::call(way, "fine", "")).await.unwrap();
        assert_eq!(
            told.recv().await.unwrap().end.how,
            EndReason::Answered,
            "there is a connection"
        );
        let stuck = super::live::call(way, "stuck", "connect-timeout-ms: 5000\n");
        let begins = until(|| *guards.lock().unwrap() > 0);
        let error = late(tidewire::Service::call(&client, stuck), begins).await.unwrap_err();
        assert_eq!(error.code(), Code::DeadlineExceeded);
        let told = told.recv().await.unwrap();
        // Whichever of the two clocks was first.
        assert!(matches!(told.end.how, EndReason::Deadline | EndReason::Canceled), "{told:?}");
    }
    assert!(told.try_recv().is_err(), "each is told once");
}

#[tokio::test]
async fn a_refused_head_an_unknown_path_and_a_late_answer_are_outcomes_too() {
    let (_running, address, mut told) = watched().await;
    ask(Way::Plain, address, "refused", "").await.check(429, &["too many"]);
    let refused = told.recv().await.unwrap();
    assert_eq!(refused.end.code, Some(Code::ResourceExhausted), "{refused:?}");
    assert_eq!(refused.phases, [Phase::Gates, Phase::FirstByte, Phase::Written]);
    send(address, "GET /nowhere", b"").await.check(404, &[]);
    let unknown = told.recv().await.unwrap();
    assert_eq!((unknown.target.as_str(), unknown.end.code), ("GET /nowhere", Some(Code::NotFound)));
    ask(Way::Rest, address, "stuck", "connect-timeout-ms: 30\n").await.check(504, &[]);
    let late = told.recv().await.unwrap();
    assert_eq!((late.end.how, late.end.code), (EndReason::Deadline, Some(Code::DeadlineExceeded)));
    send(address, "GET /nothing", b"").await.check(204, &[]);
    let nothing = told.recv().await.unwrap();
    assert_eq!((nothing.end.how, nothing.end.bytes_out), (EndReason::Answered, 0), "{nothing:?}");
    send(address, "HEAD /plain/fine", b"").await.check(200, &[]);
    let head = told.recv().await.unwrap();
    assert_eq!((head.end.how, head.end.code), (EndReason::Answered, None), "{head:?}");
    send(address, "POST /sink", &[b'x'; 70_000]).await.check(200, &["70000"]);
    let sink = told.recv().await.unwrap();
    assert_eq!((sink.end.bytes_in, sink.end.bytes_out), (70_000, 5), "{sink:?}");
}

#[tokio::test]
async fn a_caller_that_goes_away_and_a_server_that_stops_are_told_apart() {
    let (running, address, mut told) = watched().await;
    for path in ["/plain/stuck", "/things/stuck"] {
        let mut stream = TcpStream::connect(address).await.unwrap();
        let head = format!("GET {path} HTTP/1.1\r\nhost: a\r\n\r\n");
        stream.write_all(head.as_bytes()).await.unwrap();
        drop(stream);
        let gone = told.recv().await.unwrap();
        assert_eq!((gone.end.how, gone.end.status), (EndReason::Canceled, None), "{gone:?}");
    }
    let mut stream = TcpStream::connect(address).await.unwrap();
    // Two on one connection: when the first is answered, the second has been read.
    let heads =
        "GET /plain/fine HTTP/1.1\r\nhost: a\r\n\r\nGET /plain/stuck HTTP/1.1\r\nhost: a\r\n\r\n";
    stream.write_all(heads.as_bytes()).await.unwrap();
    stream.read_u8().await.unwrap();
    assert_eq!(told.recv().await.unwrap().end.how, EndReason::Answered);
    drop(running);
    let cut = told.recv().await.unwrap();
    assert_eq!(cut.end.how, EndReason::Drained, "{cut:?}");
}
