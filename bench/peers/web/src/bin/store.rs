//! The store that relays ask: a backing service, not a peer. Answers `/store/KEY` with the key, in
//! JSON. First line of output is the address.

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
struct Stored<'a> {
    value: &'a str,
}

async fn answer(request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    let Some(value) = request.uri().path().strip_prefix("/store/") else {
        let mut missing = Response::new(Full::default());
        *missing.status_mut() = StatusCode::NOT_FOUND;
        return Ok(missing);
    };
    let body = serde_json::to_vec(&Stored { value }).unwrap();
    let reply = Response::builder().header(CONTENT_TYPE, "application/json");
    Ok(reply.body(Full::new(body.into())).unwrap())
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
            let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
        });
    }
}
