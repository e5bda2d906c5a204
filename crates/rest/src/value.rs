//! The text of a path or query value as proto JSON.
//!
//! Each kind is checked here, so that an error names the parameter rather than a place in a JSON
//! text that the caller never sent.

use base64::Engine as _;
use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use buffa::editions::EnumType;
use buffa_descriptor::{DescriptorPool, EnumIndex, EnumValueDescriptor, ScalarType};

use crate::field::{Kind, list};
use crate::scan::write_string;

/// Appends `text` as a JSON value of a kind.
///
/// # Errors
/// What the text should have been.
pub(crate) fn write(
    out: &mut Vec<u8>,
    pool: &DescriptorPool,
    kind: Kind,
    text: &str,
) -> Result<(), String> {
    match kind {
        Kind::Text => {
            write_string(out, text);
            Ok(())
        }
        Kind::FieldMask => {
            write_string(out, &camel_case(text));
            Ok(())
        }
        Kind::Enum(index) => write_enum(out, pool, index, text),
        Kind::Scalar(scalar) => write_scalar(out, scalar, text),
    }
}

fn write_scalar(out: &mut Vec<u8>, scalar: ScalarType, text: &str) -> Result<(), String> {
    use ScalarType as S;
    match scalar {
        S::String => write_string(out, text),
        S::Bool if matches!(text, "true" | "false") => out.extend_from_slice(text.as_bytes()),
        S::Bool => return Err(unfit(text, "true or false")),
        S::Int32 | S::Sint32 | S::Sfixed32 => write_integer::<i32>(out, text, "an int32")?,
        S::Uint32 | S::Fixed32 => write_integer::<u32>(out, text, "a uint32")?,
        S::Int64 | S::Sint64 | S::Sfixed64 => {
            out.push(b'"');
            write_integer::<i64>(out, text, "an int64")?;
            out.push(b'"');
        }
        S::Uint64 | S::Fixed64 => {
            out.push(b'"');
            write_integer::<u64>(out, text, "a uint64")?;
            out.push(b'"');
        }
        S::Double => write_float(out, text, |n| n.is_finite(), "a double")?,
        S::Float => write_float(out, text, |n| n.abs() <= f64::from(f32::MAX), "a float")?,
        S::Bytes => {
            let unpadded = text.trim_end_matches('=');
            let bytes = match unpadded.contains(['-', '_']) {
                true => URL_SAFE.decode(unpadded),
                false => STANDARD.decode(unpadded),
            };
            let bytes = bytes.map_err(|_| unfit(text, "bytes in base64"))?;
            write_string(out, &base64::engine::general_purpose::STANDARD.encode(bytes));
        }
    }
    Ok(())
}

fn write_integer<N>(out: &mut Vec<u8>, text: &str, what: &str) -> Result<(), String>
where
    N: std::str::FromStr + std::fmt::Display,
{
    let plain = text.strip_prefix('-').unwrap_or(text).bytes().all(|b| b.is_ascii_digit());
    let number = text.parse::<N>().ok().filter(|_| plain).ok_or_else(|| unfit(text, what))?;
    use std::io::Write as _;
    // Writing to memory cannot fail.
    write!(out, "{number}").map_err(|e| e.to_string())
}

fn write_float(
    out: &mut Vec<u8>,
    text: &str,
    in_range: impl Fn(f64) -> bool,
    what: &str,
) -> Result<(), String> {
    if matches!(text, "NaN" | "Infinity" | "-Infinity") {
        write_string(out, text);
        return Ok(());
    }
    let plain = text.bytes().all(|b| b.is_ascii_digit() || b"+-.eE".contains(&b));
    let number = text.parse::<f64>().ok().filter(|number| plain && in_range(*number));
    let number = number.ok_or_else(|| unfit(text, what))?;
    serde_json::to_writer(out, &number).map_err(|e| e.to_string())
}

fn write_enum(
    out: &mut Vec<u8>,
    pool: &DescriptorPool,
    index: EnumIndex,
    text: &str,
) -> Result<(), String> {
    let descriptor = pool.enumeration(index);
    if descriptor.value_by_name(text).is_some() {
        write_string(out, text);
        return Ok(());
    }
    let known = |number: &i32| {
        descriptor.value(*number).is_some() || descriptor.enum_type() == EnumType::Open
    };
    match text.parse::<i32>().ok().filter(known) {
        Some(number) => {
            out.extend_from_slice(number.to_string().as_bytes());
            Ok(())
        }
        None => {
            let names = list(descriptor.values().iter().map(EnumValueDescriptor::name));
            Err(unfit(text, &format!("a {}: one of {names}", descriptor.full_name())))
        }
    }
}

/// `first_name,home.postal_code` as JSON has it: `firstName,home.postalCode`.
fn camel_case(paths: &str) -> String {
    let mut out = String::with_capacity(paths.len());
    let mut letters = paths.chars().peekable();
    while let Some(letter) = letters.next() {
        match letters.peek().filter(|next| letter == '_' && next.is_ascii_lowercase()) {
            Some(next) => {
                out.push(next.to_ascii_uppercase());
                letters.next();
            }
            None => out.push(letter),
        }
    }
    out
}

fn unfit(text: &str, what: &str) -> String {
    let shown: String = text.chars().take(SHOWN_MAX).collect();
    let cut = if shown.len() < text.len() { "…" } else { "" };
    format!("{:?} is not {what}", shown + cut)
}

/// How much of a wrong value an error shows.
const SHOWN_MAX: usize = 60;

const LENIENT: GeneralPurposeConfig = GeneralPurposeConfig::new()
    .with_decode_padding_mode(DecodePaddingMode::Indifferent)
    .with_decode_allow_trailing_bits(true);
const STANDARD: GeneralPurpose = GeneralPurpose::new(&alphabet::STANDARD, LENIENT);
const URL_SAFE: GeneralPurpose = GeneralPurpose::new(&alphabet::URL_SAFE, LENIENT);

#[cfg(test)]
mod tests {
    use super::*;

    fn check(scalar: ScalarType, text: &str, expected: Result<&str, &str>) {
        let mut out = Vec::new();
        let written = write_scalar(&mut out, scalar, text);
        let out = String::from_utf8(out).unwrap();
        match expected {
            Ok(expected) => assert_eq!((written, &*out), (Ok(()), expected), "{text}"),
            Err(expected) => assert_eq!(written, Err(expected.to_owned()), "{text}"),
        }
    }

    #[test]
    fn every_scalar_has_its_json_form() {
        use ScalarType as S;
        check(S::String, "a \"b\"", Ok(r#""a \"b\"""#));
        check(S::Bool, "true", Ok("true"));
        check(S::Bool, "1", Err("\"1\" is not true or false"));
        check(S::Bool, "", Err("\"\" is not true or false"));
        check(S::Int32, "-2147483648", Ok("-2147483648"));
        check(S::Int32, "2147483648", Err("\"2147483648\" is not an int32"));
        check(S::Sint32, "+1", Err("\"+1\" is not an int32"));
        check(S::Uint32, "-1", Err("\"-1\" is not a uint32"));
        check(S::Int64, "9223372036854775807", Ok("\"9223372036854775807\""));
        check(S::Fixed64, "18446744073709551615", Ok("\"18446744073709551615\""));
        check(S::Int64, "1.0", Err("\"1.0\" is not an int64"));
        check(S::Int64, "", Err("\"\" is not an int64"));
        check(S::Double, "1e300", Ok("1e+300"));
        check(S::Double, "-0.5", Ok("-0.5"));
        check(S::Double, "1e999", Err("\"1e999\" is not a double"));
        check(S::Double, "NaN", Ok("\"NaN\""));
        check(S::Double, "inf", Err("\"inf\" is not a double"));
        check(S::Float, "1e39", Err("\"1e39\" is not a float"));
        check(S::Float, "-Infinity", Ok("\"-Infinity\""));
        check(S::Bytes, "aGk=", Ok("\"aGk=\""));
        check(S::Bytes, "aGk", Ok("\"aGk=\""));
        check(S::Bytes, "_-8", Ok("\"/+8=\""));
        check(S::Bytes, "a*", Err("\"a*\" is not bytes in base64"));
    }

    #[test]
    fn a_field_mask_is_taken_with_either_spelling() {
        assert_eq!(camel_case("first_name,home.postal_code,a_1"), "firstName,home.postalCode,a_1");
        assert_eq!(camel_case("firstName"), "firstName");
    }

    #[test]
    fn a_long_wrong_value_is_cut_short_in_the_error() {
        let error = write_scalar(&mut Vec::new(), ScalarType::Int32, &"é".repeat(500)).unwrap_err();
        assert!(error.len() < 200, "{error}");
    }
}
