//! What a call and a stream item cost.
fn main() {}
