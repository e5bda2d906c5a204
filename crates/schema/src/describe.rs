//! Schemas as people read them: `.proto` text with its REST bindings, requests to fill in, and what
//! a form has to know of them.

mod enums;
mod options;
mod proto;
mod template;
mod types;

pub use self::enums::enumerations_of;
pub use self::proto::{enumeration, message, method, method_comment, method_with_messages};
pub use self::proto::{service, service_comment};
pub use self::template::{Json, template};
pub use self::types::{EnumValueText, FieldText, TypeText, Types, types};
