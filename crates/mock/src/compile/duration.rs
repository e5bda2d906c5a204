//! How long, as rules say it: milliseconds, `80ms`, `1.5s`, or a distribution.

use std::time::Duration;

use crate::rule::Delay;
use crate::value::node::{Node, Tree};
use crate::value::view::View;

/// Milliseconds of wishmock's keys: a number or its text; negative values are invalid.
pub(crate) fn millis(node: &Node) -> Option<Duration> {
    let number = View::Rule(node).number()?.as_f64();
    let seconds = if number.is_nan() { return None } else { number.max(0.0) / 1000.0 };
    Some(Duration::try_from_secs_f64(seconds).unwrap_or(crate::rule::DELAY_MAX))
}

/// A delay: `10`, `10ms`, `{dist: uniform, min: 5ms, max: 10ms}`, `{dist: lognormal, median: 80ms,
/// sigma: 0.4}`.
///
/// # Errors
/// What is wrong with it.
pub(crate) fn delay(node: &Node) -> Result<Delay, String> {
    if !node.is_object() {
        return duration(node).map(Delay::Fixed);
    }
    let part = |key: &str| match node.get(key) {
        Some(part) => duration(part),
        None => Err(format!("{key} is missing")),
    };
    match node.get("dist").and_then(Node::as_text) {
        Some("fixed") => part("value").map(Delay::Fixed),
        Some("uniform") => match (part("min")?, part("max")?) {
            (min, max) if min > max => Err("min is longer than max".to_owned()),
            (min, max) => Ok(Delay::Uniform(min, max)),
        },
        Some("lognormal") => {
            let sigma = node.get("sigma").and_then(|node| View::Rule(node).number());
            let sigma = sigma.map_or(0.5, |sigma| sigma.as_f64());
            if !(0.0..=10.0).contains(&sigma) {
                return Err("sigma is 0 to 10".to_owned());
            }
            Ok(Delay::Lognormal { median: part("median")?, sigma })
        }
        _ => Err("dist is fixed, uniform or lognormal".to_owned()),
    }
}

fn duration(node: &Node) -> Result<Duration, String> {
    let wrong = || {
        format!("{} is not a duration; write 80ms, 1.5s or milliseconds", View::Rule(node).text())
    };
    match &node.value {
        Tree::Number(_) => millis(node).ok_or_else(wrong),
        Tree::Text(text) => {
            let text = text.trim();
            let (digits, scale) = match text {
                _ if text.ends_with("ms") => (&text[..text.len() - 2], 0.001),
                _ if text.ends_with('s') => (&text[..text.len() - 1], 1.0),
                _ if text.ends_with('m') => (&text[..text.len() - 1], 60.0),
                _ => (text, 0.001),
            };
            let number: f64 = digits.trim().parse().map_err(|_| wrong())?;
            Duration::try_from_secs_f64(number * scale).map_err(|_| wrong())
        }
        _ => Err(wrong()),
    }
}
