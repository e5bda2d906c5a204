//! Proto JSON, both ways: into messages, and out of the bytes of protobuf.
//!
//! Scalars go through the same functions as in generated code, so the texts agree; what is around
//! them is done here, since the message library's own way differs from its generated code: it
//! prints a `float` as the nearest double (4.2 as 4.199999809265137), fields of a oneof at their
//! place instead of after the others, fails for an `Any` whose type it does not know, and bounds
//! neither how deep JSON nests nor what it takes in memory. Printing starts from bytes, since most
//! of what is printed are replies, of which nobody wants a message; a message is encoded first.

mod read;
mod well_known;

use std::cell::Cell;
use std::sync::Arc;

use buffa_descriptor::reflect::DynamicMessage;
use buffa_descriptor::{DescriptorPool, FieldDescriptor, MessageIndex};
use serde::de::DeserializeSeed;
use tidewire_json::{Fault, JsonStyle, PrintScope, print};
use tidewire_service::{Error, Result};

use crate::types::MessageType;

pub use read::UnknownMembers;
pub(crate) use read::{Part, Reader, read_scalar};
pub(crate) use well_known::parts_of_any;

pub(crate) use tidewire_json::DEPTH_MAX;

/// What the elements of lists and maps of a message read from JSON take in memory, as in protobuf.
pub(crate) const ELEMENT_MEMORY_MAX: usize = buffa::DEFAULT_ELEMENT_MEMORY_LIMIT;

impl MessageType<'_> {
    /// Appends the JSON of a reply of this type, straight from its bytes in protobuf.
    ///
    /// # Errors
    /// [`Code::Internal`](tidewire_service::Code::Internal): the service answered with what is no
    /// such message, or has no JSON form, such as a timestamp out of range. Then nothing is
    /// appended.
    pub fn print_reply(self, bytes: &[u8], style: JsonStyle, out: &mut Vec<u8>) -> Result<()> {
        self.printed(bytes, (PrintScope::Message, style), out)
    }

    /// [`print_reply`](Self::print_reply) of one field by its number: its value, or else its
    /// default, which is `null` for messages and for numbers that are not field.
    ///
    /// # Errors
    /// As [`print_reply`](Self::print_reply).
    pub fn print_reply_field(
        self,
        bytes: &[u8],
        number: u32,
        style: JsonStyle,
        out: &mut Vec<u8>,
    ) -> Result<()> {
        self.printed(bytes, (PrintScope::Field(number), style), out)
    }

    fn printed(
        self,
        bytes: &[u8],
        asked: (PrintScope, JsonStyle),
        out: &mut Vec<u8>,
    ) -> Result<()> {
        print(self.pool, self.index, bytes, asked, out).map_err(|cause| {
            let what = match cause {
                Fault::Wire(_) => format!("is not a valid {}", self.full_name()),
                Fault::NoForm(_) => "has no JSON form; the server's log has the cause".to_owned(),
            };
            Error::internal(format!("the service's reply {what}")).with_cause(cause)
        })
    }
}

/// Reads a message from JSON text.
///
/// # Errors
/// With the path of the field that does not fit, or where the text is not JSON.
pub(crate) fn read(
    pool: &Arc<DescriptorPool>,
    index: MessageIndex,
    text: &[u8],
    unknown: UnknownMembers,
) -> Result<DynamicMessage> {
    if text.is_empty() {
        return Err(Error::invalid_argument(
            "request body is empty; send a JSON object, {} for a message without fields",
        ));
    }
    let budget = Cell::new(ELEMENT_MEMORY_MAX);
    let seed = Reader::new(pool, unknown, &budget).message(index);
    read_by(seed, &budget, "", text)
}

/// Reads a message of which JSON text is one field.
///
/// # Errors
/// As [`read`].
pub(crate) fn read_field(
    pool: &Arc<DescriptorPool>,
    index: MessageIndex,
    field: &FieldDescriptor,
    text: &[u8],
    unknown: UnknownMembers,
) -> Result<DynamicMessage> {
    let budget = Cell::new(ELEMENT_MEMORY_MAX);
    let seed = Part { reader: Reader::new(pool, unknown, &budget), index, field };
    read_by(seed, &budget, field.json_name(), text)
}

/// Reads by a seed; paths begin with `above`.
fn read_by<'de, S>(
    seed: S,
    budget: &Cell<usize>,
    above: &str,
    text: &'de [u8],
) -> Result<DynamicMessage>
where
    S: DeserializeSeed<'de, Value = DynamicMessage> + Copy,
{
    let mut json = serde_json::Deserializer::from_slice(text);
    // Paths cost as much as reading does: only what fails is read once more, with its path.
    let plain = match seed.deserialize(&mut json).and_then(|read| json.end().map(|()| read)) {
        Ok(message) => return Ok(message),
        Err(cause) => cause,
    };
    budget.set(ELEMENT_MEMORY_MAX);
    let mut track = serde_path_to_error::Track::new();
    let mut json = serde_json::Deserializer::from_slice(text);
    match seed.deserialize(serde_path_to_error::Deserializer::new(&mut json, &mut track)) {
        Ok(_) => Err(invalid(&plain, None)),
        Err(cause) => Err(invalid(&cause, Some(below(above, &track.path())))),
    }
}

/// A path in a field.
fn below(above: &str, path: &serde_path_to_error::Path) -> String {
    match (above, path.to_string()) {
        ("", path) => path,
        (above, path) if path == "." || path.contains('?') => above.to_owned(),
        (above, path) if path.starts_with('[') => format!("{above}{path}"),
        (above, path) => format!("{above}.{path}"),
    }
}

/// Reads a message from parsed JSON.
///
/// # Errors
/// With the path of the field that does not fit.
pub(crate) fn read_tree(
    pool: &Arc<DescriptorPool>,
    index: MessageIndex,
    tree: &serde_json::Value,
    unknown: UnknownMembers,
) -> Result<DynamicMessage> {
    let budget = Cell::new(ELEMENT_MEMORY_MAX);
    let mut track = serde_path_to_error::Track::new();
    let tracked = serde_path_to_error::Deserializer::new(tree, &mut track);
    Reader::new(pool, unknown, &budget)
        .message(index)
        .deserialize(tracked)
        .map_err(|cause| invalid(&cause, Some(track.path().to_string())))
}

/// The error for JSON that does not fit: the field that does not, or the text that is not JSON.
fn invalid(cause: &serde_json::Error, path: Option<String>) -> Error {
    if !cause.is_data() {
        return Error::invalid_argument(format!("request is not valid JSON: {cause}"));
    }
    Error::invalid_argument(match path.filter(|path| path != "." && !path.contains('?')) {
        Some(path) => format!("field {path}: {cause}"),
        None => cause.to_string(),
    })
}
