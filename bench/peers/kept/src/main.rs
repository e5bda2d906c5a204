//! What an answer from memory costs, beside the same handler without a memo and hyper alone.
//!
//! `kept free` computes each answer with a handler that costs nothing, `kept memo` answers from
//! memory, `kept metrics` and `kept logged` do so with metrics, and an access log beside them that is
//! written to nowhere, `kept bare HEADERS-AND-BODY` is hyper with the bytes of a file for every request. The
//! first line of output is the address.

mod proto {
    tidewire::include_protos!();
}

use std::convert::Infallible;

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::header::{HeaderMap, HeaderName, HeaderValue};
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use proto::kept::v1::{Id, Row, Rows, Rows100, RowsServer};
use tidewire::http::Method;
use tidewire::memo::{Graph, Source};
use tidewire::{Call, Context, Reply, ReplyCache, Result, Server, Service};
use tidewire::service::CacheScope;
use tidewire::telemetry::{AccessLog, LineFormat, Metrics};
use tokio::net::TcpListener;

struct Handler(Source<i32>);

fn row(id: i32) -> Row {
    Row {
        id,
        first_name: "Adalbert".to_owned(),
        surname: "Lovelace".to_owned(),
        email: "adalbert.lovelace@example.com".to_owned(),
        phone: "+49 170 1234567".to_owned(),
        city: "London".to_owned(),
        ..Default::default()
    }
}

impl Rows for Handler {
    async fn get(&self, _: Context, request: Id) -> Result<Reply<Row>> {
        self.0.read(&request.id);
        Ok(row(request.id).into())
    }

    async fn list(&self, _: Context, request: Id) -> Result<Reply<Rows100>> {
        self.0.read(&request.id);
        Ok(Rows100 { rows: (1..=100).map(row).collect(), ..Default::default() }.into())
    }

    async fn touch(&self, _: Context, request: Id) -> Result<Reply<Id>> {
        self.0.changed(&request.id);
        Ok(request.into())
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let mut arguments = std::env::args().skip(1);
    let how = arguments.next().unwrap_or_default();
    if how == "bare" {
        return bare(&std::fs::read(arguments.next().unwrap_or_default())?).await;
    }
    let graph = Graph::global();
    let source = Source::new("rows");
    let page = move |_: Call| async move {
        source.read(&0);
        Ok("Hello, World!")
    };
    let mut builder = Server::builder()
        .service(RowsServer::new(Handler(source)))
        .route(Method::GET, "/page", page.cached(CacheScope::Public))
        .listen(std::net::SocketAddr::from(([127, 0, 0, 1], 0)));
    if how != "free" {
        builder = builder.memo(ReplyCache::new(&graph));
    }
    if matches!(&*how, "metrics" | "logged") {
        builder = builder.observer(Metrics::new());
    }
    if how == "logged" {
        let log = AccessLog::new(LineFormat::Text, |line| _ = std::hint::black_box(line));
        builder = builder.observer(log);
    }
    let running = builder.start().await?;
    println!("{}", running.addresses()[0]);
    running.until_stopped().await?;
    Ok(())
}

/// Answers each request with the headers and the body of a response that somebody has written down.
async fn bare(response: &[u8]) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let end = response.windows(4).position(|four| four == b"\r\n\r\n").ok_or("no head")?;
    let mut headers = HeaderMap::new();
    for line in std::str::from_utf8(&response[..end])?.lines().skip(1) {
        let (name, value) = line.split_once(": ").ok_or("no header")?;
        if !["date", "content-length"].contains(&name) {
            headers.append(HeaderName::try_from(name)?, HeaderValue::try_from(value)?);
        }
    }
    let body = Bytes::copy_from_slice(&response[end + 4..]);
    let (headers, body): (&'static _, &'static Bytes) =
        (Box::leak(Box::new(headers)), Box::leak(Box::new(body)));
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    println!("{}", listener.local_addr()?);
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder.http1().pipeline_flush(true).timer(TokioTimer::new());
    let builder: &'static _ = Box::leak(Box::new(builder));
    let answer = move |_: Request<Incoming>| async move {
        let mut response = Response::new(Full::new(body.clone()));
        *response.headers_mut() = headers.clone();
        Ok::<_, Infallible>(response)
    };
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        tokio::spawn(builder.serve_connection(TokioIo::new(stream), service_fn(answer)));
    }
}
