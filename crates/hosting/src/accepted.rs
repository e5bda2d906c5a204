//! Whether a program has accepted a connection: a socket that listens takes connections before
//! anybody accepts them, such as that which a program inherits, or that of a server whose workers
//! are still to start.
//!
//! The system shows it in `/proc/net`: its side of a connection has no inode until it is accepted.
//! Where that cannot be read, and where a program listens elsewhere than is known, every connection
//! counts as accepted.

use std::path::Path;
use std::time::Duration;

/// A connection to a program.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Pending<'p> {
    /// Any to the socket at this path.
    Unix(&'p Path),
    /// From this port to that of the program.
    Tcp { from: u16, to: u16 },
}

impl Pending<'_> {
    /// Waits until the connection is accepted.
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub(crate) async fn until_accepted(self) {
        let mut wait = FIRST_WAIT;
        while self.is_pending() {
            tokio::time::sleep(wait).await;
            wait = (wait * 2).min(LONGEST_WAIT);
        }
    }

    fn is_pending(self) -> bool {
        match self {
            Self::Unix(path) => shows("/proc/net/unix", |row| is_unix(row, path)),
            Self::Tcp { from, to } => {
                let of = |row: &str| is_tcp(row, from, to);
                shows("/proc/net/tcp", of) || shows("/proc/net/tcp6", of)
            }
        }
    }
}

fn shows(table: &str, is_pending: impl Fn(&str) -> bool) -> bool {
    std::fs::read_to_string(table).is_ok_and(|text| text.lines().any(is_pending))
}

/// `NUM: REFCOUNT PROTOCOL FLAGS TYPE STATE INODE PATH`
fn is_unix(row: &str, path: &Path) -> bool {
    let mut fields = row.split_ascii_whitespace().skip(6);
    let inode = fields.next();
    inode == Some("0") && fields.next().is_some_and(|shown| Path::new(shown) == path)
}

/// `SL LOCAL:PORT REMOTE:PORT STATE QUEUES TIMER RETRANSMITS UID TIMEOUT INODE ...`
fn is_tcp(row: &str, from: u16, to: u16) -> bool {
    const ESTABLISHED: &str = "01";
    let mut fields = row.split_ascii_whitespace();
    let mut port = |skipped| {
        let (_, port) = fields.nth(skipped)?.rsplit_once(':')?;
        u16::from_str_radix(port, 16).ok()
    };
    if port(1) != Some(to) || port(0) != Some(from) || fields.next() != Some(ESTABLISHED) {
        return false;
    }
    fields.nth(5) == Some("0")
}

const FIRST_WAIT: Duration = Duration::from_millis(1);
const LONGEST_WAIT: Duration = Duration::from_millis(25);

#[cfg(test)]
mod tests {
    use std::net::{Ipv6Addr, TcpListener, TcpStream};
    use std::os::unix::net::{UnixListener, UnixStream};

    use super::*;

    #[test]
    fn a_connection_waits_until_somebody_accepts_it() {
        let path = std::env::temp_dir().join(format!("tidewire-accepted-{}", std::process::id()));
        let listener = UnixListener::bind(&path).unwrap();
        let stream = UnixStream::connect(&path).unwrap();
        let pending = Pending::Unix(&path);
        assert!(pending.is_pending());
        let accepted = listener.accept().unwrap();
        assert!(!pending.is_pending());
        drop((stream, accepted));
        std::fs::remove_file(&path).unwrap();

        for address in ["127.0.0.1", "::"] {
            let Ok(listener) = TcpListener::bind((address, 0)) else { continue };
            let to = listener.local_addr().unwrap().port();
            let Ok(stream) = TcpStream::connect(("127.0.0.1", to))
                .or_else(|_| TcpStream::connect((Ipv6Addr::LOCALHOST, to)))
            else {
                continue;
            };
            let pending = Pending::Tcp { from: stream.local_addr().unwrap().port(), to };
            assert!(pending.is_pending(), "{address}");
            let accepted = listener.accept().unwrap();
            assert!(!pending.is_pending(), "{address}");
            drop((stream, accepted));
        }
    }
}
