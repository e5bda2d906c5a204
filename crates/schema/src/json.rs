//! What is wrong with JSON that does not become a message.

use tidewire_service::Error;

/// The error for JSON that does not fit: the field that does not, or the text that is no JSON.
pub(crate) fn invalid_json(
    cause: &serde_json::Error,
    path: Option<&serde_path_to_error::Path>,
) -> Error {
    let path = path.filter(|_| cause.is_data()).map(ToString::to_string);
    match path.filter(|path| path != "." && !path.contains('?')) {
        Some(path) => Error::invalid_argument(format!("field {path}: {cause}")),
        None => Error::invalid_argument(format!("request is not valid JSON: {cause}")),
    }
}
