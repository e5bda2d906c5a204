//! One binary for all tests of this room's public face.

mod generated;
