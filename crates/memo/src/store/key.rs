//! What can be a key.

use std::fmt::Debug;
use std::hash::Hash;

use crate::memory::wake::quietly;

/// A key of a memo or a source; implemented for every type that qualifies.
///
/// `Eq` and `Hash` must agree, as for a `HashMap`. Keys whose hashes collide are found by comparing, so
/// they stay correct and become slow. `Debug` names the key in errors and events.
pub trait Key: Hash + Eq + Clone + Debug + Send + Sync + 'static {}

impl<T: Hash + Eq + Clone + Debug + Send + Sync + 'static> Key for T {}

/// A key as text, for errors, events and reports. One that panics there is user code like any other, and
/// whoever reports goes on.
pub(crate) fn text(key: &impl Debug) -> String {
    let mut text = None;
    quietly(|| text = Some(format!("{key:?}")));
    text.unwrap_or_else(|| "a key whose Debug panics".to_owned())
}
