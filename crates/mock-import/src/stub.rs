//! A stub as a rule will say it.

use tidewire_mock::document::{Node, Position};
use tidewire_service::Method;

use crate::nodes::Members;

/// One response of a rule file, before it is put among the others of its method.
#[derive(Debug, Clone)]
pub(crate) struct Stub {
    /// The stub file, set once it was read.
    pub(crate) file: String,
    pub(crate) place: Position,
    pub(crate) method: Method,
    pub(crate) name: Option<String>,
    /// The higher goes first.
    pub(crate) priority: i128,
    /// Of equal priority, the higher goes first.
    pub(crate) weight: usize,
    /// Paths and their tests; none fits every call.
    pub(crate) conditions: Members,
    /// `body`, `error`, `delay`: what the response says.
    pub(crate) answer: Members,
}

impl Stub {
    pub(crate) fn new(place: Position, method: &Method) -> Self {
        Self {
            file: String::new(),
            place,
            method: method.clone(),
            name: None,
            priority: 0,
            weight: 0,
            conditions: Vec::new(),
            answer: Vec::new(),
        }
    }

    /// Adds what the response says.
    pub(crate) fn set(&mut self, key: &str, value: Node) {
        self.answer.push((key.to_owned(), value));
    }
}
