//! Which requests become WebSockets, and which connections are live ones from their first byte.

use tidewire::client::Protocol;
use tidewire::server::Cors;
use tidewire::{Address, Client, Service};

use super::{UPGRADE, client, look};
use crate::harness::{behaviour, send, start};

#[tokio::test]
async fn live_is_spoken_on_the_port_of_all_protocols_and_on_a_unix_socket() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("live.sock");
    let (builder, _) = behaviour();
    let (_running, address) = start(builder.listen(Address::Unix(socket.clone()))).await;
    let live = |url: String| Client::builder(url).protocol(Protocol::Live).build().unwrap();
    for client in [
        client(format!("ws://{address}")),
        client(format!("tcp://{address}")),
        live(format!("http://{address}")),
        live(format!("unix:{}", socket.display())),
    ] {
        let reply = client.call(look("a")).await.unwrap();
        assert_eq!(reply.body.collect(99).await.unwrap(), r#"{"value":"value of a"}"#);
    }
}

#[tokio::test]
async fn an_upgrade_names_version_and_subprotocol_and_has_a_key() {
    let (builder, _) = behaviour();
    let (_running, address) = start(builder).await;
    for (line, with, status, text) in [
        ("sec-websocket-version: 13", "sec-websocket-version: 8", 426, "13"),
        ("sec-websocket-protocol: tidewire.live.v1\n", "", 400, "tidewire.live.v1"),
        ("protocol: tidewire.live.v1", "protocol: graphql-ws", 400, "tidewire.live.v1"),
        ("dGhlIHNhbXBsZSBub25jZQ==", "short", 400, "sec-websocket-key"),
        ("upgrade: websocket\n", "", 404, "nothing"),
        ("GET /tidewire.live.v1", "GET /tidewire.live.v2", 404, "nothing"),
    ] {
        assert!(UPGRADE.contains(line), "{line}");
        let connection = "connection: upgrade\n";
        let head = UPGRADE.replace(line, with).replacen('\n', &format!("\n{connection}"), 1);
        send(address, &head, b"").await.check(status, &[text]);
    }
}

#[tokio::test]
async fn pages_of_other_origins_connect_only_where_they_are_named() {
    let (builder, _) = behaviour();
    let cors = Cors::new(["https://app.example"]);
    let (_running, address) = start(builder.cors(cors)).await;
    for (origin, is_allowed) in [
        ("https://app.example", true),
        ("https://evil.example", false),
        ("https://app.example.evil.example", false),
        ("http://app.example", false),
        ("null", false),
        // That of the server itself, by the name that `send` calls it.
        ("http://localhost", true),
        ("http://localhost:81", false),
    ] {
        // Named late: a wrong key is told only to whoever may connect.
        let head = format!("{UPGRADE}origin: {origin}\nconnection: upgrade\n");
        let head = head.replace("dGhlIHNhbXBsZSBub25jZQ==", "short");
        let answer = send(address, &head, b"").await;
        let (status, text) = if is_allowed { (400, "key") } else { (403, "cors.origins") };
        answer.check(status, &[text]);
    }
}

#[tokio::test]
async fn any_origin_for_requests_is_none_for_connections() {
    let (builder, _) = behaviour();
    let (_running, address) = start(builder.cors(Cors::new(["*"]))).await;
    let head = format!("{UPGRADE}origin: https://evil.example\nconnection: upgrade\n");
    send(address, &head, b"").await.check(403, &["cors.origins"]);
}

#[tokio::test]
async fn a_client_says_why_there_is_no_websocket() {
    let (builder, _) = behaviour();
    let (_running, address) = start(builder).await;
    for (url, text) in [
        (format!("ws://{address}/elsewhere"), "404"),
        ("ws://127.0.0.1:1".to_owned(), "connection refused"),
        ("tcp://127.0.0.1:1".to_owned(), "connection refused"),
    ] {
        let error = client(url).call(look("a")).await.unwrap_err();
        assert_eq!(error.code(), tidewire::Code::Unavailable);
        assert_eq!(error.outcome(), tidewire::Outcome::NotRun);
        assert!(error.message().contains(text), "{error}");
    }
    let two = Client::builder("ws://127.0.0.1:1").url("ws://127.0.0.1:2").build();
    assert!(two.unwrap_err().to_string().contains("one URL"));
}
