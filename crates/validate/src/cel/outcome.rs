//! What evaluating may cost, and what it comes to: a value, or why there is none.
//!
//! The budget is that of one message with all its rules: an expression that goes through a list
//! within a list ends with an error and not with a server that stands still.

use super::value::Value;

/// What evaluating may still cost, and the time that it sees.
#[derive(Debug)]
pub(in super::super) struct Budget {
    pub(in super::super) steps: u64,
    /// Nanoseconds since 1970.
    pub(in super::super) now: i128,
}

/// Why an expression has no value.
#[derive(Debug, Clone, PartialEq)]
pub(in super::super) struct Failure(pub(in super::super) String);

impl Budget {
    /// What all rules together may cost for one message.
    pub(in super::super) const STEPS: u64 = 1_000_000;

    pub(super) fn spend(&mut self, steps: u64) -> Result<(), Failure> {
        match self.steps.checked_sub(steps) {
            Some(left) => {
                self.steps = left;
                Ok(())
            }
            None => {
                self.steps = 0;
                Err(Failure(format!("takes more than {} steps", Self::STEPS)))
            }
        }
    }
}

pub(super) type Outcome = Result<Value, Failure>;

pub(super) fn failure(text: impl Into<String>) -> Outcome {
    Err(Failure(text.into()))
}
