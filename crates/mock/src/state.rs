//! What calls leave behind: what sessions remember, and the log.

pub(crate) mod log;
pub(crate) mod sessions;
