//! The fuzz targets with bounded random input, so that every `cargo test` runs them a little.

#[allow(unreachable_pub, reason = "the same file is a module of the fuzz crate")]
#[path = "../../../../fuzz/src/live.rs"]
mod targets;

use crate::network::Random;

/// A named target.
type Target = (&'static str, fn(&[u8]));

const TARGETS: [Target; 5] = [
    ("live_metadata", targets::metadata),
    ("live_hello", targets::hello),
    ("live_acceptor", targets::acceptor),
    ("live_session_bytes", targets::session_bytes),
    ("live_session_frames", targets::session_frames),
];

#[test]
fn no_random_input_panics_or_grows_memory() {
    let seed = crate::network::seed();
    println!("seed {seed}");
    for (name, target) in TARGETS {
        let mut random = Random::new(seed);
        for round in 0..4000u64 {
            let len = random.below(300) as usize;
            let data: Vec<u8> = (0..len).map(|_| small_or_any(&mut random)).collect();
            let outcome = std::panic::catch_unwind(|| target(&data));
            assert!(outcome.is_ok(), "{name}, round {round}, seed {seed}: {data:?}");
        }
    }
}

/// Small numbers are what lengths, kinds and tags look like.
fn small_or_any(random: &mut Random) -> u8 {
    match random.below(4) {
        0 => random.below(256) as u8,
        1 => 0,
        _ => random.below(20) as u8,
    }
}
