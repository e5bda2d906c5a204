//! What `tidewire init` writes.

pub(crate) mod hosting;
pub(crate) mod project;
pub(crate) mod settings;
