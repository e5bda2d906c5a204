//! What checking a message takes, worked out when its schema is loaded.
//!
//! ```text
//! MessagePlan ─ fields ─▶ FieldPlan ─ value ─▶ ValuePlan { checks, programs, nested message }
//!                              └────── items, keys, values ─▶ ValuePlan
//! ```
//!
//! A message in which nothing can be broken, however deep, has no plan: it is not looked into.

use buffa_descriptor::MessageIndex;

use super::cel::{Bindings, Program};
use super::check::{Check, Site};
use super::kind::Kind;
use super::violation::Element;

/// What is checked in messages of one type.
#[derive(Debug)]
pub(super) struct MessagePlan {
    pub(super) index: MessageIndex,
    /// Where in `fields` the field of a number is, plus one; for numbers that are small.
    pub(super) lookup: Box<[u16]>,
    pub(super) fields: Vec<FieldPlan>,
    /// Oneofs of which a member has to be set.
    pub(super) oneofs: Vec<(Element, Vec<u16>)>,
    /// `(buf.validate.message).oneof`: fields of which at most one, or one, may be set.
    pub(super) groups: Vec<FieldGroup>,
    pub(super) programs: Vec<Rule>,
}

/// Fields of which at most one may be set.
#[derive(Debug)]
pub(super) struct FieldGroup {
    /// Where they are in `fields`.
    pub(super) members: Vec<u16>,
    pub(super) required: bool,
    pub(super) names: String,
}

/// What is checked in one field.
#[derive(Debug)]
pub(super) struct FieldPlan {
    pub(super) number: u32,
    pub(super) kind: Kind,
    pub(super) shape: Shape,
    pub(super) presence: bool,
    /// Which oneof it is in, where that has other members.
    pub(super) oneof: Option<u16>,
    /// Where the field must be set: what a violation says.
    pub(super) required: Option<Box<Site>>,
    /// Whether rules are not for a field that is not set.
    pub(super) skip_unset: bool,
    pub(super) value: ValuePlan,
    pub(super) element: Element,
}

/// One value, a list, or a map.
#[derive(Debug)]
pub(super) enum Shape {
    One,
    List(Box<ListPlan>),
    Map(Box<MapPlan>),
}

/// What is checked in a list beside the whole.
#[derive(Debug)]
pub(super) struct ListPlan {
    /// The fewest and the most items.
    pub(super) counts: Vec<(u64, u64, Site)>,
    pub(super) unique: Option<Site>,
    pub(super) items: ValuePlan,
}

/// What is checked in a map beside the whole.
#[derive(Debug)]
pub(super) struct MapPlan {
    pub(super) counts: Vec<(u64, u64, Site)>,
    pub(super) keys: ValuePlan,
    pub(super) values: ValuePlan,
}

/// What is checked in a value: that of a field, an item, a key.
#[derive(Debug)]
pub(super) struct ValuePlan {
    pub(super) kind: Kind,
    pub(super) reading: Reading,
    pub(super) message: Option<MessageIndex>,
    /// Whether rules are not for the zero value, this one for enums.
    pub(super) ignore_zero: Option<i32>,
    pub(super) checks: Vec<Check>,
    pub(super) programs: Vec<Rule>,
    /// The plan of the message that the value is.
    pub(super) nested: Option<u32>,
}

/// How a value is read for standard rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reading {
    /// As its type says.
    Plain,
    /// As field 1 of a wrapper message.
    Wrapper(Kind),
    /// As nanoseconds.
    Duration,
    /// As nanoseconds since 1970.
    Timestamp,
    /// As the type of an `Any`.
    TypeUrl,
}

/// A rule written in CEL.
#[derive(Debug)]
pub(super) struct Rule {
    pub(super) program: Program,
    pub(super) site: Site,
    /// `rules` and `rule` of a predefined rule.
    pub(super) bindings: Bindings,
}

impl MessagePlan {
    /// The field with this number, where something is checked in it.
    #[inline(always)]
    pub(super) fn position(&self, number: u32) -> Option<usize> {
        match self.lookup.get(number as usize) {
            Some(0) => None,
            Some(position) => Some(usize::from(*position) - 1),
            None => self.fields.binary_search_by_key(&number, |field| field.number).ok(),
        }
    }
}

impl ValuePlan {
    pub(super) fn is_empty(&self) -> bool {
        self.checks.is_empty() && self.programs.is_empty() && self.nested.is_none()
    }
}
