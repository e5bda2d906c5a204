//! hyper by itself: a match on the path. First line of output is the address.

use std::convert::Infallible;

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::header::CONTENT_TYPE;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;

#[derive(serde::Serialize)]
struct Message<'a> {
    message: &'a str,
}

async fn answer(request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    let (kind, body) = match request.uri().path() {
        "/plaintext" => ("text/plain", Bytes::from_static(b"Hello, World!")),
        "/json" => {
            let body = serde_json::to_vec(&Message { message: "Hello World!" }).unwrap();
            ("application/json", body.into())
        }
        _ => {
            let mut missing = Response::new(Full::default());
            *missing.status_mut() = StatusCode::NOT_FOUND;
            return Ok(missing);
        }
    };
    Ok(Response::builder().header(CONTENT_TYPE, kind).body(Full::new(body)).unwrap())
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    println!("{}", listener.local_addr().unwrap());
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        let _ = stream.set_nodelay(true);
        tokio::spawn(async move {
            let service = service_fn(answer);
            let mut http = http1::Builder::new();
            let _ = http.pipeline_flush(true).serve_connection(TokioIo::new(stream), service).await;
        });
    }
}
