//! A request whatever its protocol: its body, who observes it, its deadline, and how its call runs.

pub(crate) mod admission;
pub(crate) mod body;
pub(crate) mod catch_panic;
pub(crate) mod command;
pub(crate) mod deadline;
pub(crate) mod failure;
pub(crate) mod failure_log;
pub(crate) mod host;
pub(crate) mod inbound;
pub(crate) mod message_listeners;
pub(crate) mod observe;
pub(crate) mod repeat;
pub(crate) mod run_call;
pub(crate) mod single_message;
pub(crate) mod trace;
