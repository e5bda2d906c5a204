//! Where the fields of an encoded message are, found before it is printed: protobuf sends them in
//! any order, a single one more than once, and a message in parts that are merged.
//!
//! | sent more than once | what is found |
//! |---|---|
//! | a single value | the last one |
//! | a message | all of its parts, to be read as one |
//! | another member of the same oneof | that member |
//! | elements of a list, entries of a map | all of them |
//!
//! What a type does not know is passed over: other numbers, other wire types, numbers that a closed
//! enum has no name for. What is found lies on one [`Stack`], on which each message that is being
//! printed has a [`Frame`], so that finding costs no allocation a message. Nothing is decoded
//! that is not printed.

use buffa::DecodeError;
use buffa::editions::EnumType;
use buffa::encoding::{Tag, WireType, decode_varint};
use buffa::types::{borrow_bytes, borrow_group};
use buffa_descriptor::{
    DescriptorPool, ExtensionDescriptor, FieldDescriptor, FieldKind, MessageDescriptor,
    MessageIndex, ScalarType, SingularKind,
};

use crate::replaced_value;

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

/// A message type: its fields, and after them its extensions, each with its own place.
pub(crate) struct Shape<'a> {
    pub(crate) pool: &'a DescriptorPool,
    pub(crate) descriptor: &'a MessageDescriptor,
    pub(crate) extensions: Vec<&'a ExtensionDescriptor>,
}

impl<'a> Shape<'a> {
    pub(crate) fn new(pool: &'a DescriptorPool, index: MessageIndex) -> Self {
        let descriptor = pool.message(index);
        let extensions = match descriptor.extension_ranges() {
            [] => Vec::new(),
            _ => pool.extensions_of(index).collect(),
        };
        Self { pool, descriptor, extensions }
    }

    fn places(&self) -> usize {
        self.descriptor.fields().len() + self.extensions.len()
    }

    /// The field of a number and its place; looked for first at `near` and behind it, where
    /// protobuf has it mostly.
    #[inline]
    fn find(&self, number: u32, near: usize) -> Option<(usize, &'a FieldDescriptor)> {
        let fields = self.descriptor.fields();
        for place in [near, near + 1] {
            if let Some(field) = fields.get(place)
                && field.number() == number
            {
                return Some((place, field));
            }
        }
        if let Some(field) = self.descriptor.field(number) {
            return Some((fields.element_offset(field)?, field));
        }
        let of_number = |known: &&ExtensionDescriptor| known.field().number().cmp(&number);
        let place = self.extensions.binary_search_by(of_number).ok()?;
        Some((fields.len() + place, self.extensions[place].field()))
    }

    fn field(&self, place: usize) -> Option<&'a FieldDescriptor> {
        let fields = self.descriptor.fields();
        let extension = || Some(self.extensions.get(place - fields.len())?.field());
        fields.get(place).or_else(extension)
    }

    /// The field of a number and its place.
    pub(crate) fn numbered(&self, number: u32) -> Option<(usize, &'a FieldDescriptor)> {
        self.find(number, 0)
    }

    /// Whether the field's enum has no place for the number.
    pub(crate) fn is_unknown(
        &self,
        field: &FieldDescriptor,
        kind: SingularKind,
        number: i32,
    ) -> bool {
        let SingularKind::Enum(index) = kind else { return false };
        let known = self.pool.enumeration(index);
        field.enum_type().unwrap_or_else(|| known.enum_type()) == EnumType::Closed
            && known.value(number).is_none()
    }
}

/// What was found of one field: the first and the last of a chain on the stack.
#[derive(Clone, Copy)]
pub(crate) struct Chain {
    first: usize,
    last: usize,
}

impl Chain {
    pub(crate) const NONE: Self = Self { first: usize::MAX, last: usize::MAX };

    pub(crate) const fn is_empty(self) -> bool {
        self.first == usize::MAX
    }
}

/// What was found of all messages that are being printed, the innermost on top.
#[derive(Default)]
pub(crate) struct Stack<'b> {
    found: Vec<(Payload<'b>, usize)>,
    chains: Vec<Chain>,
}

/// The part of the stack that one message has.
pub(crate) struct Frame<'a> {
    pub(crate) shape: Shape<'a>,
    found: usize,
    chains: usize,
}

impl<'b> Stack<'b> {
    /// Begins a message.
    pub(crate) fn open<'a>(&mut self, shape: Shape<'a>) -> Frame<'a> {
        let frame = Frame { shape, found: self.found.len(), chains: self.chains.len() };
        self.chains.resize(frame.chains + frame.shape.places(), Chain::NONE);
        frame
    }

    /// Forgets a message.
    pub(crate) fn close(&mut self, frame: &Frame<'_>) {
        self.found.truncate(frame.found);
        self.chains.truncate(frame.chains);
    }

    /// What was found of the field at a place.
    pub(crate) fn chain(&self, frame: &Frame<'_>, place: usize) -> Chain {
        self.chains[frame.chains + place]
    }

    /// What was found of the field of a number.
    pub(crate) fn numbered(&self, frame: &Frame<'_>, number: u32) -> Chain {
        let found = frame.shape.numbered(number);
        found.map_or(Chain::NONE, |(place, _)| self.chain(frame, place))
    }

    /// The first of a chain and what is behind it.
    pub(crate) fn next(&self, chain: Chain) -> Option<(Payload<'b>, Chain)> {
        let (payload, next) = *self.found.get(chain.first)?;
        let rest = match chain.first == chain.last {
            true => Chain::NONE,
            false => Chain { first: next, last: chain.last },
        };
        Some((payload, rest))
    }

    /// The last of a chain, which counts where there can be one only.
    pub(crate) fn last(&self, chain: Chain) -> Option<Payload<'b>> {
        self.found.get(chain.last).map(|(payload, _)| *payload)
    }

    /// Adds to a chain.
    pub(crate) fn push(&mut self, chain: Chain, payload: Payload<'b>) -> Chain {
        let last = self.found.len();
        self.found.push((payload, usize::MAX));
        if chain.is_empty() {
            return Chain { first: last, last };
        }
        self.found[chain.last].1 = last;
        Chain { last, ..chain }
    }

    /// Finds the fields of a message, or of a part of it.
    pub(crate) fn scan(
        &mut self,
        frame: &Frame<'_>,
        mut rest: &'b [u8],
        depth: u32,
    ) -> Result<(), DecodeError> {
        let mut near = 0;
        while !rest.is_empty() {
            let tag = Tag::decode(&mut rest)?;
            let payload = Payload::read(tag, &mut rest, depth)?;
            let Some((place, field)) = frame.shape.find(tag.field_number(), near) else { continue };
            near = place;
            if payload.fits(field.kind()) {
                self.add(frame, (place, field), payload, depth)?;
            }
        }
        Ok(())
    }

    #[inline]
    fn add(
        &mut self,
        frame: &Frame<'_>,
        (place, field): (usize, &FieldDescriptor),
        payload: Payload<'b>,
        depth: u32,
    ) -> Result<(), DecodeError> {
        let single = match field.kind() {
            FieldKind::Singular(SingularKind::Message(_)) => None,
            FieldKind::Singular(kind) => Some(kind),
            FieldKind::List(_) | FieldKind::Map { .. } => None,
        };
        if let Some(kind) = single
            && let Payload::Varint(number) = payload
            && frame.shape.is_unknown(field, kind, number as i32)
        {
            return Ok(());
        }
        if let Some(oneof) = field.oneof_index() {
            let members = frame.shape.descriptor.oneofs()[usize::from(oneof)].field_indices();
            for other in members.iter().map(|index| usize::from(*index)) {
                if other != place {
                    self.replace(frame, other, depth)?;
                }
            }
        }
        if single.is_some() {
            self.replace(frame, place, depth)?;
        }
        let before = self.chain(frame, place);
        self.chains[frame.chains + place] = self.push(before, payload);
        Ok(())
    }

    /// Forgets what a later value takes the place of.
    fn replace(&mut self, frame: &Frame<'_>, place: usize, depth: u32) -> Result<(), DecodeError> {
        let mut chain = std::mem::replace(&mut self.chains[frame.chains + place], Chain::NONE);
        let Some(field) = frame.shape.field(place) else { return Ok(()) };
        let FieldKind::Singular(kind) = field.kind() else { return Ok(()) };
        while let Some((payload, rest)) = self.next(chain) {
            replaced_value::check(frame.shape.pool, kind, payload, depth)?;
            chain = rest;
        }
        Ok(())
    }
}
