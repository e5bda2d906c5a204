//! Proto JSON of dynamic messages, both ways.
//!
//! Scalars go through the same functions as in generated code, so the texts agree; what is around
//! them is done here, since the message library's own way differs from its generated code: it
//! prints a `float` as the nearest double (4.2 as 4.199999809265137), fields of a oneof at their
//! place instead of after the others, fails for an `Any` whose type it does not know, and bounds
//! neither how deep JSON nests nor what it takes in memory.

mod print;
mod read;
mod well_known;

use std::cell::Cell;
use std::sync::Arc;

use buffa_descriptor::reflect::DynamicMessage;
use buffa_descriptor::{DescriptorPool, MessageIndex};
use serde::de::DeserializeSeed;
use tidewire_service::{Error, Result};

pub use print::JsonStyle;
pub(crate) use print::default;
pub(crate) use print::{Element, Printed};
pub(crate) use read::{Reader, Unknown, read_scalar};
pub(crate) use well_known::parts_of_any;

/// How deep messages nest in JSON: as deep as in protobuf, so that what is read can be sent on.
pub(crate) const DEPTH_MAX: u32 = buffa::RECURSION_LIMIT;

/// What the elements of lists and maps of a message read from JSON take in memory, as in protobuf.
pub(crate) const ELEMENT_MEMORY_MAX: usize = buffa::DEFAULT_ELEMENT_MEMORY_LIMIT;

/// Reads a message from JSON text.
///
/// # Errors
/// With the path of the field that does not fit, or where the text is no JSON.
pub(crate) fn read(
    pool: &Arc<DescriptorPool>,
    index: MessageIndex,
    text: &[u8],
    unknown: Unknown,
) -> Result<DynamicMessage> {
    if text.is_empty() {
        return Err(Error::invalid_argument(
            "request body is empty; send a JSON object, {} for a message without fields",
        ));
    }
    let read = |deserializer: &mut serde_json::Deserializer<serde_json::de::SliceRead<'_>>| {
        let budget = Cell::new(ELEMENT_MEMORY_MAX);
        let message =
            Reader::new(pool, unknown, &budget).message(index).deserialize(&mut *deserializer)?;
        deserializer.end()?;
        Ok(message)
    };
    // Paths cost as much as reading does: only what fails is read once more, with its path.
    let plain = match read(&mut serde_json::Deserializer::from_slice(text)) {
        Ok(message) => return Ok(message),
        Err(cause) => cause,
    };
    let budget = Cell::new(ELEMENT_MEMORY_MAX);
    let mut track = serde_path_to_error::Track::new();
    let mut json = serde_json::Deserializer::from_slice(text);
    let tracked = serde_path_to_error::Deserializer::new(&mut json, &mut track);
    match Reader::new(pool, unknown, &budget).message(index).deserialize(tracked) {
        Ok(_) => Err(invalid(&plain, None)),
        Err(cause) => Err(invalid(&cause, Some(&track.path()))),
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
    unknown: Unknown,
) -> Result<DynamicMessage> {
    let budget = Cell::new(ELEMENT_MEMORY_MAX);
    let mut track = serde_path_to_error::Track::new();
    let tracked = serde_path_to_error::Deserializer::new(tree, &mut track);
    Reader::new(pool, unknown, &budget)
        .message(index)
        .deserialize(tracked)
        .map_err(|cause| invalid(&cause, Some(&track.path())))
}

/// The error for JSON that does not fit: the field that does not, or the text that is no JSON.
fn invalid(cause: &serde_json::Error, path: Option<&serde_path_to_error::Path>) -> Error {
    if !cause.is_data() {
        return Error::invalid_argument(format!("request is not valid JSON: {cause}"));
    }
    let path = path.map(ToString::to_string);
    Error::invalid_argument(match path.filter(|path| path != "." && !path.contains('?')) {
        Some(path) => format!("field {path}: {cause}"),
        None => cause.to_string(),
    })
}
