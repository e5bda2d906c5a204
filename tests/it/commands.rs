//! Commands run to completion; queries are cancelled with their caller.

use std::sync::Arc;

use tidewire::{Context, Reply, Result, Server, Stream};
use tidewire_tests::http2::{DATA, RST_STREAM, frame, hello, next, request};
use tidewire_tests::proto::*;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::{Notify, Semaphore};

use crate::harness::{SERVICE, late, post_json, send, start};

/// `Echo` (a command) and `Look` (a query) wait at a gate and tell how they end.
#[derive(Clone)]
struct Gated(Arc<Gates>);

struct Gates {
    started: Semaphore,
    gate: Notify,
    done: Semaphore,
    dropped: Semaphore,
}

impl Gated {
    fn new() -> Self {
        Self(Arc::new(Gates {
            started: Semaphore::new(0),
            gate: Notify::new(),
            done: Semaphore::new(0),
            dropped: Semaphore::new(0),
        }))
    }

    async fn pass(&self) {
        struct Dropped<'a>(&'a Gates);
        impl Drop for Dropped<'_> {
            fn drop(&mut self) {
                self.0.dropped.add_permits(1);
            }
        }
        let dropped = Dropped(&self.0);
        self.0.started.add_permits(1);
        self.0.gate.notified().await;
        self.0.done.add_permits(1);
        std::mem::forget(dropped);
    }
}

/// Waits until a counter was raised once more.
async fn once(counter: &Semaphore) {
    counter.acquire().await.unwrap().forget();
}

impl BehaviourService for Gated {
    async fn echo(&self, _: Context, request: EchoRequest) -> Result<Reply<EchoReply>> {
        self.pass().await;
        Ok(EchoReply { text: request.text, ..Default::default() }.into())
    }

    async fn look(&self, _: Context, _: LookRequest) -> Result<Reply<LookReply>> {
        self.pass().await;
        Ok(LookReply::default().into())
    }

    async fn count(&self, _: Context, _: CountRequest) -> Result<Reply<Stream<CountReply>>> {
        unreachable!("not called here")
    }

    async fn sum(&self, _: Context, _: Stream<SumRequest>) -> Result<Reply<SumReply>> {
        unreachable!("not called here")
    }

    async fn chat(&self, _: Context, _: Stream<ChatRequest>) -> Result<Reply<Stream<ChatReply>>> {
        unreachable!("not called here")
    }

    async fn fail(&self, _: Context, _: FailRequest) -> Result<Reply<FailReply>> {
        unreachable!("not called here")
    }

    async fn panic(&self, _: Context, _: PanicRequest) -> Result<Reply<PanicReply>> {
        unreachable!("not called here")
    }

    async fn slow(&self, _: Context, _: SlowRequest) -> Result<Reply<SlowReply>> {
        unreachable!("not called here")
    }
}

/// Starts a call and returns its connection, without waiting for the answer.
async fn begin(address: std::net::SocketAddr, method: &str) -> TcpStream {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let request = format!(
        "POST {SERVICE}/{method} HTTP/1.1\r\nhost: test\r\ncontent-type: application/json\r\n\
         content-length: 2\r\n\r\n{{}}"
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    stream
}

#[tokio::test]
async fn a_command_goes_on_when_its_caller_disconnects() {
    let gated = Gated::new();
    let server = BehaviourServiceServer::new(gated.clone());
    let (running, address) = start(Server::builder().service(server)).await;
    let caller = begin(address, "Echo").await;
    once(&gated.0.started).await;
    drop(caller);
    // Whether or not the server has seen the disconnect by now, the command has to end. That it
    // does when the caller is certainly gone is shown by the test with a deadline below.
    gated.0.gate.notify_one();
    once(&gated.0.done).await;
    assert_eq!(gated.0.dropped.available_permits(), 0);
    assert!(running.drain().await);
}

#[tokio::test]
async fn a_query_is_cancelled_when_its_caller_disconnects() {
    let gated = Gated::new();
    let server = BehaviourServiceServer::new(gated.clone());
    let (running, address) = start(Server::builder().service(server)).await;
    let caller = begin(address, "Look").await;
    once(&gated.0.started).await;
    drop(caller);
    once(&gated.0.dropped).await;
    assert_eq!(gated.0.done.available_permits(), 0);
    assert!(running.drain().await);
}

#[tokio::test]
async fn a_deadline_ends_the_waiting_and_not_the_command() {
    let gated = Gated::new();
    let server = BehaviourServiceServer::new(gated.clone());
    let (running, address) = start(Server::builder().service(server)).await;
    let head =
        format!("POST {SERVICE}/Echo\ncontent-type: application/json\nconnect-timeout-ms: 5000");
    let answer = late(send(address, &head, b"{}"), once(&gated.0.started)).await;
    answer.check(504, &["deadline_exceeded"]);
    assert_eq!(running.commands_running(), 1);
    gated.0.gate.notify_one();
    once(&gated.0.done).await;
    assert!(running.drain().await);
}

#[tokio::test]
async fn a_drain_lets_running_calls_end_and_takes_no_new_connections() {
    let gated = Gated::new();
    let server = BehaviourServiceServer::new(gated.clone());
    let (running, address) = start(Server::builder().service(server)).await;
    let call = tokio::spawn(async move { post_json(address, "Echo", r#"{"text":"a"}"#).await });
    once(&gated.0.started).await;
    let drain = tokio::spawn(running.drain());
    while TcpStream::connect(address).await.is_ok() {
        tokio::task::yield_now().await;
    }
    gated.0.gate.notify_one();
    call.await.unwrap().check(200, &[r#"{"text":"a"}"#]);
    assert!(drain.await.unwrap(), "everything ended by itself");
}

#[tokio::test]
async fn commands_whose_callers_take_them_back_run_on_within_their_bound() {
    let gated = Gated::new();
    let server = BehaviourServiceServer::new(gated.clone());
    let mut limits = tidewire::Limits::default();
    limits.commands_max = 5;
    let (running, address) = start(Server::builder().service(server).limits(limits)).await;
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(&hello(&[])).await.unwrap();
    let path = format!("{SERVICE}/Echo");
    // One after the other, since a flood of resets ends the connection: see `make proof`.
    for n in 0..20 {
        let id = n * 2 + 1;
        stream.write_all(&request(id, &path, "application/json", b"{}")).await.unwrap();
        if n < 5 {
            once(&gated.0.started).await;
            stream.write_all(&frame(RST_STREAM, 0, id, &[0, 0, 0, 8])).await.unwrap();
            continue;
        }
        // Refused, which its body says.
        loop {
            let found = next(&mut stream).await.unwrap().unwrap();
            if found.stream == id && found.kind == DATA && !found.payload.is_empty() {
                let text = String::from_utf8_lossy(&found.payload).into_owned();
                assert!(text.contains("limits.commands_max = 5"), "{text}");
                break;
            }
        }
    }
    assert_eq!(gated.0.started.available_permits(), 0, "no other ran");
    for _ in 0..5 {
        gated.0.gate.notify_one();
        once(&gated.0.done).await;
    }
    assert_eq!(gated.0.dropped.available_permits(), 0);
    drop(stream);
    assert!(running.drain().await);
}

#[tokio::test]
async fn a_command_whose_message_comes_late_takes_no_place_before_it() {
    let gated = Gated::new();
    let server = BehaviourServiceServer::new(gated.clone());
    let mut limits = tidewire::Limits::default();
    limits.commands_max = 1;
    let (running, address) = start(Server::builder().service(server).limits(limits)).await;
    let mut late = TcpStream::connect(address).await.unwrap();
    let head = format!(
        "POST {SERVICE}/Echo HTTP/1.1\r\nhost: test\r\ncontent-type: application/json\r\n\
         expect: 100-continue\r\ncontent-length: 2\r\n\r\n"
    );
    late.write_all(head.as_bytes()).await.unwrap();
    // It is asked for its body, so its call is there.
    late.read_exact(&mut [0; 25]).await.unwrap();
    let one = begin(address, "Echo").await;
    once(&gated.0.started).await;
    late.write_all(b"{}").await.unwrap();
    let mut answer = Vec::new();
    while !answer.ends_with(b"}") {
        assert_ne!(late.read_buf(&mut answer).await.unwrap(), 0);
    }
    let answer = String::from_utf8_lossy(&answer);
    assert!(answer.contains("limits.commands_max = 1"), "{answer}");
    gated.0.gate.notify_one();
    once(&gated.0.done).await;
    drop((one, late));
    assert!(running.drain().await);
}
