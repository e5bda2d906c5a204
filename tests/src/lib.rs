//! The service that every protocol and every client is tried with, and programs to try it with.

pub mod behaviour;
pub mod http2;
pub mod program;
pub mod proto;
pub mod served;
