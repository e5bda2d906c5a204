//! A message and its members: which are printed, in which order, under which names.
//!
//! Order: fields as declared, then the set member of each oneof, then extensions. How deep messages
//! nest is bounded, through `Any` as well. What has no form of JSON, or is not a protobuf, ends the
//! printing; what was printed until then is taken back.

use buffa::editions::FieldPresence;
use buffa_descriptor::{
    DescriptorPool, FieldDescriptor, FieldKind, MessageIndex, ScalarType, SingularKind,
};

use crate::fault::{Fault, Result};
use crate::payload::{Payload, zero};
use crate::scan::{Chain, Frame, Stack};
use crate::shape::Shape;
use crate::{DEPTH_MAX, JsonStyle, WellKnown, print_well_known};

/// What is printed of a message.
#[derive(Debug, Clone, Copy)]
pub enum PrintScope {
    /// All of it.
    Message,
    /// One field by its number: its value, or else its default, which is `null` for messages and
    /// for numbers that are not field.
    Field(u32),
}

/// Appends a message as JSON; what was appended before an error is taken back.
///
/// # Errors
/// When the bytes are not such message, or it has no form of JSON.
pub fn print(
    pool: &DescriptorPool,
    index: MessageIndex,
    bytes: &[u8],
    (asked, style): (PrintScope, JsonStyle),
    out: &mut Vec<u8>,
) -> Result {
    let before = out.len();
    let stack = Stack::with_room();
    let mut printer = Printer { pool, style, depth: DEPTH_MAX, stack, out };
    let whole = Parts::One(Payload::Bytes(bytes));
    let printed = match asked {
        PrintScope::Message => printer.message(index, whole),
        PrintScope::Field(number) => printer.field_alone(index, whole, number),
    };
    printed.inspect_err(|_| out.truncate(before))
}

/// Prints, and knows how much deeper messages may nest.
pub(crate) struct Printer<'p, 'b, 'o> {
    pub(crate) pool: &'p DescriptorPool,
    pub(crate) style: JsonStyle,
    pub(crate) depth: u32,
    pub(crate) stack: Stack<'b>,
    pub(crate) out: &'o mut Vec<u8>,
}

/// What a message is made of.
#[derive(Clone, Copy)]
pub(crate) enum Parts<'b> {
    None,
    One(Payload<'b>),
    All(Chain),
}

impl<'p, 'b> Printer<'p, 'b, '_> {
    /// Runs `print` on a message whose fields were found.
    pub(crate) fn within<T>(
        &mut self,
        index: MessageIndex,
        parts: Parts<'b>,
        print: impl FnOnce(&mut Self, &Frame<'p>) -> Result<T>,
    ) -> Result<T> {
        let frame = self.stack.open(Shape::new(self.pool, index));
        match parts {
            Parts::None => {}
            Parts::One(payload) => self.stack.scan(&frame, payload.bytes(), self.depth)?,
            Parts::All(mut chain) => {
                while let Some((payload, rest)) = self.stack.next(chain) {
                    self.stack.scan(&frame, payload.bytes(), self.depth)?;
                    chain = rest;
                }
            }
        }
        let printed = print(self, &frame)?;
        self.stack.close(&frame);
        Ok(printed)
    }

    /// Runs `print` one message deeper.
    pub(crate) fn deeper(&mut self, print: impl FnOnce(&mut Self) -> Result) -> Result {
        self.depth = self.depth.checked_sub(1).ok_or_else(|| {
            Fault::NoForm(format!("messages nest deeper than {DEPTH_MAX}, Any included"))
        })?;
        print(self)?;
        self.depth += 1;
        Ok(())
    }

    /// A message, in its own form if it has one.
    pub(crate) fn message(&mut self, index: MessageIndex, parts: Parts<'b>) -> Result {
        let known = WellKnown::of(self.pool.message(index).full_name());
        self.within(index, parts, |this, frame| match known {
            Some(known) => print_well_known::print(this, known, frame),
            None => {
                this.out.push(b'{');
                this.members(frame)?;
                this.out.push(b'}');
                Ok(())
            }
        })
    }

    /// The members of the JSON object of a message without a special form.
    pub(crate) fn members(&mut self, frame: &Frame<'p>) -> Result {
        let Shape { descriptor, .. } = frame.shape;
        let fields = descriptor.fields();
        let oneofs = descriptor.oneofs();
        let in_oneof = |field: &FieldDescriptor| {
            let oneof = field.oneof_index().and_then(|index| oneofs.get(usize::from(index)));
            oneof.is_some_and(|oneof| !oneof.is_synthetic())
        };
        for (place, field) in fields.iter().enumerate() {
            if !in_oneof(field) {
                self.member(frame, place, field, None)?;
            }
        }
        for oneof in oneofs.iter().filter(|oneof| !oneof.is_synthetic()) {
            for place in oneof.field_indices().iter().map(|index| usize::from(*index)) {
                if !self.stack.chain(frame, place).is_empty() {
                    self.member(frame, place, &fields[place], None)?;
                }
            }
        }
        for (index, extension) in frame.shape.extensions.iter().enumerate() {
            let name = Some(extension.json_key());
            self.member(frame, fields.len() + index, extension.field(), name)?;
        }
        Ok(())
    }

    fn member(
        &mut self,
        frame: &Frame<'p>,
        place: usize,
        field: &'p FieldDescriptor,
        extension: Option<&str>,
    ) -> Result {
        let chain = self.stack.chain(frame, place);
        let name = extension.unwrap_or_else(|| match self.style.proto_names {
            true => field.name(),
            false => field.json_name(),
        });
        let before = self.out.len();
        if !chain.is_empty() && !self.is_default(field, chain) {
            self.name(name);
            if self.value(frame, field, chain)? {
                return Ok(());
            }
            self.out.truncate(before);
        }
        if self.style.defaults && is_implicit(field) && extension.is_none() {
            self.name(name);
            self.default(field)?;
        }
        Ok(())
    }

    /// The name of a member, and what comes before it.
    pub(crate) fn name(&mut self, name: &str) {
        if self.out.last() != Some(&b'{') {
            self.out.push(b',');
        }
        self.text(name);
        self.out.push(b':');
    }

    /// A field by itself.
    fn field_alone(&mut self, index: MessageIndex, parts: Parts<'b>, number: u32) -> Result {
        self.within(index, parts, |this, frame| {
            let Some((place, field)) = frame.shape.numbered(number) else { return this.null() };
            let chain = this.stack.chain(frame, place);
            let before = this.out.len();
            if !chain.is_empty() && this.value(frame, field, chain)? {
                return Ok(());
            }
            this.out.truncate(before);
            if is_implicit(field) { this.default(field) } else { this.null() }
        })
    }

    /// The value of a field; whether there is one, since what a closed enum has no name for is
    /// none.
    fn value(
        &mut self,
        frame: &Frame<'p>,
        field: &'p FieldDescriptor,
        chain: Chain,
    ) -> Result<bool> {
        match field.kind() {
            FieldKind::Singular(SingularKind::Message(index)) => {
                self.deeper(|this| this.message(index, Parts::All(chain)))?;
            }
            FieldKind::Singular(kind) => {
                let Some(payload) = self.stack.last(chain) else { return Ok(false) };
                // The member of a oneof is null whatever its number, as generated code has it.
                match kind {
                    SingularKind::Enum(index)
                        if is_in_oneof(&frame.shape, field) && self.is_null(index) =>
                    {
                        self.null()?;
                    }
                    _ => self.single(kind, payload)?,
                }
            }
            FieldKind::List(kind) => return self.list(&frame.shape, field, kind, chain),
            FieldKind::Map { key, value } => {
                return self.map(&frame.shape, field, (key, value), chain);
            }
        }
        Ok(true)
    }

    /// What a field without presence has when nothing is set.
    fn default(&mut self, field: &FieldDescriptor) -> Result {
        match field.kind() {
            FieldKind::List(_) => self.out.extend_from_slice(b"[]"),
            FieldKind::Map { .. } => self.out.extend_from_slice(b"{}"),
            FieldKind::Singular(SingularKind::Message(_)) => return self.null(),
            FieldKind::Singular(SingularKind::Enum(index)) => {
                let first = self.pool.enumeration(index).values().first();
                return self.enumeration(index, first.map_or(0, |value| value.number()));
            }
            FieldKind::Singular(SingularKind::Scalar(scalar)) => {
                return self.scalar(scalar, zero(scalar));
            }
        }
        Ok(())
    }

    /// Whether a field is there and yet as if it were absent: zero where there is no presence.
    /// Minus zero is the same in JSON, though protobuf sends it.
    fn is_default(&self, field: &FieldDescriptor, chain: Chain) -> bool {
        use ScalarType as S;
        let FieldKind::Singular(kind) = field.kind() else { return false };
        if !is_implicit(field) {
            return false;
        }
        match (self.stack.last(chain), kind) {
            (
                Some(Payload::Varint(value)),
                SingularKind::Enum(_) | SingularKind::Scalar(S::Int32 | S::Uint32 | S::Sint32),
            ) => value as u32 == 0,
            (Some(Payload::Varint(value)), _) => value == 0,
            (Some(Payload::Fixed32(bits)), SingularKind::Scalar(S::Float)) => {
                f32::from_bits(bits) == 0.0
            }
            (Some(Payload::Fixed32(value)), _) => value == 0,
            (Some(Payload::Fixed64(bits)), SingularKind::Scalar(S::Double)) => {
                f64::from_bits(bits) == 0.0
            }
            (Some(Payload::Fixed64(value)), _) => value == 0,
            (Some(Payload::Bytes(bytes)), SingularKind::Scalar(_)) => bytes.is_empty(),
            _ => false,
        }
    }
}

pub(crate) fn is_implicit(field: &FieldDescriptor) -> bool {
    field.presence() == FieldPresence::Implicit
}

fn is_in_oneof(shape: &Shape<'_>, field: &FieldDescriptor) -> bool {
    let oneof = field.oneof_index().map(usize::from);
    let oneof = oneof.and_then(|index| shape.descriptor.oneofs().get(index));
    oneof.is_some_and(|oneof| !oneof.is_synthetic())
}
