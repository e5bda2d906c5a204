//! Services that are others from time to time, such as those of a mock whose `.proto` files change.

use std::sync::Arc;

use crate::{Interface, Service};

/// Services that a server asks for again when they are others.
pub trait ServiceSource: Send + Sync + 'static {
    /// Which edition the services are of: another number each time that they change. It is asked
    /// for with each call, so it costs next to nothing.
    fn edition(&self) -> u64;

    /// The services that there are now.
    fn services(&self) -> Vec<(Interface, Arc<dyn Service>)>;
}
