//! TCP and Unix sockets that accept connections.

use std::fs::Permissions;
use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};

use crate::address::Address;
use crate::socket_activation::{self, InheritedSocket};

/// A socket that accepts connections. A Unix socket's file goes with it.
#[derive(Debug)]
pub enum Listener {
    /// Of TCP.
    Tcp(TcpListener),
    /// Of a file; a private one is for the user of this program, and for root.
    Unix(UnixListener, SocketFile),
}

/// A connection that was accepted.
#[derive(Debug)]
pub enum AcceptedSocket {
    /// And who connected.
    Tcp(TcpStream, SocketAddr),
    /// Somebody of this machine.
    Unix(UnixStream),
}

impl Listener {
    /// Opens the socket; a private one of a file is its owner's alone.
    ///
    /// # Errors
    /// What the system says; a file in the way that is not a socket.
    pub async fn bind(address: &Address, is_private: bool) -> io::Result<Self> {
        match socket_activation::take(address)? {
            Some(InheritedSocket::Tcp(listener)) => {
                return TcpListener::from_std(listener).map(Self::Tcp);
            }
            Some(InheritedSocket::Unix(listener)) => {
                // Its file is whose who left it.
                let path = PathBuf::from(
                    listener.local_addr()?.as_pathname().unwrap_or_else(|| Path::new("")),
                );
                let file = SocketFile { path, identity: None, is_private };
                return UnixListener::from_std(listener).map(|listener| Self::Unix(listener, file));
            }
            None => {}
        }
        match address {
            Address::Tcp(address) => TcpListener::bind(address).await.map(Self::Tcp),
            Address::Unix(path) => {
                remove_stale(path).await?;
                let listener = UnixListener::bind(path)?;
                if is_private {
                    std::fs::set_permissions(path, Permissions::from_mode(0o600))?;
                }
                let file = SocketFile { path: path.clone(), identity: identity(path), is_private };
                Ok(Self::Unix(listener, file))
            }
        }
    }

    /// Where it listens, with the port that the system chose.
    ///
    /// # Errors
    /// What the system says.
    pub fn address(&self) -> io::Result<Address> {
        match self {
            Self::Tcp(listener) => listener.local_addr().map(Address::Tcp),
            Self::Unix(_, file) => Ok(Address::Unix(file.path.clone())),
        }
    }

    /// The next connection. Small writes leave at once (`TCP_NODELAY`).
    ///
    /// # Errors
    /// What the system says: out of file descriptors, most likely.
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub async fn accept(&self) -> io::Result<AcceptedSocket> {
        match self {
            Self::Tcp(listener) => {
                let (stream, peer) = listener.accept().await?;
                stream.set_nodelay(true)?;
                Ok(AcceptedSocket::Tcp(stream, peer))
            }
            // A file that was inherited may be open to all, and one is until its mode is set.
            Self::Unix(listener, file) => loop {
                let (stream, _) = listener.accept().await?;
                if !file.is_private || is_ours(&stream) {
                    return Ok(AcceptedSocket::Unix(stream));
                }
                tracing::warn!("a connection of another user to a private socket is closed");
            },
        }
    }
}

/// Whether who connected is the user that runs this program, or root.
fn is_ours(stream: &UnixStream) -> bool {
    let own = rustix::process::geteuid().as_raw();
    stream.peer_cred().is_ok_and(|peer| [0, own].contains(&peer.uid()))
}

/// The file of a Unix socket, removed with the listener unless another has taken its place.
#[derive(Debug)]
pub struct SocketFile {
    path: PathBuf,
    identity: Option<FileId>,
    /// Whether only the user that runs this program, and root, may connect.
    is_private: bool,
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if self.identity.is_some() && identity(&self.path) == self.identity {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// Which file it is, whatever its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct FileId {
    device: u64,
    inode: u64,
}

fn identity(path: &Path) -> Option<FileId> {
    let meta = std::fs::symlink_metadata(path).ok()?;
    Some(FileId { device: meta.dev(), inode: meta.ino() })
}

/// Removes a socket file that nobody listens on; what is not a socket is in the way.
async fn remove_stale(path: &Path) -> io::Result<()> {
    let Ok(meta) = std::fs::symlink_metadata(path) else { return Ok(()) };
    if !meta.file_type().is_socket() {
        let what = if meta.is_dir() { "a folder" } else { "a file that is not a socket" };
        let text = format!("{what} is in the way; remove it or listen elsewhere (server.listen)");
        return Err(io::Error::new(io::ErrorKind::AlreadyExists, text));
    }
    if UnixStream::connect(path).await.is_err() {
        std::fs::remove_file(path)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_socket_of_somebody_else_stays_and_a_file_in_the_way_is_called_one() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.sock");
        let bind = || async { Listener::bind(&Address::Unix(path.clone()), false).await };

        let first = bind().await.unwrap();
        std::fs::remove_file(&path).unwrap();
        let second = bind().await.unwrap();
        drop(first);
        assert!(path.exists(), "the second listener's socket was removed with the first");
        drop(second);
        assert!(!path.exists(), "a listener's own socket goes with it");

        std::fs::write(&path, "not a socket").unwrap();
        let error = bind().await.err().unwrap();
        assert!(
            error.to_string().starts_with("a file that is not a socket is in the way"),
            "{error}"
        );
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "not a socket");
    }
}
