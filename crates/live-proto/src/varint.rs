//! Unsigned LEB128 numbers, length-prefixed strings and ascending number lists.
//!
//! `docs/live-protocol.md`, section 1. Readers advance a slice and answer `None` on anything that
//! does not fit; what that means is decided by the caller, who knows the frame.

/// The most bytes that a varint takes.
pub const BYTES_MAX: usize = 8;

/// The most bytes that a number of 32 bits takes.
pub(crate) const U32_BYTES_MAX: usize = 5;

/// The largest number: what a double holds exactly, so that JavaScript reads every one as a number.
pub const MAX: u64 = (1 << 53) - 1;

/// Appends `value`.
#[inline]
pub fn put(out: &mut Vec<u8>, value: u64) {
    if value < 0x80 { out.push(value as u8) } else { put_long(out, value) }
}

/// Numbers of two and three bytes, such as ids, are written at once.
fn put_long(out: &mut Vec<u8>, mut value: u64) {
    let low = |shift: u32| (value >> shift) as u8 | 0x80;
    if value < 1 << 14 {
        return out.extend_from_slice(&[low(0), (value >> 7) as u8]);
    }
    if value < 1 << 21 {
        return out.extend_from_slice(&[low(0), low(7), (value >> 14) as u8]);
    }
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Writes `value` into an array that has room for it; where it ends.
#[inline(always)]
pub(crate) fn write<const N: usize>(into: &mut [u8; N], mut at: usize, mut value: u64) -> usize {
    while value >= 0x80 && at < N - 1 {
        into[at] = value as u8 | 0x80;
        value >>= 7;
        at += 1;
    }
    into[at] = value as u8;
    at + 1
}

/// The number of bytes that [`put`] writes.
#[inline]
pub fn size(value: u64) -> usize {
    (64 - (value | 1).leading_zeros() as usize).div_ceil(7)
}

/// Reads one number and moves `input` past it; `None` when it is cut off or over [`MAX`].
#[inline]
pub fn take(input: &mut &[u8]) -> Option<u64> {
    let (&first, rest) = input.split_first()?;
    *input = rest;
    if first < 0x80 { Some(first.into()) } else { take_rest(first, input) }
}

/// The bytes after the first of a number of several.
fn take_rest(first: u8, input: &mut &[u8]) -> Option<u64> {
    let mut value = u64::from(first & 0x7f);
    for position in 1..BYTES_MAX {
        let (&byte, rest) = input.split_first()?;
        *input = rest;
        value |= u64::from(byte & 0x7f) << (7 * position);
        if byte < 0x80 {
            return Some(value).filter(|&value| value <= MAX);
        }
    }
    None
}

/// Appends a length and the bytes.
#[inline]
pub fn put_string(out: &mut Vec<u8>, bytes: &[u8]) {
    put(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// Reads a length and that many bytes.
#[inline]
pub fn take_string<'a>(input: &mut &'a [u8]) -> Option<&'a [u8]> {
    let len = usize::try_from(take(input)?).ok()?;
    let (value, rest) = input.split_at_checked(len)?;
    *input = rest;
    Some(value)
}

/// Appends ascending numbers as differences. `numbers` must be sorted and free of repeats.
pub fn put_numbers(out: &mut Vec<u8>, numbers: &[u32]) {
    let mut previous = 0;
    for &number in numbers {
        put(out, (number - previous).into());
        previous = number;
    }
}

/// Reads numbers written by [`put_numbers`]; the iterator yields `None` once if they do not fit.
pub fn take_numbers(mut input: &[u8]) -> impl Iterator<Item = Option<u32>> {
    let mut previous = 0u32;
    let mut broken = false;
    std::iter::from_fn(move || {
        if input.is_empty() || broken {
            return None;
        }
        let next = take(&mut input)
            .and_then(|step| u32::try_from(step).ok())
            .filter(|&step| step > 0)
            .and_then(|step| previous.checked_add(step));
        broken = next.is_none();
        previous = next.unwrap_or(0);
        Some(next)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_come_back_and_take_the_stated_size() {
        for value in [0, 1, 127, 128, 300, 16_383, 16_384, u64::from(u32::MAX), MAX] {
            let mut out = Vec::new();
            put(&mut out, value);
            assert_eq!(out.len(), size(value), "{value}");
            let mut input = &out[..];
            assert_eq!(take(&mut input), Some(value));
            assert!(input.is_empty());
        }
    }

    #[test]
    fn a_number_over_53_bits_or_cut_off_is_refused() {
        assert_eq!(take(&mut &[0xff; 9][..]), None);
        assert_eq!(take(&mut &[0xff; 7][..]), None);
        assert_eq!(take(&mut &[][..]), None);
        let two_to_the_53 = [0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x10];
        assert_eq!(take(&mut &two_to_the_53[..]), None);
    }

    #[test]
    fn a_number_list_refuses_repeats_and_overflow() {
        let mut out = Vec::new();
        put_numbers(&mut out, &[1, 3, 5, u32::MAX]);
        let back: Option<Vec<u32>> = take_numbers(&out).collect();
        assert_eq!(back, Some(vec![1, 3, 5, u32::MAX]));
        assert_eq!(take_numbers(&[3, 0]).collect::<Option<Vec<_>>>(), None);
        put(&mut out, 1);
        assert_eq!(take_numbers(&out).collect::<Option<Vec<_>>>(), None);
    }
}
