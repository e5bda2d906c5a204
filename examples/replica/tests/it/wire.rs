//! A connection through this process that can be cut.

use std::net::SocketAddr;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// Passes connections on to a server.
pub(crate) struct Wire {
    pub(crate) address: SocketAddr,
    /// How often it was cut.
    cuts: watch::Sender<usize>,
}

impl Wire {
    pub(crate) async fn to(server: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let cuts = watch::Sender::new(0);
        let known = cuts.subscribe();
        tokio::spawn(async move {
            while let Ok((mut near, _)) = listener.accept().await {
                let mut known = known.clone();
                known.mark_unchanged();
                tokio::spawn(async move {
                    let mut far = TcpStream::connect(server).await.unwrap();
                    tokio::select! {
                        _ = tokio::io::copy_bidirectional(&mut near, &mut far) => {}
                        _ = known.changed() => {}
                    }
                });
            }
        });
        Self { address, cuts }
    }

    /// Cuts what there is.
    pub(crate) fn cut(&self) {
        self.cuts.send_modify(|cuts| *cuts += 1);
    }
}
