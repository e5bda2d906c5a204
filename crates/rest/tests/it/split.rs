//! A body may arrive in any pieces.

use tidewire_rest::{Lines, Style, Writer};

use crate::api::Api;
use crate::random::Random;

#[test]
fn any_split_of_a_body_of_lines_gives_the_same_lines() {
    const PIECES: [&str; 9] =
        ["\n", "\r\n", "{}", "{\"s\":1}", " ", "x", "é", "\n\n", "0123456789"];
    let mut random = Random::seeded();
    for _ in 0..20_000 {
        let body: String = (0..random.below(12)).map(|_| PIECES[random.below(9)]).collect();
        let body = body.as_bytes();
        let whole = lines(&[body]);
        let mut pieces = Vec::new();
        let mut rest = body;
        while !rest.is_empty() {
            let (piece, after) = rest.split_at(1 + random.below(rest.len()));
            pieces.push(piece);
            rest = after;
        }
        let bytes: Vec<_> = body.chunks(1).collect();
        assert_eq!(lines(&pieces), whole, "{random:?} {pieces:?}");
        assert_eq!(lines(&bytes), whole, "{random:?} {body:?}");
    }
}

/// The lines of a body that arrives in pieces, up to an error.
fn lines(pieces: &[&[u8]]) -> Vec<Result<(u64, Vec<u8>), String>> {
    let mut lines = Lines::new(12);
    let mut found = Vec::new();
    for piece in pieces.iter().map(Some).chain([None]) {
        match piece {
            Some(piece) => lines.push(piece),
            None => lines.end(),
        }
        loop {
            match lines.next_line() {
                Ok(Some((number, line))) => found.push(Ok((number, line.to_vec()))),
                Ok(None) => break,
                Err(error) => {
                    found.push(Err(error.message().to_owned()));
                    return found;
                }
            }
        }
    }
    found
}

#[test]
fn a_stream_of_replies_is_the_same_bytes_however_often_they_are_taken() {
    let proto = r#"
        service T { rpc A(N) returns (stream N) { option (google.api.http) = { get: "/a" }; } }
        message N { string s = 1; }"#;
    let api = Api::new(proto);
    let binding = api.binding("GET", "/a");
    for (style, expected) in [
        (Style::Array, r#"[{"s":"a"},{},{"s":"c"}]"#),
        (Style::Lines, "{\"s\":\"a\"}\n{}\n{\"s\":\"c\"}\n"),
    ] {
        for take_after in 0..8 {
            let mut writer = Writer::new(binding.clone(), style);
            let mut bytes = Vec::new();
            for (n, message) in [&b"\x0a\x01a"[..], b"", b"\x0a\x01c"].into_iter().enumerate() {
                writer.add(message).unwrap();
                if take_after & (1 << n) != 0 {
                    bytes.extend_from_slice(&writer.take().unwrap());
                }
            }
            writer.end();
            bytes.extend_from_slice(&writer.take().unwrap_or_default());
            assert_eq!(String::from_utf8(bytes).unwrap(), expected);
        }
    }
}
