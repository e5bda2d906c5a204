//! What a call came to, as exit codes and as text.
//!
//! | exit code | means |
//! |---|---|
//! | 0 | the call succeeded |
//! | 1 | something else went wrong, such as a file that cannot be written |
//! | 2 | the arguments, the schema or the request are wrong; nothing was called |
//! | 3 | the server cannot be reached, or speaks something else |
//! | 4, 5 | plain HTTP or REST: a status of 400 or over, of 500 or over |
//! | 64 + n | the server answered with the error of that gRPC code: 69 is `not_found` |
//! | 68 | `deadline_exceeded`, whoever noticed |

use std::fmt::Write as _;

use tidewire::mock::error_details;
use tidewire::{Code, Codec, Error, Outcome, Schema};

use super::printable::printable;
use super::watch::Watch;
use crate::catalog::Catalog;
use crate::failure::Failure;

/// The server cannot be reached, or speaks something else.
pub(crate) const UNREACHABLE: u8 = 3;

/// How a credential is sent, for whoever has sent none, or another.
pub(crate) const CREDENTIAL: &str =
    "a credential is sent by -H 'authorization: Bearer TOKEN', or -H 'x-api-key: KEY'";

/// The exit code for an error code that a server answered with.
pub(crate) fn exit_code(code: Code) -> u8 {
    64 + code.number()
}

/// The failure of a call: what the server said, or why it could not be asked.
pub(crate) fn failure(error: &Error, watch: &Watch, known: Option<&Catalog>) -> Failure {
    call_failure(error, watch.history().status.is_some(), known)
}

/// The same of a call over the live protocol, where the error tells what became of it.
pub(crate) fn live_failure(error: &Error, known: &Catalog) -> Failure {
    let is_unreachable = error.code() == Code::Unavailable && error.outcome() == Outcome::NotRun;
    call_failure(error, !is_unreachable, Some(known))
}

fn call_failure(error: &Error, answered: bool, known: Option<&Catalog>) -> Failure {
    let code = match error.code() {
        Code::DeadlineExceeded => exit_code(Code::DeadlineExceeded),
        code if answered => exit_code(code),
        _ => UNREACHABLE,
    };
    let mut text = printable(&error.to_string()).into_owned();
    for detail in error.details() {
        let _ = write!(text, "\n  detail {}: ", printable(&detail.type_name));
        // Those of `google.rpc` are known wherever they come from.
        let schemas = known.map(|known| &known.schema).into_iter().chain([error_details()]);
        let json = |schema: &Schema| {
            let message = schema.decode(&detail.type_name, Codec::Proto, &detail.value);
            message.and_then(|message| message.encode(Codec::Json)).ok()
        };
        match schemas.filter_map(json).next() {
            Some(json) => text.push_str(&printable(&String::from_utf8_lossy(&json))),
            None => {
                let _ =
                    write!(text, "{} bytes of a message that the schema lacks", detail.value.len());
            }
        }
    }
    if error.code() == Code::Unauthenticated {
        let _ = write!(text, "\n  {CREDENTIAL}");
    }
    Failure { error: anyhow::Error::msg(text), code }
}
