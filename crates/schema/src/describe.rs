//! Schemas as people read them: `.proto` text with its REST bindings, and requests to fill in.

mod proto;
mod template;

pub use self::proto::{enumeration, message, method, service};
pub use self::template::{Json, template};
