//! Which port a program is told to listen at: one that nobody has, out of a range from which the
//! system gives none to others.
//!
//! A port of the system's own range (`net.ipv4.ip_local_port_range`) could go to any other process
//! before the program listens, as a server of port 0 or as a client: the program would fail, and a
//! server that came first would be called in its place.

use std::io;
use std::net::{Ipv4Addr, TcpListener};
use std::ops::Range;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU16, Ordering};

/// A free port of 127.0.0.1; another one each time, until all had their turn.
///
/// # Errors
/// When there are no sockets left, or no ports.
pub(crate) fn free_port() -> io::Result<u16> {
    let ports = private_ports(system_ports_begin());
    // Where each gateway begins: two of them seldom take the same one.
    static TURN: LazyLock<AtomicU16> = LazyLock::new(|| {
        let pid = std::process::id();
        // By more than the ports that one start after another asks for.
        AtomicU16::new((pid.wrapping_mul(257) & 0xffff) as u16)
    });
    let count = u16::try_from(ports.len()).unwrap_or(u16::MAX);
    for _ in 0..count {
        let port = ports.start + TURN.fetch_add(1, Ordering::Relaxed) % count;
        match TcpListener::bind((Ipv4Addr::LOCALHOST, port)) {
            Err(error) if is_of_the_port(&error) => {}
            bound => return Ok(bound?.local_addr()?.port()),
        }
    }
    // The system's range is all that there is.
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port())
}

/// Whether another port may do.
fn is_of_the_port(error: &io::Error) -> bool {
    use io::ErrorKind::{AddrInUse, AddrNotAvailable, PermissionDenied};
    matches!(error.kind(), AddrInUse | AddrNotAvailable | PermissionDenied)
}

/// Those that programs are given, where the system's begin at this one.
fn private_ports(system_begin: u16) -> Range<u16> {
    FIRST..END.min(system_begin).max(FIRST)
}

fn system_ports_begin() -> u16 {
    let range = std::fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range");
    let begin = range.ok().and_then(|range| range.split_whitespace().next()?.parse().ok());
    begin.unwrap_or(USUAL_BEGIN)
}

/// Below them are most services that have a port by name.
const FIRST: u16 = 20_000;
/// Kubernetes gives those from 30000 on to services of a node.
const END: u16 = 30_000;
/// Where Linux begins unless it is told otherwise.
const USUAL_BEGIN: u16 = 32_768;

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn ports_are_free_differ_and_are_none_that_the_system_gives_away() {
        let ports: HashSet<_> = (0..50).map(|_| free_port().unwrap()).collect();
        assert_eq!(ports.len(), 50);
        for port in ports {
            assert!(port < system_ports_begin(), "{port}");
            TcpListener::bind((Ipv4Addr::LOCALHOST, port)).unwrap();
        }
        // Those that would be next.
        let listeners: Vec<_> = (0..20)
            .filter_map(|_| TcpListener::bind((Ipv4Addr::LOCALHOST, free_port().unwrap() + 1)).ok())
            .collect();
        assert!(!listeners.is_empty());
        let taken: HashSet<_> =
            listeners.iter().map(|listener| listener.local_addr().unwrap().port()).collect();
        assert!((0..50).all(|_| !taken.contains(&free_port().unwrap())));
    }

    #[test]
    fn where_the_system_gives_away_all_ports_there_is_no_range_of_ours() {
        assert_eq!(private_ports(20_002), 20_000..20_002);
        assert_eq!(private_ports(1024), 20_000..20_000);
    }
}
