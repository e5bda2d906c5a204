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
use buffa::encoding::Tag;
use buffa_descriptor::{FieldDescriptor, FieldKind, SingularKind};

use crate::payload::Payload;
use crate::replaced_value;
use crate::shape::Shape;

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

/// As many as most messages have.
const FIELDS: usize = 16;

/// The part of the stack that one message has.
pub(crate) struct Frame<'a> {
    pub(crate) shape: Shape<'a>,
    found: usize,
    chains: usize,
}

impl<'b> Stack<'b> {
    /// Nothing found yet, with room for what small messages have.
    pub(crate) fn with_room() -> Self {
        Self { found: Vec::with_capacity(FIELDS), chains: Vec::with_capacity(FIELDS) }
    }

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
