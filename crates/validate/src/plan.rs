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
use super::check::{Check, RuleSite};
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
    pub(super) required: Option<Box<RuleSite>>,
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
    pub(super) counts: Vec<CountRule>,
    pub(super) unique: Option<RuleSite>,
    pub(super) items: ValuePlan,
}

/// Bounds of how many items or entries there are.
#[derive(Debug)]
pub(super) struct CountRule {
    pub(super) min: u64,
    pub(super) max: u64,
    pub(super) site: RuleSite,
}

/// What is checked in a map beside the whole.
#[derive(Debug)]
pub(super) struct MapPlan {
    pub(super) counts: Vec<CountRule>,
    pub(super) keys: ValuePlan,
    pub(super) values: ValuePlan,
}

/// What is checked in a value: that of a field, an item, a key.
#[derive(Debug)]
pub(super) struct ValuePlan {
    pub(super) kind: Kind,
    pub(super) reading: ReadAs,
    pub(super) message: Option<MessageIndex>,
    /// Whether rules are not for the zero value, this one for enums.
    pub(super) ignore_zero: Option<i32>,
    pub(super) checks: Vec<Check>,
    /// How a string or bytes with nothing but checks is passed without looking at each.
    pub(super) glance: Option<LengthChecks>,
    pub(super) programs: Vec<Rule>,
    /// The plan of the message that the value is.
    pub(super) nested: Option<u32>,
}

/// What passes all checks of length at a glance, and which checks are left.
#[derive(Debug, Clone, Copy)]
pub(super) struct LengthChecks {
    /// With so many bytes no check of length can fail: the fewest and the most.
    pub(super) bytes_min: u64,
    pub(super) bytes_max: u64,
    /// How many checks are of length; these come first.
    pub(super) lengths: usize,
}

/// How a value is read for standard rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ReadAs {
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
    pub(super) site: RuleSite,
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
    /// Finds out what can be passed at a glance.
    pub(super) fn with_glance(mut self) -> Self {
        let is_text = matches!(self.kind, Kind::String | Kind::Bytes);
        let only_checks = self.programs.is_empty() && self.nested.is_none();
        if is_text && only_checks && self.ignore_zero.is_none() {
            let lengths = self.checks.iter().map_while(|check| check.test.sure_sizes());
            let mut glance = LengthChecks { bytes_min: 0, bytes_max: u64::MAX, lengths: 0 };
            for sizes in lengths {
                glance.bytes_min = glance.bytes_min.max(*sizes.start());
                glance.bytes_max = glance.bytes_max.min(*sizes.end());
                glance.lengths += 1;
            }
            self.glance = Some(glance);
        }
        self
    }

    /// Whether it is sure, and quickly so, that a string passes.
    #[inline(always)]
    pub(super) fn passes_at_a_glance(&self, text: &[u8]) -> bool {
        let Some(LengthChecks { bytes_min, bytes_max, lengths }) = self.glance else {
            return false;
        };
        let size = text.len() as u64;
        bytes_min <= size
            && size <= bytes_max
            && self.checks[lengths..].iter().all(|check| check.test.passes_bytes(text))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.checks.is_empty() && self.programs.is_empty() && self.nested.is_none()
    }
}
