//! Services that are others from time to time, such as those of a mock whose `.proto` files change.

use std::sync::Arc;

use crate::{Interface, Service};

/// Services that a server asks for again when they are others.
///
/// Services of plug-ins that come and go:
///
/// ```
/// # mod tidewire { pub use tidewire_service::*; pub mod service { pub use tidewire_service::*; } }
/// use std::sync::{Arc, Mutex, atomic::{AtomicU64, Ordering}};
/// use tidewire::Service;
/// use tidewire::service::{Interface, ServiceSource};
///
/// #[derive(Default)]
/// struct Plugins {
///     edition: AtomicU64,
///     services: Mutex<Vec<(Interface, Arc<dyn Service>)>>,
/// }
///
/// impl Plugins {
///     fn add(&self, interface: Interface, service: Arc<dyn Service>) {
///         self.services.lock().unwrap().push((interface, service));
///         self.edition.fetch_add(1, Ordering::Release);
///     }
/// }
///
/// impl ServiceSource for Plugins {
///     fn edition(&self) -> u64 {
///         self.edition.load(Ordering::Acquire)
///     }
///
///     fn services(&self) -> Vec<(Interface, Arc<dyn Service>)> {
///         self.services.lock().unwrap().clone()
///     }
/// }
/// # let plugins = Plugins::default();
/// # plugins.add(Interface::new("a.B", &[], b""), Arc::new(async |_: tidewire::Call| Ok("")));
/// # assert_eq!((plugins.edition(), plugins.services().len()), (1, 1));
/// ```
pub trait ServiceSource: Send + Sync + 'static {
    /// Which edition the services are of: another number each time that they change. It is asked
    /// for with each call, so it costs next to nothing.
    fn edition(&self) -> u64;

    /// The services that there are now.
    fn services(&self) -> Vec<(Interface, Arc<dyn Service>)>;
}
