//! What `tidewire_build` makes of `tests/proto`.
#![allow(missing_docs)]

::tidewire::include_protos!();
pub use self::tidewire::test::v1::*;
