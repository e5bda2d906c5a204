//! The command end to end, against servers that live in these tests.

mod bad_input;
mod foreign;
mod harness;
mod http;
mod process;
mod results;
