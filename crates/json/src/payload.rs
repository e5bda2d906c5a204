//! One value as it is sent: its bytes, and which kinds of fields are sent so.

use buffa::DecodeError;
use buffa::encoding::{Tag, WireType, decode_varint};
use buffa::types::{borrow_bytes, borrow_group};
use buffa_descriptor::{FieldKind, ScalarType, SingularKind};

/// The bytes of one value.
#[derive(Clone, Copy)]
pub(crate) enum Payload<'b> {
    Varint(u64),
    Fixed32(u32),
    Fixed64(u64),
    Bytes(&'b [u8]),
    /// A message between two tags.
    Group(&'b [u8]),
}

impl<'b> Payload<'b> {
    /// What follows a tag.
    #[inline]
    pub(crate) fn read(tag: Tag, rest: &mut &'b [u8], depth: u32) -> Result<Self, DecodeError> {
        Ok(match tag.wire_type() {
            WireType::Varint => Self::Varint(decode_varint(rest)?),
            WireType::Fixed32 => Self::Fixed32(u32::from_le_bytes(fixed(rest)?)),
            WireType::Fixed64 => Self::Fixed64(u64::from_le_bytes(fixed(rest)?)),
            WireType::LengthDelimited => Self::Bytes(borrow_bytes(rest)?),
            WireType::StartGroup => {
                let depth = depth.checked_sub(1).ok_or(DecodeError::RecursionLimitExceeded)?;
                Self::Group(borrow_group(rest, tag.field_number(), depth)?)
            }
            _ => return Err(DecodeError::InvalidEndGroup(tag.field_number())),
        })
    }

    /// One element of a packed list.
    pub(crate) fn packed(kind: SingularKind, rest: &mut &'b [u8]) -> Result<Self, DecodeError> {
        Ok(match wire_type(kind) {
            WireType::Fixed32 => Self::Fixed32(u32::from_le_bytes(fixed(rest)?)),
            WireType::Fixed64 => Self::Fixed64(u64::from_le_bytes(fixed(rest)?)),
            _ => Self::Varint(decode_varint(rest)?),
        })
    }

    /// The bytes of a message, or of anything else that is bytes.
    pub(crate) const fn bytes(self) -> &'b [u8] {
        match self {
            Self::Bytes(bytes) | Self::Group(bytes) => bytes,
            Self::Varint(_) | Self::Fixed32(_) | Self::Fixed64(_) => &[],
        }
    }

    /// Whether it is one value of the kind.
    pub(crate) fn is_one(self, kind: SingularKind) -> bool {
        match self {
            Self::Varint(_) => wire_type(kind) == WireType::Varint,
            Self::Fixed32(_) => wire_type(kind) == WireType::Fixed32,
            Self::Fixed64(_) => wire_type(kind) == WireType::Fixed64,
            Self::Bytes(_) => wire_type(kind) == WireType::LengthDelimited,
            Self::Group(_) => matches!(kind, SingularKind::Message(_)),
        }
    }

    /// Whether it is what a field of the kind is sent as.
    pub(crate) fn fits(self, kind: FieldKind) -> bool {
        match kind {
            FieldKind::Singular(kind) => self.is_one(kind),
            FieldKind::List(kind) => matches!(self, Self::Bytes(_)) || self.is_one(kind),
            FieldKind::Map { .. } => matches!(self, Self::Bytes(_)),
        }
    }
}

fn fixed<const N: usize>(rest: &mut &[u8]) -> Result<[u8; N], DecodeError> {
    let (value, after) = rest.split_first_chunk().ok_or(DecodeError::UnexpectedEof)?;
    *rest = after;
    Ok(*value)
}

fn wire_type(kind: SingularKind) -> WireType {
    use ScalarType as S;
    match kind {
        SingularKind::Message(_) | SingularKind::Scalar(S::String | S::Bytes) => {
            WireType::LengthDelimited
        }
        SingularKind::Scalar(S::Double | S::Fixed64 | S::Sfixed64) => WireType::Fixed64,
        SingularKind::Scalar(S::Float | S::Fixed32 | S::Sfixed32) => WireType::Fixed32,
        SingularKind::Scalar(_) | SingularKind::Enum(_) => WireType::Varint,
    }
}

/// The text of a payload.
pub(crate) fn text_of(payload: Payload<'_>) -> Result<&str, DecodeError> {
    std::str::from_utf8(payload.bytes()).map_err(|_| DecodeError::InvalidUtf8)
}

/// The bytes of a scalar that nothing was sent of.
pub(crate) const fn zero(kind: ScalarType) -> Payload<'static> {
    use ScalarType as S;
    match kind {
        S::Double | S::Fixed64 | S::Sfixed64 => Payload::Fixed64(0),
        S::Float | S::Fixed32 | S::Sfixed32 => Payload::Fixed32(0),
        S::String | S::Bytes => Payload::Bytes(&[]),
        _ => Payload::Varint(0),
    }
}
