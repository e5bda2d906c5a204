//! The fuzz targets with bounded random input, so that every `cargo test` runs them a little.

#[allow(unreachable_pub, reason = "the same file is a module of the fuzz crate")]
#[path = "../../../../fuzz/src/rest.rs"]
mod targets;

use crate::random::Random;

/// What targets, bodies and messages are made of.
const WORDS: [&[u8]; 36] = [
    b"\0",
    b"e",
    b"e/1",
    b"e/1/a",
    b"f/a/x",
    b"l",
    b"s/1",
    b"raw/a",
    b"r:list",
    b"?",
    b"&",
    b"=",
    b"%2F",
    b"m.s",
    b"list",
    b"at",
    b"oa=1",
    b"{",
    b"}",
    b"[",
    b"]",
    b":",
    b",",
    b"\"s\"",
    b"\"m\":{",
    b"\"list\":[",
    b"\"at\":",
    b"\"any\":{\"@type\":",
    b"\"1970-01-01T00:00:00Z\"",
    b"null",
    b"1",
    b"-1.5e3",
    b"\n",
    b"\x0a\x01a",
    b"\x7a\x02\x10\x01",
    b"\xba\x01\x02\x08\x01",
];

#[test]
fn arbitrary_input_breaks_neither_direction() {
    let mut random = Random::seeded();
    for _ in 0..30_000 {
        let mut data = vec![u8::try_from(random.below(256)).unwrap()];
        for _ in 0..random.below(14) {
            match random.below(8) {
                0 => data.push(u8::try_from(random.below(256)).unwrap()),
                _ => data.extend_from_slice(WORDS[random.below(WORDS.len())]),
            }
        }
        targets::request(&data);
        targets::reply(&data);
    }
}
