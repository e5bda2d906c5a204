//! A request on its way to its protocol, once its head was let pass.

use http::{Method, Uri, Version};
use tidewire_service::Context;

use crate::request::body::RawBody;
use crate::request::observe::Watch;

/// A request whose head was let pass.
pub(crate) struct InboundRequest {
    pub(crate) verb: Method,
    pub(crate) uri: Uri,
    pub(crate) version: Version,
    pub(crate) context: Context,
    pub(crate) body: RawBody,
    pub(crate) watch: Option<Watch>,
}
