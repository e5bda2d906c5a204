//! Numbers, texts, bytes and points in time, within their rules.

use tidewire_schema::{Message, MessageType, Path, Scalar, Value};

use super::limits::{self, Limits};
use super::{Maker, pattern, words};

type SetResult = Result<(), tidewire_schema::FieldError>;

/// Points in time that nobody asked for lie in the year after this: 2024.
const EPOCH_SECONDS: i64 = 1_704_067_200;
const YEAR_SECONDS: usize = 366 * 24 * 60 * 60;

impl Maker<'_> {
    pub(super) fn scalar(
        &mut self,
        message: &mut Message,
        path: &Path,
        name: &str,
        scalar: Scalar,
        limits: &Limits,
    ) -> SetResult {
        match scalar {
            Scalar::String => {
                let text = self.text(name, limits);
                message.set(path, text.as_str())
            }
            Scalar::Bool => {
                let value = match limits.value("bool.const") {
                    Some(Value::Bool(value)) => value != self.breaks_now(),
                    _ => self.random.below(2) == 1,
                };
                message.set(path, value)
            }
            Scalar::Bytes => {
                let bytes = self.bytes(limits);
                message.set(path, &bytes[..])
            }
            Scalar::Double | Scalar::Float => {
                let number = self.float(name, scalar, limits);
                #[expect(clippy::cast_possible_truncation, reason = "the field is a float")]
                match scalar {
                    Scalar::Float => message.set(path, number as f32),
                    _ => message.set(path, number),
                }
            }
            _ => {
                let number = self.integer(name, scalar, limits);
                // The kind of the field decides which of them fits.
                match i64::try_from(number) {
                    Ok(number) => message.set(path, number),
                    Err(_) => message.set(path, u64::try_from(number).unwrap_or(u64::MAX)),
                }
            }
        }
    }

    /// Whether this is the field of the answer that is to break its rules.
    fn breaks_now(&mut self) -> bool {
        let now = self.breaks && !self.broken;
        self.broken |= now;
        now
    }

    fn integer(&mut self, name: &str, scalar: Scalar, limits: &Limits) -> i128 {
        let (lowest, highest): (i128, i128) = match scalar {
            Scalar::Int32 | Scalar::Sint32 | Scalar::Sfixed32 => (i32::MIN.into(), i32::MAX.into()),
            Scalar::Uint32 | Scalar::Fixed32 => (0, u32::MAX.into()),
            Scalar::Uint64 | Scalar::Fixed64 => (0, u64::MAX.into()),
            _ => (i64::MIN.into(), i64::MAX.into()),
        };
        let kind = scalar.as_str();
        let bound = |rule: &str| limits.integer(&format!("{kind}.{rule}"));
        if let Some(only) = bound("const") {
            return if self.breaks_now() { only.wrapping_add(1) } else { only };
        }
        let of = |rule: &str| -> Vec<i128> {
            limits.list(&format!("{kind}.{rule}")).into_iter().filter_map(limits::integer).collect()
        };
        let only = of("in");
        let but = of("not_in");
        if !only.is_empty() {
            if self.breaks_now() {
                return only.iter().max().map_or(0, |max| max.saturating_add(1).min(highest));
            }
            return only[self.random.below(only.len())];
        }
        let low = bound("gt").map(|n| n + 1).or_else(|| bound("gte"));
        let high = bound("lt").map(|n| n - 1).or_else(|| bound("lte"));
        if (low.is_some() || high.is_some()) && self.breaks_now() {
            return match (low, high) {
                (Some(low), _) if low > lowest => low - 1,
                (_, Some(high)) => (high + 1).min(highest),
                _ => lowest,
            };
        }
        let (from, to) = match (low, high) {
            (None, None) => words::integers(name),
            // Within what is usual, where the rules leave it.
            (Some(low), None) => (low, low.saturating_add(1_000).min(highest)),
            (None, Some(high)) => {
                (if high >= 0 { 0 } else { high.saturating_sub(1_000).max(lowest) }, high)
            }
            (Some(low), Some(high)) if low > high => (low, highest),
            (Some(low), Some(high)) => (low, high),
        };
        let from = from.max(lowest);
        let to = to.min(highest);
        let width = (to - from).clamp(0, i128::from(u32::MAX));
        let random = self.random.next();
        let mut number = from + i128::from(random) % (width + 1);
        while but.contains(&number) && number < to {
            number += 1;
        }
        number
    }

    fn float(&mut self, name: &str, scalar: Scalar, limits: &Limits) -> f64 {
        let kind = scalar.as_str();
        let bound = |rule: &str| limits.number(&format!("{kind}.{rule}"));
        if let Some(only) = bound("const") {
            return if self.breaks_now() { only + 1.0 } else { only };
        }
        let only: Vec<_> =
            limits.list(&format!("{kind}.in")).into_iter().filter_map(limits::number).collect();
        if !only.is_empty() {
            return only[self.random.below(only.len())];
        }
        let low = bound("gt").or_else(|| bound("gte"));
        let high = bound("lt").or_else(|| bound("lte"));
        if (low.is_some() || high.is_some()) && self.breaks_now() {
            return low.map_or_else(|| high.unwrap_or(0.0) + 1.0, |low| low - 1.0);
        }
        let (usual_low, usual_high) = words::floats(name);
        let (from, to) = match (low, high) {
            (None, None) => (usual_low, usual_high),
            (Some(low), None) => (low, low + 1_000.0),
            (None, Some(high)) => (high - 1_000.0_f64.max(high.abs()), high),
            (Some(low), Some(high)) => (low, high),
        };
        // Two places behind the point where there is room for them, never at a bound.
        let share = 0.01 + self.random.unit() * 0.98;
        let number = from + (to - from) * share;
        let rounded = (number * 100.0).round() / 100.0;
        if rounded > from && rounded < to { rounded } else { number }
    }

    fn bytes(&mut self, limits: &Limits) -> Vec<u8> {
        if let Some(Value::Bytes(only)) = limits.value("bytes.const") {
            return only.to_vec();
        }
        let size = |rule: &str| limits.integer(rule).and_then(|n| usize::try_from(n).ok());
        let exact = size("bytes.len");
        let min = exact.or_else(|| size("bytes.min_len")).unwrap_or(0);
        let max = exact.or_else(|| size("bytes.max_len")).unwrap_or(usize::MAX);
        let length =
            match (limits.is("bytes.ip") || limits.is("bytes.ipv4"), limits.is("bytes.ipv6")) {
                (true, _) => 4,
                (_, true) => 16,
                _ => 8.clamp(min, max.max(min)).min(1 << 16),
            };
        let length = if max < usize::MAX && self.breaks_now() { max + 1 } else { length };
        let mut bytes: Vec<u8> = (0..length).map(|_| self.random.next().to_le_bytes()[0]).collect();
        if let Some(Value::Bytes(prefix)) = limits.value("bytes.prefix") {
            bytes.splice(0..prefix.len().min(bytes.len()), prefix.iter().copied());
        }
        bytes
    }

    /// Text that its rules allow, or else what its name says.
    pub(super) fn text(&mut self, name: &str, limits: &Limits) -> String {
        if let Some(only) = limits.text("string.const") {
            return if self.breaks_now() { format!("not {only}") } else { only.to_owned() };
        }
        let only: Vec<_> = limits.list("string.in").into_iter().filter_map(Value::as_str).collect();
        if !only.is_empty() {
            return match self.breaks_now() {
                true => format!("none of {}", only.join(", ")),
                false => only[self.random.below(only.len())].to_owned(),
            };
        }
        for (rule, form) in words::FORMS {
            if limits.is(rule) {
                return if self.breaks_now() {
                    "not well formed, ".repeat(2)
                } else {
                    form(self.random)
                };
            }
        }
        let size = |rule: &str| limits.integer(rule).and_then(|n| usize::try_from(n).ok());
        let exact = size("string.len").or_else(|| size("string.len_bytes"));
        let min = exact.or_else(|| size("string.min_len")).or_else(|| size("string.min_bytes"));
        let max = exact.or_else(|| size("string.max_len")).or_else(|| size("string.max_bytes"));
        let text = match limits.text("string.pattern") {
            Some(pattern) => pattern::text(pattern, self.random).unwrap_or_default(),
            None => {
                let owner = self.within.last().map_or("", String::as_str);
                words::text(name, owner, self.random)
            }
        };
        let has_pattern = limits.text("string.pattern").is_some();
        if (has_pattern || min.is_some_and(|min| min > 0) || max.is_some()) && self.breaks_now() {
            return match (min, max) {
                (_, Some(max)) if !has_pattern => "x".repeat(max.saturating_add(1).min(1 << 16)),
                _ => String::new(),
            };
        }
        let around = |rule: &str| limits.text(rule).unwrap_or_default().to_owned();
        let prefix = around("string.prefix");
        let suffix = around("string.suffix");
        let text = match limits.text("string.contains") {
            Some(part) => format!("{text} {part}"),
            None => text,
        };
        if has_pattern {
            return format!("{prefix}{text}{suffix}");
        }
        let outside = prefix.chars().count() + suffix.chars().count();
        let text = fitted(
            text,
            min.map_or(0, |min| min.saturating_sub(outside)),
            max.map(|max| max.saturating_sub(outside)),
        );
        format!("{prefix}{text}{suffix}")
    }

    /// Sets a well-known type; false for any other message.
    pub(super) fn well_known(
        &mut self,
        message: &mut Message,
        path: &Path,
        name: &str,
        owner: MessageType<'_>,
        limits: &Limits,
    ) -> bool {
        let Some(short) = owner.full_name().strip_prefix("google.protobuf.") else { return false };
        match short {
            "Timestamp" => self.point(message, path, "timestamp", limits),
            "Duration" => self.point(message, path, "duration", limits),
            "Any" | "Empty" => {}
            "Struct" | "Value" | "ListValue" | "FieldMask" => {
                let text = words::text(name, "", self.random);
                let json = match short {
                    "Struct" => format!("{{\"{}\":\"{text}\"}}", words::KEYS[0]),
                    "ListValue" => format!("[\"{text}\"]"),
                    "FieldMask" => "\"name\"".to_owned(),
                    _ => format!("\"{text}\""),
                };
                if let Ok(value) = self.schema.decode(
                    owner.full_name(),
                    tidewire_service::Codec::Json,
                    json.as_bytes(),
                ) {
                    let _ = message.set(path, &value);
                }
            }
            _ => {
                let Some(tidewire_schema::Kind::One(tidewire_schema::Single::Scalar(scalar))) =
                    owner.field("value").map(tidewire_schema::Field::kind)
                else {
                    return false;
                };
                let Ok(mut inner) = self.schema.message(owner.full_name()) else { return true };
                let _ = self.scalar(&mut inner, &Path::field("value"), name, scalar, limits);
                let _ = message.set(path, &inner);
            }
        }
        true
    }

    fn point(&mut self, message: &mut Message, path: &Path, kind: &str, limits: &Limits) {
        let now = i64::try_from(self.now_millis / 1000).unwrap_or(i64::MAX);
        let seconds_of = |rule: &str| match limits.value(&format!("{kind}.{rule}")) {
            Some(Value::Message(point)) => match point.get("seconds") {
                Ok(Some(Value::I64(seconds))) => Some(seconds),
                _ => Some(0),
            },
            _ => None,
        };
        let hour = 3_600;
        let (mut low, mut high) = match kind {
            "timestamp" => {
                (EPOCH_SECONDS, EPOCH_SECONDS + i64::try_from(YEAR_SECONDS).unwrap_or(0))
            }
            _ => (1, hour),
        };
        if let Some(bound) = seconds_of("gt").map(|n| n + 1).or_else(|| seconds_of("gte")) {
            (low, high) = (bound, high.max(bound + hour));
        }
        if let Some(bound) = seconds_of("lt").map(|n| n - 1).or_else(|| seconds_of("lte")) {
            (low, high) = (low.min(bound), bound);
        }
        if limits.is("timestamp.lt_now") {
            (low, high) = (low.min(now - 2 * hour), high.min(now - hour));
        }
        if limits.is("timestamp.gt_now") {
            (low, high) = (now + hour, now + 24 * hour);
        }
        if let Some(within) = seconds_of("within") {
            (low, high) = (now - within / 4, now + within / 4);
        }
        let only = seconds_of("const");
        let width = usize::try_from(high.saturating_sub(low)).unwrap_or(0).saturating_add(1);
        let offset = i64::try_from(self.random.below(width)).unwrap_or(0);
        let seconds = only.unwrap_or(low + offset);
        let type_name = if kind == "timestamp" {
            "google.protobuf.Timestamp"
        } else {
            "google.protobuf.Duration"
        };
        let Ok(mut point) = self.schema.message(type_name) else { return };
        let _ = point.set("seconds", seconds);
        let _ = message.set(path, &point);
    }
}

/// Text of an allowed length, in characters.
fn fitted(text: String, min: usize, max: Option<usize>) -> String {
    let length = text.chars().count();
    if let Some(max) = max.filter(|max| length > *max) {
        return text.chars().take(max).collect();
    }
    if length >= min {
        return text;
    }
    let filler = "abcdefghijklmnopqrstuvwxyz".chars().cycle();
    text.chars().chain(filler.take(min.min(1 << 20) - length)).collect()
}
