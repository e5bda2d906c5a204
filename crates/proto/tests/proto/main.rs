//! One binary for all tests of this room's public face.

mod diagnostics;
mod sources;
