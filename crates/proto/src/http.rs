//! `google.api.http` as it is written: the rule of a method, and its path templates.
//!
//! Read at build time, where a path that names no field is a fault of the build, and by servers and
//! clients of REST. Whether a rule fits its method is theirs to say. Numbers are those of
//! `google/api/http.proto`.

mod template;

use crate::wire_format::{self, Field, Value};

pub use self::template::{SEGMENTS_MAX, Segment, Template, TemplateError, Variable, decode};

/// One binding of a method by `google.api.http`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct HttpRule {
    /// The verb, `GET` or what a custom pattern says; `*` is any.
    pub verb: String,
    /// The path template.
    pub template: String,
    /// `*`, a field of the request, or empty.
    pub body: String,
    /// A field of the reply, or empty.
    pub response_body: String,
}

impl HttpRule {
    /// The number of the extension in `google.protobuf.MethodOptions`.
    pub const EXTENSION: u32 = 72_295_728;

    /// Reads the bindings out of an encoded `google.protobuf.MethodOptions`: the rule itself first,
    /// then its `additional_bindings`; none when there is no such option.
    ///
    /// # Errors
    /// What is wrong with the option, lower case and without a full stop.
    pub fn decode(method_options: &[u8]) -> Result<Vec<Self>, String> {
        let mut encoded = Vec::new();
        for field in fields(method_options)? {
            // Parts of one option that are set apart are to be read as one message.
            if field.number == Self::EXTENSION {
                encoded.extend_from_slice(bytes(&field)?);
            }
        }
        let mut rules = Vec::new();
        if !encoded.is_empty() {
            rule(&encoded, &mut rules, Depth::Top)?;
        }
        Ok(rules)
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Depth {
    Top,
    Additional,
}

fn rule(encoded: &[u8], rules: &mut Vec<HttpRule>, depth: Depth) -> Result<(), String> {
    let mut rule = HttpRule::default();
    let mut additional = Vec::new();
    let mut has_pattern = false;
    for field in fields(encoded)? {
        let verb = match field.number {
            2 => "GET",
            3 => "PUT",
            4 => "POST",
            5 => "DELETE",
            6 => "PATCH",
            7 => {
                rule.body = text(&field)?;
                continue;
            }
            8 => {
                let CustomPattern { kind, path } = custom(bytes(&field)?)?;
                rule.verb = kind;
                rule.template = path;
                has_pattern = true;
                continue;
            }
            11 => {
                additional.push(bytes(&field)?.to_vec());
                continue;
            }
            12 => {
                rule.response_body = text(&field)?;
                continue;
            }
            _ => continue,
        };
        (rule.verb, rule.template) = (verb.to_owned(), text(&field)?);
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

/// `google.api.CustomHttpPattern`.
#[derive(Default)]
struct CustomPattern {
    kind: String,
    path: String,
}

fn custom(encoded: &[u8]) -> Result<CustomPattern, String> {
    let mut pattern = CustomPattern::default();
    for field in fields(encoded)? {
        match field.number {
            1 => pattern.kind = text(&field)?,
            2 => pattern.path = text(&field)?,
            _ => {}
        }
    }
    Ok(pattern)
}

fn fields(encoded: &[u8]) -> Result<Vec<Field<'_>>, String> {
    wire_format::fields(encoded).ok_or_else(|| "the method's options do not decode".to_owned())
}

fn bytes<'a>(field: &Field<'a>) -> Result<&'a [u8], String> {
    match field.value {
        Value::Bytes(bytes) => Ok(bytes),
        _ => Err(format!("field {} of google.api.http has another type", field.number)),
    }
}

fn text(field: &Field<'_>) -> Result<String, String> {
    String::from_utf8(bytes(field)?.to_vec())
        .map_err(|_| format!("field {} of google.api.http is not UTF-8", field.number))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn field(number: u32, bytes: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        wire_format::push_bytes(&mut out, number, bytes);
        out
    }

    #[test]
    fn a_rule_and_its_additional_bindings_are_read() {
        let extra = field(8, &[field(1, b"*"), field(2, b"/any")].concat());
        let rule =
            [field(6, b"/v1/{a}"), field(7, b"*"), field(12, b"out"), field(11, &extra)].concat();
        let found = HttpRule::decode(&field(HttpRule::EXTENSION, &rule)).unwrap();
        assert_eq!(found.len(), 2);
        assert_eq!(found[0].verb, "PATCH");
        assert_eq!((&*found[0].template, &*found[0].body), ("/v1/{a}", "*"));
        assert_eq!(found[0].response_body, "out");
        assert_eq!((&*found[1].verb, &*found[1].template), ("*", "/any"));
        assert_eq!(HttpRule::decode(b""), Ok(Vec::new()));
    }

    #[test]
    fn what_makes_no_sense_is_said() {
        let nested = field(11, &[field(2, b"/b"), field(11, &field(2, b"/c"))].concat());
        let nested = [field(2, b"/a"), nested].concat();
        for (rule, why) in [
            (field(7, b"*"), "no verb with a path"),
            (nested, "do not nest"),
            (field(2, b"\xff"), "not UTF-8"),
            (vec![0x0a, 9], "do not decode"),
        ] {
            let error = HttpRule::decode(&field(HttpRule::EXTENSION, &rule)).unwrap_err();
            assert!(error.contains(why), "{error}");
        }
    }
}
