//! A cheap HTTP/2 target: one thread, canned answers, prior knowledge.
//!
//! `h2-canned [PORT]` prints its address as first line. A request whose content type starts with
//! `application/grpc` gets one empty gRPC message and `grpc-status: 0`; any other gets `{}` as
//! Connect JSON. Request bodies are dropped unread.

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Response};

fn main() {
    let port: u16 = std::env::args().nth(1).map_or(0, |text| text.parse().expect("a port"));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().expect("tokio");
    let tasks = tokio::task::LocalSet::new();
    tasks.block_on(&runtime, async move {
        let listener =
            tokio::net::TcpListener::bind(("127.0.0.1", port)).await.expect("a free port");
        println!("http://{}/", listener.local_addr().expect("an address"));
        while let Ok((stream, _)) = listener.accept().await {
            let _ = stream.set_nodelay(true);
            tokio::task::spawn_local(serve(stream));
        }
    });
}

async fn serve(stream: tokio::net::TcpStream) {
    let handshake = h2::server::Builder::new()
        .initial_window_size(1 << 20)
        .initial_connection_window_size(1 << 24)
        .max_concurrent_streams(1000)
        .handshake(stream);
    let Ok(mut connection) = handshake.await else { return };
    let mut trailers = HeaderMap::new();
    trailers.insert("grpc-status", HeaderValue::from_static("0"));
    while let Some(Ok((request, mut respond))) = connection.accept().await {
        let kind = request.headers().get("content-type");
        let is_grpc = kind.is_some_and(|kind| kind.as_bytes().starts_with(b"application/grpc"));
        let kind = if is_grpc { "application/grpc" } else { "application/json" };
        let head = Response::builder().header("content-type", kind).body(()).expect("a head");
        let Ok(mut send) = respond.send_response(head, false) else { continue };
        if is_grpc {
            let _ = send.send_data(Bytes::from_static(b"\0\0\0\0\0"), false);
            let _ = send.send_trailers(trailers.clone());
        } else {
            let _ = send.send_data(Bytes::from_static(b"{}"), true);
        }
    }
}
