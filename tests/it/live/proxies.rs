//! Proxies that buffer: what they hold back is late, not lost, and a connection that they swallow
//! ends in time.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tidewire::client::ClientLimits;
use tidewire::{Client, Code, Outcome, Service};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

use super::look;
use crate::harness::{behaviour, start};

/// A proxy that passes on what a server answers when it is told to, and not before.
struct Buffering {
    address: SocketAddr,
    /// How many bytes are held back.
    held: watch::Receiver<usize>,
    /// How many may pass in all.
    allowed: Arc<watch::Sender<usize>>,
}

impl Buffering {
    async fn before(server: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (counts, held) = watch::channel(0);
        let allowed = Arc::new(watch::Sender::new(0));
        let may_pass = allowed.subscribe();
        tokio::spawn(async move {
            let (near, _) = listener.accept().await.unwrap();
            let far = TcpStream::connect(server).await.unwrap();
            let ((mut near_in, mut near_out), (mut far_in, mut far_out)) =
                (near.into_split(), far.into_split());
            tokio::spawn(async move { tokio::io::copy(&mut near_in, &mut far_out).await });
            let (mut buffer, mut passed, mut may_pass) = (Vec::new(), 0, may_pass);
            loop {
                tokio::select! {
                    read = far_in.read_buf(&mut buffer) => if read.unwrap() == 0 { return },
                    changed = may_pass.changed() => if changed.is_err() { return },
                }
                let pass = buffer.len().min(*may_pass.borrow() - passed);
                if near_out.write_all(&buffer[..pass]).await.is_err() {
                    return;
                }
                buffer.drain(..pass);
                passed += pass;
                counts.send_replace(passed + buffer.len());
            }
        });
        Self { address, held, allowed }
    }

    /// Waits until something is held back, and lets that pass; whether there was anything.
    async fn pass(&mut self) -> bool {
        let allowed = *self.allowed.borrow();
        let Ok(held) = self.held.wait_for(|held| *held > allowed).await.map(|held| *held) else {
            return false;
        };
        self.allowed.send_replace(held);
        true
    }
}

#[tokio::test]
async fn what_a_proxy_holds_back_is_late_and_not_lost() {
    for scheme in ["ws", "tcp"] {
        let (builder, _) = behaviour();
        let (_running, address) = start(builder).await;
        let mut proxy = Buffering::before(address).await;
        let client = Client::builder(format!("{scheme}://{}", proxy.address)).build().unwrap();
        let calls = async {
            for key in ["a", "b", "c"] {
                let reply = client.call(look(key)).await.unwrap();
                let value = reply.body.collect(99).await.unwrap();
                assert_eq!(value, format!(r#"{{"value":"value of {key}"}}"#));
            }
        };
        let passes = async { while proxy.pass().await {} };
        tokio::select! {
            () = calls => {}
            () = passes => panic!("the proxy ended before the calls did"),
        }
    }
}

#[tokio::test]
async fn a_proxy_that_swallows_the_upgrade_is_given_up_in_time_with_what_to_do() {
    let (builder, _) = behaviour();
    let (_running, address) = start(builder).await;
    let proxy = Buffering::before(address).await;
    let mut limits = ClientLimits::default();
    limits.connect_timeout = Duration::from_millis(50);
    let client = Client::builder(format!("ws://{}", proxy.address)).limits(limits).build().unwrap();
    let error = client.call(look("a")).await.unwrap_err();
    assert_eq!((error.code(), error.outcome()), (Code::Unavailable, Outcome::NotRun));
    assert!(error.message().contains("limits.connect_timeout"), "{error}");
}
