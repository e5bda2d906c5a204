//! Repository chores: `cargo xtask tidy` and `cargo xtask ci`.

fn main() {}
