//! What a request means in each protocol, and what its response is there.

pub(crate) mod live;
pub(crate) mod plain;
pub(crate) mod rest;
pub(crate) mod rpc;
