//! Values as rules see them, and where they look.
//!
//! | question | file |
//! |---|---|
//! | what a rule file says, as a tree | `node.rs` |
//! | what a rule sees of a call | `eval_context.rs` |
//! | a value of either, in one form | `view.rs` |
//! | where a rule looks: `request.item.tags[1]` | `path.rs` |
//! | numbers and durations as text | `javascript.rs`, `seconds.rs` |

pub(crate) mod eval_context;
pub(crate) mod javascript;
pub(crate) mod node;
pub(crate) mod path;
pub(crate) mod seconds;
pub(crate) mod view;
