//! Numbers as JavaScript writes and reads them, since rules compare text.
//!
//! `1e21` is written `1e+21`, `0.1 + 0.2` is `0.30000000000000004`, blank text reads as 0 and
//! `0x10` as 16. An integer that a `double` does not hold keeps its digits: two of them are
//! compared exactly.

use std::cmp::Ordering;

use crate::value::node::Number;

/// A number as `String(number)` writes it.
pub(crate) fn write(number: Number) -> String {
    match number {
        Number::Integer(integer) if integer.unsigned_abs() < 1_000_000_000_000_000_000_000 => {
            integer.to_string()
        }
        number => write_float(number.as_f64()),
    }
}

fn write_float(number: f64) -> String {
    if number.is_nan() {
        return "NaN".to_owned();
    }
    if number.is_infinite() {
        return if number > 0.0 { "Infinity" } else { "-Infinity" }.to_owned();
    }
    if number == 0.0 {
        return "0".to_owned();
    }
    // The shortest digits that read back as the same number, and the power of ten of the first one.
    let shortest = format!("{:e}", number.abs());
    let (digits, power) = shortest.split_once('e').unwrap_or((&shortest, "0"));
    let digits = digits.replace('.', "");
    let power: i32 = power.parse().unwrap_or(0);
    let sign = if number < 0.0 { "-" } else { "" };
    let count = i32::try_from(digits.len()).unwrap_or(i32::MAX);
    let zeros = |n: i32| "0".repeat(usize::try_from(n).unwrap_or(0));
    let text = match power {
        0..21 if count <= power + 1 => format!("{digits}{}", zeros(power + 1 - count)),
        0..21 => {
            let (whole, part) = digits.split_at(usize::try_from(power + 1).unwrap_or(0));
            format!("{whole}.{part}")
        }
        -6..0 => format!("0.{}{digits}", zeros(-power - 1)),
        _ => {
            let (first, rest) = digits.split_at(1);
            let dot = if rest.is_empty() { "" } else { "." };
            format!("{first}{dot}{rest}e{}{}", if power < 0 { '-' } else { '+' }, power.abs())
        }
    };
    format!("{sign}{text}")
}

/// Text as `Number(text)` reads it; `NaN` is `None`.
pub(crate) fn read(text: &str) -> Option<Number> {
    let text = text.trim_matches(|c: char| c.is_whitespace() || c == '\u{feff}');
    if text.is_empty() {
        return Some(Number::Integer(0));
    }
    for (prefixes, radix) in [(["0x", "0X"], 16), (["0o", "0O"], 8), (["0b", "0B"], 2)] {
        if let Some(digits) = prefixes.iter().find_map(|prefix| text.strip_prefix(prefix)) {
            let valid = !digits.is_empty() && digits.chars().all(|c| c.is_digit(radix));
            return valid
                .then(|| i128::from_str_radix(digits, radix).ok())
                .flatten()
                .map(Number::Integer);
        }
    }
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    match digits {
        "Infinity" if text.starts_with('-') => return Some(Number::Float(f64::NEG_INFINITY)),
        "Infinity" => return Some(Number::Float(f64::INFINITY)),
        _ => {}
    }
    // What only Rust reads: `inf`, `nan`.
    if !digits.starts_with(|c: char| c.is_ascii_digit() || c == '.') {
        return None;
    }
    match text.parse::<i128>() {
        Ok(integer) => Some(Number::Integer(integer)),
        Err(_) => text.parse().ok().map(Number::Float),
    }
}

/// How two numbers compare; nothing where one is not finite, as rules of numbers have it.
pub(crate) fn compare(left: Number, right: Number) -> Option<Ordering> {
    if let (Number::Integer(left), Number::Integer(right)) = (left, right) {
        return Some(left.cmp(&right));
    }
    let left = left.as_f64();
    let right = right.as_f64();
    if !left.is_finite() || !right.is_finite() {
        return None;
    }
    left.partial_cmp(&right)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_as_javascript_writes_them() {
        for (number, text) in [
            (0.1 + 0.2, "0.30000000000000004"),
            (1e21, "1e+21"),
            (123_456_789_012_345_680_000.0, "123456789012345680000"),
            (1e-7, "1e-7"),
            (0.000_001, "0.000001"),
            (1.5e-10, "1.5e-10"),
            (-2.5, "-2.5"),
            (100.0, "100"),
            (-0.0, "0"),
            (f64::NAN, "NaN"),
            (f64::NEG_INFINITY, "-Infinity"),
        ] {
            assert_eq!(write(Number::Float(number)), text);
        }
        assert_eq!(write(Number::Integer(9_007_199_254_740_993)), "9007199254740993");
        assert_eq!(write(Number::Integer(i128::MAX)), "1.7014118346046923e+38");
    }

    #[test]
    fn text_is_read_as_javascript_reads_it() {
        for (text, number) in [
            ("", Some(0.0)),
            (" \n", Some(0.0)),
            ("0x10", Some(16.0)),
            ("+10", Some(10.0)),
            (".5e2", Some(50.0)),
            ("5.", Some(5.0)),
            ("1_000", None),
            ("1,000", None),
            ("abc", None),
            ("inf", None),
            ("NaN", None),
            ("-Infinity", Some(f64::NEG_INFINITY)),
            ("-0x10", None),
        ] {
            assert_eq!(read(text).map(Number::as_f64), number, "{text:?}");
        }
        let near = compare(read("9007199254740993").unwrap(), read("9007199254740992").unwrap());
        assert_eq!(near, Some(Ordering::Greater));
    }
}
