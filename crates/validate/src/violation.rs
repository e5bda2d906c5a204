//! What is wrong with a message: the field, the rule, and words for both.
//!
//! A [`Violation`] encodes as `buf.validate.Violation`, paths included, so that what reads errors
//! of other validators reads these. [`Violations`] is all of them, and the error for a caller: its
//! details are `buf.validate.Violations` and `google.rpc.BadRequest`.

use std::borrow::Cow;
use std::fmt;

use tidewire_service::{Codec, Detail, Error};

use super::kind::Kind;
use super::wire_format::{push_bytes, push_number};

/// One broken rule.
#[derive(Debug, Clone, PartialEq)]
pub struct Violation {
    pub(super) field: Vec<Element>,
    pub(super) rule: Vec<Element>,
    pub(super) rule_id: Cow<'static, str>,
    pub(super) message: String,
    pub(super) for_key: bool,
}

/// A step of a path, as `buf.validate.FieldPathElement` has it.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Element {
    /// 0 for the name of a oneof.
    pub(super) number: u32,
    pub(super) name: Cow<'static, str>,
    pub(super) json_name: Option<Box<str>>,
    pub(super) kind: Option<Kind>,
    pub(super) entry: Option<EntryKinds>,
    pub(super) subscript: Option<Subscript>,
}

/// The types of keys and values of a map.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct EntryKinds {
    pub(super) key: Kind,
    pub(super) value: Kind,
}

/// Which item of a list or entry of a map.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Subscript {
    Index(u64),
    Bool(bool),
    Int(i64),
    Uint(u64),
    Text(String),
}

impl Violation {
    /// The path of the field as the `.proto` names it, `items[2].price` or `labels["a"]`; empty
    /// when a rule of the whole message is broken.
    pub fn field(&self) -> String {
        path(&self.field, Codec::Proto)
    }

    /// The same with the names that JSON has for fields.
    pub fn json_field(&self) -> String {
        path(&self.field, Codec::Json)
    }

    /// The rule's place in `buf.validate.FieldRules`, `string.min_len`; empty for rules that have
    /// none there.
    pub fn rule(&self) -> String {
        path(&self.rule, Codec::Proto)
    }

    /// The name of the rule, `string.min_len`, or what a `cel` rule calls itself.
    pub fn rule_id(&self) -> &str {
        &self.rule_id
    }

    /// What is wrong, `must be at least 1 character`.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// Whether the key of a map is meant, and not its value.
    pub fn is_for_key(&self) -> bool {
        self.for_key
    }

    /// Field and message in one sentence, with the names that `codec` has for fields.
    fn sentence(&self, codec: Codec) -> String {
        match path(&self.field, codec) {
            field if field.is_empty() => self.message.clone(),
            field if self.for_key => format!("key of {field}: {}", self.message),
            field => format!("{field}: {}", self.message),
        }
    }

    /// The encoded `buf.validate.Violation`.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        push_bytes(&mut out, 2, self.rule_id.as_bytes());
        push_bytes(&mut out, 3, self.message.as_bytes());
        if self.for_key {
            push_number(&mut out, 4, 1);
        }
        for (number, elements) in [(5, &self.field), (6, &self.rule)] {
            if !elements.is_empty() {
                let mut encoded = Vec::new();
                elements.iter().for_each(|one| push_bytes(&mut encoded, 1, &one.encode()));
                push_bytes(&mut out, number, &encoded);
            }
        }
        out
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.sentence(Codec::Proto))
    }
}

impl Element {
    /// A step of a rule's path.
    pub(super) fn of_rule(number: u32, name: impl Into<Cow<'static, str>>, kind: Kind) -> Self {
        let name = name.into();
        Self { number, name, json_name: None, kind: Some(kind), entry: None, subscript: None }
    }

    pub(super) fn of_oneof(name: &str) -> Self {
        let name = Cow::Owned(name.to_owned());
        Self { number: 0, name, json_name: None, kind: None, entry: None, subscript: None }
    }

    pub(super) fn at(&self, subscript: Option<Subscript>) -> Self {
        let entry = self.entry.filter(|_| matches!(subscript, Some(ref at) if !at.is_index()));
        Self { subscript, entry, ..self.clone() }
    }

    fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        if self.number != 0 {
            push_number(&mut out, 1, self.number.into());
        }
        push_bytes(&mut out, 2, self.name.as_bytes());
        let key = self.entry.map(|entry| entry.key);
        let value = self.entry.map(|entry| entry.value);
        for (number, kind) in [(3, self.kind), (4, key), (5, value)] {
            if let Some(kind) = kind {
                push_number(&mut out, number, kind as u64);
            }
        }
        match &self.subscript {
            Some(Subscript::Index(index)) => push_number(&mut out, 6, *index),
            Some(Subscript::Bool(key)) => push_number(&mut out, 7, (*key).into()),
            Some(Subscript::Int(key)) => push_number(&mut out, 8, key.cast_unsigned()),
            Some(Subscript::Uint(key)) => push_number(&mut out, 9, *key),
            Some(Subscript::Text(key)) => push_bytes(&mut out, 10, key.as_bytes()),
            None => {}
        }
        out
    }
}

impl Subscript {
    fn is_index(&self) -> bool {
        matches!(self, Self::Index(_))
    }
}

fn path(elements: &[Element], codec: Codec) -> String {
    let mut out = String::new();
    for element in elements {
        if !out.is_empty() {
            out.push('.');
        }
        match &element.json_name {
            Some(name) if codec == Codec::Json => out.push_str(name),
            _ => out.push_str(&element.name),
        }
        match &element.subscript {
            Some(Subscript::Index(index)) => out.push_str(&format!("[{index}]")),
            Some(Subscript::Bool(key)) => out.push_str(&format!("[{key}]")),
            Some(Subscript::Int(key)) => out.push_str(&format!("[{key}]")),
            Some(Subscript::Uint(key)) => out.push_str(&format!("[{key}]")),
            Some(Subscript::Text(key)) => out.push_str(&format!("[{key:?}]")),
            None => {}
        }
    }
    out
}

/// All broken rules of a message that were collected; never empty.
///
/// ```
/// # mod tidewire {
/// #     pub mod validate { pub use tidewire_validate::*; }
/// #     pub use tidewire_schema::Schema;
/// # }
/// # let folder = std::env::temp_dir().join("tidewire-violations-doctest");
/// # std::fs::create_dir_all(&folder)?;
/// # std::fs::write(folder.join("shop.proto"), r#"syntax = "proto3"; package shop.v1;
/// # import "buf/validate/validate.proto";
/// # message Item { string name = 1 [(buf.validate.field).string.min_len = 1]; }"#)?;
/// # let schema = Schema::from_folder(&folder)?;
/// use tidewire::Schema;
/// use tidewire::validate::RuleSet;
///
/// let rules = RuleSet::new(&schema)?;
/// let item = rules.rules("shop.v1.Item").expect("it has rules");
/// let violations = item.violations(b"")?.expect("an item without a name");
/// let first = violations.iter().next().expect("there is one at least");
/// assert_eq!((first.field().as_str(), first.rule_id()), ("name", "string.min_len"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Violations(pub(super) Vec<Violation>);

impl Violations {
    /// The violations, in the order of the message's fields.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &Violation> {
        self.0.iter()
    }

    /// The encoded `buf.validate.Violations`.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        self.0.iter().for_each(|one| push_bytes(&mut out, 1, &one.encode()));
        out
    }

    /// The error for a caller, [`Code::InvalidArgument`](tidewire_service::Code::InvalidArgument):
    /// its message names the first field and what is wrong with it, with the names that `codec` has
    /// for fields; its details have all of them.
    pub fn into_error(self, codec: Codec) -> Error {
        let mut message = self.0.first().map_or_else(String::new, |one| one.sentence(codec));
        if self.0.len() > 1 {
            message.push_str(&format!(" (and {} more)", self.0.len() - 1));
        }
        Error::invalid_argument(message)
            .with_detail(Detail {
                type_name: "buf.validate.Violations".to_owned(),
                value: self.encode().into(),
            })
            .with_detail(Detail {
                type_name: "google.rpc.BadRequest".to_owned(),
                value: self.bad_request(codec).into(),
            })
    }

    /// The encoded `google.rpc.BadRequest`.
    fn bad_request(&self, codec: Codec) -> Vec<u8> {
        let mut out = Vec::new();
        for violation in &self.0 {
            let mut field = Vec::new();
            push_bytes(&mut field, 1, path(&violation.field, codec).as_bytes());
            push_bytes(&mut field, 2, violation.message.as_bytes());
            let reason = violation.rule_id.to_ascii_uppercase();
            let reason = reason.replace(|c: char| !c.is_ascii_alphanumeric(), "_");
            push_bytes(&mut field, 3, reason.as_bytes());
            push_bytes(&mut out, 1, &field);
        }
        out
    }
}
