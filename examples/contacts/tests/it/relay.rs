//! The relay: it asks a key/value store over HTTP, on connections that are kept.

use std::sync::Arc;

use tidewire::http::{Method, StatusCode};
use tidewire::{Address, Call, Error, Reply, RunningServer, Server};

use crate::app::{App, NOWHERE};

#[tokio::test]
async fn a_relay_gives_the_key_and_the_value_that_the_store_has() {
    let store = App::start().await;
    let relay = App::start_with_relay_to(&format!("http://{}", store.address())).await;
    for (path, body) in [
        ("/relay/the", r#"{"key":"the","value":"lzw"}"#),
        ("/relay/hello", r#"{"key":"hello","value":"zwddg"}"#),
        ("/relay/a%2Fb%20%25%3F..", r#"{"key":"a/b %?..","value":"s/t %?.."}"#),
        ("/relay/Zo%C3%AB", r#"{"key":"Zoë","value":"Zgë"}"#),
    ] {
        let answer = relay.get(path).await;
        assert_eq!((answer.status.as_u16(), answer.text()), (200, body), "{path}");
        assert_eq!(answer.header("content-type"), "application/json");
    }
    let long = relay.get(&format!("/relay/{}", "x".repeat(1025))).await;
    assert_eq!(long.status, 400);
    assert!(long.text().contains("field key is 1025 bytes"), "{}", long.text());
    relay.stop().await;
    store.stop().await;
}

/// A store that answers a key by the status and the body that it names, and counts connections.
async fn odd_store(peers: Arc<std::sync::Mutex<std::collections::BTreeSet<u16>>>) -> RunningServer {
    let answer = move |call: Call| {
        let port = call.context.peer().and_then(|peer| peer.address).map(|address| address.port());
        peers.lock().unwrap().extend(port);
        let json = |text| Ok(Reply::content("application/json", text));
        let answer = match call.http_target().and_then(|target| target.params.value("key")) {
            Some("broken") => json("{"),
            Some("list") => json("[]"),
            Some("long") => Ok(Reply::text(" ".repeat(1 << 20))),
            Some("gone") => Err(Error::not_found("no such key")),
            Some("empty") => Ok(Reply::empty(StatusCode::NO_CONTENT)),
            _ => json(r#"{ "more": [], "value" : "v" }"#),
        };
        std::future::ready(answer)
    };
    let any: Address = "127.0.0.1:0".parse().unwrap();
    let server = Server::builder().listen(any).route(Method::GET, "/store/{key}", answer);
    server.start().await.unwrap()
}

#[tokio::test]
async fn a_store_that_fails_is_unavailable_and_the_connection_is_used_again() {
    let peers = Arc::default();
    let store = odd_store(Arc::clone(&peers)).await;
    let relay = App::start_with_relay_to(&store.url()).await;
    for _ in 0..5 {
        assert_eq!(relay.get("/relay/k").await.text(), r#"{"key":"k","value":"v"}"#);
    }
    assert_eq!(peers.lock().unwrap().len(), 1, "five calls on one connection");
    for (key, status, needle) in [
        ("broken", 503, "something else than a value"),
        ("list", 503, "something else than a value"),
        ("gone", 503, "the key/value store answered 404"),
        ("empty", 503, "the key/value store answered 204"),
        ("long", 503, "did not arrive whole"),
    ] {
        let answer = relay.get(&format!("/relay/{key}")).await;
        assert_eq!(answer.status, status, "{key}: {}", answer.text());
        assert!(answer.text().contains(needle), "{key}: {}", answer.text());
    }
    assert_eq!(relay.get("/relay/k").await.status, 200);
    relay.stop().await;
}

#[tokio::test]
async fn a_store_that_is_not_there_is_unavailable() {
    let relay = App::start_with_relay_to(NOWHERE).await;
    let answer = relay.get("/relay/k").await;
    assert_eq!(answer.status, 503);
    assert!(answer.text().starts_with(r#"{"code":"unavailable""#), "{}", answer.text());
    relay.stop().await;
}
