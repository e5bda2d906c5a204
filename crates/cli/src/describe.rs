//! Schemas as people read them: `.proto` text, and requests to fill in.

mod proto;
mod template;

pub(crate) use self::proto::{enumeration, message, method, service};
pub(crate) use self::template::template;
