//! The worker in Rust: `pipe` serves methods on the inherited socket, `http` hyper on descriptor 3.

tidewire::include_protos!();

use std::convert::Infallible;
use std::os::fd::{FromRawFd as _, OwnedFd};

use bytes::Bytes;
use hosting::v1::{Greeter, GreeterServer, Greeting, Name};
use http_body_util::Full;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tidewire::program::{Program, Source};
use tidewire::{Context, Reply, Result};

struct Worker(Source<String>);

impl Greeter for Worker {
    async fn greet(&self, _: Context, request: Name) -> Result<Reply<Greeting>> {
        let pid = i32::try_from(std::process::id()).unwrap_or_default();
        Ok(Greeting { text: format!("Hello, {}", request.name), pid, ..Default::default() }.into())
    }

    async fn kept(&self, context: Context, request: Name) -> Result<Reply<Greeting>> {
        self.0.read(&request.name);
        self.greet(context, request).await
    }
}

/// The one page.
async fn page(_: Request<hyper::body::Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    let text = format!(r#"{{"text":"Hello, Ada","pid":{}}}"#, std::process::id());
    Ok(Response::new(Full::new(text.into())))
}

async fn http() -> std::io::Result<()> {
    // SAFETY: whoever starts the program leaves the socket in this descriptor, and nothing else
    // takes it.
    let socket = unsafe { OwnedFd::from_raw_fd(3) };
    let listener = std::os::unix::net::UnixListener::from(socket);
    listener.set_nonblocking(true)?;
    let listener = tokio::net::UnixListener::from_std(listener)?;
    loop {
        let (stream, _) = listener.accept().await?;
        let serves = hyper::server::conn::http1::Builder::new();
        tokio::spawn(serves.serve_connection(TokioIo::new(stream), service_fn(page)));
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> tidewire::Exit {
    if std::env::args().nth(1).as_deref() == Some("http") {
        return Ok(http().await?);
    }
    Ok(Program::new().service(GreeterServer::new(Worker(Source::new("names")))).run().await?)
}
