//! A method by its `google.api.http`: the path is filled from the request, `body` names what is
//! sent, and what is left goes into the query.

use anyhow::{Context, bail};
use buffa::Message as _;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Map, Value};
use tidewire::Method;
use tidewire::http;
use tidewire::rest::{RestRule, rest_rules};

use super::plain::Plain;
use crate::catalog::Catalog;

/// The HTTP request for one message, as JSON with the names of the `.proto` or of JSON.
///
/// # Errors
/// A method without a binding; a message that lacks what the path needs.
pub(crate) fn request(known: &Catalog, method: &Method, json: &[u8]) -> anyhow::Result<Plain> {
    let path = method.path.trim_start_matches('/');
    let rules = rules(known, method)?;
    if rules.is_empty() {
        bail!("{path} has no google.api.http, so it cannot be called by REST");
    }
    // Printed again, its fields have one name each.
    let message = known.schema.decode_exactly(&method.input, json)?;
    let json = message.encode(tidewire::Codec::Json)?;
    let json: Value = serde_json::from_slice(&json)?;
    let mut why = None;
    // Further bindings are other paths to the same thing; one without a field is another thing.
    let first = rules.iter().take(1);
    for rule in first.chain(rules[1..].iter().filter(|rule| rule.template.contains('{'))) {
        match bind(rule, json.clone(), known, method) {
            Ok(plain) => return Ok(plain),
            Err(error) => why = why.or(Some(error)),
        }
    }
    Err(why.unwrap_or_else(|| anyhow::anyhow!("{path} has no path that fits")))
}

fn rules(known: &Catalog, method: &Method) -> anyhow::Result<Vec<RestRule>> {
    let service = known.service(&method.service).context("the service is not in the schema")?;
    let found = service.method(&method.method).context("the method is not in the schema")?;
    let options = found.options().map(|options| options.encode_to_vec());
    Ok(rest_rules(&options.unwrap_or_default())?)
}

fn bind(rule: &RestRule, json: Value, known: &Catalog, method: &Method) -> anyhow::Result<Plain> {
    let Value::Object(mut fields) = json else {
        bail!("{} is not an object in JSON, so no path can be filled from it", method.input);
    };
    let names = Names { known, type_name: &method.input };
    let mut path = String::new();
    let mut rest = rule.template.as_str();
    while let Some((before, after)) = rest.split_once('{') {
        let (variable, after) = after.split_once('}').context("a `}` is missing in the path")?;
        let (field, pattern) = variable.split_once('=').unwrap_or((variable, "*"));
        path.push_str(before);
        let value = take(&mut fields, &names.json(field)).unwrap_or_default();
        let text = plain_text(&value);
        if text.is_empty() {
            bail!("the path {} needs the field {field}", rule.template);
        }
        // More than one segment keeps its slashes.
        let set = if pattern == "*" { SEGMENT } else { PATH };
        path.extend(utf8_percent_encode(&text, set));
        rest = after;
    }
    path.push_str(rest);
    let body = match rule.body.as_str() {
        "" => Vec::new(),
        "*" => Value::Object(std::mem::take(&mut fields)).to_string().into_bytes(),
        field => {
            let value = take(&mut fields, &names.json(field)).unwrap_or(Value::Null);
            value.to_string().into_bytes()
        }
    };
    let mut query = Vec::new();
    flatten("", &Value::Object(fields), &mut query);
    if !query.is_empty() {
        path = format!("{path}?{}", query.join("&"));
    }
    Ok(Plain { verb: rule.verb.clone().unwrap_or(http::Method::POST), path, body })
}

/// Names of the `.proto` to those of JSON.
struct Names<'a> {
    known: &'a Catalog,
    type_name: &'a str,
}

impl Names<'_> {
    fn json(&self, dotted: &str) -> Vec<String> {
        use buffa_descriptor::{FieldKind, SingularKind};
        let pool = &self.known.pool;
        let mut message = pool.message_by_name(self.type_name);
        let mut names = Vec::new();
        for part in dotted.split('.') {
            let field = message.and_then(|message| message.field_by_name(part));
            names.push(field.map_or(part, |field| field.json_name()).to_owned());
            message = field.and_then(|field| match field.kind() {
                FieldKind::Singular(SingularKind::Message(index)) => Some(pool.message(index)),
                _ => None,
            });
        }
        names
    }
}

fn take(fields: &mut Map<String, Value>, names: &[String]) -> Option<Value> {
    let (first, rest) = names.split_first()?;
    if rest.is_empty() {
        return fields.remove(first);
    }
    take(fields.get_mut(first)?.as_object_mut()?, rest)
}

fn plain_text(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

fn flatten(name: &str, value: &Value, query: &mut Vec<String>) {
    match value {
        Value::Null => {}
        Value::Object(fields) => {
            for (field, value) in fields {
                let inner = if name.is_empty() { field.clone() } else { format!("{name}.{field}") };
                flatten(&inner, value, query);
            }
        }
        Value::Array(items) => items.iter().for_each(|item| flatten(name, item, query)),
        value => {
            let value = plain_text(value);
            query.push(format!("{name}={}", utf8_percent_encode(&value, SEGMENT)));
        }
    }
}

/// All but the unreserved characters of RFC 3986.
const SEGMENT: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');
const PATH: &AsciiSet = &SEGMENT.remove(b'/');
