//! What the fuzz targets run; the same functions run in `cargo test` with bounded random input.

pub mod live;
pub mod rest;
pub mod wire;
