//! Durations as texts that conditions compare: what the JSON of a `google.protobuf.Duration` says,
//! and the same otherwise written.

/// How many nanoseconds a text says: `90s`, `-1.5s`, `80ms`.
pub(crate) fn nanos(text: &str) -> Option<i128> {
    let (digits, is_millis) = match text.strip_suffix("ms") {
        Some(digits) => (digits, true),
        None => (text.strip_suffix('s')?, false),
    };
    let (sign, digits) = match digits.strip_prefix('-') {
        Some(digits) => (-1, digits),
        None => (1, digits),
    };
    let (whole, part) = digits.split_once('.').unwrap_or((digits, ""));
    let are_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() || whole.len() > 15 || part.len() > 9 {
        return None;
    }
    if !are_digits(whole) || !are_digits(part) {
        return None;
    }
    let billionths: i128 = format!("{whole}{part:0<9}").parse().ok()?;
    Some(sign * if is_millis { billionths / 1000 } else { billionths })
}

/// Whether a text says a duration otherwise than protobuf's JSON does: `1.50s`, `80ms`.
pub(crate) fn is_spelled_otherwise(text: &str) -> bool {
    let Some(nanos) = nanos(text) else { return false };
    let seconds = nanos.abs() / 1_000_000_000;
    let part = nanos.abs() % 1_000_000_000;
    let sign = if nanos < 0 { "-" } else { "" };
    let part = match part {
        0 => String::new(),
        _ if part % 1_000_000 == 0 => format!(".{:03}", part / 1_000_000),
        _ if part % 1_000 == 0 => format!(".{:06}", part / 1_000),
        _ => format!(".{part:09}"),
    };
    format!("{sign}{seconds}{part}s") != text
}
