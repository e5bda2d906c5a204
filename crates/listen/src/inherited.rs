//! Sockets that whoever started the program left open for it (`LISTEN_FDS`, sd_listen_fds(3)).
//!
//! systemd, or a supervisor that does the same, listens before the program runs and after it ended, so that
//! a restart refuses nobody: who connects in between waits in the queue of the socket. A socket takes the
//! place of the address in `server.listen` that it has; one that is at none of them is left alone.

#![expect(unsafe_code, reason = "a number becomes a file that this process owns")]

use std::net::TcpListener;
use std::os::fd::{FromRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixListener;
use std::sync::{Mutex, OnceLock, PoisonError};

use crate::address::Address;

/// A socket that listens already.
pub(crate) enum Inherited {
    Tcp(TcpListener),
    Unix(UnixListener),
}

/// The inherited socket of an address, which nobody else gets.
pub(crate) fn take(address: &Address) -> Option<Inherited> {
    static SOCKETS: OnceLock<Mutex<Vec<(Address, Inherited)>>> = OnceLock::new();
    let sockets = SOCKETS.get_or_init(|| {
        let variable = |name| std::env::var(name).ok()?.parse::<u32>().ok();
        let is_ours = variable("LISTEN_PID") == Some(std::process::id());
        let count = variable("LISTEN_FDS").filter(|_| is_ours).unwrap_or(0).min(COUNT_MAX);
        Mutex::new((FIRST..).take(count as usize).filter_map(adopt).collect())
    });
    let mut sockets = sockets.lock().unwrap_or_else(PoisonError::into_inner);
    let found = sockets.iter().position(|(of, _)| of == address)?;
    Some(sockets.swap_remove(found).1)
}

/// The number of the first one.
const FIRST: RawFd = 3;
const COUNT_MAX: u32 = 64;

fn adopt(number: RawFd) -> Option<(Address, Inherited)> {
    // SAFETY: `LISTEN_PID` says that these numbers were opened for this process; each is adopted once,
    // under the lock of `take`, and nothing else in it opens files by number.
    let file = unsafe { OwnedFd::from_raw_fd(number) };
    let tcp = TcpListener::from(file.try_clone().ok()?);
    if let Ok(address) = tcp.local_addr() {
        tcp.set_nonblocking(true).ok()?;
        return Some((Address::Tcp(address), Inherited::Tcp(tcp)));
    }
    let unix = UnixListener::from(file);
    let path = unix.local_addr().ok()?.as_pathname()?.to_owned();
    unix.set_nonblocking(true).ok()?;
    Some((Address::Unix(path), Inherited::Unix(unix)))
}
