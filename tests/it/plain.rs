//! Plain HTTP handlers and mounted tower services beside RPC, through the same layers.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::Router;
use axum::routing::{get, post};
use tidewire::http::{Method, StatusCode};
use tidewire::{Call, Reply, Server, Service, ready_fn, service_fn, tower};

use crate::harness::{behaviour, post_json, send, start};

#[tokio::test]
async fn routes_answer_beside_rpc_methods() {
    let (builder, _) = behaviour();
    let builder = builder
        .route(Method::GET, "/health", ready_fn(|_| Ok(Reply::empty(StatusCode::NO_CONTENT))))
        .route(
            Method::GET,
            "/echo/{text}",
            service_fn(async |call: Call| {
                Ok(Reply::text(call.param("text").unwrap_or_default().to_owned()))
            }),
        );
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
        Arc::new(service_fn(move |call| {
            counter.fetch_add(1, Ordering::SeqCst);
            inner.call(call)
        }))
    };
    let (builder, _) = behaviour();
    let builder =
        builder.route(Method::GET, "/", ready_fn(|_| Ok(Reply::text("hello")))).layer(count);
    let (_running, address) = start(builder).await;
    send(address, "GET /", b"").await.check(200, &["hello"]);
    post_json(address, "Look", "{}").await.check(200, &["value of"]);
    assert_eq!(seen.load(Ordering::SeqCst), 2);
}
