//! Telling whoever started the program how it goes (`NOTIFY_SOCKET`, sd_notify(3)).
//!
//! Nothing is told where nobody asked; what cannot be told is logged, and the program goes on.

use std::ffi::OsStr;
#[cfg(target_os = "linux")]
use std::os::linux::net::SocketAddrExt;
#[cfg(target_os = "linux")]
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// It serves.
pub const READY: &str = "READY=1";
/// It ends.
pub const STOPPING: &str = "STOPPING=1";

/// Tells the supervisor, if there is one.
pub fn tell(state: &str) {
    let Some(socket) = std::env::var_os("NOTIFY_SOCKET") else { return };
    if let Err(error) = send(&socket, state) {
        tracing::warn!(%error, state, "NOTIFY_SOCKET could not be told");
    }
}

fn send(socket: &OsStr, state: &str) -> std::io::Result<()> {
    #[cfg(target_os = "linux")]
    let address = match socket.as_bytes() {
        [b'@', name @ ..] => SocketAddr::from_abstract_name(name)?,
        _ => SocketAddr::from_pathname(socket)?,
    };
    #[cfg(not(target_os = "linux"))]
    let address = SocketAddr::from_pathname(socket)?;
    UnixDatagram::unbound()?.send_to_addr(state.as_bytes(), &address)?;
    Ok(())
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn a_supervisor_is_told_at_a_path_or_an_abstract_name() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("notify");
        let name = format!("tidewire-notify-{}", std::process::id());
        let abstract_name = SocketAddr::from_abstract_name(&name).unwrap();
        for (socket, at) in [
            (UnixDatagram::bind(&path).unwrap(), path.into_os_string()),
            (UnixDatagram::bind_addr(&abstract_name).unwrap(), format!("@{name}").into()),
        ] {
            send(&at, READY).unwrap();
            let mut told = [0; 16];
            let length = socket.recv(&mut told).unwrap();
            assert_eq!(&told[..length], READY.as_bytes());
        }
        assert!(send(OsStr::new("/nowhere/at/all"), READY).is_err());
    }
}
