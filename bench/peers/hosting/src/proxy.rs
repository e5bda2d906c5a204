//! A reverse proxy with nothing but hyper: connections to the worker are kept and taken in turns.

use std::convert::Infallible;
use std::sync::{Arc, Mutex};

use hyper::body::Incoming;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, UnixStream};

use crate::Result;

type Idle = Arc<Mutex<Vec<SendRequest<Incoming>>>>;

/// Serves at `LISTEN` what the worker at `socket` answers.
pub fn serve(socket: &str) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let listener = TcpListener::bind(std::env::var("LISTEN")?).await?;
        let (idle, socket): (Idle, Arc<str>) = (Arc::default(), socket.into());
        loop {
            let (stream, _) = listener.accept().await?;
            stream.set_nodelay(true)?;
            let (idle, socket) = (Arc::clone(&idle), Arc::clone(&socket));
            let answers = service_fn(move |request| {
                let (idle, socket) = (Arc::clone(&idle), Arc::clone(&socket));
                async move {
                    Ok::<_, Infallible>(pass(request, &idle, &socket).await.expect("it answers"))
                }
            });
            let serves = hyper::server::conn::http1::Builder::new();
            tokio::spawn(serves.serve_connection(TokioIo::new(stream), answers));
        }
    })
}

async fn pass(request: Request<Incoming>, idle: &Idle, socket: &str) -> Result<Response<Incoming>> {
    let kept = idle.lock().expect("nobody panics with it").pop();
    let mut sender = match kept.filter(|kept| !kept.is_closed()) {
        Some(kept) => kept,
        None => {
            let (sender, connection) =
                handshake(TokioIo::new(UnixStream::connect(socket).await?)).await?;
            tokio::spawn(connection);
            sender
        }
    };
    sender.ready().await?;
    let response = sender.send_request(request).await?;
    idle.lock().expect("nobody panics with it").push(sender);
    Ok(response)
}
