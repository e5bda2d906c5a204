//! What the database refused, as an error of the log.

use crate::error::{Error, ErrorKind};

/// A statement that reads was refused, or the database is gone.
pub(super) fn read_error(error: tokio_postgres::Error) -> Error {
    failure("the change log cannot be read", error)
}

/// A statement that writes was refused, or the database is gone.
pub(super) fn write_error(error: tokio_postgres::Error) -> Error {
    failure("the change log cannot be written", error)
}

fn failure(text: &'static str, error: tokio_postgres::Error) -> Error {
    let kind = if error.is_closed() { ErrorKind::Unreachable } else { ErrorKind::Database };
    Error::new(kind, text).because(error)
}
