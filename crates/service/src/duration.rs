//! Durations as people write them, the same wherever Tidewire reads one.

use std::time::Duration;

/// What to write, for errors.
pub const DURATION_FORMAT: &str = "500ms, 10s or 1m 30s";

/// A duration: `500ms`, `1.5s`, `1m 30s`, `2h`; a bare number is seconds.
///
/// Units are `ns`, `us` (or `µs`), `ms`, `s`, `m` (or `min`), `h` and `d`.
///
/// ```
/// # mod tidewire { pub mod service { pub use tidewire_service::*; } }
/// use std::time::Duration;
/// assert_eq!(tidewire::service::parse_duration("1m 30s"), Some(Duration::from_secs(90)));
/// assert_eq!(tidewire::service::parse_duration("1.5"), Some(Duration::from_millis(1500)));
/// assert_eq!(tidewire::service::parse_duration("soon"), None);
/// ```
pub fn parse_duration(text: &str) -> Option<Duration> {
    let mut rest = text.trim();
    let mut total = Duration::ZERO;
    let is_bare = rest.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    if is_bare {
        return seconds(rest, 1.0);
    }
    while !rest.is_empty() {
        let number = part(rest, |c| c.is_ascii_digit() || c == '.');
        let after = rest[number.len()..].trim_start();
        let unit = part(after, char::is_alphabetic);
        let scale = match unit {
            "ns" => 1e-9,
            "us" | "µs" | "μs" => 1e-6,
            "ms" => 1e-3,
            "s" | "sec" => 1.0,
            "m" | "min" => 60.0,
            "h" => 3600.0,
            "d" => 86_400.0,
            _ => return None,
        };
        total = total.checked_add(seconds(number, scale)?)?;
        rest = after[unit.len()..].trim_start();
    }
    Some(total)
}

fn part(text: &str, is_part: impl Fn(char) -> bool) -> &str {
    &text[..text.find(|c| !is_part(c)).unwrap_or(text.len())]
}

fn seconds(number: &str, scale: f64) -> Option<Duration> {
    Duration::try_from_secs_f64(number.parse::<f64>().ok()? * scale).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_as_people_write_them() {
        let check = |text: &str, millis: Option<u64>| {
            assert_eq!(parse_duration(text), millis.map(Duration::from_millis), "{text}");
        };
        check("10", Some(10_000));
        check("1.5", Some(1500));
        check("500ms", Some(500));
        check("1m 30s", Some(90_000));
        check("1m30s", Some(90_000));
        check("2 h", Some(7_200_000));
        check("1d", Some(86_400_000));
        for text in ["", "s", "fast", "-1s", "1x", "1s 2", "1..2s", "99999999999999999999s"] {
            check(text, None);
        }
        assert_eq!(parse_duration("250us"), Some(Duration::from_micros(250)));
    }
}
