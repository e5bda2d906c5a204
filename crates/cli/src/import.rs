//! What `tidewire import` reads, and what it writes of it.

pub(crate) mod manifest;
pub(crate) mod process;
