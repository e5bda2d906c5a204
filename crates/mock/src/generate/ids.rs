//! Ids of a request, for an answer that is made up: who asks for user 7 gets user 7.
//!
//! | field of the answer | is |
//! |---|---|
//! | `order_id` | `order_id` of the request, or `id` of an `Order` in it |
//! | `id` of an `Order` | the same; else `id` of the request, in the answer itself or the first message in it |
//! | either, of an `Order` in a list | its own: a list does not hold one thing again and again |
//!
//! What is said of `id` holds for `key`, `uuid`, `guid`, `sku` and `slug`.

use tidewire_schema::{Message, MessageRef, Value};

use super::words;
use crate::value::eval_context::Request;

/// The ids of a request.
#[derive(Debug, Default)]
pub(crate) struct Ids(Vec<Id>);

/// One of them.
#[derive(Debug)]
pub(super) struct Id {
    /// The name of the type that it is in, in words, `line_item`; none in the request itself.
    owner: Option<String>,
    name: String,
    value: IdValue,
}

#[derive(Debug)]
enum IdValue {
    Text(String),
    Number(i64),
}

/// Where a field of the answer is.
pub(super) struct Place<'a> {
    /// The full name of its message.
    pub(super) owner: &'a str,
    pub(super) depth: usize,
    /// Whether the message is in a list or a map.
    pub(super) is_listed: bool,
    /// Whether no message has the id of the request yet.
    pub(super) is_first: bool,
}

/// An id for a field, and whether the request does not say of what it is.
pub(super) struct Match<'a> {
    pub(super) id: &'a Id,
    pub(super) is_plain: bool,
}

impl Ids {
    /// Those of a request; of a stream those of its last message.
    pub(crate) fn of_request(request: Request<'_>) -> Self {
        let message = match request {
            Request::One(message) => Some(message),
            Request::Many(messages) => messages.last(),
        };
        let mut ids = Self::default();
        if let Some(message) = message {
            ids.add(message.as_ref(), None, 0);
        }
        ids
    }

    fn add(&mut self, message: MessageRef<'_>, owner: Option<&str>, depth: usize) {
        for (field, value) in message.fields() {
            if let Value::Message(inner) = value {
                let name = inner.message_type().full_name();
                if depth < DEPTH_MAX && !name.starts_with("google.protobuf.") {
                    self.add(inner, Some(&words::type_name(name)), depth + 1);
                }
            } else if words::is_id(field.name())
                && let Some(value) = IdValue::of(value)
            {
                let owner = owner.map(str::to_owned);
                let name = field.name().to_owned();
                self.0.push(Id { owner, name, value });
            }
        }
    }

    /// The id of the request that a field is.
    pub(super) fn of(&self, name: &str, place: &Place<'_>) -> Option<Match<'_>> {
        if self.0.is_empty() || !words::is_id(name) {
            return None;
        }
        let of = words::type_name(place.owner);
        // `order_id` in an `Order` is its `id`.
        let own = name.strip_prefix(&*of).and_then(|rest| rest.strip_prefix('_'));
        let is_bare = !name.contains('_');
        let (of, kind) = match (own, name.rsplit_once('_')) {
            (None, Some((of, kind))) => (of.to_owned(), kind),
            (own, _) => (of, own.unwrap_or(name)),
        };
        if place.is_listed && (own.is_some() || is_bare) {
            return None;
        }
        let whole = format!("{of}_{kind}");
        let is_meant =
            |id: &&Id| id.name == whole || id.owner.as_deref() == Some(&of) && id.name == kind;
        if let Some(id) = self.0.iter().find(is_meant) {
            return Some(Match { id, is_plain: false });
        }
        let is_plain = |id: &&Id| id.owner.is_none() && id.name == name;
        let may_be = is_bare && place.depth <= 1 && place.is_first;
        let id = self.0.iter().find(is_plain).filter(|_| may_be)?;
        Some(Match { id, is_plain: true })
    }
}

impl Id {
    /// Sets a field to it, if it fits.
    pub(super) fn set(&self, message: &mut Message, field: &str) {
        // One that does not fit is left as it was made.
        let _ = match &self.value {
            IdValue::Text(text) => message.set(field, text.as_str()),
            IdValue::Number(number) => message
                .set(field, *number)
                .or_else(|_| message.set(field, number.to_string().as_str())),
        };
    }
}

impl IdValue {
    fn of(value: Value<'_>) -> Option<Self> {
        Some(match value {
            Value::String(text) if !text.is_empty() => Self::Text(text.to_owned()),
            Value::I32(number) => Self::Number(number.into()),
            Value::U32(number) => Self::Number(number.into()),
            Value::I64(number) => Self::Number(number),
            Value::U64(number) => Self::Number(i64::try_from(number).ok()?),
            _ => return None,
        })
    }
}

/// How deep ids are looked for.
const DEPTH_MAX: usize = 3;
