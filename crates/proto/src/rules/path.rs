//! Paths within declarations, as `descriptor.proto` numbers them.

pub(super) const NAME: &[i32] = &[1];
pub(super) const FILE_SERVICE: i32 = 6;
pub(super) const SERVICE_METHOD: i32 = 2;
pub(super) const METHOD_INPUT: &[i32] = &[2];
pub(super) const METHOD_OUTPUT: &[i32] = &[3];
pub(super) const MESSAGE_FIELD: i32 = 2;
pub(super) const MESSAGE_EXTENSION_RANGE: i32 = 5;
pub(super) const MESSAGE_OPTIONS: i32 = 7;
pub(super) const MESSAGE_RESERVED_RANGE: i32 = 9;
pub(super) const MESSAGE_RESERVED_NAME: i32 = 10;
pub(super) const ENUM_VALUE: i32 = 2;
pub(super) const ENUM_RESERVED_RANGE: i32 = 4;
pub(super) const ENUM_RESERVED_NAME: i32 = 5;
pub(super) const FIELD_EXTENDEE: &[i32] = &[2];
pub(super) const FIELD_NUMBER: &[i32] = &[3];
pub(super) const FIELD_TYPE_NAME: &[i32] = &[6];
pub(super) const FIELD_JSON_NAME: &[i32] = &[10];

/// An index as a step of a path.
pub(super) fn step(index: usize) -> i32 {
    i32::try_from(index).unwrap_or(i32::MAX)
}
