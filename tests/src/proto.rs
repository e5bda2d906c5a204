//! What `tidewire_build` makes of `tests/proto`.
#![allow(missing_docs)]

mod generated {
    ::tidewire::include_protos!();
}

pub use self::generated::tidewire::test::v1::*;
