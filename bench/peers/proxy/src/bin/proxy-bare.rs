//! hyper by itself, on one thread: `proxy-bare memory` answers the pages of the origin from memory,
//! which is the floor of a cache; `proxy-bare pass ORIGIN` asks the origin each time, which is that
//! of a proxy. First line of output is the address.

use std::convert::Infallible;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use proxy::pages::Pages;
use proxy::{Result, pass};
use tokio::net::TcpListener;

const ANYWHERE: &str = "127.0.0.1:0";

fn main() -> Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match words.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["memory"] => memory(),
        ["pass", origin] => pass::serve(ANYWHERE, origin),
        _ => Err("proxy-bare memory, or proxy-bare pass ORIGIN".into()),
    }
}

fn memory() -> Result<()> {
    let pages: &'static Pages = Box::leak(Box::default());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let listener = TcpListener::bind(ANYWHERE).await?;
        println!("{}", listener.local_addr()?);
        loop {
            let (stream, _) = listener.accept().await?;
            stream.set_nodelay(true)?;
            tokio::spawn(async move {
                let service = service_fn(|request: hyper::Request<_>| async move {
                    Ok::<_, Infallible>(pages.answer(request.uri().path()))
                });
                let mut http = http1::Builder::new();
                let serves = http.pipeline_flush(true);
                let _ = serves.serve_connection(TokioIo::new(stream), service).await;
            });
        }
    })
}
