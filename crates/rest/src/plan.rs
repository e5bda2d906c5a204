//! The request message of a call, as proto JSON: body, path and query put together.
//!
//! | `body` | the message is |
//! |---|---|
//! | `"*"`, nothing in the path | the bytes of the HTTP body, untouched |
//! | `"*"` | the HTTP body with the members that the path names put in their place |
//! | a field | an object with the HTTP body as that member, and path and query beside (or in) it |
//! | none | an object of what path and query name |
//!
//! No tree is built: a body is walked over once and copied member by member.

use std::borrow::Cow;
use std::sync::Arc;

use buffa_descriptor::{DescriptorPool, FieldKind, MessageDescriptor, MessageIndex, SingularKind};
use bytes::Bytes;
use tidewire_service::{Error, Result};

use crate::field::Field;
use crate::scan::{ScanError, Scanner, write_string};
use crate::template::{Template, Variable, decode};
use crate::unknown::{check_field, check_message};
use crate::value;

/// How the request message of a binding is put together.
#[derive(Debug)]
pub(crate) struct RequestPlan {
    pub(crate) pool: Arc<DescriptorPool>,
    pub(crate) message: MessageIndex,
    pub(crate) body: BodyRule,
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
        /// Its JSON name.
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
    /// The same, borrowing nothing.
    pub(crate) fn into_owned(self) -> Assign<'static> {
        let Self { field, value, origin, name } = self;
        let (value, name) = (value.into_owned().into(), name.into_owned().into());
        Assign { field, value, origin, name }
    }

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

    /// Refuses members of a JSON body that name no field.
    ///
    /// # Errors
    /// The first such member, and a body that is no JSON.
    pub(crate) fn check_names(&self, body: &[u8]) -> Result<()> {
        let message = self.pool.message(self.message);
        match &self.body {
            _ if body.is_empty() => Ok(()),
            BodyRule::None => Ok(()),
            BodyRule::Whole => check_message(&self.pool, message, body),
            BodyRule::Field { number, .. } => match message.field(*number) {
                Some(field) => check_field(&self.pool, field, body),
                None => Ok(()),
            },
        }
    }

    /// The message for these values, which are [sorted](sort), and this body.
    ///
    /// # Errors
    /// A value that does not fit its field, a field given twice, a body that is no JSON where it
    /// has to be taken apart.
    pub(crate) fn message(&self, assigns: &[Assign<'_>], body: Bytes) -> Result<Bytes> {
        let message = self.pool.message(self.message);
        let mut out = Vec::new();
        match &self.body {
            BodyRule::Whole if body.is_empty() => self.object(&mut out, message, assigns)?,
            BodyRule::Whole if assigns.is_empty() => return Ok(body),
            BodyRule::Whole => {
                out.reserve(body.len() + assigns.len() * ASSIGN_BYTES);
                let mut scanner = Scanner::new(&body);
                self.merge(&mut out, &mut scanner, message, assigns, 0)?;
                scanner.end().map_err(not_json)?;
            }
            BodyRule::Field { number, name } if !body.is_empty() => {
                out.reserve(body.len() + name.len() + assigns.len() * ASSIGN_BYTES + 8);
                self.with_field(&mut out, message, assigns, *number, name, &body)?;
            }
            BodyRule::Field { .. } | BodyRule::None => self.object(&mut out, message, assigns)?,
        }
        Ok(out.into())
    }

    /// An object with the body as one member and the values beside or in it.
    fn with_field(
        &self,
        out: &mut Vec<u8>,
        message: &MessageDescriptor,
        assigns: &[Assign<'_>],
        number: u32,
        name: &str,
        body: &[u8],
    ) -> Result<()> {
        let (inside, before, after) = around(assigns, 0, number);
        let mut scanner = Scanner::new(body);
        out.push(b'{');
        write_string(out, name);
        out.push(b':');
        match self.submessage(message, number).filter(|_| !inside.is_empty()) {
            Some(inner) => self.merge(out, &mut scanner, inner, inside, 1)?,
            None => out.extend_from_slice(scanner.value().map_err(not_json)?),
        }
        scanner.end().map_err(not_json)?;
        self.members(out, message, before, 0)?;
        self.members(out, message, after, 0)?;
        out.push(b'}');
        Ok(())
    }

    fn object(
        &self,
        out: &mut Vec<u8>,
        message: &MessageDescriptor,
        assigns: &[Assign<'_>],
    ) -> Result<()> {
        out.reserve(2 + assigns.len() * ASSIGN_BYTES);
        out.push(b'{');
        self.members(out, message, assigns, 0)?;
        out.push(b'}');
        Ok(())
    }

    /// Appends the members for `assigns`, which agree in their first `depth` steps.
    fn members(
        &self,
        out: &mut Vec<u8>,
        message: &MessageDescriptor,
        mut assigns: &[Assign<'_>],
        depth: usize,
    ) -> Result<()> {
        while let Some(first) = assigns.first() {
            let number = first.field.steps()[depth];
            let same = assigns.iter().take_while(|a| a.field.steps()[depth] == number).count();
            let (group, rest) = assigns.split_at(same);
            assigns = rest;
            let Some(field) = message.field(number) else { continue };
            if out.last() != Some(&b'{') {
                out.push(b',');
            }
            write_string(out, field.json_name());
            out.push(b':');
            if first.field.steps().len() == depth + 1 {
                self.leaf(out, group)?;
            } else if let Some(inner) = self.submessage(message, number) {
                out.push(b'{');
                self.members(out, inner, group, depth + 1)?;
                out.push(b'}');
            }
        }
        Ok(())
    }

    /// Appends the value of one field.
    fn leaf(&self, out: &mut Vec<u8>, group: &[Assign<'_>]) -> Result<()> {
        let write = |out: &mut Vec<u8>, assign: &Assign<'_>| {
            value::write(out, &self.pool, assign.field.kind, &assign.value)
                .map_err(|why| assign.unfit(&why))
        };
        match group {
            [one] if !one.field.repeated => write(out, one),
            [_, again, ..] if !again.field.repeated => {
                Err(again.unfit("given more than once, and the field is not repeated"))
            }
            many => {
                out.push(b'[');
                for (index, assign) in many.iter().enumerate() {
                    if index > 0 {
                        out.push(b',');
                    }
                    write(out, assign)?;
                }
                out.push(b']');
                Ok(())
            }
        }
    }

    /// Copies an object and puts the values into it; they win over members of the same name.
    fn merge(
        &self,
        out: &mut Vec<u8>,
        scanner: &mut Scanner<'_>,
        message: &MessageDescriptor,
        assigns: &[Assign<'_>],
        depth: usize,
    ) -> Result<()> {
        let mut merged = Vec::new();
        scanner.expect(b'{').map_err(not_json)?;
        out.push(b'{');
        let mut more = !scanner.take(b'}').map_err(not_json)?;
        while more {
            let name = scanner.name().map_err(not_json)?;
            let field = str::from_utf8(&name).ok().and_then(|name| message.field_by_name(name));
            let number = field.map_or(0, buffa_descriptor::FieldDescriptor::number);
            let (group, ..) = around(assigns, depth, number);
            let inner = self.submessage(message, number);
            let is_object = scanner.peek().map_err(not_json)? == b'{';
            match (group.first(), inner) {
                (None, _) => {
                    self.name(out, &name);
                    out.extend_from_slice(scanner.value().map_err(not_json)?);
                }
                (Some(first), Some(inner))
                    if first.field.steps().len() > depth + 1 && is_object =>
                {
                    self.name(out, &name);
                    self.merge(out, scanner, inner, group, depth + 1)?;
                    merged.push(number);
                }
                (Some(_), _) => {
                    scanner.value().map_err(not_json)?;
                }
            }
            more = scanner.more(b'}').map_err(not_json)?;
        }
        for group in assigns.chunk_by(|a, b| a.field.steps()[depth] == b.field.steps()[depth]) {
            if !merged.contains(&group[0].field.steps()[depth]) {
                self.members(out, message, group, depth)?;
            }
        }
        out.push(b'}');
        Ok(())
    }

    fn name(&self, out: &mut Vec<u8>, name: &[u8]) {
        if out.last() != Some(&b'{') {
            out.push(b',');
        }
        write_string(out, &String::from_utf8_lossy(name));
        out.push(b':');
    }

    fn submessage(&self, message: &MessageDescriptor, number: u32) -> Option<&MessageDescriptor> {
        match message.field(number)?.kind() {
            FieldKind::Singular(SingularKind::Message(index)) => Some(self.pool.message(index)),
            _ => None,
        }
    }
}

/// Puts values in the order that [`RequestPlan::message`] needs; those of one field keep theirs.
pub(crate) fn sort(assigns: &mut [Assign<'_>]) {
    if assigns.len() > 1 {
        assigns.sort_by(|a, b| a.field.steps().cmp(b.field.steps()));
    }
}

type Assigns<'s, 'a> = &'s [Assign<'a>];

/// The values below field `number` at `depth`, those before and those after.
fn around<'s, 'a>(
    assigns: Assigns<'s, 'a>,
    depth: usize,
    number: u32,
) -> (Assigns<'s, 'a>, Assigns<'s, 'a>, Assigns<'s, 'a>) {
    let start = assigns.partition_point(|assign| assign.field.steps()[depth] < number);
    let length = assigns[start..].partition_point(|assign| assign.field.steps()[depth] == number);
    (&assigns[start..start + length], &assigns[..start], &assigns[start + length..])
}

pub(crate) fn not_json(error: ScanError) -> Error {
    Error::invalid_argument(format!("request body is {error}"))
}

/// What a value and its name take, roughly.
const ASSIGN_BYTES: usize = 48;
