//! Upstreams that are not there, or go away.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt as _;
use http::{Method, StatusCode};
use tidewire_client::Trace;
use tidewire_proxy::{Route, Routes};
use tidewire_service::{Body, Code, Error, Service};

use crate::origin::{Origin, Step, ok, response};
use crate::{call, get, text, upstream, upstream_with};

/// A URL where nothing listens: it is bound for as long as these tests run, so that none of them
/// has it.
pub(crate) fn nowhere() -> String {
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    socket.bind(std::net::SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
    let url = format!("http://{}", socket.local_addr().unwrap());
    std::mem::forget(socket);
    url
}

fn told(error: &Error) -> (StatusCode, &str) {
    let why = error.headers().get("proxy-status").map(|value| value.to_str().unwrap());
    (error.http_status(), why.unwrap_or("none"))
}

#[tokio::test]
async fn each_failure_is_named_as_rfc_9209_has_it() {
    let refused = upstream(&[&nowhere()]);
    let error = get(&refused, "/").await.unwrap_err();
    assert_eq!(told(&error), (StatusCode::BAD_GATEWAY, "tidewire; error=connection_refused"));
    assert_eq!(error.message(), "shop refused the connection", "not where it is");

    let unknown = upstream(&["http://no-such-host.invalid:1"]);
    let error = get(&unknown, "/").await.unwrap_err();
    assert_eq!(told(&error), (StatusCode::BAD_GATEWAY, "tidewire; error=dns_error"));

    let missing = upstream(&["unix:/no/such/folder/a.sock"]);
    let error = get(&missing, "/").await.unwrap_err();
    assert_eq!(told(&error), (StatusCode::BAD_GATEWAY, "tidewire; error=destination_unavailable"));

    for (said, expected) in [
        ("", "tidewire; error=connection_terminated"),
        ("SSH-2.0-OpenSSH\r\n\r\n", "tidewire; error=http_protocol_error"),
        (
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n",
            "tidewire; error=http_protocol_error",
        ),
    ] {
        let origin = Origin::start(move |_| vec![Step::Send(said.into()), Step::Close]).await;
        let shop = upstream(&[&origin.url()]);
        let error = shop.call(call(Method::POST, "/", &[], "x")).await.unwrap_err();
        assert_eq!(told(&error), (StatusCode::BAD_GATEWAY, expected), "{said:?}");
    }

    let silent = Origin::start(|_| vec![Step::Wait(Arc::default())]).await;
    let shop = upstream_with(&[&silent.url()], |it| it.request_timeout = Duration::from_millis(50));
    let error = get(&shop, "/").await.unwrap_err();
    let expected = (StatusCode::GATEWAY_TIMEOUT, "tidewire; error=http_response_timeout");
    assert_eq!(told(&error), expected);
}

#[tokio::test]
async fn a_refused_connection_costs_no_call_whatever_its_verb() {
    let origin = Origin::start(|_| ok(&[], "there")).await;
    let shop = upstream(&[&nowhere(), &origin.url()]);
    for method in [Method::POST, Method::GET, Method::DELETE, Method::POST] {
        let reply = shop.call(call(method, "/", &[], "body")).await.unwrap();
        assert_eq!(text(reply).await.unwrap(), "there");
    }
    assert_eq!(origin.count(), 4);
    assert!(origin.received().iter().all(|received| received.body == b"body"));
}

#[tokio::test]
async fn only_a_safe_request_is_made_again_once_a_server_has_it() {
    let breaks = || Origin::start(|_| vec![Step::Close]);
    for (method, count) in [(Method::GET, 1), (Method::POST, 0)] {
        let (bad, good) = (breaks().await, Origin::start(|_| ok(&[], "there")).await);
        let shop = upstream(&[&bad.url(), &good.url()]);
        let outcome = shop.call(call(method.clone(), "/", &[], Body::Empty)).await;
        assert_eq!((outcome.is_ok(), good.count()), (count == 1, count), "{method}");
        assert_eq!(bad.count(), 1);
    }
}

#[tokio::test]
async fn a_response_that_breaks_off_is_not_whole() {
    let cut = "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf";
    let origin = Origin::start(move |_| vec![Step::Send(cut.into()), Step::Close]).await;
    let reply = upstream(&[&origin.url()]).call(call(Method::GET, "/", &[], Body::Empty)).await;
    assert!(match reply {
        Ok(reply) => text(reply).await.is_err(),
        Err(_) => true,
    });
}

#[tokio::test]
async fn a_server_that_is_not_well_gets_no_calls_until_it_is() {
    use std::sync::atomic::AtomicBool;
    let is_well = Arc::new(AtomicBool::new(false));
    let well = Arc::clone(&is_well);
    let sick = Origin::start(move |received| match received.target.as_str() {
        "/healthz" if !well.load(Ordering::SeqCst) => response(503, &[], ""),
        _ => ok(&[], "sick"),
    })
    .await;
    let good = Origin::start(|_| ok(&[], "good")).await;
    let shop = upstream_with(&[&sick.url(), &good.url()], |it| {
        it.health = Some("/healthz".to_owned());
        it.health_interval = Duration::from_millis(1);
    });
    // Servers are known from the first call on.
    get(&shop, "/").await.unwrap();
    // A fourth time after three failures says that the third was taken note of.
    let before = sick.count();
    sick.until(before + 4).await;
    let asked = |origin: &Origin| origin.received().iter().filter(|it| it.target == "/").count();
    let before = asked(&sick);
    for _ in 0..10 {
        assert_eq!(get(&shop, "/").await.unwrap(), "good");
    }
    assert_eq!(asked(&sick), before);
    is_well.store(true, Ordering::SeqCst);
    let before = sick.count();
    sick.until(before + 3).await;
    let said = [get(&shop, "/").await.unwrap(), get(&shop, "/").await.unwrap()];
    assert!(said.contains(&"sick".to_owned()), "{said:?}");
}

#[tokio::test]
async fn a_grpc_caller_reads_a_failure() {
    let mut routes = Routes::new();
    routes.add(Route::new("/*").unwrap(), upstream(&[&nowhere()])).unwrap();
    let headers = [("content-type", "application/grpc")];
    let error = routes.call(call(Method::POST, "/a.v1.A/Get", &headers, "x")).await.unwrap_err();
    assert_eq!(error.code(), Code::Unavailable);
    assert_eq!(error.headers().get("content-type").unwrap(), "application/grpc");
}

/// How a server ends a connection on which it answered before it read the request's body.
#[derive(Debug, Clone, Copy)]
enum Ending {
    Closed,
    /// Shut down for writing, and closed once a part of the body was read.
    ReadOn,
    /// Left to the client, and nothing more is read.
    Open,
}

/// A server that reads the head of each request and answers it: its URL, and how many came.
fn early(answer: &'static str, ending: Ending) -> (String, Arc<AtomicUsize>) {
    use std::io::{Read as _, Write as _};
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let count = Arc::new(AtomicUsize::new(0));
    let seen = Arc::clone(&count);
    std::thread::spawn(move || {
        let mut open = Vec::new();
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                let mut byte = [0];
                stream.read_exact(&mut byte).unwrap();
                head.extend(byte);
            }
            seen.fetch_add(1, Ordering::SeqCst);
            stream.write_all(answer.as_bytes()).unwrap();
            match ending {
                Ending::Closed => {}
                Ending::ReadOn => {
                    stream.shutdown(std::net::Shutdown::Write).unwrap();
                    // All that there is, if the client has enough before.
                    let _ = stream.read_exact(&mut [0; 20_000]);
                }
                Ending::Open => open.push(stream),
            }
        }
    });
    (url, count)
}

/// A body of so many bytes, whole or in pieces.
fn body(bytes: usize, is_whole: bool) -> Body {
    let piece = Bytes::from_static(&[b'x'; 20_000]);
    if is_whole {
        return Body::Full(piece.repeat(bytes / piece.len()).into());
    }
    let pieces = std::iter::repeat_n(piece.clone(), bytes / piece.len());
    Body::stream(futures_util::stream::iter(pieces.map(Ok)))
}

#[tokio::test]
async fn an_answer_that_comes_before_the_request_was_read_is_passed_on() {
    let closing = "HTTP/1.1 401 no\r\nContent-Length: 4\r\nConnection: close\r\n\r\nwho?";
    let going_on = "HTTP/1.1 401 no\r\nContent-Length: 4\r\n\r\nwho?";
    for (answer, ending) in [
        (closing, Ending::Closed),
        (closing, Ending::ReadOn),
        (going_on, Ending::Closed),
        (going_on, Ending::ReadOn),
        (going_on, Ending::Open),
    ] {
        let (url, count) = early(answer, ending);
        let shop = upstream(&[&url]);
        let mut sent = 0;
        for bytes in [200_000, 1_000_000, 3_000_000] {
            for is_whole in [true, false].repeat(15) {
                let call = call(Method::POST, "/", &[], body(bytes, is_whole));
                let reply = shop.call(call).await;
                let reply = reply.unwrap_or_else(|error| panic!("{ending:?} {bytes}: {error:?}"));
                assert_eq!(reply.status, StatusCode::UNAUTHORIZED);
                assert_eq!(text(reply).await.unwrap(), "who?", "{answer} {ending:?}");
                sent += 1;
            }
        }
        assert_eq!(count.load(Ordering::SeqCst), sent, "each was sent once");
    }
}

#[tokio::test]
async fn a_server_that_closes_before_it_answers_is_a_failure_and_asked_once() {
    for answer in
        ["", "HTTP/1.1 401 no\r\nContent-Le", "HTTP/1.1 401 no\r\nContent-Length: 5\r\n\r\nwho?"]
    {
        let (url, count) = early(answer, Ending::Closed);
        let shop = upstream(&[&url]);
        for is_whole in [true, false].repeat(10) {
            let reply = shop.call(call(Method::POST, "/", &[], body(1_000_000, is_whole))).await;
            match reply {
                // Its head was passed on, and its body breaks off.
                Ok(reply) => assert!(text(reply).await.is_err(), "{answer}"),
                Err(error) => assert_eq!(error.http_status(), StatusCode::BAD_GATEWAY, "{answer}"),
            }
        }
        assert_eq!(count.load(Ordering::SeqCst), 20, "{answer}");
    }
}

/// Who stops sending at the head of an error, as curl does, may lose what comes after it.
#[tokio::test]
async fn an_early_error_is_passed_on_once_its_body_is_there() {
    early_error_of("Content-Length: 4\r\n\r\n", "who?", |body| {
        assert!(matches!(body, Body::Full(body) if body == "who?"), "{body:?}");
    })
    .await;
    early_error_of("Transfer-Encoding: chunked\r\n\r\n", "4\r\nwho?\r\n0\r\n\r\n", |body| {
        assert!(matches!(body, Body::Full(body) if body == "who?"), "{body:?}");
    })
    .await;
    // Of a long one no more than a part is waited for: this one has no end.
    let long = format!("{:x}\r\n{}\r\n", 100_000, "x".repeat(100_000));
    early_error_of("Transfer-Encoding: chunked\r\n\r\n", &long, |body| {
        assert!(matches!(body, Body::Stream(_)), "{body:?}");
    })
    .await;
}

/// A server answers 401 to a request that never ends, first with the head alone.
async fn early_error_of(headers: &str, body: &str, check: impl FnOnce(&Body)) {
    use std::io::{Read as _, Write as _};
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let (send_body, may_send_body) = std::sync::mpsc::channel();
    let (headers, body) = (headers.to_owned(), body.to_owned());
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            stream.read_exact(&mut byte).unwrap();
            head.extend(byte);
        }
        stream.write_all(format!("HTTP/1.1 401 no\r\n{headers}").as_bytes()).unwrap();
        may_send_body.recv().unwrap();
        stream.write_all(body.as_bytes()).unwrap();
        may_send_body.recv().unwrap_err();
    });
    let head_came = Arc::new(AtomicBool::new(false));
    let came = Arc::clone(&head_came);
    let trace = Trace::new(move |event| {
        if matches!(event.step, tidewire_client::Step::Response { .. }) {
            came.store(true, Ordering::SeqCst);
        }
    });
    let sent = futures_util::stream::iter([Ok(Bytes::from_static(b"more"))]);
    let endless = Body::stream(sent.chain(futures_util::stream::pending()));
    let mut call = call(Method::POST, "/", &[], endless);
    call.context.extensions_mut().insert(trace);
    let shop = upstream(&[&url]);
    let mut answer = std::pin::pin!(shop.call(call));
    std::future::poll_fn(|cx| {
        assert!(answer.as_mut().poll(cx).is_pending(), "the head was passed on without its body");
        if head_came.load(Ordering::SeqCst) { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    send_body.send(()).unwrap();
    let reply = answer.await.unwrap();
    assert_eq!(reply.status, StatusCode::UNAUTHORIZED);
    check(&reply.body);
}

/// Debian's curl gives up on a stream or a connection that breaks while it sends.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn curl_reads_an_early_answer_over_http1_and_http2() {
    use std::io::Write as _;
    let answer = "HTTP/1.1 401 no\r\nContent-Length: 4\r\nConnection: close\r\n\r\nwho?";
    let mut failed = Vec::new();
    for ending in [Ending::Closed, Ending::ReadOn] {
        let (url, _) = early(answer, ending);
        let local = std::net::SocketAddr::from(([127, 0, 0, 1], 0));
        let server = tidewire_server::Server::builder().listen(local).mount("/", upstream(&[&url]));
        let server = server.start().await.unwrap();
        for bytes in [200_000, 1_000_000, 3_000_000] {
            let mut file = tempfile::NamedTempFile::new().unwrap();
            file.write_all(&vec![b'x'; bytes]).unwrap();
            for http in ["--http1.1", "--http2-prior-knowledge"] {
                for _ in 0..CURLS {
                    let output = tokio::process::Command::new("curl")
                        .args(["-sS", http, "-X", "POST", "-w", "%{http_code}", "-H", "expect:"])
                        .args(["--data-binary", &format!("@{}", file.path().display())])
                        .arg(server.url())
                        .output()
                        .await
                        .unwrap();
                    let said = String::from_utf8_lossy(&output.stdout);
                    if !output.status.success() || said != "who?401" {
                        let why = String::from_utf8_lossy(&output.stderr);
                        failed.push(format!("{http} {bytes} {ending:?}: {said:?}, {why}"));
                    }
                }
            }
        }
    }
    assert_eq!(failed, [""; 0], "of {CURLS} each");
}

/// How often each is tried.
const CURLS: usize = 10;
