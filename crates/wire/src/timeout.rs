//! Deadlines as headers: how long the caller still waits, from when the request was sent.
//!
//! | header | digits | unit |
//! |---|---|---|
//! | `connect-timeout-ms` | at most 10 | milliseconds |
//! | `grpc-timeout` | at most 8 | the letter after them: `H` `M` `S` `m` `u` `n` |
//!
//! One that is not written so, or occurs twice, is refused: a caller that believes to have a
//! deadline must not wait without one. Zero is a deadline that has passed.

use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue};
use tidewire_service::{Error, Result};

use crate::dialect::Dialect;

pub(crate) const CONNECT: HeaderName = HeaderName::from_static("connect-timeout-ms");
pub(crate) const GRPC: HeaderName = HeaderName::from_static("grpc-timeout");

/// The header that tells the server how long it has.
pub(crate) fn header(dialect: Dialect, left: Duration) -> (HeaderName, HeaderValue) {
    match dialect {
        Dialect::Connect => (CONNECT, connect(left)),
        Dialect::Grpc | Dialect::GrpcWeb => (GRPC, grpc(left)),
    }
}

fn name(dialect: Dialect) -> HeaderName {
    if dialect.is_grpc() { GRPC } else { CONNECT }
}

/// How long the caller waits; `None` if it does not say.
///
/// # Errors
/// `invalid_argument` for a value that is not as specified, or more than one.
pub(crate) fn of_request(dialect: Dialect, headers: &HeaderMap) -> Result<Option<Duration>> {
    read(dialect, headers.get_all(name(dialect)).iter())
}

/// The same by all values of its header.
pub(crate) fn read<'a>(
    dialect: Dialect,
    mut values: impl Iterator<Item = &'a HeaderValue>,
) -> Result<Option<Duration>> {
    let name = name(dialect);
    let Some(value) = values.next() else { return Ok(None) };
    if values.next().is_some() {
        return Err(Error::invalid_argument(format!("{name} occurs twice; send it once")));
    }
    let parsed = if dialect.is_grpc() { of_grpc(value.as_bytes()) } else { of_connect(value) };
    parsed.map(Some).ok_or_else(|| {
        let form = if dialect.is_grpc() {
            "at most 8 digits and a unit, H M S m u or n"
        } else {
            "milliseconds, at most 10 digits"
        };
        Error::invalid_argument(format!("{name} is {value:?}; it has to be {form}"))
    })
}

fn of_connect(value: &HeaderValue) -> Option<Duration> {
    digits(value.as_bytes(), 10).map(Duration::from_millis)
}

fn of_grpc(value: &[u8]) -> Option<Duration> {
    let (unit, value) = value.split_last()?;
    let value = digits(value, 8)?;
    Some(match unit {
        b'H' => Duration::from_secs(value * 3600),
        b'M' => Duration::from_secs(value * 60),
        b'S' => Duration::from_secs(value),
        b'm' => Duration::from_millis(value),
        b'u' => Duration::from_micros(value),
        b'n' => Duration::from_nanos(value),
        _ => return None,
    })
}

/// A number of one to `max` digits and nothing else: no sign, no space.
fn digits(text: &[u8], max: usize) -> Option<u64> {
    if text.is_empty() || text.len() > max {
        return None;
    }
    text.iter().try_fold(0, |number, byte| {
        byte.is_ascii_digit().then(|| number * 10 + u64::from(byte - b'0'))
    })
}

fn connect(left: Duration) -> HeaderValue {
    let millis = u64::try_from(left.as_millis()).unwrap_or(u64::MAX).min(9_999_999_999);
    HeaderValue::from(millis)
}

/// With the finest unit that fits.
fn grpc(left: Duration) -> HeaderValue {
    const DIGITS_MAX: u128 = 99_999_999;
    let units = [
        (left.as_nanos(), 'n'),
        (left.as_micros(), 'u'),
        (left.as_millis(), 'm'),
        (u128::from(left.as_secs()), 'S'),
        (u128::from(left.as_secs() / 60), 'M'),
    ];
    let fit = units.into_iter().find(|(value, _)| *value <= DIGITS_MAX);
    let (value, unit) =
        fit.unwrap_or_else(|| (u128::from(left.as_secs() / 3600).min(DIGITS_MAX), 'H'));
    HeaderValue::try_from(format!("{value}{unit}")).unwrap_or(HeaderValue::from_static("0n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timeouts_use_the_finest_unit_that_fits_and_are_read_again() {
        for (left, as_connect, as_grpc) in [
            (Duration::ZERO, "0", "0n"),
            (Duration::from_millis(99), "99", "99000000n"),
            (Duration::from_millis(1500), "1500", "1500000u"),
            (Duration::from_secs(3600), "3600000", "3600000m"),
            (Duration::from_secs(u64::MAX), "9999999999", "99999999H"),
        ] {
            assert_eq!(connect(left), as_connect);
            assert_eq!(grpc(left), as_grpc);
            if left < Duration::from_secs(4000) {
                assert_eq!(of_connect(&connect(left)), Some(left));
                assert_eq!(of_grpc(grpc(left).as_bytes()), Some(left));
            }
        }
    }

    #[test]
    fn deadlines_are_read_as_specified_and_refused_otherwise() {
        let check = |dialect, values: &[&'static str], expected: Option<Option<Duration>>| {
            let mut headers = HeaderMap::new();
            let name = if dialect == Dialect::Connect { CONNECT } else { GRPC };
            for value in values {
                headers.append(&name, HeaderValue::from_static(value));
            }
            let timeout = of_request(dialect, &headers);
            assert_eq!(timeout.ok(), expected, "{dialect:?} {values:?}");
        };
        for dialect in [Dialect::Grpc, Dialect::GrpcWeb] {
            check(dialect, &[], Some(None));
            check(dialect, &["0S"], Some(Some(Duration::ZERO)));
            check(dialect, &["99999999H"], Some(Some(Duration::from_secs(99_999_999 * 3600))));
            check(dialect, &["7M"], Some(Some(Duration::from_secs(420))));
            check(dialect, &["7m"], Some(Some(Duration::from_millis(7))));
            check(dialect, &["7u"], Some(Some(Duration::from_micros(7))));
            check(dialect, &["007n"], Some(Some(Duration::from_nanos(7))));
            for wrong in
                ["abc", "1X", "-1S", "+1S", "S", "", "100000000S", "1", "1 S", "1.5S", "1s"]
            {
                check(dialect, &[wrong], None);
            }
            check(dialect, &["1S", "1S"], None);
        }
        let connect = |values: &[&'static str], expected| check(Dialect::Connect, values, expected);
        connect(&["0"], Some(Some(Duration::ZERO)));
        connect(&["9999999999"], Some(Some(Duration::from_millis(9_999_999_999))));
        for wrong in ["99999999999", "abc", "-1", "+1", "", "1.5", "1m", " 1"] {
            connect(&[wrong], None);
        }
        connect(&["5", "5"], None);
    }
}
