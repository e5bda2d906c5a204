//! Where a program listens, and how it is found out that it does.
//!
//! | how it listens | it can be called |
//! |---|---|
//! | at an inherited socket | at once: the system keeps calls until it accepts them |
//! | at a port | once a connection succeeds: tried after 1 ms, then after twice as long, up to 25 ms |
//! | at a path | the same |
//! | not at all, as it speaks the live protocol | once it says so (`native.rs`) |
//!
//! A port is a free one when the program is started and may be taken by another until it listens; it
//! then fails and is started again with another one. The folder of sockets belongs to this user only.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixListener, UnixStream as UnixSocket};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::net::{TcpStream, UnixStream};

use crate::native;
use crate::program::Listen;

/// Where one instance listens.
#[derive(Debug)]
pub(crate) enum Place {
    Port(u16),
    Path(PathBuf),
    Inherited(PathBuf),
    /// The gateway's end of a socket pair, until the session has it.
    Native(Mutex<Option<UnixSocket>>),
}

/// Where a program of plain HTTP can be called.
#[derive(Debug, Clone)]
pub(crate) enum Address {
    Port(SocketAddr),
    Unix(PathBuf),
}

impl Address {
    /// As clients write it.
    pub(crate) fn url(&self) -> String {
        match self {
            Self::Port(address) => format!("http://{address}"),
            Self::Unix(path) => format!("unix:{}", path.display()),
        }
    }
}

impl Place {
    /// A place for an instance, and the socket that it inherits.
    ///
    /// # Errors
    /// When there is no more room for sockets.
    pub(crate) fn new(
        listen: Listen,
        sockets: &Path,
        id: u64,
    ) -> io::Result<(Self, Option<OwnedFd>)> {
        let path = sockets.join(format!("{id}.sock"));
        Ok(match listen {
            Listen::Port => {
                let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
                (Self::Port(listener.local_addr()?.port()), None)
            }
            Listen::Unix => (Self::Path(path), None),
            Listen::Inherited => {
                let listener = UnixListener::bind(&path)?;
                (Self::Inherited(path), Some(listener.into()))
            }
            Listen::Native => {
                let (ours, theirs) = native::sockets()?;
                (Self::Native(Mutex::new(Some(ours))), Some(theirs))
            }
        })
    }

    /// What the program is told, by variable.
    pub(crate) fn told(&self) -> Option<(&'static str, String)> {
        match self {
            Self::Port(port) => Some(("PORT", port.to_string())),
            Self::Path(path) => Some(("SOCKET", path.display().to_string())),
            Self::Inherited(_) => None,
            // Where the warden puts it (`warden/spawn.rs`).
            Self::Native(_) => Some(("TIDEWIRE_FD", "3".to_owned())),
        }
    }

    /// The socket of a session, once.
    pub(crate) fn take_socket(&self) -> Option<UnixSocket> {
        match self {
            Self::Native(socket) => socket.lock().unwrap_or_else(PoisonError::into_inner).take(),
            _ => None,
        }
    }

    /// Waits until it can be called, and says where.
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub(crate) async fn until_open(&self) -> Address {
        let mut wait = FIRST_WAIT;
        loop {
            if let Some(address) = self.address().await {
                return address;
            }
            tokio::time::sleep(wait).await;
            wait = (wait * 2).min(LONGEST_WAIT);
        }
    }

    async fn address(&self) -> Option<Address> {
        match self {
            Self::Inherited(path) => Some(Address::Unix(path.clone())),
            Self::Path(path) => {
                UnixStream::connect(path).await.ok()?;
                Some(Address::Unix(path.clone()))
            }
            Self::Native(_) => None,
            Self::Port(port) => {
                let both: [SocketAddr; 2] =
                    [(Ipv4Addr::LOCALHOST, *port).into(), (Ipv6Addr::LOCALHOST, *port).into()];
                for address in both {
                    if TcpStream::connect(address).await.is_ok() {
                        return Some(Address::Port(address));
                    }
                }
                None
            }
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if let Self::Path(path) | Self::Inherited(path) = self {
            // The program may have removed it.
            let _ = std::fs::remove_file(path);
        }
    }
}

const FIRST_WAIT: Duration = Duration::from_millis(1);
const LONGEST_WAIT: Duration = Duration::from_millis(25);
