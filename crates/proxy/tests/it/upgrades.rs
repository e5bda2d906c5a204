//! Requests that take their connection over.

use http::{Method, StatusCode};
use tidewire_service::{Body, Service};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::interim::front;
use crate::origin::{Origin, Step, response};
use crate::trouble::nowhere;
use crate::{call, upstream};

const ASKED: [(&str, &str); 3] =
    [("connection", "upgrade"), ("upgrade", "websocket"), ("sec-websocket-key", "a")];

/// A server that agrees to a WebSocket, and sends back what it gets.
async fn agreeing() -> Origin {
    Origin::start(|received| {
        assert_eq!(received.header("upgrade"), Some("websocket"));
        let agreed = "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\n\
                      Upgrade: websocket\r\n\r\n";
        vec![Step::Send(agreed.into()), Step::Echo]
    })
    .await
}

/// Takes a connection over by a server, and sees its bytes come back.
async fn bytes_pass_by(url: &str) {
    let address = url.trim_start_matches("http://").trim_end_matches('/');
    let mut stream = tokio::net::TcpStream::connect(address).await.unwrap();
    let asked = format!(
        "GET /chat HTTP/1.1\r\nHost: {address}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
    );
    stream.write_all(asked.as_bytes()).await.unwrap();
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.unwrap());
    }
    assert!(head.starts_with(b"HTTP/1.1 101 "), "{}", String::from_utf8_lossy(&head));
    stream.write_all(b"hello").await.unwrap();
    let mut echoed = [0; 5];
    stream.read_exact(&mut echoed).await.unwrap();
    assert_eq!(&echoed, b"hello");
}

#[tokio::test]
async fn bytes_pass_both_ways_once_the_upstream_agrees() {
    let origin = agreeing().await;
    let server = tidewire_server::Server::builder()
        .listen(std::net::SocketAddr::from(([127, 0, 0, 1], 0)))
        .mount("/", upstream(&[&origin.url()]));
    let server = server.start().await.unwrap();
    bytes_pass_by(&server.url()).await;
}

#[tokio::test]
async fn an_upstream_may_say_no_and_one_that_is_not_there_is_passed_over() {
    let origin = Origin::start(|_| response(403, &[], "no")).await;
    let nowhere = nowhere();
    let shop = upstream(&[&nowhere, &origin.url()]);
    for _ in 0..2 {
        let reply = shop.call(call(Method::GET, "/", &ASKED, Body::Empty)).await.unwrap();
        assert_eq!(reply.status, StatusCode::FORBIDDEN);
    }
    let gone = upstream(&[&nowhere]);
    let error = gone.call(call(Method::GET, "/", &ASKED, Body::Empty)).await.unwrap_err();
    assert_eq!(error.http_status(), StatusCode::BAD_GATEWAY);
}

#[tokio::test]
async fn a_server_over_tls_takes_connections_over() {
    let origin = agreeing().await;
    let local = std::net::SocketAddr::from(([127, 0, 0, 1], 0));
    let tls = tidewire_listen::Tls::new(
        include_bytes!("../../../../tests/fixtures/tls/server.pem"),
        include_bytes!("../../../../tests/fixtures/tls/server.key"),
    );
    let secure = tidewire_server::Server::builder().listen(local).tls(tls.unwrap());
    let secure = secure.mount("/", upstream(&[&origin.url()])).start().await.unwrap();
    let url = secure.url().replace("127.0.0.1", "localhost");
    assert!(url.starts_with("https://"), "{url}");
    let trusted = tidewire_client::Tls::new()
        .authorities(include_bytes!("../../../../tests/fixtures/tls/authority.pem").to_vec());
    let settings = tidewire_proxy::UpstreamSettings::new("shop", [url.trim_end_matches('/')]);
    let shop = tidewire_proxy::Upstream::new(settings, |it| it.tls(trusted.clone())).unwrap();
    let front = tidewire_server::Server::builder().listen(local).mount("/", shop);
    let front = front.start().await.unwrap();
    bytes_pass_by(&front.url()).await;
}

/// A server in front of an upstream, and a connection of HTTP/2 to it that may be asked for
/// `CONNECT` with a protocol.
async fn over_http2(
    origin: &Origin,
) -> (tidewire_server::RunningServer, h2::client::SendRequest<bytes::Bytes>) {
    let (server, stream) = front(upstream(&[&origin.url()])).await;
    let (mut client, connection) = h2::client::handshake(stream).await.unwrap();
    tokio::spawn(connection);
    // Its answer comes after the settings.
    let request = http::Request::get("http://shop.example/first").body(()).unwrap();
    let (response, _) = client.send_request(request, true).unwrap();
    response.await.unwrap();
    assert!(client.is_extended_connect_protocol_enabled());
    (server, client)
}

/// What `CONNECT` with or without a protocol is answered.
async fn connect(
    client: &mut h2::client::SendRequest<bytes::Bytes>,
    protocol: Option<&'static str>,
) -> (u16, String) {
    let target = match protocol {
        Some(_) => "http://shop.example/chat",
        None => "shop.example:80",
    };
    let mut request = http::Request::builder().method(Method::CONNECT).uri(target);
    if let Some(protocol) = protocol {
        request = request.extension(h2::ext::Protocol::from_static(protocol));
    }
    let (response, _body) = client.send_request(request.body(()).unwrap(), false).unwrap();
    let mut response = response.await.expect("the stream is not reset");
    let mut body = Vec::new();
    while let Some(piece) = response.body_mut().data().await {
        body.extend(piece.unwrap());
    }
    (response.status().as_u16(), String::from_utf8(body).unwrap())
}

#[tokio::test]
async fn a_tunnel_is_refused_with_the_reason_and_reaches_no_upstream() {
    let origin = Origin::start(|_| response(200, &[], "page")).await;
    let (_server, mut client) = over_http2(&origin).await;
    for protocol in [None, Some("foo")] {
        let (status, body) = connect(&mut client, protocol).await;
        assert_eq!(status, 501, "{protocol:?}: {body}");
        assert!(body.contains("CONNECT") && body.contains("websocket"), "{protocol:?}: {body}");
    }
    for target in ["/chat", "shop.example:80"] {
        let (_server, mut stream) = front(upstream(&[&origin.url()])).await;
        let head = format!("CONNECT {target} HTTP/1.1\r\nHost: shop.example:80\r\n\r\n");
        stream.write_all(head.as_bytes()).await.unwrap();
        stream.shutdown().await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        assert!(answer.starts_with("HTTP/1.1 501 ") && answer.contains("CONNECT"), "{answer}");
    }
    assert_eq!(origin.count(), 1, "only the first page was asked for");
}

#[tokio::test]
async fn a_websocket_over_http2_that_is_not_agreed_to_is_answered() {
    for (said, told, body) in [
        (403, 403, "no"),
        (404, 404, "no"),
        (302, 302, "no"),
        (500, 500, "no"),
        // 2xx would say that it is open (RFC 8441, section 5).
        (200, 502, "answered 200"),
        (204, 502, "answered 204"),
    ] {
        let origin = Origin::start(move |received| match received.target.as_str() {
            "/first" => response(200, &[], "page"),
            _ => response(said, &[], if said == 204 { "" } else { "no" }),
        })
        .await;
        let (_server, mut client) = over_http2(&origin).await;
        let (status, found) = connect(&mut client, Some("websocket")).await;
        assert_eq!(status, told, "{said}: {found}");
        assert!(found.contains(body), "{said}: {found}");
    }
}

#[tokio::test]
async fn a_server_of_h2c_is_asked_for_no_upgrade() {
    let origin = Origin::start(|_| panic!("it is not asked")).await;
    let shop = upstream(&[&origin.url().replace("http://", "h2c://")]);
    let (server, _) = front(shop).await;
    let mut stream =
        tokio::net::TcpStream::connect(server.url().trim_start_matches("http://")).await.unwrap();
    let asked = "GET /chat HTTP/1.1\r\nHost: a\r\nConnection: upgrade, close\r\n\
                 Upgrade: websocket\r\n\r\n";
    stream.write_all(asked.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 501 "), "{answer}");
    assert!(answer.contains("do not pass to a server of h2c"), "{answer}");
    assert_eq!(origin.count(), 0);
}
