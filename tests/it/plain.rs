//! Plain HTTP handlers and mounted tower services beside RPC, through the same layers.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::Router;
use axum::routing::{get, post};
use tidewire::http::{Method, StatusCode};
use tidewire::server::tower;
use tidewire::{Body, Call, Reply, Server, Service};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::harness::{behaviour, post_json, send, start};

#[tokio::test]
async fn routes_answer_beside_rpc_methods() {
    let (builder, _) = behaviour();
    let builder = builder
        .route(Method::GET, "/health", async |_: Call| Ok(Reply::empty(StatusCode::NO_CONTENT)))
        .route(Method::GET, "/echo/{text}", async |call: Call| call.param::<String>("text"));
    let (_running, address) = start(builder).await;
    let health = send(address, "GET /health", b"").await;
    assert_eq!((health.status, health.body.len()), (204, 0));
    let echo = send(address, "GET /echo/caf%C3%A9", b"").await;
    echo.check(200, &["café"]);
    assert!(echo.head.contains("content-type: text/plain"), "{}", echo.head);
    assert!(echo.head.contains("content-length: 5"), "{}", echo.head);
    let wrong = send(address, "DELETE /health", b"").await;
    wrong.check(405, &["this path answers GET"]);
    assert!(wrong.head.contains("allow: get"), "{}", wrong.head);
    post_json(address, "Look", r#"{"key":"a"}"#).await.check(200, &["value of a"]);
}

#[tokio::test]
async fn an_axum_router_is_mounted_and_sees_paths_below_its_prefix() {
    let pages = Router::new()
        .route("/", get(async || "index"))
        .route("/upload", post(async |body: String| format!("{} bytes", body.len())));
    let (_running, address) = start(Server::builder().mount("/pages", tower(pages))).await;
    send(address, "GET /pages", b"").await.check(200, &["index"]);
    send(address, "POST /pages/upload", &[b'x'; 70_000]).await.check(200, &["70000 bytes"]);
    send(address, "GET /pages/none", b"").await.check(404, &[]);
    send(address, "GET /", b"").await.check(404, &["nothing is at /"]);
}

#[tokio::test]
async fn a_layer_sees_methods_and_plain_requests_alike() {
    let seen = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&seen);
    let count = move |inner: Arc<dyn Service>| -> Arc<dyn Service> {
        let counter = Arc::clone(&counter);
        Arc::new(move |call: Call| {
            counter.fetch_add(1, Ordering::SeqCst);
            inner.call(call)
        })
    };
    let (builder, _) = behaviour();
    let builder =
        builder.route(Method::GET, "/", async |_: Call| Ok(Reply::text("hello"))).layer(count);
    let (_running, address) = start(builder).await;
    send(address, "GET /", b"").await.check(200, &["hello"]);
    post_json(address, "Look", "{}").await.check(200, &["value of"]);
    assert_eq!(seen.load(Ordering::SeqCst), 2);
}

/// Reads from a stream until what came ends with `end`.
async fn read_until(stream: &mut TcpStream, end: &str) -> String {
    let mut came = Vec::new();
    while !came.ends_with(end.as_bytes()) {
        assert_ne!(stream.read_buf(&mut came).await.unwrap(), 0, "the connection ended early");
    }
    String::from_utf8(came).unwrap()
}

#[tokio::test]
async fn pipelined_requests_are_answered_in_order() {
    let echo = async |call: Call| call.param::<String>("text");
    let (_running, address) = start(Server::builder().route(Method::GET, "/{text}", echo)).await;
    let mut stream = TcpStream::connect(address).await.unwrap();
    let requests: String =
        (0..100).map(|n| format!("GET /answer-{n:03} HTTP/1.1\r\nhost: test\r\n\r\n")).collect();
    stream.write_all(requests.as_bytes()).await.unwrap();
    let answers = read_until(&mut stream, "answer-099").await;
    let bodies: Vec<_> = answers.matches("answer-").collect();
    assert_eq!(bodies.len(), 100);
    for n in 1..100 {
        let place = |n: u32| answers.find(&format!("answer-{n:03}")).unwrap();
        assert!(place(n - 1) < place(n));
    }
}

#[tokio::test]
async fn a_chunk_arrives_before_the_next_is_made_also_with_a_request_waiting_behind() {
    let (sender, receiver) = tokio::sync::mpsc::channel::<&'static str>(1);
    let receiver = std::sync::Mutex::new(Some(receiver));
    let chunks = move |_: Call| {
        let receiver = receiver.lock().unwrap().take().unwrap();
        let chunks = futures_util::stream::unfold(receiver, async |mut receiver| {
            Some((Ok(receiver.recv().await?.into()), receiver))
        });
        std::future::ready(Ok(Reply::new(Body::stream(chunks))))
    };
    let builder = Server::builder().route(Method::GET, "/chunks", chunks).route(
        Method::GET,
        "/after",
        async |_: Call| Ok(Reply::text("the end")),
    );
    let (_running, address) = start(builder).await;
    let mut stream = TcpStream::connect(address).await.unwrap();
    let requests = "GET /chunks HTTP/1.1\r\nhost: a\r\n\r\nGET /after HTTP/1.1\r\nhost: a\r\n\r\n";
    stream.write_all(requests.as_bytes()).await.unwrap();
    for text in ["first", "second", "third"] {
        sender.send(text).await.unwrap();
        read_until(&mut stream, &format!("{text}\r\n")).await;
    }
    drop(sender);
    read_until(&mut stream, "the end").await;
}
