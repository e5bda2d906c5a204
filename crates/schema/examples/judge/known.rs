//! Differences from protovalidate-go that are meant, each with its reason.

use crate::compare::Verdict;

/// Why a difference is meant; `None` when it is not.
pub(crate) fn reason(name: &str, ours: &Verdict, theirs: &Verdict) -> Option<&'static str> {
    let _ = name;
    match (ours, theirs) {
        // Rules are compiled when a schema is loaded; protovalidate-go compiles those of a message
        // when it first meets the message, so that messages without it pass.
        (Verdict::NoRules, theirs) if *theirs != Verdict::NoRules => {
            Some("a rule of a message within does not compile: refused when the schema is loaded")
        }
        _ => None,
    }
}
