//! What an error of PostgreSQL means to a caller.
//!
//! | PostgreSQL says | the caller gets |
//! |---|---|
//! | nothing more: the connection ended | `UNAVAILABLE`; for a write, that its outcome is not known; with a key, to send it again |
//! | it stops or starts, has no memory, disk or connections left, is read-only | `UNAVAILABLE`: nothing was changed, try again |
//! | the statement took too long | `UNAVAILABLE`: nothing was changed, try again |
//! | a deadlock, a conflict; an id that another program took | `ABORTED`: try again |
//! | the largest id is used | `RESOURCE_EXHAUSTED` |
//! | anything else | `INTERNAL` |

use tidewire::{Error, Outcome};
use tokio_postgres::error::SqlState;

/// The error of a statement that changes nothing; PostgreSQL's own words go to the log.
pub(super) fn explain_read(cause: tokio_postgres::Error) -> Error {
    explain(cause, "try again", Outcome::Answered)
}

/// The error of a statement that changes something.
pub(super) fn explain_write(cause: tokio_postgres::Error) -> Error {
    explain(cause, OUTCOME_UNKNOWN, Outcome::Unknown)
}

/// The error of a statement that changes something once, however often it is sent.
pub(super) fn explain_write_once(cause: tokio_postgres::Error) -> Error {
    explain(cause, SEND_AGAIN, Outcome::Unknown)
}

fn explain(cause: tokio_postgres::Error, after_loss: &str, outcome: Outcome) -> Error {
    let error = match cause.code() {
        None if is_of_connection(&cause) => Error::unavailable(format!(
            "the connection to the database ended before it answered; {after_loss}"
        ))
        .with_outcome(outcome),
        None => Error::internal("the database failed"),
        Some(code) => by_state(code),
    };
    error.with_cause(cause)
}

fn by_state(code: &SqlState) -> Error {
    match *code {
        SqlState::QUERY_CANCELED => {
            Error::unavailable("the database took too long; nothing was changed, try again")
        }
        SqlState::DISK_FULL => Error::unavailable(
            "the disk of the database is full; nothing was changed, make room and try again",
        ),
        SqlState::READ_ONLY_SQL_TRANSACTION => {
            Error::unavailable("the database is read-only for now; nothing was changed, try again")
        }
        SqlState::SEQUENCE_GENERATOR_LIMIT_EXCEEDED => {
            Error::resource_exhausted("every id is used; no contact can be added")
        }
        SqlState::UNIQUE_VIOLATION => Error::aborted(
            "another program has added a contact with the next id; nothing was changed, try again",
        ),
        SqlState::T_R_SERIALIZATION_FAILURE | SqlState::T_R_DEADLOCK_DETECTED => {
            Error::aborted("another change was in the way; nothing was changed, try again")
        }
        _ if TEMPORARY.iter().any(|class| code.code().starts_with(class)) => Error::unavailable(
            "the database stops, starts or is full; nothing was changed, try again",
        ),
        _ => Error::internal("the database failed"),
    }
}

/// Whether a connection with this error is to be replaced: it is over, or leads to a server that
/// stops or is a replica now.
pub(super) fn is_of_connection(error: &tokio_postgres::Error) -> bool {
    match error.code() {
        Some(code) => {
            *code == SqlState::READ_ONLY_SQL_TRANSACTION
                || *code != SqlState::QUERY_CANCELED
                    && OF_CONNECTION.iter().any(|class| code.code().starts_with(class))
        }
        None => {
            let source = std::error::Error::source(error);
            error.is_closed() || source.is_some_and(|source| source.is::<std::io::Error>())
        }
    }
}

/// The error for a call when no connection is up.
pub(super) fn away() -> Error {
    Error::unavailable("the database is unavailable; nothing was changed, try again")
        .with_outcome(Outcome::NotRun)
}

/// The error for a call over the bound.
pub(super) fn too_many(in_flight_max: usize) -> Error {
    Error::resource_exhausted(format!(
        "{in_flight_max} calls wait for the database already; try again later"
    ))
    .with_outcome(Outcome::NotRun)
}

/// What is said of a write that nobody answered.
pub(super) const OUTCOME_UNKNOWN: &str =
    "whether the change was made is not known, look before you try again";

/// What is said of one with a key.
pub(super) const SEND_AGAIN: &str =
    "whether the change was made is not known, send it again with the same key";

/// Classes of SQLSTATE: connection, operator intervention, resources.
const TEMPORARY: [&str; 3] = ["08", "57", "53"];
const OF_CONNECTION: [&str; 2] = ["08", "57"];
