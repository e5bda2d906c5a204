//! Durations, sizes, rates and ranges as people write them, and figures as they read them.

use std::time::Duration;

/// Parses `250us`, `1.5s`, `2m`, `1h`; a bare number is seconds.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    tidewire_service::parse_duration(text).ok_or_else(|| {
        format!("{text:?} is not a duration; write {}", tidewire_service::DURATION_FORMAT)
    })
}

/// Parses `512M`, `1.5GiB`, `4096`; letters mean powers of 1024.
pub(crate) fn bytes(text: &str) -> Result<u64, String> {
    let bad = || format!("{text:?} is not a size; write 512MiB or 1GiB");
    let split = text.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let number: f64 = number.trim().parse().map_err(|_| bad())?;
    let power = match unit.to_ascii_lowercase().trim_end_matches('b').trim_end_matches('i') {
        "" => 0,
        "k" => 1,
        "m" => 2,
        "g" => 3,
        _ => return Err(bad()),
    };
    let size = number * 1024_f64.powi(power);
    if size >= 1.0 { Ok(size as u64) } else { Err(bad()) }
}

/// From one value to another; the same twice when only one is given.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Span {
    pub(crate) from: f64,
    pub(crate) to: f64,
}

/// Parses `2000` or `1..300`.
pub(crate) fn span(text: &str) -> Result<Span, String> {
    let number = |part: &str| match part.trim().replace('_', "").parse::<f64>() {
        Ok(value) if value >= 0.0 && value.is_finite() => Ok(value),
        _ => Err(format!("{text:?} is not a number or a range; write 2000 or 1..300")),
    };
    let (from, to) = match text.split_once("..") {
        Some((from, to)) => (number(from)?, number(to)?),
        None => (number(text)?, number(text)?),
    };
    if to <= 0.0 {
        return Err(format!("{text:?} must end above 0"));
    }
    Ok(Span { from, to })
}

/// A latency with three digits and a fitting unit; seconds in.
pub(crate) fn time(seconds: f64) -> String {
    let (value, unit) = match seconds {
        s if s >= 1.0 => (s, "s"),
        s if s >= 1e-3 => (s * 1e3, "ms"),
        s if s >= 1e-7 || s == 0.0 => (s * 1e6, "µs"),
        s => (s * 1e9, "ns"),
    };
    format!("{} {unit}", digits(value))
}

/// Three significant digits, more for large whole numbers.
pub(crate) fn digits(value: f64) -> String {
    match value {
        v if v >= 100.0 || v == 0.0 => grouped(v),
        v if v >= 10.0 => format!("{v:.1}"),
        v => format!("{v:.2}"),
    }
}

/// A whole number with commas.
pub(crate) fn grouped(value: f64) -> String {
    let text = format!("{:.0}", value.abs());
    let mut out = String::new();
    for (index, digit) in text.chars().enumerate() {
        if index > 0 && (text.len() - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    if value < 0.0 { format!("-{out}") } else { out }
}

/// A size in the largest unit that keeps it above 1.
pub(crate) fn size(bytes: f64) -> String {
    let units = ["B", "KiB", "MiB", "GiB"];
    let mut value = bytes;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < units.len() {
        value /= 1024.0;
        unit += 1;
    }
    if unit == 0 { format!("{value:.0} B") } else { format!("{value:.1} {}", units[unit]) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_sizes_and_spans_are_parsed() {
        assert_eq!(duration("21s").unwrap(), Duration::from_secs(21));
        assert_eq!(duration("250us").unwrap(), Duration::from_micros(250));
        assert_eq!(duration("1.5m").unwrap(), Duration::from_secs(90));
        assert!(duration("fast").unwrap_err().contains("500ms"));
        assert!(duration("-1s").is_err());
        assert_eq!(bytes("512MiB").unwrap(), 512 << 20);
        assert_eq!(bytes("1.5g").unwrap(), 3 << 29);
        assert!(bytes("1x").is_err());
        assert_eq!(span("1..300").unwrap(), Span { from: 1.0, to: 300.0 });
        assert_eq!(span("2_000").unwrap(), Span { from: 2000.0, to: 2000.0 });
        assert!(span("5..x").is_err() && span("0").is_err());
    }

    #[test]
    fn figures_read_well() {
        assert_eq!(time(0.000_123_4), "123 µs");
        assert_eq!(time(0.895_2), "895 ms");
        assert_eq!(time(1.5), "1.50 s");
        assert_eq!(grouped(1_234_567.0), "1,234,567");
        assert_eq!(size(1536.0), "1.5 KiB");
    }
}
