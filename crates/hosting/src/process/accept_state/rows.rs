//! What the tables of `/proc/net` say of a connection to a program.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// What is known of the program's side of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum AcceptState {
    /// Nothing yet.
    Absent,
    /// The program has it, or had it.
    Accepted,
    /// It waits to be accepted.
    Pending,
}

/// The flags of a Unix socket that listens.
const LISTENS: &[u8] = b"00010000";

/// Looks through tables; one that waits counts before one that is accepted.
pub(super) fn look(tables: &[&str], of_row: impl Fn(&[u8]) -> Option<AcceptState>) -> AcceptState {
    let mut can_read = false;
    let mut shown = AcceptState::Absent;
    for table in tables {
        let Ok(text) = std::fs::read(table) else { continue };
        can_read = true;
        let rows = text.split(|byte| *byte == b'\n').filter_map(&of_row);
        shown = rows.fold(shown, AcceptState::max);
    }
    if can_read { shown } else { AcceptState::Accepted }
}

/// Whether a socket at this path listens; `None` where the table does not name the path, as that of
/// a program that made its socket by another.
pub(super) fn listens(table: &[u8], path: &Path) -> Option<bool> {
    let rows = table.split(|byte| *byte == b'\n').filter_map(|row| flags(row, path));
    rows.map(|flags| flags == LISTENS).max()
}

/// The flags of a row of this path.
fn flags<'r>(row: &'r [u8], path: &Path) -> Option<&'r [u8]> {
    let (fields, shown) = fields::<7>(row)?;
    (shown.strip_prefix(b" ")? == path.as_os_str().as_bytes()).then_some(fields[3])
}

/// `NUM: REFCOUNT PROTOCOL FLAGS TYPE STATE INODE PATH`; a path may have spaces.
pub(super) fn unix(row: &[u8], path: &Path) -> Option<AcceptState> {
    let (fields, shown) = fields::<7>(row)?;
    let [_, _, _, flags, _, _, inode] = fields;
    if shown.strip_prefix(b" ")? != path.as_os_str().as_bytes() || flags == LISTENS {
        return None;
    }
    Some(if inode == b"0" { AcceptState::Pending } else { AcceptState::Accepted })
}

/// `SL LOCAL:PORT REMOTE:PORT STATE QUEUES TIMER RETRANSMITS UID TIMEOUT INODE ...`
pub(super) fn tcp(row: &[u8], from: u16, to: u16) -> Option<AcceptState> {
    const ESTABLISHED: &[u8] = b"01";
    const SYN_RECEIVED: &[u8] = b"03";
    let ([_, local, remote, state, _, _, _, _, _, inode], _) = fields::<10>(row)?;
    if port(local) != Some(to) || port(remote) != Some(from) {
        return None;
    }
    Some(match state {
        SYN_RECEIVED => AcceptState::Absent,
        ESTABLISHED if inode == b"0" => AcceptState::Pending,
        _ => AcceptState::Accepted,
    })
}

/// The first fields of a row, and the rest of it as it is.
fn fields<const N: usize>(mut row: &[u8]) -> Option<([&[u8]; N], &[u8])> {
    let mut fields = [&b""[..]; N];
    for field in &mut fields {
        row = row.trim_ascii_start();
        let end = row.iter().position(u8::is_ascii_whitespace).unwrap_or(row.len());
        if end == 0 {
            return None;
        }
        (*field, row) = row.split_at(end);
    }
    Some((fields, row))
}

fn port(address: &[u8]) -> Option<u16> {
    let (_, port) = std::str::from_utf8(address).ok()?.rsplit_once(':')?;
    u16::from_str_radix(port, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_socket_at_a_path_listens_or_does_not_yet() {
        let table = b"Num       RefCount Protocol Flags    Type St Inode Path
0: 00000002 00000000 00010000 0001 01 40212 /run/open
0: 00000003 00000000 00000000 0001 03 40213 /run/open
0: 00000002 00000000 00000000 0001 01 40214 /run/bound
";
        let at = |path: &str| listens(table, Path::new(path));
        assert_eq!(at("/run/open"), Some(true));
        assert_eq!(at("/run/bound"), Some(false));
        assert_eq!(at("/run"), None);
    }

    #[test]
    fn a_row_of_a_socket_at_a_path_says_whether_it_waits() {
        let row = |rest: &str| format!("0000000000000000: 00000002 00000000 {rest}").into_bytes();
        let path = Path::new("/run/my shop/socket");
        for (rest, expected) in [
            ("00000000 0001 03     0 /run/my shop/socket", Some(AcceptState::Pending)),
            ("00000000 0001 03 40213 /run/my shop/socket", Some(AcceptState::Accepted)),
            ("00010000 0001 01 40212 /run/my shop/socket", None),
            ("00000000 0001 03     0 /run/my", None),
            ("00000000 0001 03     0", None),
        ] {
            assert_eq!(unix(&row(rest), path), expected, "{rest}");
        }
    }

    #[test]
    fn a_row_of_a_port_says_whether_it_waits() {
        let row = |local, remote, state, inode| {
            let rest = "00000000:00000000 00:00000000 00000000     0        0";
            format!("   1: 0100007F:{local} 0100007F:{remote} {state} {rest} {inode} 1 0")
                .into_bytes()
        };
        for (local, remote, state, inode, expected) in [
            ("1F90", "C350", "01", 0, Some(AcceptState::Pending)),
            ("1F90", "C350", "01", 40213, Some(AcceptState::Accepted)),
            ("1F90", "C350", "03", 0, Some(AcceptState::Absent)),
            ("1F90", "C350", "05", 0, Some(AcceptState::Accepted)),
            ("C350", "1F90", "01", 40214, None),
            ("1F90", "0000", "0A", 40212, None),
        ] {
            let row = row(local, remote, state, inode);
            assert_eq!(tcp(&row, 50_000, 8_080), expected, "{local} {remote} {state} {inode}");
        }
        assert_eq!(tcp(b"", 50_000, 8_080), None);
    }

    #[test]
    fn what_cannot_be_read_counts_as_accepted_and_what_is_not_there_does_not() {
        assert_eq!(
            look(&["/no/such/table"], |_| Some(AcceptState::Pending)),
            AcceptState::Accepted
        );
        let table = std::env::temp_dir().join(format!("tidewire-rows-{}", std::process::id()));
        std::fs::write(&table, "one\nanother\n").unwrap();
        let table = table.to_str().unwrap();
        assert_eq!(look(&["/no/such/table", table], |_| None), AcceptState::Absent);
        let both = |row: &[u8]| match row {
            b"one" => Some(AcceptState::Pending),
            b"another" => Some(AcceptState::Accepted),
            _ => None,
        };
        assert_eq!(look(&[table], both), AcceptState::Pending);
        std::fs::remove_file(table).unwrap();
    }
}
