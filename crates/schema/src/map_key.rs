//! Keys of maps, as JSON and paths spell them.

use buffa_descriptor::ScalarType;
use buffa_descriptor::reflect::MapKey;

/// A key as JSON spells it; `None` when it is none of its kind.
pub(crate) fn parse_key(kind: ScalarType, text: &str) -> Option<MapKey> {
    use ScalarType as S;
    Some(match kind {
        S::Bool => MapKey::Bool(text.parse().ok()?),
        S::Int32 | S::Sint32 | S::Sfixed32 => MapKey::I32(text.parse().ok()?),
        S::Int64 | S::Sint64 | S::Sfixed64 => MapKey::I64(text.parse().ok()?),
        S::Uint32 | S::Fixed32 => MapKey::U32(text.parse().ok()?),
        S::Uint64 | S::Fixed64 => MapKey::U64(text.parse().ok()?),
        S::String => MapKey::String(text.to_owned()),
        S::Double | S::Float | S::Bytes => return None,
    })
}
