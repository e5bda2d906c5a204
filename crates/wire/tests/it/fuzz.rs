//! The fuzz targets with bounded random input, so that every `cargo test` runs them a little.

#[allow(unreachable_pub, reason = "the same file is a module of the fuzz crate")]
#[path = "../../../../fuzz/src/wire.rs"]
mod targets;

use crate::harness::{Random, seed};

/// A named target.
type Target = (&'static str, fn(&[u8]));

const TARGETS: [Target; 4] = [
    ("wire_head", targets::head),
    ("wire_request", targets::request),
    ("wire_reply", targets::reply),
    ("wire_both_sides", targets::both_sides),
];

/// What heads and bodies are made of.
const WORDS: [&[u8]; 28] = [
    b"\0",
    b"\n",
    b"content-type: ",
    b"application/grpc\n",
    b"application/json\n",
    b"application/connect+proto\n",
    b"application/grpc-web-text\n",
    b"grpc-encoding: gzip\n",
    b"content-encoding: zstd\n",
    b"grpc-timeout: 1S\n",
    b"connect-timeout-ms: 1\n",
    b"grpc-status: 0\n",
    b"grpc-message: %zz\n",
    b"trailer-a: 1\n",
    b"encoding=json&message=%7b",
    b"&base64=1&encoding=proto&message=AA==",
    b"\0\0\0\0\0",
    b"\0\0\0\0\x01",
    b"\x01\0\0\0\x16",
    b"\x02\0\0\0\x02{}",
    b"\x80\0\0\0\x10grpc-status: 0\r\n",
    b"\0\xff\xff\xff\xff",
    b"\x1f\x8b\x08\0\0\0\0\0\0\xff\x4b\x04\0\x43\xbe\xb7\xe8\x01\0\0\0",
    b"\x28\xb5\x2f\xfd\x04\0",
    b"AAAAAAE=YQ==",
    b"{\"error\":{\"code\":\"aborted\",\"details\":null}}",
    b"{\"metadata\":{\"a\":[\"1\"]}}",
    b"\x02\0\0\0\x1c",
];

#[test]
fn no_random_input_panics_or_depends_on_how_it_is_cut() {
    let seed = seed();
    for (name, target) in TARGETS {
        let mut random = Random(seed);
        for round in 0..1500 {
            let mut data = vec![random.below(256) as u8, random.below(256) as u8];
            for _ in 0..random.below(12) {
                match random.below(3) {
                    0 => data.push(random.below(256) as u8),
                    _ => data.extend_from_slice(WORDS[random.below(WORDS.len())]),
                }
            }
            let outcome = std::panic::catch_unwind(|| target(&data));
            assert!(outcome.is_ok(), "{name}, round {round}, seed {seed}: {data:?}");
        }
    }
}
