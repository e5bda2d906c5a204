//! What every part of a running server looks at: how it stops, what it counts, the time.

pub(crate) mod clock;
pub(crate) mod latest;
pub(crate) mod stop;
pub(crate) mod usage;
