//! What became of a call that ended with an error, as a number on the wire (specification 3.4).
//!
//! No number is the handler's own answer. What a later version says is unknown to this one.

use tidewire_service::Outcome;

/// The number that says it; none for an answer.
pub(crate) fn number(outcome: Outcome) -> Option<u64> {
    match outcome {
        Outcome::Answered => None,
        Outcome::NotRun => Some(1),
        Outcome::ReplyLost => Some(3),
        Outcome::Behind => Some(4),
        _ => Some(2),
    }
}

/// What a number says.
pub(crate) fn of_number(number: Option<u64>) -> Outcome {
    match number {
        None => Outcome::Answered,
        Some(1) => Outcome::NotRun,
        Some(3) => Outcome::ReplyLost,
        Some(4) => Outcome::Behind,
        Some(_) => Outcome::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_outcome_comes_back_and_one_of_the_future_is_unknown() {
        let known = [None, Some(1), Some(2), Some(3), Some(4)];
        assert_eq!(known.map(|known| number(of_number(known))), known);
        assert_eq!(of_number(Some(99)), Outcome::Unknown);
    }
}
