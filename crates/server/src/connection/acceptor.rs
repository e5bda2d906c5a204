//! Accepts connections, over TLS too, within the bounds for them.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tidewire_listen::{AcceptedSocket, Addresses, Listener};
use tidewire_service::Peer;
use tokio::sync::Semaphore;
use tokio_util::task::TaskTracker;

use crate::connection::serve::serve;
use crate::dispatch::server_state::ServerState;
use crate::runtime::stop::{Stage, Stop};
use crate::runtime::usage::Bound;
use tidewire_service::LogLimit;

/// Accepts connections of one listener until a drain begins.
pub(crate) struct Acceptor {
    pub(crate) server: Arc<ServerState>,
    pub(crate) listener: Listener,
    pub(crate) connections: Arc<Semaphore>,
    pub(crate) addresses: Addresses,
    pub(crate) tasks: TaskTracker,
    pub(crate) stop: Stop,
    #[cfg(feature = "tls")]
    pub(crate) tls: Option<tidewire_listen::Tls>,
}

impl Acceptor {
    pub(crate) async fn run(self) {
        loop {
            let accepted = tokio::select! {
                () = self.stop.reached(Stage::Draining) => return,
                accepted = self.accept() => accepted,
            };
            let (accepted, permit) = match accepted {
                Ok(accepted) => accepted,
                Err(error) => {
                    // Out of file descriptors, most likely: waiting lets some go.
                    if let Some(left_out) = REFUSED.line(std::time::Instant::now()) {
                        tracing::warn!(%error, left_out, "a connection could not be accepted");
                    }
                    tokio::time::sleep(Duration::from_millis(50)).await;
                    continue;
                }
            };
            let Some(place) = self.addresses.enter(&accepted) else {
                self.server.latest.now().counters.reach(Bound::AddressConnections);
                continue;
            };
            let server = Arc::clone(&self.server);
            let stop = self.stop.clone();
            #[cfg(feature = "tls")]
            let tls = self.tls.clone();
            self.tasks.spawn(async move {
                let counters = Arc::clone(&server.latest.now().counters);
                let _counted = counters.connection();
                match accepted {
                    #[cfg(feature = "tls")]
                    AcceptedSocket::Tcp(stream, peer) if tls.is_some() => {
                        let tls = tls.expect("checked in the guard");
                        serve_tls(server, tls, stream, peer, stop).await;
                    }
                    AcceptedSocket::Tcp(stream, peer) => {
                        serve(server, stream, Arc::new(Peer::new(peer)), stop).await;
                    }
                    AcceptedSocket::Unix(stream) => {
                        serve(server, stream, Arc::new(Peer::new(None)), stop).await;
                    }
                }
                drop((place, permit));
            });
        }
    }

    async fn accept(&self) -> io::Result<(AcceptedSocket, tokio::sync::OwnedSemaphorePermit)> {
        let permit = Arc::clone(&self.connections).acquire_owned().await;
        let permit = permit.map_err(io::Error::other)?;
        Ok((self.listener.accept().await?, permit))
    }
}

/// Connections that could not be accepted.
static REFUSED: LogLimit = LogLimit::ten_a_second();

#[cfg(feature = "tls")]
async fn serve_tls(
    server: Arc<ServerState>,
    tls: tidewire_listen::Tls,
    stream: tokio::net::TcpStream,
    peer: std::net::SocketAddr,
    stop: Stop,
) {
    let timeout = server.latest.now().limits.handshake_timeout;
    let acceptor = tls.acceptor();
    let handshake = tokio::time::timeout(timeout, acceptor.accept(stream));
    let handshake = tokio::select! {
        handshake = handshake => handshake,
        () = stop.reached(Stage::Draining) => return,
    };
    let stream = match handshake {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => return tracing::debug!(%error, %peer, "TLS handshake failed"),
        Err(_) => {
            let text = "a connection is closed after limits.handshake_timeout";
            return tracing::debug!(%peer, "{text} = {timeout:?}");
        }
    };
    let certificates = stream.get_ref().1.peer_certificates().unwrap_or_default();
    let certificates = certificates.iter().map(|der| der.to_vec()).collect();
    let peer = Arc::new(Peer::new(peer).over_tls().with_certificates(certificates));
    serve(server, stream, peer, stop).await;
}
