//! Why a message is not printed: its bytes, or that JSON has no form for it.

use std::fmt;

use buffa::DecodeError;

/// Why a message is not printed.
#[derive(Debug)]
pub enum Fault {
    /// It is not a message of its type.
    Wire(DecodeError),
    /// It has no form of JSON.
    NoForm(String),
}

pub(crate) type Result<T = ()> = std::result::Result<T, Fault>;

impl From<DecodeError> for Fault {
    fn from(error: DecodeError) -> Self {
        Self::Wire(error)
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Wire(error) => error.fmt(f),
            Self::NoForm(why) => f.write_str(why),
        }
    }
}

impl std::error::Error for Fault {}
