//! What is asked and answered, the same for every way.

use std::time::{Duration, Instant};

/// Users that are asked for.
pub const USERS: i64 = 1000;
pub const NAME: &str = "Adalbert Lovelace";
pub const EMAIL: &str = "adalbert.lovelace@example.com";
/// Seconds since 1970.
pub const CREATED_AT: i64 = 1_780_000_000;
/// The number in the greeting, by which its answer is known.
pub const GREETED: i32 = 42;
/// By name and colour.
pub const PETS: [(&str, &str); 2] = [("Garfield", "orange"), ("Snoopy", "white")];

/// Keeps the core for this long.
pub fn burn(micros: u32) {
    let until = Instant::now() + Duration::from_micros(micros.into());
    while Instant::now() < until {
        std::hint::spin_loop();
    }
}
