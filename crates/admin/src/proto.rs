//! Messages, services and clients of `tidewire.admin.v1`, generated from the folder `proto`.

include!(concat!(env!("OUT_DIR"), "/tidewire.rs"));

/// The source of `tidewire.admin.v1`, with comments, which descriptors have not.
pub const ADMIN_SOURCE: &str = include_str!("../proto/tidewire/admin/v1/admin.proto");
