//! One compiled standard rule, and testing a value against it.
//!
//! A test is data and a comparison: nothing is looked up, allocated or interpreted while a message
//! is checked. Integers of every width, durations and timestamps (in nanoseconds) are one type, so
//! there is one range test and not twelve.

use std::collections::HashSet;
use std::ops::RangeInclusive;

use regex::bytes::Regex;

use super::violation::Element;
use super::wire_format;

/// A rule with what is said when it is broken.
#[derive(Debug)]
pub(super) struct Check {
    pub(super) test: Test,
    pub(super) site: RuleSite,
}

/// What a violation says of a rule.
#[derive(Debug, Clone)]
pub(super) struct RuleSite {
    pub(super) id: String,
    pub(super) path: Vec<Element>,
    pub(super) message: String,
}

/// A value as tests see it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Scalar<'a> {
    Integer(i128),
    Float(f64),
    /// A string, bytes, the type of an `Any`, or an encoded `FieldMask`.
    Bytes(&'a [u8]),
}

/// A value in a rule.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Constant {
    Integer(i128),
    Float(f64),
    Bytes(Box<[u8]>),
}

/// What a value is tested for.
#[derive(Debug)]
pub(super) enum Test {
    Equal(Constant),
    In(Box<[Constant]>),
    NotIn(Box<[Constant]>),
    /// Unicode characters, both bounds included.
    Characters(u64, u64),
    /// Bytes, both bounds included.
    Size(u64, u64),
    /// One of these numbers of bytes, or none.
    SizeIn(&'static [usize]),
    NotEmpty,
    Pattern(Regex),
    Prefix(Box<[u8]>),
    Suffix(Box<[u8]>),
    Contains(Box<[u8]>),
    NotContains(Box<[u8]>),
    /// A form; an empty string passes.
    Form(fn(&[u8]) -> bool),
    /// A form that an empty string may lack.
    FormAlways(fn(&[u8]) -> bool),
    Integers(Range<i128>),
    Floats(Range<f64>),
    Finite,
    /// The numbers that an enum has, in order.
    Defined(Box<[i32]>),
    /// Nanoseconds that a timestamp may be from now: before, after.
    FromNow(i128, i128),
    MaskEqual(Box<[Box<[u8]>]>),
    MaskIn(Box<[Box<[u8]>]>),
    MaskNotIn(Box<[Box<[u8]>]>),
}

/// Bounds, each with whether the bound itself is inside; turned around, what is between is outside.
#[derive(Debug, Clone, Copy)]
pub(super) struct Range<T> {
    pub(super) above: Option<(T, bool)>,
    pub(super) below: Option<(T, bool)>,
}

impl<T: PartialOrd + Copy> Range<T> {
    pub(super) fn is_turned(&self) -> bool {
        matches!((self.above, self.below), (Some((low, _)), Some((high, _))) if high < low)
    }

    #[inline]
    fn has(&self, value: T) -> bool {
        let over = |(bound, inside)| value > bound || (inside && value == bound);
        let under = |(bound, inside)| value < bound || (inside && value == bound);
        match (self.above, self.below) {
            (Some(low), Some(high)) if high.0 < low.0 => over(low) || under(high),
            (low, high) => low.is_none_or(over) && high.is_none_or(under),
        }
    }
}

impl Test {
    /// Whether `value` passes; `now` is nanoseconds since 1970.
    #[inline]
    pub(super) fn passes(&self, value: Scalar<'_>, now: impl FnOnce() -> i128) -> bool {
        match value {
            Scalar::Bytes(bytes) => self.passes_bytes(bytes),
            Scalar::Integer(number) => self.passes_integer(number, now),
            Scalar::Float(number) => self.passes_float(number),
        }
    }

    /// Numbers of bytes with which a test of length passes; `None` for other tests.
    pub(super) fn sure_sizes(&self) -> Option<RangeInclusive<u64>> {
        match self {
            Self::Characters(min, max) => Some(sure_bytes(*min)..=*max),
            Self::Size(min, max) => Some(*min..=*max),
            _ => None,
        }
    }

    #[inline]
    pub(super) fn passes_bytes(&self, bytes: &[u8]) -> bool {
        match self {
            Self::Characters(min, max) => has_characters(bytes, *min, *max),
            Self::Size(min, max) => (*min..=*max).contains(&(bytes.len() as u64)),
            Self::Prefix(prefix) => bytes.starts_with(prefix),
            Self::Suffix(suffix) => bytes.ends_with(suffix),
            Self::NotEmpty => !bytes.is_empty(),
            Self::Form(is) => bytes.is_empty() || is(bytes),
            other => other.passes_bytes_rarely(bytes),
        }
    }

    #[inline(never)]
    fn passes_bytes_rarely(&self, bytes: &[u8]) -> bool {
        let equals = |one: &Constant| matches!(one, Constant::Bytes(one) if **one == *bytes);
        match self {
            Self::Equal(one) => equals(one),
            Self::In(list) => list.iter().any(equals),
            Self::NotIn(list) => !list.iter().any(equals),
            Self::SizeIn(sizes) => bytes.is_empty() || sizes.contains(&bytes.len()),
            Self::Pattern(pattern) => pattern.is_match(bytes),
            Self::Contains(part) => contains(bytes, part),
            Self::NotContains(part) => !contains(bytes, part),
            Self::FormAlways(is) => is(bytes),
            Self::MaskEqual(paths) => paths
                .iter()
                .map(|path| &**path)
                .eq(wire_format::all(bytes, 1).map(|path| path.bytes())),
            Self::MaskIn(list) => {
                wire_format::all(bytes, 1).all(|path| is_below(path.bytes(), list))
            }
            Self::MaskNotIn(list) => {
                !wire_format::all(bytes, 1).any(|path| is_below(path.bytes(), list))
            }
            _ => true,
        }
    }

    #[inline]
    fn passes_integer(&self, number: i128, now: impl FnOnce() -> i128) -> bool {
        let equals = |one: &Constant| matches!(one, Constant::Integer(one) if *one == number);
        match self {
            Self::Integers(range) => range.has(number),
            Self::Equal(one) => equals(one),
            Self::In(list) => list.iter().any(equals),
            Self::NotIn(list) => !list.iter().any(equals),
            Self::Defined(numbers) => {
                i32::try_from(number).is_ok_and(|number| numbers.binary_search(&number).is_ok())
            }
            Self::FromNow(before, after) => {
                let now = now();
                (now - before..=now.saturating_add(*after)).contains(&number)
            }
            _ => true,
        }
    }

    #[inline]
    fn passes_float(&self, number: f64) -> bool {
        let equals = |one: &Constant| matches!(one, Constant::Float(one) if *one == number);
        match self {
            Self::Floats(range) => range.has(number),
            Self::Finite => number.is_finite(),
            Self::Equal(one) => equals(one),
            Self::In(list) => list.iter().any(equals),
            Self::NotIn(list) => !list.iter().any(equals),
            _ => true,
        }
    }
}

/// Counts only where the number of bytes does not decide.
#[inline]
fn has_characters(text: &[u8], min: u64, max: u64) -> bool {
    let bytes = text.len() as u64;
    if bytes < min {
        return false;
    }
    if bytes <= max && bytes >= sure_bytes(min) {
        return true;
    }
    let characters = text.iter().filter(|byte| (**byte).cast_signed() >= -64).count() as u64;
    (min..=max).contains(&characters)
}

/// With how many bytes there are at least so many characters.
#[inline]
fn sure_bytes(characters: u64) -> u64 {
    characters.saturating_mul(4).saturating_sub(3)
}

fn contains(text: &[u8], part: &[u8]) -> bool {
    part.is_empty() || memchr::memmem::find(text, part).is_some()
}

/// Whether a path of a field mask, or one that it is below, is in the list.
fn is_below(path: &[u8], list: &[Box<[u8]>]) -> bool {
    list.iter().any(|one| {
        path.strip_prefix(&**one).is_some_and(|rest| rest.first().is_none_or(|byte| *byte == b'.'))
    })
}

/// Whether no two values are equal, as numbers are: `NaN` equals nothing and `-0` equals `0`.
pub(super) fn are_unique<'a>(values: impl Iterator<Item = Scalar<'a>>) -> bool {
    let mut bytes = HashSet::new();
    let mut numbers = HashSet::new();
    for value in values {
        let new = match value {
            Scalar::Bytes(one) => bytes.insert(one),
            Scalar::Integer(one) => numbers.insert(one),
            Scalar::Float(one) if one.is_nan() => true,
            Scalar::Float(one) => numbers.insert(i128::from((one + 0.0).to_bits())),
        };
        if !new {
            return false;
        }
    }
    true
}
