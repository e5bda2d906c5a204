//! The JSON of the types of `google.protobuf` that have their own form, out of their bytes.
//!
//! An `Any` whose type the schema does not know is `{"@type": …, "value": base64}`, as in generated
//! code; of one that it knows, the members of its JSON object are beside `@type`. A schema may hold
//! a home-made `google.protobuf` type: what does not have the kind that it should is
//! absent.

use buffa::json_helpers::wkt;
use buffa_descriptor::{FieldKind, ScalarType, SingularKind};

use crate::WellKnown;
use crate::fault::{Fault, Result};
use crate::payload::{Payload, text_of, zero};
use crate::print::{Parts, Printer};
use crate::scan::Frame;
use crate::well_known::{BOOL, LIST, NUMBER, STRUCT, TEXT, type_of_url};

/// Prints the form of a type.
pub(crate) fn print<'p>(
    printer: &mut Printer<'p, '_, '_>,
    known: WellKnown,
    frame: &Frame<'p>,
) -> Result {
    match known {
        WellKnown::Timestamp | WellKnown::Duration => {
            let seconds = whole(printer, frame, 1);
            let nanos = whole(printer, frame, 2);
            let nanos = i32::try_from(nanos).unwrap_or_default();
            let text = match known {
                WellKnown::Timestamp => wkt::fmt_timestamp(seconds, nanos),
                _ => wkt::fmt_duration(seconds, nanos),
            };
            printer.text(&text.map_err(|why| Fault::NoForm(why.to_owned()))?);
        }
        WellKnown::FieldMask => {
            let mut chain = printer.stack.numbered(frame, 1);
            let mut paths = Vec::new();
            while let Some((payload, rest)) = printer.stack.next(chain) {
                chain = rest;
                paths.push(camel(text_of(payload)?)?);
            }
            printer.text(&paths.join(","));
        }
        WellKnown::Empty => printer.out.extend_from_slice(b"{}"),
        WellKnown::Wrapper(kind) => {
            let found = single(printer, frame, 1).unwrap_or_else(|| zero(kind));
            printer.scalar(kind, found)?;
        }
        WellKnown::Struct | WellKnown::ListValue => collection(printer, known, frame)?,
        WellKnown::Value => print_value(printer, frame)?,
        WellKnown::Any => print_any(printer, frame)?,
    }
    Ok(())
}

/// What was found of a single value.
fn single<'b>(
    printer: &Printer<'_, 'b, '_>,
    frame: &Frame<'_>,
    number: u32,
) -> Option<Payload<'b>> {
    printer.stack.last(printer.stack.numbered(frame, number))
}

fn whole(printer: &Printer<'_, '_, '_>, frame: &Frame<'_>, number: u32) -> i64 {
    let kind = frame.shape.numbered(number).map(|(_, field)| field.kind());
    match (kind, single(printer, frame, number)) {
        (Some(FieldKind::Singular(SingularKind::Scalar(kind))), Some(Payload::Varint(value))) => {
            match kind {
                ScalarType::Int64 => value as i64,
                ScalarType::Int32 => i64::from(value as i32),
                _ => 0,
            }
        }
        _ => 0,
    }
}

fn camel(path: &str) -> Result<String> {
    match wkt::field_mask_path_round_trips(path) {
        true => Ok(wkt::snake_to_camel(path)),
        false => Err(Fault::NoForm("a path of a FieldMask has no form in camel case".to_owned())),
    }
}

/// A `Struct` or a `ListValue`, which are what their one field is.
fn collection<'p>(
    printer: &mut Printer<'p, '_, '_>,
    known: WellKnown,
    frame: &Frame<'p>,
) -> Result {
    let field = frame.shape.numbered(1).map(|(_, field)| field);
    let chain = printer.stack.numbered(frame, 1);
    match field.map(|field| (field, field.kind())) {
        Some((field, FieldKind::Map { key, value })) if known == WellKnown::Struct => {
            printer.map(&frame.shape, field, (key, value), chain)?;
        }
        Some((field, FieldKind::List(kind))) if known == WellKnown::ListValue => {
            printer.list(&frame.shape, field, kind, chain)?;
        }
        _ if known == WellKnown::Struct => printer.out.extend_from_slice(b"{}"),
        _ => printer.out.extend_from_slice(b"[]"),
    }
    Ok(())
}

fn print_value<'p>(printer: &mut Printer<'p, '_, '_>, frame: &Frame<'p>) -> Result {
    for number in [NUMBER, TEXT, BOOL, STRUCT, LIST] {
        let chain = printer.stack.numbered(frame, number);
        let kind = frame.shape.numbered(number).map(|(_, field)| field.kind());
        let (Some(payload), Some(FieldKind::Singular(kind))) = (printer.stack.last(chain), kind)
        else {
            continue;
        };
        if let (SingularKind::Scalar(ScalarType::Double), Payload::Fixed64(bits)) = (kind, payload)
            && !f64::from_bits(bits).is_finite()
        {
            let why = "a google.protobuf.Value cannot be NaN or infinite in JSON";
            return Err(Fault::NoForm(why.to_owned()));
        }
        return match kind {
            SingularKind::Message(index) => {
                printer.deeper(|printer| printer.message(index, Parts::All(chain)))
            }
            kind => printer.single(kind, payload),
        };
    }
    printer.null()
}

fn print_any<'p>(printer: &mut Printer<'p, '_, '_>, frame: &Frame<'p>) -> Result {
    printer.out.push(b'{');
    let url = text_of(single(printer, frame, 1).unwrap_or(Payload::Bytes(&[])))?;
    let inside = single(printer, frame, 2).unwrap_or(Payload::Bytes(&[]));
    if !url.is_empty() {
        printer.name("@type");
        printer.text(url);
        match type_of_url(printer.pool, url) {
            None => {
                printer.name("value");
                printer.scalar(ScalarType::Bytes, inside)?;
            }
            Some(index) => {
                let known = WellKnown::of(printer.pool.message(index).full_name());
                let inside = Parts::One(inside);
                let printed = printer.deeper(|printer| match known {
                    Some(known) if known.is_value_of_any() => {
                        printer.name("value");
                        printer.message(index, inside)
                    }
                    Some(_) => printer.within(index, inside, |_, _| Ok(())),
                    None => printer.within(index, inside, |printer, frame| printer.members(frame)),
                });
                printed.map_err(|fault| match fault {
                    Fault::Wire(why) => {
                        Fault::NoForm(format!("the Any does not hold a {url}: {why}"))
                    }
                    fault @ Fault::NoForm(_) => fault,
                })?;
            }
        }
    }
    printer.out.push(b'}');
    Ok(())
}
