//! A server on a free port, and an HTTP/1.1 client that sends exactly what it is told.

use std::future::Future;
use std::net::SocketAddr;
use std::panic::Location;
use std::pin::pin;
use std::time::{Duration, Instant};

use tidewire::{Address, Builder, RunningServer, Server};
use tidewire_tests::behaviour::Behaviour;
use tidewire_tests::proto::BehaviourServiceServer;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};

/// Starts a server on a free port of the loopback interface.
pub(crate) async fn start(builder: Builder) -> (RunningServer, SocketAddr) {
    let running = builder.listen(SocketAddr::from(([127, 0, 0, 1], 0))).start().await.unwrap();
    let tcp = running.addresses().iter().find_map(|address| match address {
        Address::Tcp(address) => Some(*address),
        _ => None,
    });
    let address = tcp.unwrap();
    (running, address)
}

/// An address at which nobody listens: it is bound for as long as these tests run, so that none of
/// them has it.
pub(crate) fn nobody() -> SocketAddr {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind(SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
    let address = socket.local_addr().unwrap();
    std::mem::forget(socket);
    address
}

/// A server of the behaviour service.
pub(crate) fn behaviour() -> (Builder, Behaviour) {
    let behaviour = Behaviour::default();
    (Server::builder().service(BehaviourServiceServer::new(behaviour.clone())), behaviour)
}

/// What a call of [`late`] has: longer than a busy machine takes to come to where it waits, and
/// shorter than all that ends by default.
pub(crate) const LATE: Duration = Duration::from_secs(5);

/// The deadline of a call of [`late`], by the clock that it moves on.
pub(crate) fn at_last() -> Instant {
    (tokio::time::Instant::now() + LATE).into_std()
}

/// What comes of a call that is late: nothing of its time passes until it `waits`, and then all of
/// it, so that no machine is too slow for it.
pub(crate) async fn late<T>(call: impl Future<Output = T>, waits: impl Future<Output = ()>) -> T {
    let mut call = pin!(call);
    tokio::select! {
        biased;
        _ = &mut call => panic!("it ended before it waited"),
        () = waits => {}
    }
    // From here on time passes as fast as nothing else happens.
    tokio::time::pause();
    let outcome = call.await;
    tokio::time::resume();
    outcome
}

/// Ready once it is so.
#[track_caller]
pub(crate) fn until(is_so: impl Fn() -> bool) -> impl Future<Output = ()> {
    let (caller, began) = (Location::caller(), Instant::now());
    async move {
        while !is_so() {
            assert!(began.elapsed() < HANG, "it never is what is waited for at {caller}");
            tokio::task::yield_now().await;
        }
    }
}

/// After so long what is waited for never comes, however slow a machine is.
pub(crate) const HANG: Duration = Duration::from_secs(120);

/// What an HTTP/1.1 server answered.
#[derive(Debug)]
pub(crate) struct Response {
    pub(crate) status: u16,
    /// Header lines in lower case.
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
}

impl Response {
    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// Asserts the status and that the body holds each text.
    #[track_caller]
    pub(crate) fn check(&self, status: u16, parts: &[&str]) {
        assert_eq!(self.status, status, "{self:?} {}", self.text());
        for part in parts {
            assert!(self.text().contains(part), "{part:?} is not in {:?}", self.text());
        }
    }
}

/// Sends one request on its own connection and reads the answer to its end.
pub(crate) async fn send(address: SocketAddr, head: &str, body: &[u8]) -> Response {
    send_to_host(address, "localhost", head, body).await
}

/// The same for a host, unless the head names another.
pub(crate) async fn send_to_host(
    address: SocketAddr,
    host: &str,
    head: &str,
    body: &[u8],
) -> Response {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let (first, headers) = head.split_once('\n').unwrap_or((head, ""));
    let headers: String =
        headers.lines().filter(|line| !line.is_empty()).map(|line| format!("{line}\r\n")).collect();
    let host = if headers.contains("host: ") { String::new() } else { format!("host: {host}\r\n") };
    let length = if headers.contains("transfer-encoding") || headers.contains("content-length") {
        String::new()
    } else {
        format!("content-length: {}\r\n", body.len())
    };
    let request = format!("{first} HTTP/1.1\r\n{host}connection: close\r\n{headers}{length}\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    stream.write_all(body).await.unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await.unwrap();
    parse(&answer)
}

/// Sends a JSON body to a method of the behaviour service.
pub(crate) async fn post_json(address: SocketAddr, method: &str, body: &str) -> Response {
    let head = format!("POST {SERVICE}/{method}\ncontent-type: application/json");
    send(address, &head, body.as_bytes()).await
}

pub(crate) const SERVICE: &str = "/tidewire.test.v1.BehaviourService";

fn parse(answer: &[u8]) -> Response {
    let end = answer.windows(4).position(|w| w == b"\r\n\r\n").expect("an answer has a head");
    let head = String::from_utf8_lossy(&answer[..end]).to_lowercase();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    let body = &answer[end + 4..];
    let body =
        if head.contains("transfer-encoding: chunked") { unchunk(body) } else { body.to_vec() };
    Response { status, head, body }
}

fn unchunk(mut rest: &[u8]) -> Vec<u8> {
    let mut whole = Vec::new();
    while let Some(end) = rest.windows(2).position(|w| w == b"\r\n") {
        let size = std::str::from_utf8(&rest[..end]).unwrap();
        let size = usize::from_str_radix(size, 16).unwrap();
        if size == 0 {
            break;
        }
        whole.extend_from_slice(&rest[end + 2..end + 2 + size]);
        rest = &rest[end + 4 + size..];
    }
    whole
}
