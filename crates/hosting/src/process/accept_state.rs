//! Whether a program has accepted a connection: a socket that listens takes connections before
//! anybody accepts them, such as that which a program inherits, or that of a server whose workers
//! are still to start.
//!
//! The system shows it in `/proc/net` (`accept_state/rows.rs`):
//!
//! | the program's side of the connection | what is done |
//! |---|---|
//! | has no inode yet | it is looked again until it has one |
//! | is not shown, or is still being made | it is looked again, [`ABSENT_MAX`] times |
//! | has an inode, or is over | the connection is accepted |
//!
//! Where that cannot be read, and where a program listens elsewhere than is known, every connection
//! counts as accepted.

mod rows;

use std::path::Path;
use std::time::Duration;

use self::rows::AcceptState;

/// A connection to a program.
#[derive(Debug, Clone, Copy)]
pub(crate) enum PendingConnection<'p> {
    /// Any to the socket at this path.
    Unix(&'p Path),
    /// From this port to that of the program.
    Tcp { from: u16, to: u16 },
}

/// Whether a socket at this path listens, as far as the system tells. A connection to it would find
/// it out as well, and be a request for a program that takes one per connection.
pub(crate) async fn listens_at(path: &Path) -> Option<bool> {
    let path = path.to_owned();
    let look = move || rows::listens(&std::fs::read("/proc/net/unix").ok()?, &path);
    tokio::task::spawn_blocking(look).await.ok()?
}

impl PendingConnection<'_> {
    /// Waits until the connection is accepted.
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub(crate) async fn until_accepted(self) {
        let mut wait = FIRST_WAIT;
        let mut absent = 0;
        loop {
            match self.look_aside().await {
                AcceptState::Accepted => return,
                AcceptState::Pending => {}
                AcceptState::Absent if absent == ABSENT_MAX => return,
                AcceptState::Absent => absent += 1,
            }
            tokio::time::sleep(wait).await;
            wait = (wait * 2).min(LONGEST_WAIT);
        }
    }

    /// Looks where nobody waits for it: the tables are of all connections of the system.
    async fn look_aside(self) -> AcceptState {
        let looked = match self {
            Self::Unix(path) => {
                let path = path.to_owned();
                tokio::task::spawn_blocking(move || PendingConnection::Unix(&path).look()).await
            }
            Self::Tcp { from, to } => {
                tokio::task::spawn_blocking(move || PendingConnection::Tcp { from, to }.look())
                    .await
            }
        };
        looked.unwrap_or(AcceptState::Accepted)
    }

    fn look(self) -> AcceptState {
        match self {
            Self::Unix(path) => rows::look(&["/proc/net/unix"], |row| rows::unix(row, path)),
            Self::Tcp { from, to } => {
                let tables = ["/proc/net/tcp", "/proc/net/tcp6"];
                rows::look(&tables, |row| rows::tcp(row, from, to))
            }
        }
    }

    #[cfg(test)]
    fn is_pending(self) -> bool {
        self.look() == AcceptState::Pending
    }
}

const FIRST_WAIT: Duration = Duration::from_millis(1);
const LONGEST_WAIT: Duration = Duration::from_millis(25);
/// How often a connection that is not shown is looked for again.
const ABSENT_MAX: u32 = 8;

#[cfg(test)]
mod tests {
    use std::net::{Ipv6Addr, TcpListener, TcpStream};
    use std::os::unix::net::{UnixListener, UnixStream};
    use std::time::{Instant, SystemTime, UNIX_EPOCH};

    use super::*;

    /// The last step of a handshake may come a moment after `connect` returned.
    fn becomes(is_pending: bool, pending: PendingConnection<'_>) {
        let began = Instant::now();
        while pending.is_pending() != is_pending {
            let text = format!("{pending:?} never becomes {is_pending}");
            assert!(began.elapsed() < Duration::from_secs(60), "{text}");
            std::thread::yield_now();
        }
    }

    #[test]
    fn a_connection_waits_until_somebody_accepts_it() {
        let time = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos();
        let name = format!("tidewire-accepted-{}-{time}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let listener = UnixListener::bind(&path).unwrap();
        let stream = UnixStream::connect(&path).unwrap();
        let pending = PendingConnection::Unix(&path);
        becomes(true, pending);
        let accepted = listener.accept().unwrap();
        becomes(false, pending);
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
            let pending = PendingConnection::Tcp { from: stream.local_addr().unwrap().port(), to };
            becomes(true, pending);
            let accepted = listener.accept().unwrap();
            becomes(false, pending);
            drop((stream, accepted));
        }
    }
}
