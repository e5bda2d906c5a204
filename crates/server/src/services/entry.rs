//! One method of a server and the service behind it.

use std::sync::Arc;

use tidewire_service::{Method, Service};

/// A method and who answers it.
pub(crate) struct Entry {
    pub(crate) method: Method,
    pub(crate) service: Arc<dyn Service>,
}
