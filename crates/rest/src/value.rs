//! The text of a path or query value as a protobuf field.
//!
//! Each kind is checked here, so that an error names the parameter and what it should have been.

use std::str::FromStr;

use base64::Engine as _;
use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use buffa::editions::EnumType;
use buffa::encoding::{Tag, WireType, encode_varint};
use buffa_descriptor::{DescriptorPool, EnumIndex, EnumValueDescriptor, ScalarType};
use tidewire_schema::Schema;
use tidewire_service::Codec;

use crate::field::{Field, Kind, list};
use crate::plan::write_bytes;

/// Appends `text` as a value of a field.
///
/// # Errors
/// What the text should have been.
pub(crate) fn write(
    out: &mut Vec<u8>,
    schema: &Schema,
    field: &Field,
    text: &str,
) -> Result<(), String> {
    let number = field.number();
    match field.kind {
        Kind::Scalar(scalar) => write_scalar(out, number, scalar, text),
        Kind::Enum(index) => {
            let value = enum_number(schema.pool(), index, text)?;
            varint(out, number, i64::from(value).cast_unsigned());
            Ok(())
        }
        Kind::Wrapper(scalar) => {
            let mut inner = Vec::new();
            write_scalar(&mut inner, 1, scalar, text)?;
            write_bytes(out, number, &inner);
            Ok(())
        }
        Kind::Text(known) => {
            let json = serde_json::Value::from(text).to_string();
            let message = schema.decode(known.full_name(), Codec::Json, json.as_bytes());
            let encoded = message.and_then(|message| message.encode(Codec::Proto));
            let encoded = encoded.map_err(|_| unfit(text, known.example()))?;
            write_bytes(out, number, &encoded);
            Ok(())
        }
        Kind::FieldMask => {
            let mut inner = Vec::new();
            for path in text.split(',').filter(|path| !path.is_empty()) {
                write_bytes(&mut inner, 1, snake_case(path).as_bytes());
            }
            write_bytes(out, number, &inner);
            Ok(())
        }
    }
}

fn write_scalar(
    out: &mut Vec<u8>,
    number: u32,
    scalar: ScalarType,
    text: &str,
) -> Result<(), String> {
    use ScalarType as S;
    match scalar {
        S::String => write_bytes(out, number, text.as_bytes()),
        S::Bytes => write_bytes(out, number, &bytes(text)?),
        S::Bool => match text {
            "true" | "false" => varint(out, number, u64::from(text == "true")),
            _ => return Err(unfit(text, "true or false")),
        },
        S::Int32 => varint(out, number, i64::from(int32(text)?).cast_unsigned()),
        S::Sint32 => varint(out, number, zigzag(i64::from(int32(text)?))),
        S::Sfixed32 => fixed32(out, number, int32(text)?.to_le_bytes()),
        S::Uint32 => varint(out, number, u64::from(integer::<u32>(text, "a uint32")?)),
        S::Fixed32 => fixed32(out, number, integer::<u32>(text, "a uint32")?.to_le_bytes()),
        S::Int64 => varint(out, number, int64(text)?.cast_unsigned()),
        S::Sint64 => varint(out, number, zigzag(int64(text)?)),
        S::Sfixed64 => fixed64(out, number, int64(text)?.to_le_bytes()),
        S::Uint64 => varint(out, number, integer(text, "a uint64")?),
        S::Fixed64 => fixed64(out, number, integer::<u64>(text, "a uint64")?.to_le_bytes()),
        S::Double => {
            let value = float(text, |n: f64| n.is_finite(), "a double")?;
            fixed64(out, number, value.to_le_bytes());
        }
        S::Float => {
            let value = float(text, |n: f32| n.is_finite(), "a float")?;
            fixed32(out, number, value.to_le_bytes());
        }
    }
    Ok(())
}

fn varint(out: &mut Vec<u8>, number: u32, value: u64) {
    Tag::new(number, WireType::Varint).encode(out);
    encode_varint(value, out);
}

fn fixed32(out: &mut Vec<u8>, number: u32, value: [u8; 4]) {
    Tag::new(number, WireType::Fixed32).encode(out);
    out.extend_from_slice(&value);
}

fn fixed64(out: &mut Vec<u8>, number: u32, value: [u8; 8]) {
    Tag::new(number, WireType::Fixed64).encode(out);
    out.extend_from_slice(&value);
}

const fn zigzag(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)).cast_unsigned()
}

fn int32(text: &str) -> Result<i32, String> {
    integer(text, "an int32")
}

fn int64(text: &str) -> Result<i64, String> {
    integer(text, "an int64")
}

fn integer<N: FromStr>(text: &str, what: &str) -> Result<N, String> {
    let plain = text.strip_prefix('-').unwrap_or(text).bytes().all(|b| b.is_ascii_digit());
    text.parse::<N>().ok().filter(|_| plain).ok_or_else(|| unfit(text, what))
}

/// A number of a width, read at that width: by way of a double it would be rounded twice.
fn float<N: FromStr + Copy>(
    text: &str,
    in_range: impl Fn(N) -> bool,
    what: &str,
) -> Result<N, String> {
    let special = match text {
        "NaN" => Some("NaN"),
        "Infinity" => Some("inf"),
        "-Infinity" => Some("-inf"),
        _ => None,
    };
    let plain = text.bytes().all(|b| b.is_ascii_digit() || b"+-.eE".contains(&b));
    match special {
        Some(special) => special.parse().ok(),
        None => text.parse().ok().filter(|number| plain && in_range(*number)),
    }
    .ok_or_else(|| unfit(text, what))
}

fn bytes(text: &str) -> Result<Vec<u8>, String> {
    let unpadded = text.trim_end_matches('=');
    let bytes = match unpadded.contains(['-', '_']) {
        true => URL_SAFE.decode(unpadded),
        false => STANDARD.decode(unpadded),
    };
    bytes.map_err(|_| unfit(text, "bytes in base64"))
}

fn enum_number(pool: &DescriptorPool, index: EnumIndex, text: &str) -> Result<i32, String> {
    let descriptor = pool.enumeration(index);
    if let Some(value) = descriptor.value_by_name(text) {
        return Ok(value.number());
    }
    let known = |number: &i32| {
        descriptor.value(*number).is_some() || descriptor.enum_type() == EnumType::Open
    };
    integer::<i32>(text, "").ok().filter(known).ok_or_else(|| {
        let names = list(descriptor.values().iter().map(EnumValueDescriptor::name));
        unfit(text, &format!("a {}: one of {names}", descriptor.full_name()))
    })
}

/// `firstName`, as JSON has it, as in the `.proto`: `first_name`.
fn snake_case(path: &str) -> String {
    let mut out = String::with_capacity(path.len() + 2);
    for letter in path.chars() {
        if letter.is_ascii_uppercase() {
            out.push('_');
        }
        out.push(letter.to_ascii_lowercase());
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

    fn check(scalar: ScalarType, text: &str, expected: Result<&[u8], &str>) {
        let mut out = Vec::new();
        let written = write_scalar(&mut out, 1, scalar, text);
        match expected {
            Ok(expected) => assert_eq!((written, &out[1..]), (Ok(()), expected), "{text}"),
            Err(expected) => assert_eq!(written, Err(expected.to_owned()), "{text}"),
        }
    }

    #[test]
    fn every_scalar_has_its_form() {
        use ScalarType as S;
        check(S::String, "a \"b\"", Ok(b"\x05a \"b\""));
        check(S::Bool, "true", Ok(&[1]));
        check(S::Bool, "1", Err("\"1\" is not true or false"));
        check(S::Bool, "", Err("\"\" is not true or false"));
        check(S::Int32, "-1", Ok(&[255, 255, 255, 255, 255, 255, 255, 255, 255, 1]));
        check(S::Int32, "2147483648", Err("\"2147483648\" is not an int32"));
        check(S::Sint32, "-2147483648", Ok(&[255, 255, 255, 255, 15]));
        check(S::Sint32, "+1", Err("\"+1\" is not an int32"));
        check(S::Sfixed32, "-2", Ok(&[254, 255, 255, 255]));
        check(S::Uint32, "-1", Err("\"-1\" is not a uint32"));
        check(S::Fixed32, "258", Ok(&[2, 1, 0, 0]));
        check(S::Sint64, "-1", Ok(&[1]));
        check(S::Uint64, "300", Ok(&[172, 2]));
        check(S::Fixed64, "18446744073709551615", Ok(&[255; 8]));
        check(S::Int64, "1.0", Err("\"1.0\" is not an int64"));
        check(S::Int64, "", Err("\"\" is not an int64"));
        check(S::Double, "1e300", Ok(&1e300_f64.to_le_bytes()));
        check(S::Double, "-0.5", Ok(&(-0.5_f64).to_le_bytes()));
        check(S::Double, "1e999", Err("\"1e999\" is not a double"));
        check(S::Double, "NaN", Ok(&f64::NAN.to_le_bytes()));
        check(S::Double, "inf", Err("\"inf\" is not a double"));
        check(S::Float, "1e39", Err("\"1e39\" is not a float"));
        check(S::Float, "-Infinity", Ok(&f32::NEG_INFINITY.to_le_bytes()));
        check(S::Bytes, "aGk=", Ok(b"\x02hi"));
        check(S::Bytes, "aGk", Ok(b"\x02hi"));
        check(S::Bytes, "_-8", Ok(&[2, 255, 239]));
        check(S::Bytes, "a*", Err("\"a*\" is not bytes in base64"));
    }

    #[test]
    fn a_field_mask_is_taken_with_either_spelling() {
        assert_eq!(snake_case("homeAddress.postalCode"), "home_address.postal_code");
        assert_eq!(snake_case("first_name.a_1"), "first_name.a_1");
    }

    #[test]
    fn a_long_wrong_value_is_cut_short_in_the_error() {
        let long = "é".repeat(500);
        let error = write_scalar(&mut Vec::new(), 1, ScalarType::Int32, &long).unwrap_err();
        assert!(error.len() < 200, "{error}");
    }
}
