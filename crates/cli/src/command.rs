//! One file a command.

pub(crate) mod bench;
pub(crate) mod serve;
