//! The fields that a body gives templates to: whether its messages have them.
//!
//! What has no templates is checked as a message ([`body`](crate::body)). A value that is a
//! template has no type before the call, so it is not in that message; its name is checked here.

use tidewire_schema::{Kind, MessageType, Single};

use super::Compiler;
use crate::body::no_field;
use crate::template::value_template::ValueTemplate;

impl Compiler<'_> {
    /// Warns of each name that has a template as its value and that its message does not have.
    pub(super) fn check_fields(&mut self, owner: MessageType<'_>, value_template: &ValueTemplate) {
        // Their JSON is not an object of their fields.
        if owner.full_name().starts_with("google.protobuf.") {
            return;
        }
        let ValueTemplate::Object(members, _) = value_template else { return };
        for (name, place, value) in members {
            match (owner.field(name), value) {
                (Some(field), value) => self.check_field(field.kind(), value),
                (None, ValueTemplate::Text(..)) if name != "@type" => {
                    self.warn(*place, no_field(owner, name));
                }
                // The message without its templates still has this name.
                (None, _) => {}
            }
        }
    }

    fn check_field(&mut self, kind: Kind<'_>, value: &ValueTemplate) {
        match (kind, value) {
            (Kind::One(Single::Message(owner)), value) => self.check_fields(owner, value),
            (Kind::List(Single::Message(owner)), ValueTemplate::List(items, _)) => {
                items.iter().for_each(|item| self.check_fields(owner, item));
            }
            (
                Kind::Map { value: Single::Message(owner), .. },
                ValueTemplate::Object(entries, _),
            ) => {
                entries.iter().for_each(|(_, _, entry)| self.check_fields(owner, entry));
            }
            _ => {}
        }
    }
}
