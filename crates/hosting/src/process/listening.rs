//! Where a process listens for TCP, as `/proc` tells: for a program that was expected at another
//! port.

use std::collections::HashSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// The addresses where a process listens, in order; none where `/proc` does not tell.
pub(crate) fn addresses_of(pid: i32) -> Vec<SocketAddr> {
    let sockets = sockets_of(pid);
    let mut found = Vec::new();
    for table in ["tcp", "tcp6"] {
        let table = format!("/proc/{pid}/net/{table}");
        let Ok(text) = std::fs::read_to_string(table) else { continue };
        found.extend(text.lines().filter_map(|row| listener(row, &sockets)));
    }
    found.sort();
    found
}

/// The inodes of its sockets.
fn sockets_of(pid: i32) -> HashSet<String> {
    let Ok(open) = std::fs::read_dir(format!("/proc/{pid}/fd")) else { return HashSet::new() };
    let links = open.filter_map(|entry| std::fs::read_link(entry.ok()?.path()).ok());
    let inode = |link: &str| Some(link.strip_prefix("socket:[")?.strip_suffix(']')?.to_owned());
    links.filter_map(|link| inode(link.to_str()?)).collect()
}

/// `SL LOCAL:PORT REMOTE:PORT STATE QUEUES TIMER RETRANSMITS UID TIMEOUT INODE ...`
fn listener(row: &str, sockets: &HashSet<String>) -> Option<SocketAddr> {
    const LISTENS: &str = "0A";
    let fields: Vec<_> = row.split_ascii_whitespace().take(10).collect();
    let [_, local, _, LISTENS, _, _, _, _, _, inode] = fields[..] else { return None };
    let (address, port) = local.split_once(':')?;
    let port = u16::from_str_radix(port, 16).ok()?;
    sockets.contains(inode).then(|| Some(SocketAddr::new(ip(address)?, port)))?
}

/// Words of the machine's byte order.
fn ip(hex: &str) -> Option<IpAddr> {
    let word = |at: usize| u32::from_str_radix(hex.get(at..at + 8)?, 16).ok();
    if hex.len() == 8 {
        return Some(Ipv4Addr::from(word(0)?.to_ne_bytes()).into());
    }
    let mut bytes = [0; 16];
    for (at, part) in bytes.chunks_exact_mut(4).enumerate() {
        part.copy_from_slice(&word(8 * at)?.to_ne_bytes());
    }
    Some(Ipv6Addr::from(bytes).into())
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn a_process_is_found_where_it_listens() {
        let listeners = ["127.0.0.1:0", "127.0.0.2:0"].map(|at| TcpListener::bind(at).unwrap());
        let pid = i32::try_from(std::process::id()).unwrap();
        let found = addresses_of(pid);
        for listener in &listeners {
            assert!(found.contains(&listener.local_addr().unwrap()), "{found:?}");
        }
        assert_eq!(addresses_of(0), []);
    }

    #[test]
    fn an_address_of_ipv6_is_read() {
        let words = [0, 0, 0, 1_u32.to_be()];
        let text: String = words.iter().map(|word| format!("{word:08X}")).collect();
        assert_eq!(ip(&text), Some(Ipv6Addr::LOCALHOST.into()));
        assert_eq!(ip("0100"), None);
    }
}
