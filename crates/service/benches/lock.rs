//! What an uncontended lock costs: `parking_lot::Mutex`, as every crate uses it, and the standard
//! library's with its poison taken out of the way.
//!
//! ```text
//! cargo bench -p tidewire-service --bench lock                    each case: ns, and bytes
//! valgrind --tool=callgrind <bench> parking_lot 2000000     instructions: subtract a run of half
//! ```
//!
//! The decision that follows from it is in `bench-runs/locks.md`.

#![allow(clippy::print_stdout, reason = "a bench reports on standard output")]

use std::hint::black_box;
use std::sync::PoisonError;
use std::time::Instant;

/// One lock, one change of what is in it, one unlock; the counter that came of it.
type Case = fn(u64) -> u64;

const CASES: [(&str, Case); 2] = [("parking_lot", parking_lot), ("std", standard)];

fn main() {
    let arguments: Vec<String> =
        std::env::args().skip(1).filter(|word| !word.starts_with("--")).collect();
    let count = arguments.get(1).and_then(|text| text.parse().ok()).unwrap_or(20_000_000);
    for (name, case) in CASES {
        if arguments.first().is_some_and(|wanted| wanted != name) {
            continue;
        }
        let begun = Instant::now();
        assert_eq!(case(count), count);
        let nanos = begun.elapsed().as_nanos() as f64 / count as f64;
        println!("{name:<12} {nanos:>6.2} ns");
    }
    if arguments.is_empty() {
        let sizes = [size_of::<parking_lot::Mutex<u64>>(), size_of::<std::sync::Mutex<u64>>()];
        println!("a mutex of 8 bytes: parking_lot {} bytes, std {} bytes", sizes[0], sizes[1]);
    }
}

fn parking_lot(count: u64) -> u64 {
    let mutex = parking_lot::Mutex::new(0);
    for _ in 0..count {
        *black_box(&mutex).lock() += 1;
    }
    mutex.into_inner()
}

fn standard(count: u64) -> u64 {
    let mutex = std::sync::Mutex::new(0);
    for _ in 0..count {
        *black_box(&mutex).lock().unwrap_or_else(PoisonError::into_inner) += 1;
    }
    mutex.into_inner().unwrap_or_else(PoisonError::into_inner)
}
