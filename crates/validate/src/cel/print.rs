//! Values to text and back: conversions, and `format`.

use std::sync::Arc;

use super::outcome::{Outcome, failure};
use super::time;
use super::value::Value;

/// Conversions to simple types; `None` for other names.
pub(super) fn convert(name: &str, values: &[Value]) -> Option<Outcome> {
    let [value] = values else { return None };
    let bad = || failure(format!("{} has no {name}", text(value)));
    Some(match (name, value) {
        ("int", Value::Int(number)) => Ok(Value::Int(*number)),
        ("int", Value::Uint(number)) => {
            i64::try_from(*number).map_or_else(|_| bad(), |number| Ok(Value::Int(number)))
        }
        ("int", Value::Double(number)) if number.abs() < 9.2e18 => Ok(Value::Int(*number as i64)),
        ("int", Value::Text(text)) => text.parse().map_or_else(|_| bad(), |n| Ok(Value::Int(n))),
        ("uint", Value::Uint(number)) => Ok(Value::Uint(*number)),
        ("uint", Value::Int(number)) => {
            u64::try_from(*number).map_or_else(|_| bad(), |number| Ok(Value::Uint(number)))
        }
        ("uint", Value::Double(number)) if (0.0..1.8e19).contains(number) => {
            Ok(Value::Uint(*number as u64))
        }
        ("uint", Value::Text(text)) => text.parse().map_or_else(|_| bad(), |n| Ok(Value::Uint(n))),
        ("double", Value::Double(number)) => Ok(Value::Double(*number)),
        ("double", Value::Int(number)) => Ok(Value::Double(*number as f64)),
        ("double", Value::Uint(number)) => Ok(Value::Double(*number as f64)),
        ("double", Value::Text(text)) => {
            text.parse().map_or_else(|_| bad(), |number| Ok(Value::Double(number)))
        }
        ("bool", Value::Bool(value)) => Ok(Value::Bool(*value)),
        ("bool", Value::Text(text)) => match &**text {
            "true" | "True" | "TRUE" | "t" | "1" => Ok(Value::Bool(true)),
            "false" | "False" | "FALSE" | "f" | "0" => Ok(Value::Bool(false)),
            _ => bad(),
        },
        ("bytes", Value::Bytes(bytes)) => Ok(Value::Bytes(Arc::clone(bytes))),
        ("bytes", Value::Text(text)) => Ok(Value::Bytes(text.as_bytes().into())),
        ("string", Value::Bytes(bytes)) => match str::from_utf8(bytes) {
            Ok(text) => Ok(Value::text(text)),
            Err(_) => failure("bytes are not UTF-8"),
        },
        ("string", value) => Ok(Value::text(text(value))),
        ("int" | "uint" | "double" | "bool" | "bytes", _) => bad(),
        _ => return None,
    })
}

/// A value as `%s` prints it.
fn text(value: &Value) -> String {
    let list = |items: &mut dyn Iterator<Item = String>| items.collect::<Vec<_>>().join(", ");
    match value {
        Value::Null => "null".to_owned(),
        Value::Bool(value) => value.to_string(),
        Value::Int(number) => number.to_string(),
        Value::Uint(number) => number.to_string(),
        Value::Double(number) if number.is_nan() => "NaN".to_owned(),
        Value::Double(number) if number.is_infinite() => {
            if *number > 0.0 { "Infinity" } else { "-Infinity" }.to_owned()
        }
        Value::Double(number) => number.to_string(),
        Value::Text(text) => text.to_string(),
        Value::Bytes(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        Value::List(items) => format!("[{}]", list(&mut items.iter().map(text))),
        Value::Map(entries) => {
            let mut entries =
                entries.iter().map(|(key, value)| format!("{}: {}", text(key), text(value)));
            format!("{{{}}}", list(&mut entries))
        }
        Value::Message(message) => message.to_json().unwrap_or_default(),
        Value::Timestamp(nanos) => time::print_timestamp(*nanos),
        Value::Duration(nanos) => time::print_duration(*nanos),
        Value::Type(name) => name.to_string(),
    }
}

/// `format`: `%s`, `%d`, `%f`, `%e`, `%b`, `%o`, `%x`, `%X` and `%%`.
pub(super) fn format(pattern: &str, values: &[Value]) -> Outcome {
    let mut out = String::with_capacity(pattern.len());
    let mut values = values.iter();
    let mut chars = pattern.chars();
    while let Some(c) = chars.next() {
        if c != '%' {
            out.push(c);
            continue;
        }
        let mut digits = String::new();
        let clause = loop {
            match chars.next() {
                Some('%') if digits.is_empty() => break None,
                Some(c @ ('.' | '0'..='9')) if digits.len() < 4 => digits.push(c),
                Some(c) => break Some(c),
                None => return failure("format() ends in %"),
            }
        };
        let Some(clause) = clause else {
            out.push('%');
            continue;
        };
        let Some(value) = values.next() else { return failure("format() lacks a value") };
        let precision = digits.trim_start_matches('.').parse().unwrap_or(6);
        match one(clause, value, precision) {
            Some(text) => out.push_str(&text),
            None => {
                return failure(format!("format(): %{clause} is not for {}", value.type_name()));
            }
        }
    }
    Ok(Value::text(out))
}

fn one(clause: char, value: &Value, precision: usize) -> Option<String> {
    let whole = match value {
        Value::Int(number) => Some(i128::from(*number)),
        Value::Uint(number) => Some(i128::from(*number)),
        Value::Bool(value) if clause == 'b' => Some(i128::from(*value)),
        _ => None,
    };
    let signed = |radix: fn(i128) -> String| {
        whole.map(|n| format!("{}{}", if n < 0 { "-" } else { "" }, radix(n.abs())))
    };
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let double = match value {
        Value::Double(number) => Some(*number),
        _ => whole.map(|number| number as f64),
    };
    match (clause, value) {
        ('s', value) => Some(text(value)),
        ('d', Value::Double(number)) if !number.is_finite() => Some(text(value)),
        ('d', _) => signed(|n| n.to_string()),
        ('b', _) => signed(|n| format!("{n:b}")),
        ('o', _) => signed(|n| format!("{n:o}")),
        ('x', Value::Text(text)) => Some(hex(text.as_bytes())),
        ('X', Value::Text(text)) => Some(hex(text.as_bytes()).to_uppercase()),
        ('x', Value::Bytes(bytes)) => Some(hex(bytes)),
        ('X', Value::Bytes(bytes)) => Some(hex(bytes).to_uppercase()),
        ('x', _) => signed(|n| format!("{n:x}")),
        ('X', _) => signed(|n| format!("{n:X}")),
        ('f', _) => double.map(|number| format!("{number:.precision$}")),
        ('e', _) => double.map(|number| format!("{number:.precision$e}")),
        _ => None,
    }
}
