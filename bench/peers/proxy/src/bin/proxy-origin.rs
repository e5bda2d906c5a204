//! The origin behind the proxies of the suite `proxy`, which counts what it is asked. First line of
//! output is the address.
//!
//! | path | answer |
//! |---|---|
//! | `/page`, `/large`, `/pages/NUMBER` | 1 KiB, 100 KiB and 1 KiB again, for an hour |
//! | `/pass` | a few bytes that no cache may keep |
//! | any, `POST` | the body that was sent |
//! | `/asked` | how many requests came, without those for this |

use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response};
use hyper_util::rt::TokioIo;
use proxy::pages::{Pages, echo, unkept};
use tokio::net::TcpListener;

static ASKED: AtomicU64 = AtomicU64::new(0);

async fn answer(
    request: Request<Incoming>,
    pages: &Pages,
) -> Result<Response<Full<Bytes>>, hyper::Error> {
    if request.uri().path() == "/asked" {
        return Ok(unkept(ASKED.load(Ordering::Relaxed).to_string()));
    }
    ASKED.fetch_add(1, Ordering::Relaxed);
    Ok(match *request.method() {
        Method::POST => echo(request.into_body().collect().await?.to_bytes()),
        _ => pages.answer(request.uri().path()),
    })
}

fn main() -> proxy::Result<()> {
    let pages: &'static Pages = Box::leak(Box::default());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        println!("{}", listener.local_addr()?);
        loop {
            let (stream, _) = listener.accept().await?;
            stream.set_nodelay(true)?;
            tokio::spawn(async move {
                let service = service_fn(|request| answer(request, pages));
                let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
            });
        }
    })
}
