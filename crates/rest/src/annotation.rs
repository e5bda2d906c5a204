//! `google.api.http`: reading it from the options of a method.
//!
//! The option is an extension, so it is among the unknown fields of `MethodOptions`; it is read here
//! field by field. Numbers are those of `google/api/http.proto`.

use buffa::{UnknownField, UnknownFieldData, UnknownFields};
use http::Method;

use crate::binding::RestError;
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

/// Reads the bindings out of an encoded `google.protobuf.MethodOptions`: the rule itself first, then
/// its `additional_bindings`.
///
/// # Errors
/// What is wrong with the option.
pub(crate) fn rules(method_options: &[u8]) -> Result<Vec<Rule>, String> {
    let mut encoded = Vec::new();
    for field in &fields(method_options)? {
        // Parts of one option that are set apart are to be read as one message.
        if field.number == HTTP {
            encoded.extend_from_slice(bytes(field)?);
        }
    }
    if encoded.is_empty() {
        return Ok(Vec::new());
    }
    let mut rules = Vec::new();
    rule(&encoded, &mut rules, Depth::Top)?;
    Ok(rules)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Depth {
    Top,
    Additional,
}

fn rule(encoded: &[u8], rules: &mut Vec<Rule>, depth: Depth) -> Result<(), String> {
    let mut rule = Rule::default();
    let mut additional = Vec::new();
    let mut has_pattern = false;
    for field in &fields(encoded)? {
        let verb = match field.number {
            2 => Method::GET,
            3 => Method::PUT,
            4 => Method::POST,
            5 => Method::DELETE,
            6 => Method::PATCH,
            7 => {
                rule.body = text(field)?;
                continue;
            }
            8 => {
                (rule.verb, rule.template) = custom(bytes(field)?)?;
                has_pattern = true;
                continue;
            }
            11 => {
                additional.push(bytes(field)?.to_vec());
                continue;
            }
            12 => {
                rule.response_body = text(field)?;
                continue;
            }
            _ => continue,
        };
        (rule.verb, rule.template) = (Some(verb), text(field)?);
        has_pattern = true;
    }
    if !has_pattern {
        return Err("google.api.http has no verb with a path, such as `get: \"/v1/x\"`".to_owned());
    }
    if depth == Depth::Additional && !additional.is_empty() {
        return Err("additional_bindings of google.api.http do not nest".to_owned());
    }
    rules.push(rule);
    for encoded in additional {
        self::rule(&encoded, rules, Depth::Additional)?;
    }
    Ok(())
}

/// `CustomHttpPattern { kind, path }`.
fn custom(encoded: &[u8]) -> Result<(Verb, String), String> {
    let (mut kind, mut path) = (String::new(), String::new());
    for field in &fields(encoded)? {
        match field.number {
            1 => kind = text(field)?,
            2 => path = text(field)?,
            _ => {}
        }
    }
    if kind == "*" {
        return Ok((None, path));
    }
    let verb = Method::from_bytes(kind.as_bytes());
    let verb = verb.map_err(|_| format!("custom kind {kind:?} of google.api.http is no verb"))?;
    Ok((Some(verb), path))
}

fn fields(encoded: &[u8]) -> Result<Vec<UnknownField>, String> {
    let fields = UnknownFields::decode_from_slice(encoded)
        .map_err(|e| format!("the method's options do not decode: {e}"))?;
    Ok(fields.iter().cloned().collect())
}

fn bytes(field: &UnknownField) -> Result<&[u8], String> {
    match &field.data {
        UnknownFieldData::LengthDelimited(bytes) => Ok(bytes),
        _ => Err(format!("field {} of google.api.http has another type", field.number)),
    }
}

fn text(field: &UnknownField) -> Result<String, String> {
    String::from_utf8(bytes(field)?.to_vec())
        .map_err(|_| format!("field {} of google.api.http is not UTF-8", field.number))
}

/// The number of the extension `google.api.http` of `google.protobuf.MethodOptions`.
const HTTP: u32 = 72_295_728;

#[cfg(test)]
mod tests {
    use super::*;

    fn field(number: u32, bytes: &[u8]) -> Vec<u8> {
        let mut fields = UnknownFields::new();
        let data = UnknownFieldData::LengthDelimited(bytes.to_vec());
        fields.push(UnknownField { number, data });
        let mut out = Vec::new();
        fields.write_to(&mut out);
        out
    }

    #[test]
    fn a_rule_and_its_additional_bindings_are_read() {
        let extra = field(8, &[field(1, b"*"), field(2, b"/any")].concat());
        let rule =
            [field(6, b"/v1/{a}"), field(7, b"*"), field(12, b"out"), field(11, &extra)].concat();
        let found = rules(&field(HTTP, &rule)).unwrap();
        assert_eq!(found.len(), 2);
        assert_eq!(found[0].verb, Some(Method::PATCH));
        assert_eq!((&*found[0].template, &*found[0].body), ("/v1/{a}", "*"));
        assert_eq!(found[0].response_body, "out");
        assert_eq!((&found[1].verb, &*found[1].template), (&None, "/any"));
        assert_eq!(rules(b""), Ok(Vec::new()));
    }

    #[test]
    fn what_makes_no_sense_is_said() {
        let nested = field(11, &[field(2, b"/b"), field(11, &field(2, b"/c"))].concat());
        let nested = [field(2, b"/a"), nested].concat();
        for (rule, why) in [
            (field(7, b"*"), "no verb with a path"),
            (nested, "do not nest"),
            (field(8, &field(1, b"A B")), "is no verb"),
            (field(2, b"\xff"), "not UTF-8"),
        ] {
            let error = rules(&field(HTTP, &rule)).unwrap_err();
            assert!(error.contains(why), "{error}");
        }
    }
}
