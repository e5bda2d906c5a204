//! The host that a request asks for: the same over HTTP/1.1 and HTTP/2, or 400.

use http::{Method, Request};
use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tidewire_server::{Address, Builder, Hosts, RunningServer, Server};
use tidewire_service::Call;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

async fn server() -> RunningServer {
    start(Server::builder().route(Method::GET, "/hello", async |_: Call| Ok("hello"))).await
}

pub(crate) async fn start(builder: Builder) -> RunningServer {
    builder.listen("127.0.0.1:0".parse::<Address>().unwrap()).start().await.unwrap()
}

pub(crate) async fn connect(server: &RunningServer) -> TcpStream {
    TcpStream::connect(server.url().trim_start_matches("http://")).await.unwrap()
}

/// The status and the body of what is answered to a head as it is written here.
pub(crate) async fn over_http1(server: &RunningServer, head: &str) -> (u16, String) {
    let mut stream = connect(server).await;
    stream.write_all(format!("{head}connection: close\r\n\r\n").as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    let status = answer.split(' ').nth(1).unwrap().parse().unwrap();
    (status, answer.split_once("\r\n\r\n").unwrap().1.to_owned())
}

/// The same over HTTP/2.
pub(crate) async fn over_http2(
    server: &RunningServer,
    target: &str,
    headers: &[(&str, &str)],
) -> (u16, String) {
    let stream = TokioIo::new(connect(server).await);
    let (mut sender, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), stream).await.unwrap();
    let connection = tokio::spawn(connection);
    let mut request = Request::get(target);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let request = request.body(Full::<Bytes>::default()).unwrap();
    let response = sender.send_request(request).await.unwrap();
    let status = response.status().as_u16();
    let body = response.into_body().collect().await.unwrap().to_bytes();
    connection.abort();
    (status, String::from_utf8(body.to_vec()).unwrap())
}

#[tokio::test]
async fn one_host_in_one_form_is_asked_for_over_http1() {
    let server = server().await;
    for (head, status, says) in [
        ("GET /hello HTTP/1.1\r\nhost: shop.example:80\r\n", 200, "hello"),
        ("GET http://shop.example/hello HTTP/1.1\r\nhost: Shop.example\r\n", 200, "hello"),
        ("GET /hello HTTP/1.1\r\nhost: u@a\r\n", 400, "HOST:PORT"),
        ("GET /hello HTTP/1.1\r\nhost: a,b\r\n", 400, "HOST:PORT"),
        ("GET /hello HTTP/1.1\r\nhost: a:99999\r\n", 400, "HOST:PORT"),
        ("GET http://u@a/hello HTTP/1.1\r\nhost: a\r\n", 400, "HOST:PORT"),
        ("GET http://a@b:99999/hello HTTP/1.1\r\nhost: b\r\n", 400, "HOST:PORT"),
        ("GET http://a,b/hello HTTP/1.1\r\nhost: a,b\r\n", 400, "HOST:PORT"),
        ("GET http://a/hello HTTP/1.1\r\nhost: b\r\n", 400, "send one"),
        ("GET http://a/hello HTTP/1.1\r\n", 400, "missing"),
    ] {
        let (answered, body) = over_http1(&server, head).await;
        assert_eq!(answered, status, "{head}: {body}");
        assert!(body.contains(says), "{head}: {body}");
    }
}

#[tokio::test]
async fn one_host_in_one_form_is_asked_for_over_http2() {
    let server = server().await;
    for (target, host, status, says) in [
        ("http://shop.example/hello", None, 200, "hello"),
        ("http://shop.example/hello", Some("shop.example"), 200, "hello"),
        ("http://u@a/hello", None, 400, "HOST:PORT"),
        ("http://a,b/hello", None, 400, "HOST:PORT"),
        ("http://a:99999/hello", None, 400, "HOST:PORT"),
        ("http://shop.example/hello", Some("evil.example"), 400, "send one"),
        ("http://shop.example/hello", Some("u@a"), 400, "HOST:PORT"),
        ("http://shop.example/hello", Some("a,b"), 400, "HOST:PORT"),
    ] {
        let headers: Vec<_> = host.iter().map(|host| ("host", *host)).collect();
        let (answered, body) = over_http2(&server, target, &headers).await;
        assert_eq!(answered, status, "{target} {host:?}: {body}");
        assert!(body.contains(says), "{target} {host:?}: {body}");
    }
}

#[tokio::test]
async fn a_host_without_a_name_is_none_that_is_listed() {
    let builder = Server::builder().route(Method::GET, "/hello", async |_: Call| Ok("hello"));
    let server = start(builder.hosts(Hosts::local())).await;
    for (head, status) in [
        ("GET /hello HTTP/1.1\r\nhost: localhost\r\n", 200),
        ("GET /hello HTTP/1.1\r\nhost:\r\n", 421),
        ("GET /hello HTTP/1.1\r\nhost: :80\r\n", 421),
        ("GET /hello HTTP/1.0\r\nhost:\r\n", 421),
        ("GET /hello HTTP/1.0\r\n", 200),
    ] {
        let (answered, body) = over_http1(&server, head).await;
        assert_eq!(answered, status, "{head}: {body}");
    }
    let (answered, _) = over_http2(&server, "/hello", &[("host", "")]).await;
    assert_eq!(answered, 421);
    let server = self::server().await;
    let (answered, _) = over_http1(&server, "GET /hello HTTP/1.1\r\nhost:\r\n").await;
    assert_eq!(answered, 200, "any host is answered");
}

#[tokio::test]
async fn a_wrong_host_is_told_to_whoever_wants_to_take_the_connection_over() {
    let builder = Server::builder().route(Method::GET, "/hello", async |_: Call| Ok("hello"));
    let server = start(builder.hosts(Hosts::local())).await;
    let upgrade = "connection: upgrade\r\nupgrade: websocket\r\n\r\n";
    for (head, status) in [
        (format!("GET /hello HTTP/1.1\r\nhost: u@a\r\n{upgrade}"), 400),
        (format!("GET /hello HTTP/1.1\r\nhost: a,b\r\n{upgrade}"), 400),
        (format!("GET /hello HTTP/1.1\r\n{upgrade}"), 400),
        ("CONNECT a:80 HTTP/1.1\r\nhost: a\r\n\r\n".to_owned(), 400),
        (format!("GET /hello HTTP/1.1\r\nhost: a\r\nconnection: close\r\n{upgrade}"), 421),
    ] {
        let mut stream = connect(&server).await;
        stream.write_all(head.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{head}: {answer}");
        assert!(answer.contains("\r\nconnection: close\r\n"), "{head}: {answer}");
        assert!(answer.ends_with('}'), "{head}: {answer}");
    }
}
