//! Sockets that whoever started the program left open for it (`LISTEN_FDS`, sd_listen_fds(3)).
//!
//! systemd, or a supervisor that does the same, listens before the program runs and after it ended,
//! so that a restart refuses nobody: who connects in between waits in the queue of the socket. A
//! socket takes the place of the address in `server.listen` that it has; one that is at none of
//! them is left alone.

#![expect(unsafe_code, reason = "a number becomes a file that this process owns")]

use parking_lot::Mutex;
use std::io;
use std::net::TcpListener;
use std::os::fd::{BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixListener;
use std::sync::OnceLock;

use crate::address::Address;

/// A socket that listens already.
pub(crate) enum InheritedSocket {
    Tcp(TcpListener),
    Unix(UnixListener),
}

/// Those that nobody took yet.
type Sockets = Vec<(Address, InheritedSocket)>;

/// The inherited socket of an address, which nobody else gets.
///
/// # Errors
/// Descriptors that are said to be there and are not: whoever started the program did so wrongly.
pub(crate) fn take(address: &Address) -> io::Result<Option<InheritedSocket>> {
    static SOCKETS: OnceLock<Result<Mutex<Sockets>, String>> = OnceLock::new();
    let sockets = SOCKETS.get_or_init(|| {
        let pid = std::env::var("LISTEN_PID").ok().and_then(|pid| pid.parse().ok());
        match std::env::var("LISTEN_FDS") {
            Ok(count) if pid == Some(std::process::id()) => all(&count).map(Mutex::new),
            _ => Ok(Mutex::default()),
        }
    });
    let sockets = sockets.as_ref().map_err(|why| io::Error::other(why.as_str()))?;
    let mut sockets = sockets.lock();
    let found = sockets.iter().position(|(of, _)| of == address);
    Ok(found.map(|found| sockets.swap_remove(found).1))
}

/// The number of the first one.
const FIRST: RawFd = 3;
const COUNT_MAX: u32 = 64;

fn all(count: &str) -> Result<Sockets, String> {
    let number = count.parse::<u32>().ok().filter(|number| *number <= COUNT_MAX);
    let number = number.ok_or_else(|| {
        format!("LISTEN_FDS = {count:?} is not a number of sockets, 0 to {COUNT_MAX}")
    })?;
    let mut sockets = Vec::new();
    for descriptor in (FIRST..).take(number as usize) {
        let adopted = adopt(descriptor).map_err(|error| {
            format!(
                "LISTEN_FDS = {count}, but descriptor {descriptor} is not an open socket: {error}"
            )
        })?;
        sockets.extend(adopted);
    }
    Ok(sockets)
}

/// The socket of a number that listens at an address; `None` of one that does so at none. A number
/// that is not a socket is left as it is: it may be a file of this program.
fn adopt(number: RawFd) -> io::Result<Option<(Address, InheritedSocket)>> {
    // SAFETY: it is borrowed for as long as it takes to ask for a second number of the same file,
    // which the system refuses where there is none; nothing in this process closes one meanwhile.
    let file = unsafe { BorrowedFd::borrow_raw(number) }.try_clone_to_owned()?;
    let tcp = TcpListener::from(file.try_clone()?);
    let found = match tcp.local_addr() {
        Ok(address) => {
            tcp.set_nonblocking(true)?;
            (Address::Tcp(address), InheritedSocket::Tcp(tcp))
        }
        Err(_) => {
            let unix = UnixListener::from(file);
            let address = unix.local_addr()?;
            let Some(path) = address.as_pathname() else { return Ok(None) };
            unix.set_nonblocking(true)?;
            (Address::Unix(path.to_owned()), InheritedSocket::Unix(unix))
        }
    };
    // SAFETY: `LISTEN_PID` says that these numbers were opened for this process; each is adopted
    // once, under the lock of `take`, and nothing else in it opens files by number.
    drop(unsafe { OwnedFd::from_raw_fd(number) });
    Ok(Some(found))
}
