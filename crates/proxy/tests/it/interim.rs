//! Interim responses (1xx): a server says them before its response, and the caller reads them then.

use std::sync::Arc;

use tidewire_cache::PageCache;
use tidewire_proxy::{TokioPages, Upstream};
use tidewire_service::Layer;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::Notify;

use crate::origin::{Origin, Step, ok};
use crate::upstream;

const HINTS: &str = "HTTP/1.1 103 Early Hints\r\nLink: </a.css>; rel=preload\r\n\
                     Connection: x-hop\r\nX-Hop: 1\r\n\r\n";

/// A server in front of an upstream, and a connection to it.
pub(crate) async fn front(shop: Upstream) -> (tidewire_server::RunningServer, TcpStream) {
    let local = std::net::SocketAddr::from(([127, 0, 0, 1], 0));
    let server = tidewire_server::Server::builder().listen(local).mount("/", shop);
    let server = server.start().await.unwrap();
    let address = server.url().to_string();
    let stream = TcpStream::connect(address.trim_start_matches("http://")).await.unwrap();
    (server, stream)
}

async fn send(stream: &mut TcpStream, text: &str) {
    stream.write_all(text.as_bytes()).await.unwrap();
}

async fn read_until(stream: &mut TcpStream, end: &str) -> String {
    let mut text = String::new();
    while !text.ends_with(end) {
        text.push(char::from(stream.read_u8().await.unwrap()));
    }
    text
}

#[tokio::test]
async fn a_caller_reads_hints_before_there_is_a_response() {
    let go_on = Arc::new(Notify::new());
    let waits = Arc::clone(&go_on);
    let origin = Origin::start(move |_| {
        let mut steps = vec![
            Step::Send(b"HTTP/1.1 102 Processing\r\n\r\n".to_vec()),
            Step::Send(HINTS.as_bytes().to_vec()),
            Step::Wait(Arc::clone(&waits)),
        ];
        steps.extend(ok(&[], "page"));
        steps
    })
    .await;
    let (_server, mut stream) = front(upstream(&[&origin.url()])).await;
    for _ in 0..2 {
        send(&mut stream, "GET /a HTTP/1.1\r\nHost: shop.example\r\n\r\n").await;
        let processing = read_until(&mut stream, "\r\n\r\n").await;
        assert_eq!(processing, "HTTP/1.1 102 Processing\r\n\r\n");
        let hints = read_until(&mut stream, "\r\n\r\n").await;
        assert_eq!(hints, "HTTP/1.1 103 Early Hints\r\nlink: </a.css>; rel=preload\r\n\r\n");
        go_on.notify_one();
        let response = read_until(&mut stream, "page").await;
        assert!(response.starts_with("HTTP/1.1 200 OK\r\n"), "{response}");
        assert!(!response.contains("a.css"), "{response}");
    }
}

#[tokio::test]
async fn hints_that_come_with_the_response_come_before_it() {
    let origin = Origin::start(|received| {
        let mut all = match received.target.as_str() {
            "/plain" => Vec::new(),
            _ => format!("HTTP/1.1 100 Continue\r\n\r\n{HINTS}").into_bytes(),
        };
        for step in ok(&[], &received.target) {
            let Step::Send(bytes) = step else { continue };
            all.extend(bytes);
        }
        vec![Step::Send(all)]
    })
    .await;
    let (_server, mut stream) = front(upstream(&[&origin.url()])).await;
    // Pipelined: what belongs to the second is not said before the first.
    send(
        &mut stream,
        "GET /plain HTTP/1.1\r\nHost: a\r\n\r\nGET /hints HTTP/1.1\r\nHost: a\r\n\r\n\
         GET /plain HTTP/1.1\r\nHost: a\r\n\r\n",
    )
    .await;
    let first = read_until(&mut stream, "\r\n\r\n/plain").await;
    assert!(first.starts_with("HTTP/1.1 200 OK\r\n"), "{first}");
    let hints = read_until(&mut stream, "\r\n\r\n").await;
    assert!(hints.starts_with("HTTP/1.1 103 Early Hints\r\n"), "{hints}");
    let second = read_until(&mut stream, "\r\n\r\n/hints").await;
    assert!(second.starts_with("HTTP/1.1 200 OK\r\n"), "{second}");
    let third = read_until(&mut stream, "\r\n\r\n/plain").await;
    assert!(third.starts_with("HTTP/1.1 200 OK\r\n"), "{third}");
    // RFC 9110, section 15.2: not to a caller of HTTP/1.0.
    send(&mut stream, "GET /hints HTTP/1.0\r\nHost: a\r\n\r\n").await;
    let last = read_until(&mut stream, "\r\n\r\n/hints").await;
    assert!(last.starts_with("HTTP/1.0 200 OK\r\n"), "{last}");
}

#[tokio::test]
async fn hints_are_not_of_a_page_that_is_stored() {
    let origin = Origin::start(|_| {
        let mut steps = vec![Step::Send(HINTS.as_bytes().to_vec())];
        steps.extend(ok(&[("Cache-Control", "max-age=60")], "page"));
        steps
    })
    .await;
    let pages = PageCache::new(TokioPages::default());
    let layer = pages.layer("shop", tidewire_cache::PageSettings::default());
    let shop = layer.layer(Arc::new(upstream(&[&origin.url()])));
    let local = std::net::SocketAddr::from(([127, 0, 0, 1], 0));
    let server = tidewire_server::Server::builder().listen(local).mount("/", shop);
    let server = server.start().await.unwrap();
    let address = server.url().to_string();
    let mut stream = TcpStream::connect(address.trim_start_matches("http://")).await.unwrap();
    for (turn, is_hinted) in [(0, true), (1, false)] {
        send(&mut stream, "GET /a HTTP/1.1\r\nHost: a\r\n\r\n").await;
        let all = read_until(&mut stream, "\r\n\r\npage").await;
        assert_eq!(all.starts_with("HTTP/1.1 103"), is_hinted, "{turn} {all}");
        assert_eq!(all.contains("a.css"), is_hinted, "{turn} {all}");
    }
    assert_eq!(origin.count(), 1);
}

#[tokio::test]
async fn hints_of_an_upstream_of_http2_pass_too() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("h2c://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        let (stream, _) = listener.accept().await.unwrap();
        let mut connection = h2::server::handshake(stream).await.unwrap();
        while let Some(Ok((_, mut respond))) = connection.accept().await {
            let hints = http::Response::builder().status(103).header("link", "</a.css>");
            respond.send_informational(hints.body(()).unwrap()).unwrap();
            let mut body = respond.send_response(http::Response::new(()), false).unwrap();
            body.send_data("page".into(), true).unwrap();
        }
    });
    let (_server, mut stream) = front(upstream(&[&url])).await;
    send(&mut stream, "GET /a HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").await;
    let hints = read_until(&mut stream, "\r\n\r\n").await;
    assert_eq!(hints, "HTTP/1.1 103 Early Hints\r\nlink: </a.css>\r\n\r\n");
    let response = read_until(&mut stream, "page").await;
    assert!(response.starts_with("HTTP/1.1 200 OK\r\n"), "{response}");
}
