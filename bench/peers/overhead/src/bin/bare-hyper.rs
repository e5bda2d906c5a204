//! The floor: hyper without a router, answering the bytes that the others answer. A GET is a plain
//! handler; a POST is answered with its own body, in gRPC with trailers, and a thousand times for a
//! stream. First line of output is the address.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use hyper::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use hyper::service::service_fn;
use hyper::{Method, Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use tokio::net::TcpListener;

const GRPC_STATUS: HeaderName = HeaderName::from_static("grpc-status");

/// The same bytes some times, and then the trailers.
struct Bytewise {
    data: Bytes,
    left: usize,
    has_trailers: bool,
}

impl Body for Bytewise {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if self.left > 0 {
            self.left -= 1;
            return Poll::Ready(Some(Ok(Frame::data(self.data.clone()))));
        }
        if !std::mem::take(&mut self.has_trailers) {
            return Poll::Ready(None);
        }
        let mut trailers = HeaderMap::with_capacity(1);
        trailers.insert(GRPC_STATUS, HeaderValue::from_static("0"));
        Poll::Ready(Some(Ok(Frame::trailers(trailers))))
    }

    fn is_end_stream(&self) -> bool {
        self.left == 0 && !self.has_trailers
    }

    fn size_hint(&self) -> SizeHint {
        match self.has_trailers {
            true => SizeHint::default(),
            false => SizeHint::with_exact((self.data.len() * self.left) as u64),
        }
    }
}

async fn answer(request: Request<Incoming>) -> Result<Response<Bytewise>, hyper::Error> {
    let (head, body) = request.into_parts();
    let (data, content_type) = match head.method {
        Method::GET => (
            Bytes::from_static(b"Hello, World!"),
            HeaderValue::from_static("text/plain; charset=utf-8"),
        ),
        _ => (body.collect().await?.to_bytes(), head.headers[CONTENT_TYPE].clone()),
    };
    let has_trailers = content_type.as_bytes().starts_with(b"application/grpc");
    let left = if head.uri.path().ends_with("/ManyHello") { 1000 } else { 1 };
    let mut response = Response::new(Bytewise { data, left, has_trailers });
    response.headers_mut().insert(CONTENT_TYPE, content_type);
    Ok(response)
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> std::io::Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    println!("{}", listener.local_addr()?);
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder.http1().pipeline_flush(true).timer(TokioTimer::new());
    let builder: &'static _ = Box::leak(Box::new(builder));
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        tokio::spawn(builder.serve_connection(TokioIo::new(stream), service_fn(answer)));
    }
}
