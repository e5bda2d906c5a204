//! A message type as it is scanned: its fields and its extensions by their numbers.

use buffa::editions::EnumType;
use buffa_descriptor::{
    DescriptorPool, ExtensionDescriptor, FieldDescriptor, MessageDescriptor, MessageIndex,
    SingularKind,
};

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

    pub(crate) fn places(&self) -> usize {
        self.descriptor.fields().len() + self.extensions.len()
    }

    /// The field of a number and its place; looked for first at `near` and behind it, where
    /// protobuf has it mostly.
    #[inline]
    pub(crate) fn find(&self, number: u32, near: usize) -> Option<(usize, &'a FieldDescriptor)> {
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

    pub(crate) fn field(&self, place: usize) -> Option<&'a FieldDescriptor> {
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
