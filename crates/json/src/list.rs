//! Lists and maps: elements packed or not, entries by their keys.

use buffa::DecodeError;
use buffa::encoding::Tag;
use buffa_descriptor::{FieldDescriptor, ScalarType, SingularKind};

use crate::fault::Result;
use crate::payload::{Payload, text_of, zero};
use crate::print::{Parts, Printer};
use crate::replaced_value;
use crate::scan::Chain;
use crate::shape::Shape;
use crate::value::unzigzag;

impl<'p, 'b> Printer<'p, 'b, '_> {
    /// A list; false when it has no elements.
    pub(crate) fn list(
        &mut self,
        shape: &Shape<'p>,
        field: &FieldDescriptor,
        kind: SingularKind,
        mut chain: Chain,
    ) -> Result<bool> {
        self.out.push(b'[');
        let start = self.out.len();
        let element = |this: &mut Self, payload| {
            if let Payload::Varint(number) = payload
                && shape.is_unknown(field, kind, number as i32)
            {
                return Ok(());
            }
            if this.out.len() > start {
                this.out.push(b',');
            }
            this.single(kind, payload)
        };
        while let Some((payload, rest)) = self.stack.next(chain) {
            chain = rest;
            if payload.is_one(kind) {
                element(self, payload)?;
                continue;
            }
            let mut packed = payload.bytes();
            while !packed.is_empty() {
                let payload = Payload::packed(kind, &mut packed)?;
                element(self, payload)?;
            }
        }
        let has_elements = self.out.len() > start;
        self.out.push(b']');
        Ok(has_elements)
    }

    /// A map by its keys; false when it has no entries.
    pub(crate) fn map(
        &mut self,
        shape: &Shape<'p>,
        field: &FieldDescriptor,
        (key_kind, kind): (ScalarType, SingularKind),
        mut chain: Chain,
    ) -> Result<bool> {
        let mut entries = Vec::new();
        while let Some((payload, rest)) = self.stack.next(chain) {
            chain = rest;
            let (key, value) = self.entry(key_kind, kind, payload.bytes())?;
            match self.stack.last(value) {
                Some(Payload::Varint(number)) if shape.is_unknown(field, kind, number as i32) => {}
                _ => entries.push((key, value)),
            }
        }
        // A stable sort, so that of several entries with one key the last is the last.
        entries.sort_by_key(|(key, _)| *key);
        self.out.push(b'{');
        for (index, (key, value)) in entries.iter().enumerate() {
            if entries.get(index + 1).is_some_and(|(next, _)| next == key) {
                self.replaced_value(kind, *value)?;
                continue;
            }
            match *key {
                Key::Text(text) => self.name(text),
                Key::Signed(number) => self.name(&number.to_string()),
                Key::Unsigned(number) => self.name(&number.to_string()),
                Key::Bool(value) => self.name(if value { "true" } else { "false" }),
            }
            self.entry_value(kind, *value)?;
        }
        self.out.push(b'}');
        Ok(!entries.is_empty())
    }

    fn entry_value(&mut self, kind: SingularKind, value: Chain) -> Result {
        match (kind, self.stack.last(value)) {
            (SingularKind::Message(index), Some(_)) => {
                self.deeper(|this| this.message(index, Parts::All(value)))
            }
            (SingularKind::Message(index), None) => {
                self.deeper(|this| this.message(index, Parts::None))
            }
            (SingularKind::Enum(index), None) => self.enumeration(index, 0),
            (SingularKind::Scalar(scalar), None) => self.scalar(scalar, zero(scalar)),
            (kind, Some(payload)) => self.single(kind, payload),
        }
    }

    /// The value of an entry that a later one takes the place of.
    fn replaced_value(&self, kind: SingularKind, mut value: Chain) -> Result {
        while let Some((payload, rest)) = self.stack.next(value) {
            replaced_value::check(self.pool, kind, payload, self.depth)?;
            value = rest;
        }
        Ok(())
    }

    /// The key of an entry, and what was found of its value.
    fn entry(
        &mut self,
        key_kind: ScalarType,
        kind: SingularKind,
        mut rest: &'b [u8],
    ) -> Result<(Key<'b>, Chain)> {
        let mut key = Key::new(key_kind, zero(key_kind))?;
        let mut value = Chain::NONE;
        while !rest.is_empty() {
            let tag = Tag::decode(&mut rest)?;
            let payload = Payload::read(tag, &mut rest, self.depth)?;
            let mismatch = |kind| match payload.is_one(kind) {
                true => Ok(()),
                false => Err(DecodeError::InvalidWireType(tag.wire_type() as u32)),
            };
            match tag.field_number() {
                1 => {
                    mismatch(SingularKind::Scalar(key_kind))?;
                    key = Key::new(key_kind, payload)?;
                }
                2 => {
                    mismatch(kind)?;
                    if !matches!(kind, SingularKind::Message(_)) {
                        self.replaced_value(kind, std::mem::replace(&mut value, Chain::NONE))?;
                    }
                    value = self.stack.push(value, payload);
                }
                _ => {}
            }
        }
        Ok((key, value))
    }
}

/// The key of a map.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Key<'b> {
    Bool(bool),
    Signed(i64),
    Unsigned(u64),
    Text(&'b str),
}

impl<'b> Key<'b> {
    fn new(kind: ScalarType, payload: Payload<'b>) -> Result<Self> {
        use ScalarType as S;
        Ok(match (kind, payload) {
            (S::Bool, Payload::Varint(value)) => Self::Bool(value != 0),
            (S::Int32, Payload::Varint(value)) => Self::Signed(i64::from(value as i32)),
            (S::Sfixed32, Payload::Fixed32(value)) => Self::Signed(i64::from(value as i32)),
            (S::Sint32, Payload::Varint(value)) => Self::Signed(unzigzag(u64::from(value as u32))),
            (S::Int64, Payload::Varint(value)) | (S::Sfixed64, Payload::Fixed64(value)) => {
                Self::Signed(value as i64)
            }
            (S::Sint64, Payload::Varint(value)) => Self::Signed(unzigzag(value)),
            (S::Uint32, Payload::Varint(value)) => Self::Unsigned(u64::from(value as u32)),
            (_, Payload::Varint(value) | Payload::Fixed64(value)) => Self::Unsigned(value),
            (_, Payload::Fixed32(value)) => Self::Unsigned(u64::from(value)),
            (_, payload) => Self::Text(text_of(payload)?),
        })
    }
}
