//! One file a command.

pub(crate) mod bench;
pub(crate) mod call;
pub(crate) mod calls;
pub(crate) mod check;
pub(crate) mod complete;
pub(crate) mod console;
pub(crate) mod describe;
pub(crate) mod import;
pub(crate) mod init;
pub(crate) mod inspect;
pub(crate) mod invalidate;
pub(crate) mod list;
pub(crate) mod mcp;
pub(crate) mod mock;
pub(crate) mod mocks;
pub(crate) mod oplog;
pub(crate) mod processes;
pub(crate) mod proto;
pub(crate) mod serve;
pub(crate) mod top;
