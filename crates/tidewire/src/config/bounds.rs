//! Every key at the ends of what it may be and beyond: `check` and a server agree, and a server
//! that starts serves.

use std::io::{Read, Write};
use std::net::TcpStream;

use tidewire_server::{Address, LimitRange, Limits};

use super::{Config, KEYS, Key, Table, keys};

/// Values to try for any key; those of bounds come besides.
const VALUES: [&str; 9] =
    ["0", "1", "-1", "0s", "1s", "18446744073709551615", "18446744073709551615s", "", "\u{0}"];

#[tokio::test(flavor = "multi_thread")]
async fn check_and_serve_agree_on_every_value_of_every_key_and_what_is_accepted_serves() {
    let mut served = 0;
    // Files are not there, whatever they are called.
    let is_file = |key: &Key| key.path.starts_with("server.tls.");
    // One of them alone is none.
    let is_part = |key: &Key| key.path.starts_with("auth.jwt.") || key.path.starts_with("admin.");
    for key in KEYS.iter().filter(|key| !is_file(key) && !is_part(key)) {
        let ranges: Vec<_> = Limits::ranges().filter(|range| range.key == key.path).collect();
        let mut values = vec![key.example.to_owned(), key.default.to_owned()];
        values.extend(VALUES.map(str::to_owned));
        for LimitRange { least, most, .. } in ranges {
            values.extend([beyond(&most, 1), beyond(&least, -1), least, most]);
        }
        for value in values {
            served += usize::from(agree(key, &value).await);
        }
    }
    assert!(served > 60, "only {served} settings were served with");
}

#[test]
fn every_bound_has_a_range_and_a_key() {
    let ranges: Vec<_> = Limits::ranges().map(|range| range.key).collect();
    let keys: Vec<_> = KEYS.iter().map(|key| key.path).collect();
    let limits: Vec<_> = keys.iter().filter(|key| key.starts_with("limits.")).copied().collect();
    assert_eq!(ranges, limits);
}

/// The number before a unit and `more`.
fn beyond(value: &str, more: i64) -> String {
    let digits = value.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    format!("{}{}", digits.parse::<i64>().unwrap() + more, &value[digits.len()..])
}

/// Whether a server starts with this setting; it then serves.
async fn agree(key: &Key, value: &str) -> bool {
    let mut table = Table::new();
    keys::set(&mut table, key, keys::value(key, value));
    let text = toml::to_string(&table).unwrap();
    let (_, faults) = Config::check(&text, "t.toml");
    let anywhere = ("server.listen", "127.0.0.1:0".to_owned());
    let loaded = Config::load(None, [], &[anywhere, (key.path, value.to_owned())]);
    let builder = loaded.and_then(|config| config.server());
    assert_eq!(faults.is_empty(), builder.is_ok(), "{text}{faults:?} {:?}", builder.err());
    let Ok(builder) = builder else { return false };
    if key.path == "server.listen" {
        return true;
    }
    let running = builder.start().await;
    let running = running.unwrap_or_else(|error| panic!("{text}{error}"));
    let [Address::Tcp(address)] = running.addresses() else { panic!("no TCP address") };
    let address = *address;
    let frame = tokio::task::spawn_blocking(move || first_reply(address)).await.unwrap();
    assert_eq!(frame, HEADERS, "{text}");
    true
}

/// The type of the first frame of a reply to a request over HTTP/2.
fn first_reply(address: std::net::SocketAddr) -> u8 {
    let mut stream = TcpStream::connect(address).unwrap();
    // The preface, empty settings, and `GET /` with the authority `a`.
    stream.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").unwrap();
    stream.write_all(&[0, 0, 0, 4, 0, 0, 0, 0, 0]).unwrap();
    stream.write_all(&[0, 0, 6, HEADERS, 5, 0, 0, 0, 1]).unwrap();
    stream.write_all(&[0x82, 0x86, 0x84, 0x41, 1, b'a']).unwrap();
    loop {
        let mut head = [0; 9];
        if stream.read_exact(&mut head).is_err() {
            return 0xff;
        }
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
        stream.read_exact(&mut vec![0; usize::try_from(length).unwrap()]).unwrap();
        if head[8] == 1 {
            return head[3];
        }
    }
}

/// The type of a frame of headers (RFC 9113, section 6.2).
const HEADERS: u8 = 1;
