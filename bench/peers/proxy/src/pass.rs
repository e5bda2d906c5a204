//! A reverse proxy with nothing but hyper: connections to whoever answers are kept and taken in
//! turns.

use std::convert::Infallible;
use std::sync::{Arc, Mutex};

use hyper::body::Incoming;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream, UnixStream};

use crate::Result;

type Idle = Arc<Mutex<Vec<SendRequest<Incoming>>>>;

/// Serves at `listen` what is answered behind it, at the path of a Unix socket or at an address. The
/// first line of output is its own address.
pub fn serve(listen: &str, behind: &str) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let listener = TcpListener::bind(listen).await?;
        println!("{}", listener.local_addr()?);
        let (idle, behind): (Idle, Arc<str>) = (Arc::default(), behind.into());
        loop {
            let (stream, _) = listener.accept().await?;
            stream.set_nodelay(true)?;
            let (idle, behind) = (Arc::clone(&idle), Arc::clone(&behind));
            let answers = service_fn(move |request| {
                let (idle, behind) = (Arc::clone(&idle), Arc::clone(&behind));
                async move {
                    Ok::<_, Infallible>(pass(request, &idle, &behind).await.expect("it answers"))
                }
            });
            let serves = hyper::server::conn::http1::Builder::new();
            tokio::spawn(serves.serve_connection(TokioIo::new(stream), answers));
        }
    })
}

async fn pass(request: Request<Incoming>, idle: &Idle, behind: &str) -> Result<Response<Incoming>> {
    let kept = idle.lock().expect("nobody panics with it").pop();
    let mut sender = match kept.filter(|kept| !kept.is_closed()) {
        Some(kept) => kept,
        None if behind.contains('/') => connected(UnixStream::connect(behind).await?).await?,
        None => {
            let stream = TcpStream::connect(behind).await?;
            stream.set_nodelay(true)?;
            connected(stream).await?
        }
    };
    sender.ready().await?;
    let response = sender.send_request(request).await?;
    idle.lock().expect("nobody panics with it").push(sender);
    Ok(response)
}

async fn connected<S>(stream: S) -> Result<SendRequest<Incoming>>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (sender, connection) = handshake(TokioIo::new(stream)).await?;
    tokio::spawn(connection);
    Ok(sender)
}
