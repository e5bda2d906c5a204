//! What a client says when a server or the network misbehaves: a code, the host, the phase.

use std::future::Future;
use std::io::Write;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use tidewire::client::{
    Builder, ClientLimits, HttpVersion, Protocol, Resolver, Retry, Step, Trace,
};
use tidewire::{Call, Client, Code, Context, Error, Outcome};
use tidewire_tests::proto::*;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::Notify;
use tokio::task::JoinSet;

use crate::harness::{LATE, at_last, behaviour, late, nobody, start};

/// A server that treats each connection as told; ended when dropped.
async fn raw<F, Fut>(treat: F) -> (SocketAddr, JoinSet<()>)
where
    F: Fn(TcpStream) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = ()> + Send + 'static,
{
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let mut tasks = JoinSet::new();
    tasks.spawn(async move {
        let mut connections = JoinSet::new();
        while let Ok((stream, _)) = listener.accept().await {
            connections.spawn(treat(stream));
        }
    });
    (address, tasks)
}

const LOCALHOST: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

/// An address that swallows what is sent there: nobody accepts, and the queue is full.
struct Hole {
    address: SocketAddr,
    _listener: TcpListener,
    _queued: [TcpStream; 2],
    _waiting: JoinSet<std::io::Result<TcpStream>>,
}

impl Hole {
    async fn dig(ip: IpAddr) -> Self {
        let socket = if ip.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() };
        let socket = socket.unwrap();
        socket.bind(SocketAddr::new(ip, 0)).unwrap();
        let listener = socket.listen(1).unwrap();
        let address = listener.local_addr().unwrap();
        let mut waiting = JoinSet::new();
        for _ in 0..4 {
            waiting.spawn(TcpStream::connect(address));
        }
        let first = waiting.join_next().await.unwrap().unwrap().unwrap();
        let second = waiting.join_next().await.unwrap().unwrap().unwrap();
        Self { address, _listener: listener, _queued: [first, second], _waiting: waiting }
    }
}

/// Reads the head of a request, answers with `answer`, and then closes or stays silent.
async fn answering(answer: Vec<u8>, closes: bool) -> (SocketAddr, JoinSet<()>) {
    let answer = Arc::new(answer);
    raw(move |mut stream| {
        let answer = Arc::clone(&answer);
        async move {
            let mut request = [0; 4096];
            let _ = stream.read(&mut request).await;
            let _ = stream.write_all(&answer).await;
            if closes {
                let _ = stream.shutdown().await;
            }
            // Until the other side goes.
            while stream.read(&mut request).await.is_ok_and(|count| count > 0) {}
        }
    })
    .await
}

/// Says nothing, and tells when something came on a connection.
async fn silent() -> (SocketAddr, JoinSet<()>, Arc<Notify>) {
    let heard = Arc::<Notify>::default();
    let hears = Arc::clone(&heard);
    let (address, server) = raw(move |mut stream| {
        let hears = Arc::clone(&hears);
        async move {
            stream.readable().await.unwrap();
            hears.notify_one();
            while stream.read(&mut [0; 4096]).await.is_ok_and(|count| count > 0) {}
        }
    })
    .await;
    (address, server, heard)
}

fn http(head: &str, body: &[u8]) -> Vec<u8> {
    let head = head.replace('\n', "\r\n");
    [format!("HTTP/1.1 {head}\r\n\r\n").as_bytes(), body].concat()
}

fn builder(address: SocketAddr) -> Builder {
    Client::builder(format!("http://{address}")).retry(Retry::none())
}

async fn echo(client: &Client, deadline: Option<Instant>) -> Error {
    let context = Context::default().with_deadline(deadline);
    let typed = BehaviourServiceClient::new(client.channel());
    BehaviourService::echo(&typed, context, EchoRequest::default()).await.unwrap_err()
}

#[track_caller]
fn check(error: &Error, code: Code, address: SocketAddr, part: &str) {
    assert_eq!(error.code(), code, "{error}");
    assert!(error.message().contains(&address.to_string()), "no host in: {error}");
    assert!(error.message().contains(part), "{part:?} is not in: {error}");
}

/// The error of a call whose deadline passes where it waits.
async fn late_echo(client: &Client, waits: impl Future<Output = ()>) -> Error {
    late(echo(client, Some(at_last())), waits).await
}

#[tokio::test]
async fn nothing_that_listens_is_named_as_such() {
    let address = nobody();
    for protocol in [Protocol::Connect, Protocol::Grpc, Protocol::GrpcWeb] {
        let client = builder(address).protocol(protocol).build().unwrap();
        let error = echo(&client, None).await;
        check(&error, Code::Unavailable, address, "connection refused");
        assert_eq!(error.outcome(), Outcome::NotRun);
    }
}

#[tokio::test]
async fn a_connection_that_is_reset_or_closed_fails_the_call() {
    let (address, _server) = raw(|stream| async move {
        // Data that is not read makes a reset of the close.
        stream.readable().await.unwrap();
        drop(stream);
    })
    .await;
    for protocol in [Protocol::Connect, Protocol::Grpc] {
        let client = builder(address).protocol(protocol).build().unwrap();
        let error = echo(&client, None).await;
        check(&error, Code::Unavailable, address, "before it answered");
    }
    // It read the request, so it may have run it.
    let (address, _server) = answering(Vec::new(), true).await;
    let client = builder(address).http(HttpVersion::Http1).build().unwrap();
    assert_eq!(echo(&client, None).await.outcome(), Outcome::Unknown);
}

#[tokio::test]
async fn another_protocol_on_the_port_is_named() {
    let answer = http("400 Bad Request\ncontent-length: 0", b"");
    let (address, _server) = answering(answer, true).await;
    let client = builder(address).protocol(Protocol::Grpc).build().unwrap();
    check(&echo(&client, None).await, Code::Unavailable, address, "HTTP/2");

    let (address, _server) = answering(b"SSH-2.0-OpenSSH_9.2\r\n".to_vec(), false).await;
    let client = builder(address).build().unwrap();
    check(&echo(&client, None).await, Code::Unavailable, address, "does not speak HTTP/1.1");

    let page = http("200 OK\ncontent-type: text/html\ncontent-length: 2", b"hi");
    let (address, _server) = answering(page, false).await;
    let client = builder(address).build().unwrap();
    check(&echo(&client, None).await, Code::Unknown, address, "text/html");
}

#[tokio::test]
async fn http_statuses_without_an_error_of_the_protocol_become_codes() {
    for (status, code) in [
        ("404 Not Found", Code::Unimplemented),
        ("503 Service Unavailable", Code::Unavailable),
        ("401 Unauthorized", Code::Unauthenticated),
        ("418 Teapot", Code::Unknown),
    ] {
        let answer = http(&format!("{status}\ncontent-length: 0"), b"");
        let (address, _server) = answering(answer, false).await;
        for protocol in [Protocol::Connect, Protocol::GrpcWeb] {
            let client = builder(address).protocol(protocol).build().unwrap();
            check(&echo(&client, None).await, code, address, &status[..3]);
        }
    }
}

#[tokio::test]
async fn lengths_that_are_not_true_are_found() {
    let short = http("200 OK\ncontent-type: application/proto\ncontent-length: 100", b"abc");
    let (address, _server) = answering(short, true).await;
    let client = builder(address).build().unwrap();
    check(&echo(&client, None).await, Code::Unavailable, address, "in the middle of its response");

    // An envelope of 100 bytes, of which three come.
    let envelope = [&[0, 0, 0, 0, 100][..], b"abc"].concat();
    let head = "200 OK\ncontent-type: application/grpc-web+proto\ncontent-length: 8";
    let (address, _server) = answering(http(head, &envelope), false).await;
    let client = builder(address).protocol(Protocol::GrpcWeb).build().unwrap();
    check(&echo(&client, None).await, Code::Internal, address, "in the middle of a message");

    // An envelope that says it has 4 GiB: refused before any of it is kept.
    let head = "200 OK\ncontent-type: application/grpc-web+proto";
    let (address, _server) = answering(http(head, &[0, 255, 255, 255, 255]), false).await;
    let client = builder(address).protocol(Protocol::GrpcWeb).build().unwrap();
    check(&echo(&client, None).await, Code::ResourceExhausted, address, "message_bytes_max");
}

#[tokio::test]
async fn a_reply_without_an_end_is_no_success() {
    let envelope = [0, 0, 0, 0, 0];
    let head = "200 OK\ncontent-type: application/grpc-web+proto\ncontent-length: 5";
    let (address, _server) = answering(http(head, &envelope), false).await;
    let client = builder(address).protocol(Protocol::GrpcWeb).build().unwrap();
    check(&echo(&client, None).await, Code::Internal, address, "without saying whether");
}

#[tokio::test]
async fn a_compressed_bomb_stays_small() {
    let zeros = vec![0; 8 << 20];
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(&zeros).unwrap();
    let gzip = gzip.finish().unwrap();
    let head = format!(
        "200 OK\ncontent-type: application/proto\ncontent-encoding: gzip\ncontent-length: {}",
        gzip.len()
    );
    let (address, _server) = answering(http(&head, &gzip), false).await;
    let client = builder(address).build().unwrap();
    check(&echo(&client, None).await, Code::ResourceExhausted, address, "message_bytes_max");
}

#[tokio::test]
async fn a_reply_over_the_limit_is_refused_over_every_protocol() {
    let (server, _) = behaviour();
    let (_running, address) = start(server).await;
    let mut limits = ClientLimits::default();
    limits.message_bytes_max = 1000;
    for protocol in [Protocol::Connect, Protocol::Grpc, Protocol::GrpcWeb] {
        let client = builder(address).protocol(protocol).limits(limits.clone()).build().unwrap();
        let typed = BehaviourServiceClient::new(client.channel());
        let request = EchoRequest { text: "x".repeat(1001), ..Default::default() };
        let error = typed.echo(request).await.unwrap_err();
        check(&error, Code::ResourceExhausted, address, "message_bytes_max = 1000");
        let request = EchoRequest { text: "x".repeat(900), ..Default::default() };
        typed.echo(request).await.unwrap();
    }
}

#[tokio::test]
async fn the_deadline_is_kept_while_a_name_is_resolved() {
    let client = Client::builder("http://shop.example:80")
        .resolver(Resolver::new(|_, _| std::future::pending()))
        .build()
        .unwrap();
    let error = late_echo(&client, std::future::ready(())).await;
    assert_eq!(error.code(), Code::DeadlineExceeded);
    assert!(error.message().contains("resolving shop.example:80"), "{error}");
}

#[tokio::test]
async fn the_deadline_is_kept_while_a_connection_is_opened() {
    let hole = Hole::dig(LOCALHOST).await;
    let address = hole.address;
    for protocol in [Protocol::Connect, Protocol::Grpc] {
        let client = builder(address).protocol(protocol).build().unwrap();
        let error = late_echo(&client, std::future::ready(())).await;
        check(&error, Code::DeadlineExceeded, address, "connecting to");
    }
}

#[tokio::test]
async fn a_connection_that_does_not_come_is_given_up_without_a_deadline() {
    let (address, _server, heard) = silent().await;
    let mut limits = ClientLimits::default();
    limits.connect_timeout = LATE;
    let client = Client::builder(format!("https://{address}"))
        .tls(tidewire::client::Tls::new().danger_without_verification())
        .limits(limits)
        .retry(Retry::none())
        .build()
        .unwrap();
    let error = late(echo(&client, None), heard.notified()).await;
    check(&error, Code::Unavailable, address, "limits.connect_timeout");
    check(&error, Code::Unavailable, address, "in the TLS handshake with");
    let client = Client::builder(format!("https://{address}"))
        .tls(tidewire::client::Tls::new().danger_without_verification())
        .build()
        .unwrap();
    let error = late_echo(&client, heard.notified()).await;
    check(&error, Code::DeadlineExceeded, address, "in the TLS handshake with");
}

#[tokio::test]
async fn the_deadline_is_kept_against_a_server_that_says_nothing() {
    let (address, _server, heard) = silent().await;
    for (protocol, http) in [
        (Protocol::Connect, HttpVersion::Http1),
        (Protocol::Connect, HttpVersion::Http2),
        (Protocol::Grpc, HttpVersion::Http2),
    ] {
        let client = builder(address).protocol(protocol).http(http).build().unwrap();
        let error = late_echo(&client, heard.notified()).await;
        check(&error, Code::DeadlineExceeded, address, "waiting for the response of");
    }
}

#[tokio::test]
async fn the_deadline_is_kept_in_the_body_and_between_messages() {
    let head = "200 OK\ncontent-type: application/proto\ncontent-length: 10";
    let (address, _server) = answering(http(head, b"abc"), false).await;
    let has_head = Arc::<Notify>::default();
    let tells = Arc::clone(&has_head);
    let trace = Trace::new(move |event| {
        if let Step::Response { .. } = event.step {
            tells.notify_one();
        }
    });
    let client = builder(address).trace(trace).build().unwrap();
    let error = late_echo(&client, has_head.notified()).await;
    check(&error, Code::DeadlineExceeded, address, "reading the response of");

    let head = "200 OK\ncontent-type: application/connect+proto";
    let (address, _server) = answering(http(head, &[0, 0, 0, 0, 0]), false).await;
    let client = builder(address).build().unwrap();
    let typed = BehaviourServiceClient::new(client.channel());
    let context = Context::default().with_deadline(at_last());
    let reply = BehaviourService::count(&typed, context, CountRequest::default()).await.unwrap();
    let mut numbers = reply.body;
    assert!(numbers.next().await.unwrap().is_some());
    let error = late(numbers.next(), std::future::ready(())).await.unwrap_err();
    check(&error, Code::DeadlineExceeded, address, "reading the response of");
}

#[tokio::test]
async fn an_address_that_fails_is_left_out_and_no_call_is_lost() {
    let gone = nobody();
    let (server, _) = behaviour();
    let (_running, address) = start(server).await;
    for protocol in [Protocol::Connect, Protocol::Grpc] {
        let client = Client::builder(format!("http://{gone}"))
            .url(format!("http://{address}"))
            .protocol(protocol)
            .retry(Retry::none())
            .build()
            .unwrap();
        let typed = BehaviourServiceClient::new(client.channel());
        for _ in 0..10 {
            typed.echo(EchoRequest::default()).await.unwrap();
        }
    }
}

#[tokio::test]
async fn an_address_that_swallows_what_is_sent_holds_no_call_up() {
    let holes = [Hole::dig(LOCALHOST).await, Hole::dig(LOCALHOST).await];
    let gone = nobody();
    let (server, _) = behaviour();
    let (_running, address) = start(server).await;
    let mut limits = ClientLimits::default();
    limits.connect_timeout = Duration::from_secs(24 * 60 * 60);
    limits.connect_stagger = Duration::from_millis(5);
    for (protocol, found) in [
        (Protocol::Connect, vec![holes[0].address, address]),
        (Protocol::Grpc, vec![holes[0].address, gone, holes[1].address, address]),
        (Protocol::Connect, vec![address, holes[0].address]),
    ] {
        let client = Client::builder("http://shop.example")
            .protocol(protocol)
            .limits(limits.clone())
            .retry(Retry::none())
            .resolver(Resolver::new(move |_, _| std::future::ready(Ok(found.clone()))))
            .build()
            .unwrap();
        let typed = BehaviourServiceClient::new(client.channel());
        for _ in 0..5 {
            typed.echo(EchoRequest::default()).await.unwrap();
        }
        assert_eq!(client.open_connections(), 1);
    }
}

#[tokio::test]
async fn ipv4_is_tried_beside_ipv6_before_another_of_ipv6() {
    // These of IPv6 are there on machines without it, too.
    let localhost = Ipv4Addr::LOCALHOST.to_ipv6_mapped();
    let hole = Hole::dig(IpAddr::V6(localhost)).await;
    let (server, _) = behaviour();
    let server = server.listen(format!("[{localhost}]:0").parse::<tidewire::Address>().unwrap());
    let (running, fast) = start(server).await;
    let other = running.addresses().iter().find_map(|address| match address {
        tidewire::Address::Tcp(address) if address.is_ipv6() => Some(*address),
        _ => None,
    });
    let found = vec![hole.address, other.unwrap(), fast];
    // Time for a busy machine to connect before the next address is tried.
    let mut limits = ClientLimits::default();
    limits.connect_stagger = Duration::from_secs(2);
    let connecting = Arc::new(std::sync::Mutex::new(Vec::new()));
    let seen = Arc::clone(&connecting);
    let client = Client::builder("http://shop.example")
        .limits(limits)
        .resolver(Resolver::new(move |_, _| std::future::ready(Ok(found.clone()))))
        .trace(Trace::new(move |event| {
            if let Step::Connecting { to } = event.step {
                seen.lock().unwrap().push(to.to_owned());
            }
        }))
        .build()
        .unwrap();
    let typed = BehaviourServiceClient::new(client.channel());
    typed.echo(EchoRequest::default()).await.unwrap();
    assert_eq!(*connecting.lock().unwrap(), [fast.to_string()]);
}

#[tokio::test]
async fn calls_go_to_all_addresses_in_turn() {
    let (one, _) = behaviour();
    let (_running_one, first) = start(one).await;
    let (two, _) = behaviour();
    let (_running_two, second) = start(two).await;
    let client =
        Client::builder(format!("http://{first}")).url(format!("http://{second}")).build().unwrap();
    let typed = BehaviourServiceClient::new(client.channel());
    for _ in 0..4 {
        typed.echo(EchoRequest::default()).await.unwrap();
    }
    assert_eq!(client.open_connections(), 2, "one to each address");
}

#[tokio::test]
async fn a_name_whose_address_fails_is_resolved_again() {
    let gone = nobody();
    let (server, _) = behaviour();
    let (_running, address) = start(server).await;
    let asked = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&asked);
    let mut limits = ClientLimits::default();
    limits.resolve_interval = Duration::ZERO;
    let client = Client::builder("http://shop.example")
        .limits(limits)
        .retry(Retry::none())
        .resolver(Resolver::new(move |_, _| {
            let first = count.fetch_add(1, Ordering::SeqCst) == 0;
            async move { Ok(vec![if first { gone } else { address }]) }
        }))
        .build()
        .unwrap();
    let typed = BehaviourServiceClient::new(client.channel());
    let error = typed.echo(EchoRequest::default()).await.unwrap_err();
    assert_eq!(error.code(), Code::Unavailable);
    // The next calls find the name resolved anew, as soon as that is done.
    while typed.echo(EchoRequest::default()).await.is_err() {
        tokio::task::yield_now().await;
    }
    assert!(asked.load(Ordering::SeqCst) > 1);
}

#[tokio::test]
async fn only_what_may_be_repeated_is() {
    let served = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&served);
    let answer = Arc::new(http("503 Service Unavailable\ncontent-length: 0", b""));
    let (address, _server) = raw(move |mut stream| {
        let (count, answer) = (Arc::clone(&count), Arc::clone(&answer));
        async move {
            let mut request = [0; 4096];
            while stream.read(&mut request).await.is_ok_and(|length| length > 0) {
                count.fetch_add(1, Ordering::SeqCst);
                let _ = stream.write_all(&answer).await;
            }
        }
    })
    .await;
    let mut retry = Retry::default();
    retry.backoff = Duration::from_millis(1);
    let client = Client::builder(format!("http://{address}")).retry(retry).build().unwrap();
    let typed = BehaviourServiceClient::new(client.channel());
    typed.look(LookRequest::default()).await.unwrap_err();
    assert_eq!(served.swap(0, Ordering::SeqCst), 3, "a query is tried three times");
    typed.echo(EchoRequest::default()).await.unwrap_err();
    assert_eq!(served.swap(0, Ordering::SeqCst), 1, "a command is tried once");
}

#[tokio::test]
async fn a_dropped_call_reaches_the_server_as_a_cancellation() {
    for (protocol, http) in [
        (Protocol::Connect, HttpVersion::Http1),
        (Protocol::Connect, HttpVersion::Http2),
        (Protocol::Grpc, HttpVersion::Http2),
    ] {
        let (started, mut starts) = tokio::sync::mpsc::unbounded_channel();
        let (ended, mut ends) = tokio::sync::mpsc::unbounded_channel();
        struct Guard(tokio::sync::mpsc::UnboundedSender<()>);
        impl Drop for Guard {
            fn drop(&mut self) {
                let _ = self.0.send(());
            }
        }
        let stuck = move |_: Call| {
            let (started, guard) = (started.clone(), Guard(ended.clone()));
            async move {
                let _guard = guard;
                let _ = started.send(());
                std::future::pending::<tidewire::Result<tidewire::Reply>>().await
            }
        };
        let schema =
            tidewire::Schema::from_folder(tidewire_tests::program::root().join("tests/proto"));
        let service = schema.unwrap().serve("tidewire.test.v1.BehaviourService", stuck).unwrap();
        let (_running, address) = start(tidewire::Server::builder().service(service)).await;
        let client = builder(address).protocol(protocol).http(http).build().unwrap();
        let typed = BehaviourServiceClient::new(client.channel());
        let call = typed.slow(SlowRequest::default());
        tokio::select! {
            _ = call => panic!("the service never answers"),
            _ = starts.recv() => {}
        }
        ends.recv().await.unwrap();
    }
}
