//! HTTP/2 against the `h2` crate, and the protocols above it; gRPC-Web; WebSocket.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use http::{HeaderMap, Response};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::TlsAcceptor;

use crate::harness::{Manner, Peer, measured, read_until};

/// What an HTTP/2 server answers to a request with this path and body.
struct Answered {
    status: u16,
    data: Vec<u8>,
    trailers: Option<HeaderMap>,
}

type Handler = dyn Fn(&http::request::Parts, &[u8]) -> Answered + Send + Sync;

struct Server {
    address: SocketAddr,
    served: Arc<AtomicU64>,
}

fn start(handler: Box<Handler>) -> Server {
    start_on(handler, None)
}

fn start_on(handler: Box<Handler>, tls: Option<TlsAcceptor>) -> Server {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let served = Arc::new(AtomicU64::new(0));
    let server = Server { address: listener.local_addr().unwrap(), served: Arc::clone(&served) };
    let handler: Arc<Handler> = handler.into();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().unwrap();
        runtime.block_on(async move {
            let listener = tokio::net::TcpListener::from_std(listener).unwrap();
            while let Ok((stream, _)) = listener.accept().await {
                let (handler, served) = (Arc::clone(&handler), Arc::clone(&served));
                match tls.clone() {
                    None => drop(tokio::spawn(converse(stream, handler, served))),
                    Some(tls) => drop(tokio::spawn(async move {
                        if let Ok(stream) = tls.accept(stream).await {
                            converse(stream, handler, served).await;
                        }
                    })),
                }
            }
        });
    });
    server
}

async fn converse(
    stream: impl AsyncRead + AsyncWrite + Unpin,
    handler: Arc<Handler>,
    served: Arc<AtomicU64>,
) {
    let Ok(mut connection) = h2::server::handshake(stream).await else { return };
    while let Some(Ok((request, respond))) = connection.accept().await {
        served.fetch_add(1, Ordering::SeqCst);
        tokio::spawn(reply(request, respond, Arc::clone(&handler)));
    }
}

async fn reply(
    request: http::Request<h2::RecvStream>,
    mut respond: h2::server::SendResponse<Bytes>,
    handler: Arc<Handler>,
) {
    let (parts, mut stream) = request.into_parts();
    let mut body = Vec::new();
    while let Some(Ok(chunk)) = stream.data().await {
        let _ = stream.flow_control().release_capacity(chunk.len());
        body.extend_from_slice(&chunk);
    }
    let answered = handler(&parts, &body);
    let head = Response::builder().status(answered.status).header("server", "foreign").body(());
    let ends = answered.data.is_empty() && answered.trailers.is_none();
    let Ok(mut send) = respond.send_response(head.unwrap(), ends) else { return };
    if !ends {
        let _ = send.send_data(answered.data.into(), answered.trailers.is_none());
        if let Some(trailers) = answered.trailers {
            let _ = send.send_trailers(trailers);
        }
    }
}

fn envelope(flags: u8, message: &[u8]) -> Vec<u8> {
    let mut out = vec![flags];
    out.extend_from_slice(&(message.len() as u32).to_be_bytes());
    out.extend_from_slice(message);
    out
}

/// The messages in a body of envelopes.
fn messages(mut body: &[u8]) -> usize {
    let mut count = 0;
    while let Some(length) = body.get(1..5) {
        let length = u32::from_be_bytes(length.try_into().unwrap()) as usize;
        body = &body[5 + length..];
        count += 1;
    }
    count
}

fn grpc(code: &'static str, messages: usize) -> Answered {
    let mut trailers = HeaderMap::new();
    trailers.insert("grpc-status", code.parse().unwrap());
    Answered { status: 200, data: envelope(0, b"reply").repeat(messages), trailers: Some(trailers) }
}

#[test]
fn http2_requests_of_any_size_are_answered() {
    let server = start(Box::new(|_, body| Answered {
        status: 200,
        data: body.len().to_string().into_bytes(),
        trailers: None,
    }));
    let url = format!("http://{}/", server.address);
    let (_, result, text) = measured(&[&url, "--http2", "-n", "3000", "-c", "2", "--depth", "20"]);
    assert_eq!((result.requests.ok, server.served.load(Ordering::SeqCst)), (3000, 3000), "{text}");
    // Larger than every initial window, so it waits for the target's updates.
    let body = "x".repeat(400_000);
    let file = crate::harness::scratch("bin");
    std::fs::write(&file, body).unwrap();
    let large = ["--http2", "-n", "20", "-c", "2", "--depth", "3", "--expect-body", "400000"];
    let arguments = [&[url.as_str(), "--body-file", file.to_str().unwrap()], &large[..]].concat();
    let (_, result, text) = measured(&arguments);
    assert_eq!(result.requests.ok, 20, "{text}");
}

#[test]
fn large_answers_over_http2_are_read_whole() {
    let server = start(Box::new(|_, _| Answered {
        status: 200,
        data: vec![b'x'; 3_000_000],
        trailers: None,
    }));
    let url = format!("http://{}/", server.address);
    let (_, result, text) = measured(&[&url, "--http2", "-n", "12", "-c", "1", "--depth", "4"]);
    assert_eq!(result.requests.ok, 12, "{text}");
    assert!(result.requests.bytes > 36_000_000);
}

#[test]
fn http2_over_tls_is_agreed_on_by_alpn() {
    let tls = crate::tls::server_config(&[b"h2", b"http/1.1"]);
    let handler = |request: &http::request::Parts, body: &[u8]| {
        assert_eq!(request.uri.scheme_str(), Some("https"));
        Answered { status: 200, data: body.repeat(50_000), trailers: None }
    };
    let server = start_on(Box::new(handler), Some(tls.into()));
    let url = format!("https://{}/", server.address);
    let load = ["--http2", "-n", "400", "-c", "2", "--depth", "20", "--body", "x"];
    let (_, result, text) = measured(&[&[url.as_str(), "--insecure"], &load[..]].concat());
    assert_eq!((result.requests.ok, server.served.load(Ordering::SeqCst)), (400, 400), "{text}");
    assert!(result.requests.bytes > 400 * 50_000);
}

#[test]
fn the_four_kinds_of_grpc_calls_are_judged_by_their_trailers() {
    let server = start(Box::new(|request, body| {
        assert_eq!(request.headers["te"], "trailers");
        let sent = messages(body);
        match request.uri.path() {
            "/p.S/Unary" => grpc("0", 1),
            "/p.S/Down" => grpc("0", 10),
            "/p.S/Up" if sent == 5 => grpc("0", 1),
            "/p.S/Both" if sent == 5 => grpc("0", sent),
            _ => grpc("13", 0),
        }
    }));
    for (method, kind, received) in [
        ("Unary", "unary", 1),
        ("Down", "server-stream", 10),
        ("Up", "client-stream", 1),
        ("Both", "bidi", 5),
    ] {
        let url = format!("http://{}/p.S/{method}", server.address);
        let call = ["--protocol", "grpc", "--kind", kind, "--messages", "5", "--body", "m"];
        let arguments = [&[url.as_str(), "-n", "100", "--depth", "4"], &call[..]].concat();
        let (_, result, text) = measured(&arguments);
        assert_eq!((result.requests.ok, result.requests.messages), (100, 100 * received), "{text}");
    }
    let url = format!("http://{}/p.S/None", server.address);
    let (_, result, _) = measured(&[&url, "-n", "10", "--protocol", "grpc", "--body", "m"]);
    assert_eq!(result.failures["grpc-status 13"], 10);
    let wanted = |status: &str| {
        let call = ["--protocol", "grpc", "--body", "m", "--expect-status", status];
        measured(&[&[url.as_str(), "-n", "10"], &call[..]].concat()).1
    };
    for status in ["internal", "INTERNAL", "ok,internal"] {
        assert_eq!(wanted(status).requests.ok, 10, "{status}");
    }
    assert_eq!(wanted("not_found").failures["grpc-status 13"], 10);
}

#[test]
fn connect_calls_over_http2_and_http1_are_judged() {
    let server = start(Box::new(|request, body| {
        let kind = request.headers.get("content-type").map_or("", |kind| kind.to_str().unwrap());
        let (status, data) = match (request.method.as_str(), kind) {
            ("GET", _) => {
                let query = request.uri.query().unwrap();
                (200, query.contains("message=eyJhIjoxfQ").to_string().into_bytes())
            }
            (_, "application/json") => (200, body.to_vec()),
            (_, "application/proto") => (503, br#"{"code":"unavailable"}"#.to_vec()),
            (_, "application/connect+json") => {
                let end: &[u8] =
                    if messages(body) == 2 { b"{}" } else { br#"{"error":{"code":"internal"}}"# };
                (200, [envelope(0, b"{}").repeat(3), envelope(2, end)].concat())
            }
            _ => (415, Vec::new()),
        };
        Answered { status, data, trailers: None }
    }));
    let url = format!("http://{}/p.S/M", server.address);
    let run = |extra: &[&str]| {
        let common = [url.as_str(), "--http2", "-n", "50", "--body", r#"{"a":1}"#];
        measured(&[&common[..], extra].concat()).1
    };
    let json = run(&["--protocol", "connect", "--expect-body", r#"{"a":1}"#]);
    assert_eq!(json.requests.ok, 50, "{:?}", json.failures);
    let get = run(&["--protocol", "connect-get", "--expect-body", "true"]);
    assert_eq!(get.requests.ok, 50, "{:?}", get.failures);
    let proto = run(&["--protocol", "connect", "--codec", "proto"]);
    assert_eq!(proto.failures["status 503"], 50);
    let unavailable = ["--protocol", "connect", "--codec", "proto", "--expect-status"];
    let wanted = |status| run(&[&unavailable[..], &[status]].concat());
    assert_eq!(wanted("unavailable").requests.ok, 50);
    assert_eq!(wanted("internal").failures["status 503"], 50);
    let stream = run(&["--protocol", "connect", "--kind", "bidi", "--messages", "2"]);
    assert_eq!((stream.requests.ok, stream.requests.messages), (50, 150), "{:?}", stream.failures);
    let failing = run(&["--protocol", "connect", "--kind", "server-stream"]);
    assert_eq!(failing.failures["connect error internal"], 50);
    let wanted = ["--protocol", "connect", "--kind", "server-stream", "--expect-status"];
    assert_eq!(run(&[&wanted[..], &["internal"]].concat()).requests.ok, 50);
    let other = run(&["--protocol", "connect", "--expect-status", "internal"]);
    assert_eq!(other.failures["check: status is internal"], 50);
}

#[test]
fn grpc_web_is_judged_by_the_trailers_in_its_body() {
    let server = grpc_web_server();
    let url = format!("http://{server}/p.S/M");
    let (_, result, text) = measured(&[&url, "-n", "40", "--protocol", "grpc-web", "--body", "m"]);
    assert_eq!((result.requests.ok, result.failures["grpc-status 9"]), (20, 20), "{text}");
    let accepts =
        ["--protocol", "grpc-web", "--body", "m", "--expect-status", "failed_precondition"];
    let (_, result, text) = measured(&[&[url.as_str(), "-n", "40"], &accepts[..]].concat());
    let failed = result.failures["check: status is failed_precondition"];
    assert_eq!((result.requests.ok, failed), (20, 20), "{text}");
}

/// Answers grpc-status 0 and 9 in turn.
fn grpc_web_server() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let turn = Arc::new(AtomicU64::new(0));
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let turn = Arc::clone(&turn);
            std::thread::spawn(move || {
                let mut buffer = [0; 4096];
                while matches!(stream.read(&mut buffer), Ok(count) if count > 0) {
                    let even = turn.fetch_add(1, Ordering::SeqCst).is_multiple_of(2);
                    let trailers = format!("grpc-status: {}\r\n", if even { 0 } else { 9 });
                    let body =
                        [envelope(0, b"reply"), envelope(0x80, trailers.as_bytes())].concat();
                    let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", body.len());
                    let wire = [head.as_bytes(), &body].concat();
                    if stream.write_all(&wire).is_err() {
                        return;
                    }
                }
            });
        }
    });
    address
}

#[test]
fn websocket_messages_are_echoed_and_pings_answered() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            std::thread::spawn(move || {
                let mut first = [0];
                if !matches!(stream.peek(&mut first), Ok(1)) {
                    return;
                }
                read_until(&mut stream, b"\r\n\r\n");
                let _ = stream.write_all(
                    b"HTTP/1.1 101 Switching\r\nSec-WebSocket-Accept: \
                    s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n",
                );
                let (mut pongs, mut messages) = (0, 0);
                loop {
                    let mut head = [0; 6];
                    if stream.read_exact(&mut head).is_err() {
                        return;
                    }
                    let mut payload = vec![0; usize::from(head[1] & 0x7f)];
                    stream.read_exact(&mut payload).unwrap();
                    payload.iter_mut().enumerate().for_each(|(at, byte)| *byte ^= head[2 + at % 4]);
                    if head[0] & 0xf == 0xa {
                        pongs += 1;
                        continue;
                    }
                    // A ping goes before the first echo, so its pong comes before the second
                    // message.
                    messages += 1;
                    assert_eq!((pongs, &payload[..]), (i32::from(messages > 1), &b"hello"[..]));
                    let ping: &[u8] = if messages == 1 { &[0x89, 1, b'p'] } else { &[] };
                    let frame = [ping, &[0x81, payload.len() as u8], &payload[..]].concat();
                    stream.write_all(&frame).unwrap();
                }
            });
        }
    });
    let url = format!("ws://{address}/chat");
    let arguments = [&url, "-n", "200", "-c", "2", "--body", "hello", "--expect-body", "hello"];
    let (_, result, text) = measured(&arguments);
    assert_eq!(result.requests.ok, 200, "{text}");
}

#[test]
fn a_refused_websocket_handshake_is_a_failure() {
    let peer = Peer::start(|_| Manner::Close(crate::harness::answer(403, "no")));
    let url = format!("ws://{}/", peer.address);
    let (_, result, text) = measured(&[&url, "-n", "3", "-c", "1", "--body", "x"]);
    assert_eq!(result.failures["status 403"], 3, "{text}");
}

#[test]
fn a_websocket_handshake_without_its_proof_is_a_failure() {
    let wrong = "HTTP/1.1 101 Switching\r\nsec-websocket-accept: AAAA\r\n\r\n".to_owned();
    let peer = Peer::start(move |_| Manner::Answer(wrong.clone()));
    let url = format!("ws://{}/", peer.address);
    let (_, result, text) = measured(&[&url, "-n", "3", "-c", "1", "--body", "x"]);
    assert_eq!(result.failures["protocol: a wrong Sec-WebSocket-Accept"], 3, "{text}");
}
