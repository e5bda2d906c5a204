//! Conditions as expressions of CEL, where no operator says them: parts of messages in lists, and
//! how often a list has an element.

use std::fmt::Write as _;

use tidewire_mock::document::{Node, Tree};
use tidewire_schema::{Field, Kind, MessageType, Scalar, Single};
use tidewire_service::is_steering;

use crate::matching::{Comparison, literal};
use crate::nodes::scalar_text;
use crate::regexes::Pattern;

/// A text of CEL in quotation marks, with whatever cannot be seen as an escape.
pub(crate) fn quote(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if is_steering(c) => {
                let code = u32::from(c);
                let _ = match code {
                    0..=0xffff => write!(out, "\\u{code:04x}"),
                    _ => write!(out, "\\U{code:08x}"),
                };
            }
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

/// A scalar of JSON as a literal of CEL that compares with a field.
pub(crate) fn scalar(single: Single<'_>, wanted: &Node) -> Result<String, String> {
    let known = literal(single, wanted)?.node;
    let shown = scalar_text(&known).unwrap_or_default();
    Ok(match single {
        Single::Message(_) => return Err("a message".to_owned()),
        Single::Enum(of) => match of.number_of(&shown) {
            Some(number) => number.to_string(),
            None => shown,
        },
        Single::Scalar(Scalar::String) => quote(&shown),
        Single::Scalar(Scalar::Bytes) => {
            return Err("bytes in an expression have no counterpart".to_owned());
        }
        Single::Scalar(Scalar::Double | Scalar::Float) => {
            match shown.contains(['.', 'e', 'N', 'i']) {
                true => shown,
                false => format!("{shown}.0"),
            }
        }
        Single::Scalar(Scalar::Bool) => shown,
        Single::Scalar(Scalar::Uint32 | Scalar::Uint64 | Scalar::Fixed32 | Scalar::Fixed64) => {
            format!("{shown}u")
        }
        Single::Scalar(_) => shown,
    })
}

/// Whether a value fits, as an expression.
fn fits(single: Single<'_>, value: &str, wanted: &Node, how: Comparison) -> Result<String, String> {
    let pattern = match (&wanted.value, how) {
        (Tree::Text(text), Comparison::GoPattern) => Some(Pattern::of_go(text)?),
        (Tree::Text(text), Comparison::GoGlob) => Some(Pattern::of_go_glob(text)?),
        _ => None,
    };
    let Some(pattern) = pattern else {
        return Ok(format!("{value} == {}", scalar(single, wanted)?));
    };
    match single {
        Single::Scalar(Scalar::String) => Ok(format!("{value}.matches({})", quote(pattern.re2()))),
        Single::Scalar(Scalar::Bool | Scalar::Bytes) | Single::Enum(_) | Single::Message(_) => {
            Err("a pattern over this field of an element has no counterpart".to_owned())
        }
        Single::Scalar(_) => Ok(format!("string({value}).matches({})", quote(pattern.re2()))),
    }
}

/// Whether a message has this in it.
pub(crate) fn part(
    owner: MessageType<'_>,
    value: &str,
    wanted: &Node,
    how: Comparison,
) -> Result<String, String> {
    part_at(owner, value, wanted, how, 0)
}

fn part_at(
    owner: MessageType<'_>,
    value: &str,
    wanted: &Node,
    how: Comparison,
    depth: usize,
) -> Result<String, String> {
    if !wanted.is_object() {
        return Err(format!("{} in place of a {}", wanted.kind(), owner.full_name()));
    }
    let mut parts = Vec::new();
    for member in wanted.members() {
        let field = owner.field(&member.key);
        let field =
            field.ok_or_else(|| format!("{} has no field {}", owner.full_name(), member.key))?;
        let value = format!("{value}.{}", field.name());
        parts.push(field_part(field, &value, &member.value, how, depth)?);
    }
    Ok(match parts.is_empty() {
        true => "true".to_owned(),
        false => parts.join(" && "),
    })
}

fn field_part(
    field: Field<'_>,
    value: &str,
    wanted: &Node,
    how: Comparison,
    depth: usize,
) -> Result<String, String> {
    match field.kind() {
        Kind::One(Single::Message(inner)) => part_at(inner, value, wanted, how, depth),
        Kind::One(single) => fits(single, value, wanted, how),
        Kind::List(single) => {
            let Tree::List(items) = &wanted.value else {
                return Err(format!("{} in place of a list", wanted.kind()));
            };
            let name = format!("x{depth}");
            let mut parts = Vec::new();
            if how != Comparison::Part {
                parts.push(format!("size({value}) == {}", items.len()));
            }
            for item in items {
                let test = match (single, how) {
                    (Single::Message(inner), _) => part_at(inner, &name, item, how, depth + 1)?,
                    (single, _) => fits(single, &name, item, how)?,
                };
                parts.push(format!("{value}.exists({name}, {test})"));
            }
            Ok(match parts.is_empty() {
                true => "true".to_owned(),
                false => parts.join(" && "),
            })
        }
        Kind::Map { value: single, .. } => {
            let mut parts = Vec::new();
            for member in wanted.members() {
                let key = quote(&member.key);
                let entry = format!("{value}[{key}]");
                let test = match single {
                    Single::Message(inner) => part_at(inner, &entry, &member.value, how, depth)?,
                    single => fits(single, &entry, &member.value, how)?,
                };
                parts.push(format!("{key} in {value} && {test}"));
            }
            Ok(match parts.is_empty() {
                true => "true".to_owned(),
                false => parts.join(" && "),
            })
        }
    }
}

/// Whether a list has an element that often.
pub(crate) fn count(
    single: Single<'_>,
    wanted: &Node,
    how: Comparison,
    times: usize,
) -> Result<String, String> {
    let test = match single {
        Single::Message(inner)
            if matches!(how, Comparison::Part | Comparison::GoPattern | Comparison::GoGlob) =>
        {
            part(inner, "x", wanted, how)?
        }
        Single::Message(_) => {
            return Err("equal messages in a list of any order have no counterpart".to_owned());
        }
        single => fits(single, "x", wanted, how)?,
    };
    Ok(format!("size(this.filter(x, {test})) >= {times}"))
}
