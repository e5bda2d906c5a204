//! Patterns of WireMock for one value: of a header, a parameter, a field.

use tidewire_mock::document::{Node, Tree};
use tidewire_schema::{Scalar, Single};

use super::{MATCHER, body, url};
use crate::finding::Gap;
use crate::matching::all;
use crate::nodes::{list, object, one, present, scalar_text, text, truth};
use crate::regexes::Pattern;

/// What a pattern looks at.
#[derive(Clone, Copy)]
enum Value<'s> {
    Header,
    Field { single: Single<'s>, presence: bool },
}

/// The test of a header.
pub(super) fn header(pattern: &Node, key: &str) -> Result<Node, Gap> {
    test(pattern, Value::Header, key)
}

/// The test of a field.
pub(super) fn field(
    pattern: &Node,
    single: Single<'_>,
    presence: bool,
    key: &str,
) -> Result<Node, Gap> {
    test(pattern, Value::Field { single, presence }, key)
}

/// What goes with a pattern.
const FLAGS: [&str; 5] = [
    "caseInsensitive",
    "ignoreArrayOrder",
    "ignoreExtraElements",
    "actualFormat",
    "truncateActual",
];

fn test(pattern: &Node, value: Value<'_>, key: &str) -> Result<Node, Gap> {
    let mut tests = Vec::new();
    for member in pattern.members() {
        if FLAGS.contains(&&*member.key) {
            continue;
        }
        let key = format!("{key}.{}", member.key);
        let gap = |why: String| Gap::new(member.place, &key, why);
        let no = || gap("has no counterpart".to_owned());
        let said = || scalar_text(&member.value).ok_or_else(|| gap("wants a text".to_owned()));
        tests.push(match member.key.as_str() {
            "equalTo" => equal(pattern, &said()?, value).map_err(gap)?,
            "contains" => part(&said()?, value).map_err(gap)?,
            "doesNotContain" => one("not", part(&said()?, value).map_err(gap)?),
            "matches" => fit(&said()?, value).map_err(gap)?,
            "doesNotMatch" => one("not", fit(&said()?, value).map_err(gap)?),
            "absent" => one("exists", truth(!member.value.is_truthy())),
            "and" | "or" => {
                let inner = member.value.items().iter().map(|inner| test(inner, value, &key));
                let inner: Vec<_> = inner.collect::<Result<_, _>>()?;
                if inner.is_empty() {
                    return Err(gap("no patterns".to_owned()));
                }
                match member.key.as_str() {
                    "or" => one("any_of", list(inner)),
                    _ => all(inner).ok_or_else(no)?,
                }
            }
            "not" => one("not", test(&member.value, value, &key)?),
            "before" | "after" | "equalToDateTime" => {
                let time = said()?;
                let is_time = time.len() >= 20
                    && time.starts_with(|c: char| c.is_ascii_digit())
                    && time.contains('T');
                if !is_time {
                    return Err(gap(format!("{time} is not a time with its zone")));
                }
                match member.key.as_str() {
                    "before" => one("lt", text(time)),
                    "after" => one("gt", text(time)),
                    _ => text(time),
                }
            }
            "equalToNumber" => equal(pattern, &said()?, value).map_err(gap)?,
            "greaterThanNumber" => one("gt", member.value.clone()),
            "greaterThanEqualNumber" => one("gte", member.value.clone()),
            "lessThanNumber" => one("lt", member.value.clone()),
            "lessThanEqualNumber" => one("lte", member.value.clone()),
            "equalToJson" => match value {
                Value::Field { single: Single::Message(_), .. } => {
                    let json = body::document(&member.value, &key)?;
                    one("equals", json)
                }
                _ => return Err(no()),
            },
            _ => return Err(no()),
        });
    }
    let why = || Gap::new(pattern.place, key, format!("{} in place of a pattern", pattern.kind()));
    all(tests).ok_or_else(why)
}

fn equal(pattern: &Node, wanted: &str, value: Value<'_>) -> Result<Node, String> {
    if present(pattern, "caseInsensitive").is_some_and(Node::is_truthy) {
        if !is_text(value) {
            return Err("caseInsensitive of what is not a text".to_owned());
        }
        return Ok(object(vec![
            ("regex".to_owned(), text(format!("^{}$", regex::escape(wanted)))),
            ("flags".to_owned(), text("i")),
        ]));
    }
    match value {
        Value::Header => Ok(text(wanted)),
        Value::Field { single, presence } => url::exact(single, presence, &text(wanted)),
    }
}

fn part(wanted: &str, value: Value<'_>) -> Result<Node, String> {
    match is_text(value) {
        true => Ok(one("contains", text(wanted))),
        false => Err("a part of what is not a text".to_owned()),
    }
}

fn fit(wanted: &str, value: Value<'_>) -> Result<Node, String> {
    let pattern = Pattern::of_java(wanted)?;
    match value {
        Value::Header => Ok(pattern.test()),
        Value::Field { single, presence } => MATCHER.pattern(single, presence, &pattern),
    }
}

fn is_text(value: Value<'_>) -> bool {
    match value {
        Value::Header => true,
        Value::Field { single, .. } => matches!(single, Single::Scalar(Scalar::String)),
    }
}

/// The test of an element of a list in CEL, where one of its fields has to fit a pattern.
pub(super) fn expression(
    pattern: &Node,
    single: Single<'_>,
    value: &str,
    key: &str,
) -> Result<String, Gap> {
    let mut parts = Vec::new();
    for member in pattern.members() {
        let key = format!("{key}.{}", member.key);
        let gap = |why: String| Gap::new(member.place, &key, why);
        let said = scalar_text(&member.value).unwrap_or_default();
        let is_text = matches!(single, Single::Scalar(Scalar::String));
        parts.push(match member.key.as_str() {
            "equalTo" => {
                let wanted = match single {
                    Single::Scalar(Scalar::Bool) => truth(said == "true"),
                    _ => Node::new(Tree::Text(said)),
                };
                format!("{value} == {}", crate::cel::scalar(single, &wanted).map_err(gap)?)
            }
            "contains" if is_text => format!("{value}.contains({})", crate::cel::quote(&said)),
            "matches" if is_text => {
                let pattern = Pattern::of_java(&said).map_err(gap)?;
                // Only what RE2 has too.
                pattern.is_match("").map_err(gap)?;
                format!("{value}.matches({})", crate::cel::quote(pattern.re2()))
            }
            _ => return Err(gap("of an element of a list has no counterpart".to_owned())),
        });
    }
    match parts.is_empty() {
        true => Err(Gap::new(pattern.place, key, "no pattern")),
        false => Ok(parts.join(" && ")),
    }
}
