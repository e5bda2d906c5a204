//! `CONNECT`: a WebSocket over HTTP/2 (RFC 8441), and no tunnel.

use http::{Method, Request};
use tidewire_server::{RunningServer, Server};
use tidewire_service::Call;

use crate::host::{connect, over_http1, start};

/// What `CONNECT` for a protocol is answered over HTTP/2.
async fn asked(server: &RunningServer, path: &str, protocol: &'static str) -> (u16, String) {
    let (mut client, connection) = h2::client::handshake(connect(server).await).await.unwrap();
    let connection = tokio::spawn(connection);
    // Its answer comes after the settings.
    let first = Request::get("http://shop.example/").body(()).unwrap();
    client.send_request(first, true).unwrap().0.await.unwrap();
    let request = Request::connect(format!("http://shop.example{path}"))
        .extension(h2::ext::Protocol::from_static(protocol))
        .body(())
        .unwrap();
    let (response, _body) = client.send_request(request, false).unwrap();
    let mut response = response.await.expect("the stream is not reset");
    let mut body = Vec::new();
    while let Some(piece) = response.body_mut().data().await {
        body.extend(piece.unwrap());
    }
    connection.abort();
    (response.status().as_u16(), String::from_utf8(body).unwrap())
}

#[tokio::test]
async fn what_is_mounted_sees_no_tunnel_and_a_page_is_no_websocket() {
    let verb = async |call: Call| Ok(call.http_target().unwrap().method.to_string());
    let builder = Server::builder().route(Method::GET, "/own", verb).mount("/app", verb);
    let server = start(builder).await;
    for (path, protocol, status, says) in [
        ("/app/a", "foo", 501, "opens no tunnel"),
        ("/app/a", "websocket", 502, "opens no WebSocket"),
        ("/own", "foo", 405, "answers GET"),
        ("/own", "websocket", 405, "answers GET"),
        ("/nothing", "websocket", 404, "/nothing"),
    ] {
        let (answered, body) = asked(&server, path, protocol).await;
        assert_eq!(answered, status, "{path} {protocol}: {body}");
        assert!(body.contains(says), "{path} {protocol}: {body}");
    }
    for (target, status) in [("/app/a", 501), ("/own", 405), ("a:80", 404)] {
        let head = format!("CONNECT {target} HTTP/1.1\r\nhost: a:80\r\n");
        let (answered, body) = over_http1(&server, &head).await;
        assert_eq!(answered, status, "{target}: {body}");
    }
}
