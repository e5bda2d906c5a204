//! `google.api.http`: a rule as a method has it, with its verb as HTTP knows it.

use http::Method;
use tidewire_proto::http::HttpRule;

use crate::error::RestError;
use crate::router::Verb;

/// One binding of a method by `google.api.http`, as it was written.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Rule {
    /// The verb; `None` is any.
    pub verb: Option<Method>,
    /// The path template.
    pub template: String,
    /// `*`, a field of the request, or empty.
    pub body: String,
    /// A field of the reply, or empty.
    pub response_body: String,
}

/// The bindings in an encoded `google.protobuf.MethodOptions`, for clients that call by them.
///
/// # Errors
/// What is wrong with the option.
pub fn rest_rules(method_options: &[u8]) -> Result<Vec<Rule>, RestError> {
    rules(method_options).map_err(RestError)
}

/// Reads the bindings out of an encoded `google.protobuf.MethodOptions`: the rule itself first,
/// then its `additional_bindings`.
///
/// # Errors
/// What is wrong with the option.
pub(crate) fn rules(method_options: &[u8]) -> Result<Vec<Rule>, String> {
    let rules = HttpRule::decode(method_options)?.into_iter();
    rules
        .map(|HttpRule { verb, template, body, response_body, .. }| {
            Ok(Rule { verb: self::verb(&verb)?, template, body, response_body })
        })
        .collect()
}

fn verb(name: &str) -> Result<Verb, String> {
    if name == "*" {
        return Ok(None);
    }
    let verb = Method::from_bytes(name.as_bytes());
    Ok(Some(verb.map_err(|_| format!("custom kind {name:?} of google.api.http is not a verb"))?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_verb_is_any_one_or_none_at_all() {
        assert_eq!(verb("*"), Ok(None));
        assert_eq!(verb("PURGE"), Ok(Some(Method::from_bytes(b"PURGE").unwrap())));
        assert!(verb("A B").unwrap_err().contains("is not a verb"));
    }
}
