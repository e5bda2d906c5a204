//! What is asked and answered, the same for every way.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

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

/// Computes for this long: by the thread's own time, since what the machine gives to others in
/// between is none of the method's.
pub fn burn(micros: u32) {
    let until = computed() + Duration::from_micros(micros.into());
    while computed() < until {
        std::hint::spin_loop();
    }
}

/// For how long this thread had a core.
fn computed() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}
