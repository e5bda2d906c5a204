//! The request message of a call, in protobuf: body, path and query put together.
//!
//! | `body` | the message is |
//! |---|---|
//! | `"*"` | what the HTTP body says in JSON, merged with what the path says |
//! | a field | what the HTTP body says of that field, merged with path and query |
//! | none | what path and query say |
//!
//! What path and query say is written at once, without a message in between: most requests of that
//! kind cost a few bytes. It wins over the body, being merged after it.

use std::borrow::Cow;

use buffa::encoding::{Tag, WireType, encode_varint};
use buffa_descriptor::{FieldKind, MessageDescriptor, MessageIndex, SingularKind};
use bytes::Bytes;
use tidewire_schema::{Schema, UnknownMembers};
use tidewire_service::{Codec, Error, Result};

use crate::field::Field;
use crate::value;
use tidewire_proto::http::{Template, Variable, decode};

/// How the request message of a binding is put together.
#[derive(Debug)]
pub(crate) struct RequestPlan {
    pub(crate) schema: Schema,
    /// The full name of the message.
    pub(crate) message: String,
    pub(crate) index: MessageIndex,
    pub(crate) body: BodyRule,
    /// Whether the HTTP body is the bytes of a `google.api.HttpBody`.
    pub(crate) raw: bool,
    pub(crate) path: Vec<PathField>,
}

/// What the HTTP body is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum BodyRule {
    /// There is none.
    None,
    /// The message itself.
    Whole,
    /// One field of it.
    Field {
        /// Its number.
        number: u32,
        /// Its name in the `.proto`.
        name: String,
    },
}

/// A field that a part of the path fills.
#[derive(Debug)]
pub(crate) struct PathField {
    pub(crate) variable: Variable,
    pub(crate) field: Field,
}

/// A value for a field, and where it came from.
#[derive(Debug)]
pub(crate) struct Assign<'a> {
    pub(crate) field: Field,
    pub(crate) value: Cow<'a, str>,
    pub(crate) origin: Origin,
    pub(crate) name: Cow<'a, str>,
}

/// Where a value came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Origin {
    Path,
    Query,
}

impl Assign<'_> {
    /// The error for a value that does not fit.
    fn unfit(&self, why: &str) -> Error {
        let origin = match self.origin {
            Origin::Path => "path part",
            Origin::Query => "query parameter",
        };
        Error::invalid_argument(format!("{origin} {}: {why}", self.name))
    }
}

impl RequestPlan {
    /// The descriptor of the message.
    pub(crate) fn descriptor(&self) -> &MessageDescriptor {
        self.schema.pool().message(self.index)
    }

    /// The values that the path gives.
    ///
    /// # Errors
    /// A part that does not decode.
    pub(crate) fn path_values<'a>(
        &'a self,
        template: &Template,
        path: &'a str,
    ) -> Result<Vec<Assign<'a>>> {
        let mut assigns = Vec::with_capacity(self.path.len());
        for PathField { variable, field } in &self.path {
            let raw = template.capture(variable, path);
            let value = decode(raw, variable.single).map_err(|why| {
                Error::invalid_argument(format!("path part {}: {why}", variable.field))
            })?;
            let name = Cow::Borrowed(&*variable.field);
            assigns.push(Assign { field: *field, value, origin: Origin::Path, name });
        }
        Ok(assigns)
    }

    /// What path and query say, as a message.
    ///
    /// # Errors
    /// A value that does not fit its field, a field given twice, two members of a oneof.
    pub(crate) fn write(&self, mut assigns: Vec<Assign<'_>>) -> Result<Vec<u8>> {
        let mut out = Vec::new();
        if assigns.is_empty() {
            return Ok(out);
        }
        assigns.sort_by(|a, b| a.field.steps().cmp(b.field.steps()));
        self.members(&mut out, self.descriptor(), &assigns, 0)?;
        Ok(out)
    }

    /// Writes `assigns`, which are sorted and agree in their first `depth` steps, as fields of a
    /// message.
    fn members(
        &self,
        out: &mut Vec<u8>,
        message: &MessageDescriptor,
        assigns: &[Assign<'_>],
        depth: usize,
    ) -> Result<()> {
        let mut oneofs: Vec<(u16, &Assign<'_>)> = Vec::new();
        for group in assigns.chunk_by(|a, b| a.field.steps()[depth] == b.field.steps()[depth]) {
            let first = &group[0];
            let Some(field) = message.field(first.field.steps()[depth]) else { continue };
            if let Some(index) = field.oneof_index() {
                if let Some((_, other)) = oneofs.iter().find(|(known, _)| *known == index) {
                    let oneof = message.oneofs().get(usize::from(index)).map_or("", |o| o.name());
                    let why = format!("{} is given too, and {oneof} takes one of them", other.name);
                    return Err(first.unfit(&why));
                }
                oneofs.push((index, first));
            }
            if first.field.steps().len() == depth + 1 {
                self.leaf(out, group)?;
                continue;
            }
            let FieldKind::Singular(SingularKind::Message(index)) = field.kind() else { continue };
            let mut inner = Vec::new();
            self.members(&mut inner, self.schema.pool().message(index), group, depth + 1)?;
            write_bytes(out, field.number(), &inner);
        }
        Ok(())
    }

    /// Writes the values of one field.
    fn leaf(&self, out: &mut Vec<u8>, group: &[Assign<'_>]) -> Result<()> {
        if let [first, again, ..] = group
            && !first.field.repeated
        {
            return Err(again.unfit("given more than once, and the field is not repeated"));
        }
        for assign in group {
            value::write(out, &self.schema, &assign.field, &assign.value)
                .map_err(|why| assign.unfit(&why))?;
        }
        Ok(())
    }

    /// The message of a JSON body and of what path and query say.
    ///
    /// # Errors
    /// A body that is not JSON, or does not fit the message.
    pub(crate) fn message(
        &self,
        said: &[u8],
        body: &[u8],
        unknown: UnknownMembers,
    ) -> Result<Bytes> {
        let mut message = match &self.body {
            BodyRule::None => return Ok(Bytes::copy_from_slice(said)),
            _ if body.is_empty() => return Ok(Bytes::copy_from_slice(said)),
            BodyRule::Whole => self.schema.decode_json(&self.message, body, unknown)?,
            BodyRule::Field { name, .. } => {
                self.schema.decode_field(&self.message, name, body, unknown)?
            }
        };
        if !said.is_empty() {
            message.merge(said)?;
        }
        message.encode(Codec::Proto)
    }
}

/// Writes a field that is text, bytes or a message.
pub(crate) fn write_bytes(out: &mut Vec<u8>, number: u32, bytes: &[u8]) {
    Tag::new(number, WireType::LengthDelimited).encode(out);
    encode_varint(bytes.len() as u64, out);
    out.extend_from_slice(bytes);
}
