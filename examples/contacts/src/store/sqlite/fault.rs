//! What an error of SQLite means to a caller.
//!
//! | SQLite says | the caller gets |
//! |---|---|
//! | busy, locked, cannot open, I/O error, read-only, full | `UNAVAILABLE`: nothing was changed, try again |
//! | corrupt, not a database | `INTERNAL` |
//! | the largest id is used | `RESOURCE_EXHAUSTED` |
//! | anything else | `INTERNAL` |

use rusqlite::ErrorCode;
use tidewire::{Error, Outcome};

/// The error for a caller; SQLite's own words go to the log.
pub(super) fn explain(cause: rusqlite::Error) -> Error {
    let error = match cause.sqlite_error_code() {
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => Error::unavailable(
            "the database is locked by another program; nothing was changed, try again",
        ),
        Some(ErrorCode::DiskFull) => Error::unavailable(
            "the disk of the database is full; nothing was changed, make room and try again",
        ),
        Some(
            ErrorCode::CannotOpen
            | ErrorCode::SystemIoFailure
            | ErrorCode::ReadOnly
            | ErrorCode::PermissionDenied,
        ) => Error::unavailable(
            "the database file cannot be used for now; nothing was changed, try again",
        ),
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => {
            Error::internal("the database file is damaged; restore it from a copy")
        }
        Some(ErrorCode::ConstraintViolation) => {
            Error::resource_exhausted("every id is used; no contact can be added")
        }
        _ => Error::internal("the database failed"),
    };
    error.with_cause(cause)
}

/// The error for a call that found a queue full.
pub(super) fn queue_full(queue: &str, queue_max: usize) -> Error {
    Error::resource_exhausted(format!(
        "{queue_max} {queue} wait for the database already; try again later"
    ))
    .with_outcome(Outcome::NotRun)
}

/// The error for a call whose database thread is gone.
pub(super) fn ended() -> Error {
    Error::unavailable("the database is closed")
}
