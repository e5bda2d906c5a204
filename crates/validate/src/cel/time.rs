//! Times and durations: arithmetic, text and calendars.
//!
//! Years 1 to 9999; zones are offsets (`+02:00`) or UTC.

use super::outcome::{Outcome, failure};
use super::value::Value;

const SECOND: i128 = 1_000_000_000;
/// Nanoseconds of 0001-01-01T00:00:00Z and of the end of 9999.
const FIRST: i128 = -62_135_596_800 * SECOND;
const LAST: i128 = 253_402_300_800 * SECOND - 1;

/// Adds or subtracts, where one is a time or a duration.
pub(super) fn arithmetic(adds: bool, left: &Value, right: &Value) -> Option<Outcome> {
    let sign = |number: i64| if adds { i128::from(number) } else { -i128::from(number) };
    Some(match (left, right) {
        (Value::Timestamp(a), Value::Duration(b)) => timestamp(a + sign(*b)),
        (Value::Duration(a), Value::Timestamp(b)) if adds => timestamp(b + i128::from(*a)),
        (Value::Timestamp(a), Value::Timestamp(b)) if !adds => duration(a - b),
        (Value::Duration(a), Value::Duration(b)) => duration(i128::from(*a) + sign(*b)),
        _ => return None,
    })
}

fn timestamp(nanos: i128) -> Outcome {
    if (FIRST..=LAST).contains(&nanos) {
        return Ok(Value::Timestamp(nanos));
    }
    failure("a timestamp is out of range")
}

fn duration(nanos: i128) -> Outcome {
    i64::try_from(nanos)
        .map_or_else(|_| failure("a duration is out of range"), |nanos| Ok(Value::Duration(nanos)))
}

/// Functions of times; `None` when this is none of them.
pub(super) fn call(name: &str, values: &[Value]) -> Option<Outcome> {
    match (name, values) {
        ("timestamp", [Value::Int(seconds)]) => Some(timestamp(i128::from(*seconds) * SECOND)),
        ("timestamp", [Value::Timestamp(nanos)]) => Some(Ok(Value::Timestamp(*nanos))),
        ("timestamp", [Value::Text(text)]) => Some(match parse_timestamp(text) {
            Some(nanos) => timestamp(nanos),
            None => failure(format!("{text} is not a timestamp")),
        }),
        ("duration", [Value::Int(nanos)]) => Some(Ok(Value::Duration(*nanos))),
        ("duration", [Value::Duration(nanos)]) => Some(Ok(Value::Duration(*nanos))),
        ("duration", [Value::Text(text)]) => Some(match parse_duration(text) {
            Some(nanos) => duration(nanos),
            None => failure(format!("{text} is not a duration")),
        }),
        ("int", [Value::Timestamp(nanos)]) => Some(Ok(Value::Int(nanos.div_euclid(SECOND) as i64))),
        ("int", [Value::Duration(nanos)]) => Some(Ok(Value::Int(*nanos))),
        (name, [Value::Duration(nanos)]) => {
            part_of_duration(name, *nanos).map(|n| Ok(Value::Int(n)))
        }
        (name, [Value::Timestamp(nanos)]) => part(name, *nanos).map(|n| Ok(Value::Int(n))),
        (name, [Value::Timestamp(nanos), Value::Text(zone)]) => match offset(zone) {
            Some(offset) => part(name, nanos + offset).map(|n| Ok(Value::Int(n))),
            None => Some(failure(format!("{zone} is not an offset, such as +02:00, or UTC"))),
        },
        _ => None,
    }
}

fn part_of_duration(name: &str, nanos: i64) -> Option<i64> {
    Some(match name {
        "getHours" => nanos / 3_600_000_000_000,
        "getMinutes" => nanos / 60_000_000_000,
        "getSeconds" => nanos / 1_000_000_000,
        "getMilliseconds" => nanos / 1_000_000 % 1000,
        _ => return None,
    })
}

fn part(name: &str, nanos: i128) -> Option<i64> {
    let seconds = nanos.div_euclid(SECOND) as i64;
    let days = seconds.div_euclid(86_400);
    let of_day = seconds.rem_euclid(86_400);
    let Date { year, month, day } = date(days);
    Some(match name {
        "getFullYear" => year,
        "getMonth" => month - 1,
        "getDate" => day,
        "getDayOfMonth" => day - 1,
        "getDayOfWeek" => (days + 4).rem_euclid(7),
        "getDayOfYear" => days - days_to(year, 1, 1),
        "getHours" => of_day / 3600,
        "getMinutes" => of_day / 60 % 60,
        "getSeconds" => of_day % 60,
        "getMilliseconds" => (nanos.rem_euclid(SECOND) / 1_000_000) as i64,
        _ => return None,
    })
}

/// Whether a zone is one that is known.
pub(super) fn is_zone(zone: &str) -> bool {
    offset(zone).is_some()
}

/// Nanoseconds that a zone is ahead of UTC.
fn offset(zone: &str) -> Option<i128> {
    if matches!(zone, "" | "UTC" | "Z") {
        return Some(0);
    }
    let (sign, digits) = match zone.as_bytes().first()? {
        b'-' => (-1, &zone[1..]),
        b'+' => (1, &zone[1..]),
        _ => (1, zone),
    };
    let (hours, minutes) = digits.split_once(':')?;
    let plain = |text: &str, max: i128| {
        let ok = text.len() == 2 && text.bytes().all(|byte| byte.is_ascii_digit());
        ok.then(|| text.parse::<i128>().ok()).flatten().filter(|number| *number <= max)
    };
    Some(sign * (plain(hours, 23)? * 3600 + plain(minutes, 59)? * 60) * SECOND)
}

/// Days since 1970 of a date, by the calendar of today.
fn days_to(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let of_era = year.rem_euclid(400);
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

#[derive(PartialEq)]
struct Date {
    year: i64,
    /// From 1.
    month: i64,
    day: i64,
}

/// The date of a day, counted from 1970.
fn date(days: i64) -> Date {
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let of_era = days.rem_euclid(146_097);
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    Date { year: year + era * 400 + i64::from(month <= 2), month, day }
}

/// The nanoseconds since 1970 of a time as RFC 3339 has it; `None` for other text.
pub fn parse_timestamp(text: &str) -> Option<i128> {
    let number = |range: std::ops::Range<usize>, max: i64| {
        let part = text.get(range)?;
        let plain = part.bytes().all(|byte| byte.is_ascii_digit());
        plain.then(|| part.parse::<i64>().ok()).flatten().filter(|number| *number <= max)
    };
    let bytes = text.as_bytes();
    let sign = |at: usize, sign: u8| bytes.get(at).map(u8::to_ascii_uppercase) == Some(sign);
    let signs =
        sign(4, b'-') && sign(7, b'-') && sign(10, b'T') && sign(13, b':') && sign(16, b':');
    if !signs {
        return None;
    }
    let year = number(0..4, 9999)?;
    let month = number(5..7, 12)?;
    let day = number(8..10, 31)?;
    let days = days_to(year, month, day);
    if date(days) != (Date { year, month, day }) {
        return None;
    }
    let seconds = number(11..13, 23)? * 3600 + number(14..16, 59)? * 60 + number(17..19, 59)?;
    let rest = &text[19..];
    let (fraction, zone) = match rest.strip_prefix('.') {
        Some(rest) => {
            let end = rest.find(|c: char| !c.is_ascii_digit())?;
            if end == 0 {
                return None;
            }
            let digits: String =
                rest.chars().take(end).chain("000000000".chars()).take(9).collect();
            (digits.parse::<i128>().ok()?, &rest[end..])
        }
        None => (0, rest),
    };
    let zone = match zone {
        "" => return None,
        "Z" | "z" => 0,
        zone if zone.starts_with(['+', '-']) => offset(zone)?,
        _ => return None,
    };
    Some(i128::from(days * 86_400 + seconds) * SECOND + fraction - zone)
}

/// `1h2m3.5s`, `100ms`.
fn parse_duration(text: &str) -> Option<i128> {
    let (sign, mut rest) = match text.as_bytes().first()? {
        b'-' => (-1, &text[1..]),
        b'+' => (1, &text[1..]),
        _ => (1, text),
    };
    if rest == "0" {
        return Some(0);
    }
    let mut nanos = 0_i128;
    if rest.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let (number, after) = rest.split_at(digits);
        let units =
            [("ns", 1), ("us", 1000), ("µs", 1000), ("ms", 1_000_000), ("h", 3600 * SECOND)];
        let units = units.iter().chain(&[("m", 60 * SECOND), ("s", SECOND)]);
        let (unit, scale) = units.into_iter().find(|(unit, _)| after.starts_with(unit))?;
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if (whole.is_empty() && fraction.is_empty()) || whole.len() > 20 || fraction.contains('.') {
            return None;
        }
        nanos += if whole.is_empty() { 0 } else { whole.parse::<i128>().ok()? * scale };
        let mut part = *scale;
        for digit in fraction.bytes() {
            part /= 10;
            nanos += i128::from(digit - b'0') * part;
        }
        rest = &after[unit.len()..];
    }
    Some(sign * nanos)
}

/// A time, in nanoseconds since 1970, as RFC 3339 has it.
pub fn print_timestamp(nanos: i128) -> String {
    let seconds = nanos.div_euclid(SECOND) as i64;
    let days = seconds.div_euclid(86_400);
    let of_day = seconds.rem_euclid(86_400);
    let Date { year, month, day } = date(days);
    let hour = of_day / 3600;
    let minute = of_day / 60 % 60;
    let second = of_day % 60;
    let fraction = print_fraction(nanos.rem_euclid(SECOND));
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}{fraction}Z")
}

/// A duration in seconds.
pub(super) fn print_duration(nanos: i64) -> String {
    let sign = if nanos < 0 { "-" } else { "" };
    let nanos = i128::from(nanos).abs();
    format!("{sign}{}{}s", nanos / SECOND, print_fraction(nanos % SECOND))
}

fn print_fraction(nanos: i128) -> String {
    if nanos == 0 {
        return String::new();
    }
    format!(".{nanos:09}").trim_end_matches('0').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_and_printed() {
        for text in ["1970-01-01T00:00:00Z", "2024-02-29T23:59:59.5Z", "0001-01-01T00:00:00Z"] {
            assert_eq!(print_timestamp(parse_timestamp(text).expect(text)), text);
        }
        assert_eq!(parse_timestamp("1970-01-01T01:00:00+01:00"), Some(0));
        for bad in ["2023-02-29T00:00:00Z", "2023-01-01", "2023-01-01T00:00:00", "é"] {
            assert_eq!(parse_timestamp(bad), None, "{bad}");
        }
        assert_eq!(part("getDayOfWeek", 0), Some(4));
        assert_eq!(part("getDayOfYear", 86_400 * 366 * SECOND), Some(1));
    }

    #[test]
    fn durations_are_read_and_printed() {
        assert_eq!(parse_duration("1h2m3.5s"), Some(3723 * SECOND + SECOND / 2));
        assert_eq!(parse_duration("-.5ms"), Some(-500_000));
        for bad in ["", "1", "s", ".s", "1x", "1.2.3s", "-"] {
            assert_eq!(parse_duration(bad), None, "{bad}");
        }
        assert_eq!(print_duration(-1_500_000_000), "-1.5s");
    }
}
