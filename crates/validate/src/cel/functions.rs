//! Operators and functions at work; what checking knows of them is in `signatures.rs`.
//!
//! Functions are those of the language, of its extension for strings, and of protovalidate.

use std::cmp::Ordering;
use std::sync::Arc;

use buffa_descriptor::reflect::ReflectMessage;

use super::ast::{Expr, Operator};
use super::outcome::{Budget, Failure, Outcome, failure};
use super::value::{Value, lookup};
use super::{print, time};
use crate::check::{Scalar, are_unique};
use crate::pattern;

/// Whether a name is that of a type.
pub(super) fn is_type(name: &str) -> bool {
    let known =
        ["bool", "int", "uint", "double", "string", "bytes", "list", "map", "null_type", "type"];
    known.contains(&name)
}

/// The type that an expression names by its full name.
pub(super) fn type_named(expr: &Expr) -> Option<&'static str> {
    let Expr::Select { of, field, test: false } = expr else { return None };
    let Expr::Select { of, field: middle, test: false } = &**of else { return None };
    let is_package = matches!(&**of, Expr::Name(name) if name == "google") && middle == "protobuf";
    match field.as_str() {
        "Timestamp" if is_package => Some("google.protobuf.Timestamp"),
        "Duration" if is_package => Some("google.protobuf.Duration"),
        _ => None,
    }
}

pub(super) fn sign(name: Operator, value: &Value) -> Outcome {
    match (name, value) {
        (Operator::Not, Value::Bool(value)) => Ok(Value::Bool(!value)),
        (Operator::Negate, Value::Double(number)) => Ok(Value::Double(-number)),
        (Operator::Negate, Value::Int(number)) => {
            number.checked_neg().map_or_else(|| failure("integer overflow"), |n| Ok(Value::Int(n)))
        }
        _ => failure(format!("{:?} does not take {}", name.sign(), value.type_name())),
    }
}

pub(super) fn operate(name: Operator, left: Value, right: Value) -> Outcome {
    let order = |wanted: fn(Ordering) -> bool| {
        let comparable = left.is_number() && right.is_number();
        match left.order(&right) {
            Some(order) => Ok(Value::Bool(wanted(order))),
            None if comparable => Ok(Value::Bool(false)),
            None => {
                failure(format!("{} and {} have no order", left.type_name(), right.type_name()))
            }
        }
    };
    match name {
        Operator::Equal => Ok(Value::Bool(left.equals(&right))),
        Operator::Unequal => Ok(Value::Bool(!left.equals(&right))),
        Operator::Less => order(Ordering::is_lt),
        Operator::LessOrEqual => order(Ordering::is_le),
        Operator::Greater => order(Ordering::is_gt),
        Operator::GreaterOrEqual => order(Ordering::is_ge),
        Operator::In => match &right {
            Value::List(items) => Ok(Value::Bool(items.iter().any(|item| item.equals(&left)))),
            Value::Map(entries) => Ok(Value::Bool(lookup(entries, &left).is_some())),
            other => failure(format!("{} has no items", other.type_name())),
        },
        Operator::Index => index(&left, &right),
        _ => arithmetic(name, left, right),
    }
}

/// The field of a message or the entry of a map, or whether it is there.
pub(super) fn field(budget: &mut Budget, of: &Value, field: &str, test: bool) -> Outcome {
    let value = match of {
        Value::Message(message) => {
            let descriptor = message.message_descriptor();
            let Some(found) = descriptor.field_by_name(field) else {
                return failure(format!("{} has no field {field}", descriptor.full_name()));
            };
            if test {
                return Ok(Value::Bool(message.has(found)));
            }
            Value::of_field(message, found)
        }
        Value::Map(entries) => {
            let found = lookup(entries, &Value::text(field));
            match (test, found) {
                (true, found) => Value::Bool(found.is_some()),
                (false, Some(found)) => found.clone(),
                (false, None) => return failure(format!("no such key: {field}")),
            }
        }
        other => return failure(format!("{} has no field {field}", other.type_name())),
    };
    budget.spend(value.weight())?;
    Ok(value)
}

fn index(of: &Value, at: &Value) -> Outcome {
    let found = match (of, at) {
        (Value::Map(entries), key) => lookup(entries, key),
        (Value::List(items), Value::Int(at)) => {
            usize::try_from(*at).ok().and_then(|at| items.get(at))
        }
        (Value::List(items), Value::Uint(at)) => {
            usize::try_from(*at).ok().and_then(|at| items.get(at))
        }
        _ => return failure(format!("{} has no items", of.type_name())),
    };
    found.cloned().map_or_else(|| failure("no such key or index"), Ok)
}

fn arithmetic(name: Operator, left: Value, right: Value) -> Outcome {
    let fits =
        |value: Option<Value>| value.map_or_else(|| failure("overflow, or division by zero"), Ok);
    match (left, right) {
        (Value::Int(a), Value::Int(b)) => fits(
            match name {
                Operator::Add => a.checked_add(b),
                Operator::Subtract => a.checked_sub(b),
                Operator::Multiply => a.checked_mul(b),
                Operator::Divide => a.checked_div(b),
                _ => a.checked_rem(b),
            }
            .map(Value::Int),
        ),
        (Value::Uint(a), Value::Uint(b)) => fits(
            match name {
                Operator::Add => a.checked_add(b),
                Operator::Subtract => a.checked_sub(b),
                Operator::Multiply => a.checked_mul(b),
                Operator::Divide => a.checked_div(b),
                _ => a.checked_rem(b),
            }
            .map(Value::Uint),
        ),
        (Value::Double(a), Value::Double(b)) => match name {
            Operator::Add => Ok(Value::Double(a + b)),
            Operator::Subtract => Ok(Value::Double(a - b)),
            Operator::Multiply => Ok(Value::Double(a * b)),
            Operator::Divide => Ok(Value::Double(a / b)),
            _ => failure("\"%\" does not take double"),
        },
        (Value::Text(a), Value::Text(b)) if name == Operator::Add => {
            Ok(Value::text(format!("{a}{b}")))
        }
        (Value::Bytes(a), Value::Bytes(b)) if name == Operator::Add => {
            Ok(Value::Bytes([&*a, &*b].concat().into()))
        }
        (Value::List(a), Value::List(b)) if name == Operator::Add => {
            Ok(Value::List(Arc::new(a.iter().chain(b.iter()).cloned().collect())))
        }
        (left, right) => time::arithmetic(name == Operator::Add, &left, &right)
            .filter(|_| matches!(name, Operator::Add | Operator::Subtract))
            .unwrap_or_else(|| {
                let left = left.type_name();
                let right = right.type_name();
                failure(format!("{:?} does not take {left} and {right}", name.sign()))
            }),
    }
}

/// Calls a function; the target is the first value.
pub(super) fn call(budget: &mut Budget, name: &str, values: Vec<Value>) -> Outcome {
    let weight: u64 = values.iter().map(Value::weight).sum();
    budget.spend(weight)?;
    if let Some(found) = time::call(name, &values).or_else(|| print::convert(name, &values)) {
        return found;
    }
    if let [Value::Text(text), rest @ ..] = &*values
        && let Some(found) = form(name, text.as_bytes(), rest)
    {
        return Ok(Value::Bool(found));
    }
    match (name, &*values) {
        ("dyn", [value]) => Ok(value.clone()),
        ("type", [value]) => Ok(Value::Type(value.type_name().into())),
        ("getField", [of, Value::Text(field)]) => {
            let of = of.clone();
            let field = Arc::clone(field);
            self::field(budget, &of, &field, false)
        }
        ("size", [Value::Text(text)]) => Ok(Value::Int(text.chars().count() as i64)),
        ("size", [Value::Bytes(bytes)]) => Ok(Value::Int(bytes.len() as i64)),
        ("size", [Value::List(items)]) => Ok(Value::Int(items.len() as i64)),
        ("size", [Value::Map(entries)]) => Ok(Value::Int(entries.len() as i64)),
        ("contains", [Value::Bytes(a), Value::Bytes(b)]) => {
            Ok(Value::Bool(memchr::memmem::find(a, b).is_some()))
        }
        ("startsWith", [Value::Bytes(a), Value::Bytes(b)]) => Ok(Value::Bool(a.starts_with(b))),
        ("endsWith", [Value::Bytes(a), Value::Bytes(b)]) => Ok(Value::Bool(a.ends_with(b))),
        ("matches", [Value::Text(text), Value::Text(pattern)]) => {
            // A pattern is compiled anew each time, which costs more than looking through the text.
            budget.spend(1000 + 100 * pattern.len() as u64)?;
            let pattern = pattern::compile(pattern).map_err(Failure)?;
            Ok(Value::Bool(pattern.is_match(text.as_bytes())))
        }
        ("isNan", [Value::Double(number)]) => Ok(Value::Bool(number.is_nan())),
        ("isInf", [Value::Double(number)]) => Ok(Value::Bool(number.is_infinite())),
        ("isInf", [Value::Double(number), Value::Int(sign)]) => {
            Ok(Value::Bool(number.is_infinite() && (*sign == 0 || (*sign > 0) == (*number > 0.0))))
        }
        ("unique", [Value::List(items)]) => Ok(Value::Bool(unique(items))),
        ("join", [Value::List(items), separator @ ..]) => {
            let texts: Option<Vec<&str>> = items.iter().map(text_of).collect();
            let Some(texts) = texts else { return failure("join() is for strings") };
            Ok(Value::text(texts.join(separator.first().and_then(text_of).unwrap_or(""))))
        }
        ("format", [Value::Text(text), Value::List(items)]) => print::format(text, items),
        (_, [Value::Text(text), rest @ ..]) => text_call(budget, name, text, rest),
        _ => failure(format!("there is no {name}() for this")),
    }
}

fn text_of(value: &Value) -> Option<&str> {
    match value {
        Value::Text(text) => Some(text),
        _ => None,
    }
}

/// What protovalidate asks of strings.
fn form(name: &str, text: &[u8], rest: &[Value]) -> Option<bool> {
    Some(match (name, rest) {
        ("isHostname", []) => crate::formats::is_hostname(text),
        ("isEmail", []) => crate::formats::is_email(text),
        ("isIp", []) => crate::formats::is_ip(text, 0),
        ("isIp", [Value::Int(version)]) => crate::formats::is_ip(text, *version),
        ("isIpPrefix", []) => crate::formats::is_ip_prefix(text, 0, false),
        ("isIpPrefix", [Value::Int(version)]) => {
            crate::formats::is_ip_prefix(text, *version, false)
        }
        ("isIpPrefix", [Value::Bool(strict)]) => crate::formats::is_ip_prefix(text, 0, *strict),
        ("isIpPrefix", [Value::Int(version), Value::Bool(strict)]) => {
            crate::formats::is_ip_prefix(text, *version, *strict)
        }
        ("isUri", []) => crate::formats::is_uri(text),
        ("isUriRef", []) => crate::formats::is_uri_ref(text),
        ("isHostAndPort", [Value::Bool(port)]) => crate::formats::is_host_and_port(text, *port),
        _ => return None,
    })
}

fn unique(items: &[Value]) -> bool {
    let scalars: Option<Vec<Scalar<'_>>> = items
        .iter()
        .map(|item| match item {
            Value::Bool(value) => Some(Scalar::Integer((*value).into())),
            Value::Int(number) => Some(Scalar::Integer((*number).into())),
            Value::Uint(number) => Some(Scalar::Integer((*number).into())),
            Value::Double(number) => Some(Scalar::Float(*number)),
            Value::Text(text) => Some(Scalar::Bytes(text.as_bytes())),
            Value::Bytes(bytes) => Some(Scalar::Bytes(bytes)),
            _ => None,
        })
        .collect();
    // Messages are told apart by where they are, as protovalidate does.
    scalars.is_none_or(|scalars| are_unique(scalars.into_iter()))
}

fn text_call(budget: &mut Budget, name: &str, text: &str, rest: &[Value]) -> Outcome {
    let within = |at: i64| usize::try_from(at).ok().filter(|at| *at <= text.chars().count());
    let slice = |from: i64, to: i64| match (within(from), within(to)) {
        (Some(from), Some(to)) if from <= to => {
            Ok(Value::text(text.chars().skip(from).take(to - from).collect::<String>()))
        }
        _ => failure(format!("index out of range: {from}")),
    };
    let length = text.chars().count() as i64;
    let position = |byte: usize| Value::Int(text[..byte].chars().count() as i64);
    match (name, rest) {
        ("contains", [Value::Text(part)]) => Ok(Value::Bool(text.contains(&**part))),
        ("startsWith", [Value::Text(part)]) => Ok(Value::Bool(text.starts_with(&**part))),
        ("endsWith", [Value::Text(part)]) => Ok(Value::Bool(text.ends_with(&**part))),
        ("charAt", [Value::Int(at)]) if *at == length => Ok(Value::text("")),
        ("charAt", [Value::Int(at)]) => slice(*at, at.saturating_add(1)),
        ("substring", [Value::Int(from)]) => slice(*from, length),
        ("substring", [Value::Int(from), Value::Int(to)]) => slice(*from, *to),
        ("indexOf", [Value::Text(part)]) => Ok(text.find(&**part).map_or(Value::Int(-1), position)),
        ("indexOf", [Value::Text(part), Value::Int(from)]) => {
            let Some(from) = within(*from) else { return failure("index out of range") };
            let skip: usize = text.chars().take(from).map(char::len_utf8).sum();
            Ok(text[skip..].find(&**part).map_or(Value::Int(-1), |at| position(skip + at)))
        }
        ("lastIndexOf", [Value::Text(part)]) => {
            Ok(text.rfind(&**part).map_or(Value::Int(-1), position))
        }
        ("lastIndexOf", [Value::Text(part), Value::Int(to)]) => {
            let Some(to) = within(*to) else { return failure("index out of range") };
            let end: usize = text.chars().take(to).map(char::len_utf8).sum();
            let found = text.match_indices(&**part).map(|(at, _)| at).take_while(|at| *at <= end);
            Ok(found.last().map_or(Value::Int(-1), position))
        }
        ("lowerAscii", []) => Ok(Value::text(text.to_ascii_lowercase())),
        ("upperAscii", []) => Ok(Value::text(text.to_ascii_uppercase())),
        ("trim", []) => Ok(Value::text(text.trim())),
        ("reverse", []) => Ok(Value::text(text.chars().rev().collect::<String>())),
        ("replace", [Value::Text(from), Value::Text(to), limit @ ..]) => {
            let limit = match limit {
                [Value::Int(limit)] => usize::try_from(*limit).unwrap_or(usize::MAX),
                _ => usize::MAX,
            };
            let times = text.matches(&**from).take(limit).count() as u64;
            budget.spend(times * (to.len() as u64 / 32 + 1))?;
            Ok(Value::text(text.replacen(&**from, to, limit)))
        }
        ("split", [Value::Text(separator), limit @ ..]) => {
            budget.spend(text.len() as u64)?;
            Ok(split(text, separator, limit.first()))
        }
        _ => failure(format!("there is no {name}() for this")),
    }
}

fn split(text: &str, separator: &str, limit: Option<&Value>) -> Value {
    let limit = match limit {
        Some(Value::Int(limit)) => usize::try_from(*limit).unwrap_or(usize::MAX),
        _ => usize::MAX,
    };
    let parts: Vec<Value> = if limit == 0 {
        Vec::new()
    } else if separator.is_empty() {
        text.chars().take(limit).map(|c| Value::text(c.to_string())).collect()
    } else {
        text.splitn(limit, separator).map(Value::text).collect()
    };
    Value::List(Arc::new(parts))
}
