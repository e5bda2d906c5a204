//! What a later value takes the place of and is not printed: it has to be protobuf all the same, as
//! generated code has it, which decodes it before it forgets it. It need not have a form of JSON.

use buffa::DecodeError;
use buffa::encoding::Tag;
use buffa_descriptor::{DescriptorPool, FieldKind, MessageIndex, ScalarType, SingularKind};

use crate::payload::{Payload, text_of};
use crate::shape::Shape;

/// Looks through one value whose wire type is its kind's; messages nest `depth` deep at most.
pub(crate) fn check(
    pool: &DescriptorPool,
    kind: SingularKind,
    payload: Payload<'_>,
    depth: u32,
) -> Result<(), DecodeError> {
    match kind {
        SingularKind::Scalar(ScalarType::String) => text_of(payload).map(drop),
        SingularKind::Message(index) => {
            let depth = depth.checked_sub(1).ok_or(DecodeError::RecursionLimitExceeded)?;
            check_message(pool, index, payload.bytes(), depth)
        }
        SingularKind::Scalar(_) | SingularKind::Enum(_) => Ok(()),
    }
}

fn check_message(
    pool: &DescriptorPool,
    index: MessageIndex,
    mut rest: &[u8],
    depth: u32,
) -> Result<(), DecodeError> {
    let shape = Shape::new(pool, index);
    while !rest.is_empty() {
        let tag = Tag::decode(&mut rest)?;
        let payload = Payload::read(tag, &mut rest, depth)?;
        let Some((_, field)) = shape.numbered(tag.field_number()) else { continue };
        if !payload.fits(field.kind()) {
            continue;
        }
        match field.kind() {
            FieldKind::List(kind) if !payload.is_one(kind) => {
                let mut packed = payload.bytes();
                while !packed.is_empty() {
                    Payload::packed(kind, &mut packed)?;
                }
            }
            FieldKind::Singular(kind) | FieldKind::List(kind) => {
                check(pool, kind, payload, depth)?;
            }
            FieldKind::Map { key, value } => {
                check_entry(pool, (SingularKind::Scalar(key), value), payload.bytes(), depth)?;
            }
        }
    }
    Ok(())
}

fn check_entry(
    pool: &DescriptorPool,
    (key, value): (SingularKind, SingularKind),
    mut rest: &[u8],
    depth: u32,
) -> Result<(), DecodeError> {
    while !rest.is_empty() {
        let tag = Tag::decode(&mut rest)?;
        let payload = Payload::read(tag, &mut rest, depth)?;
        let kind = match tag.field_number() {
            1 => key,
            2 => value,
            _ => continue,
        };
        if !payload.is_one(kind) {
            return Err(DecodeError::InvalidWireType(tag.wire_type() as u32));
        }
        check(pool, kind, payload, depth)?;
    }
    Ok(())
}
