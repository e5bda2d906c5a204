//! Body members that name no field, for servers that are told to refuse them.
//!
//! Services ignore such members, as proto JSON decoders of generated code do; a caller who misspelt
//! one never learns of it. Where they are refused, each body is walked over once more.

use buffa_descriptor::{
    DescriptorPool, FieldDescriptor, FieldKind, MessageDescriptor, SingularKind,
};
use tidewire_service::{Error, Result};

use crate::field::{list, well_known};
use crate::plan::not_json;
use crate::scan::{DEPTH_MAX, Scanner};

/// Checks that every member of a message names a field.
///
/// # Errors
/// The first that does not, with the path to it and the names that there are.
pub(crate) fn check_message(
    pool: &DescriptorPool,
    message: &MessageDescriptor,
    body: &[u8],
) -> Result<()> {
    let mut walk = Walk { pool, scanner: Scanner::new(body), path: Vec::new() };
    walk.message(message)
}

/// The same for the value of one field.
///
/// # Errors
/// As [`check_message`].
pub(crate) fn check_field(
    pool: &DescriptorPool,
    field: &FieldDescriptor,
    body: &[u8],
) -> Result<()> {
    let mut walk =
        Walk { pool, scanner: Scanner::new(body), path: vec![field.json_name().to_owned()] };
    walk.field(field)
}

struct Walk<'a> {
    pool: &'a DescriptorPool,
    scanner: Scanner<'a>,
    path: Vec<String>,
}

impl<'a> Walk<'a> {
    fn field(&mut self, field: &FieldDescriptor) -> Result<()> {
        match (field.kind(), self.peek()?) {
            (FieldKind::Singular(kind), _) => self.value(kind),
            (FieldKind::List(kind), b'[') => {
                self.scanner.expect(b'[').map_err(not_json)?;
                let mut more = !self.scanner.take(b']').map_err(not_json)?;
                while more {
                    self.value(kind)?;
                    more = self.scanner.more(b']').map_err(not_json)?;
                }
                Ok(())
            }
            (FieldKind::Map { value, .. }, b'{') => self.members(|walk, _| walk.value(value)),
            _ => self.scanner.value().map(|_| ()).map_err(not_json),
        }
    }

    fn value(&mut self, kind: SingularKind) -> Result<()> {
        if let SingularKind::Message(index) = kind
            && well_known(self.pool.message(index).full_name()).is_none()
        {
            return self.message(self.pool.message(index));
        }
        self.scanner.value().map(|_| ()).map_err(not_json)
    }

    fn message(&mut self, message: &'a MessageDescriptor) -> Result<()> {
        if self.peek()? != b'{' || self.path.len() >= DEPTH_MAX {
            return self.scanner.value().map(|_| ()).map_err(not_json);
        }
        self.members(|walk, name| match message.field_by_name(name) {
            Some(field) => walk.field(field),
            // An extension, which the decoder knows or refuses.
            None if name.starts_with('[') => walk.scanner.value().map(|_| ()).map_err(not_json),
            None => Err(Error::invalid_argument(format!(
                "field {}: {} has no field {name}; it has {}",
                walk.path.join("."),
                message.full_name(),
                list(message.fields().iter().map(FieldDescriptor::json_name))
            ))),
        })
    }

    fn members(&mut self, mut member: impl FnMut(&mut Self, &str) -> Result<()>) -> Result<()> {
        self.scanner.expect(b'{').map_err(not_json)?;
        let mut more = !self.scanner.take(b'}').map_err(not_json)?;
        while more {
            let name = self.scanner.name().map_err(not_json)?;
            let name = String::from_utf8_lossy(&name);
            self.path.push(name.clone().into_owned());
            member(self, &name)?;
            self.path.pop();
            more = self.scanner.more(b'}').map_err(not_json)?;
        }
        Ok(())
    }

    fn peek(&mut self) -> Result<u8> {
        self.scanner.peek().map_err(not_json)
    }
}
