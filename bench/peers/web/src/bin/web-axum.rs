//! axum as its guide writes it: handlers, and handlers with an extracted query. First line of
//! output is the address.

use axum::extract::Query;
use axum::routing::get;
use axum::{Json, Router};
use axum::serve::ListenerExt;

#[derive(serde::Serialize)]
struct Message<'a> {
    message: &'a str,
}

#[derive(serde::Deserialize)]
struct Named {
    #[serde(default)]
    name: String,
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let app = Router::new()
        .route("/plaintext", get(async || "Hello, World!"))
        .route("/json", get(async || Json(Message { message: "Hello World!" })))
        .route(
            "/method/plaintext",
            get(async |Query(named): Query<Named>| {
                let _ = named.name;
                "Hello World!"
            }),
        )
        .route(
            "/method/json",
            get(async |Query(named): Query<Named>| {
                let _ = named.name;
                Json(Message { message: "Hello World!" })
            }),
        );
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    println!("{}", listener.local_addr().unwrap());
    let listener = listener.tap_io(|stream| {
        let _ = stream.set_nodelay(true);
    });
    axum::serve(listener, app).await.unwrap();
}
