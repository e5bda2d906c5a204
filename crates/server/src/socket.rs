//! A connection below HTTP: which protocol it speaks, its reads and writes, and what its peer owes.

pub(crate) mod activity;
pub(crate) mod body_rate;
pub(crate) mod detect;
pub(crate) mod gather;
pub(crate) mod head_timer;
pub(crate) mod interim;
pub(crate) mod prepared;
