//! The test service.
#[allow(missing_docs)]
pub mod proto { tidewire::include_protos!(); }
