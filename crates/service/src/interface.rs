//! What a service offers: its methods and their descriptors.
//!
//! The server asks once, at start: for routing, reflection, REST transcoding and documentation; of
//! an [`ServiceSource`](crate::ServiceSource) whenever it changes.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use bytes::Bytes;

use crate::{Answer, Call, Layer, Method, Service, Spec};

/// The methods of one service and the descriptors of their messages.
///
/// What a service says of itself, such as to a test that compares it with what was agreed on:
///
/// ```
/// # mod tidewire { pub mod service { pub use tidewire_service::*; } }
/// use std::sync::Arc;
/// use tidewire::service::{Interface, Spec, StreamKind};
///
/// let now = Spec::dynamic("lab.v1.Clock", "Now", StreamKind::Unary, ["A", "B"]);
/// let interface = Interface::dynamic("lab.v1.Clock".to_owned(), vec![Arc::new(now).into()], "");
/// let methods: Vec<_> = interface.methods().iter().map(|method| &*method.method).collect();
/// assert_eq!((interface.name(), methods), ("lab.v1.Clock", vec!["Now"]));
/// ```
#[derive(Debug, Clone)]
pub struct Interface {
    name: Cow<'static, str>,
    methods: Vec<Method>,
    descriptors: Bytes,
}

/// A service of methods, in contrast to a plain HTTP handler.
///
/// Generated servers are such services, and each may have layers that others do not have:
///
/// ```
/// # mod tidewire { pub use tidewire_service::*; pub mod service { pub use tidewire_service::*; } }
/// use std::sync::Arc;
/// use tidewire::{Call, Error, RpcService, Service};
///
/// # use tidewire::service::{Answer, Interface};
/// # struct GreeterServer;
/// # impl Service for GreeterServer {
/// #     fn call(&self, _: Call) -> Answer { Answer::ready(Ok("hello".into())) }
/// # }
/// # impl RpcService for GreeterServer {
/// #     fn interface(&self) -> Interface { Interface::new("greeter.v1.Greeter", &[], b"") }
/// # }
/// let closed = |_: Arc<dyn Service>| -> Arc<dyn Service> {
///     Arc::new(async |_: Call| Err::<String, _>(Error::unavailable("closed until Monday")))
/// };
/// let service = GreeterServer.layer(closed);
/// assert_eq!(service.interface().name(), "greeter.v1.Greeter");
/// ```
pub trait RpcService: Service {
    /// What it offers.
    fn interface(&self) -> Interface;

    /// The same service within a layer that others do not have:
    /// `GreeterServer::new(x).layer(auth)`.
    fn layer(self, layer: impl Layer) -> LayeredService
    where
        Self: Sized,
    {
        LayeredService { interface: self.interface(), service: layer.layer(Arc::new(self)) }
    }
}

/// A service of methods within its own layers; see [`RpcService::layer`].
#[derive(Clone)]
pub struct LayeredService {
    interface: Interface,
    service: Arc<dyn Service>,
}

impl Service for LayeredService {
    fn call(&self, call: Call) -> Answer {
        self.service.call(call)
    }
}

impl RpcService for LayeredService {
    fn interface(&self) -> Interface {
        self.interface.clone()
    }
}

impl fmt::Debug for LayeredService {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Layered").field("interface", &self.interface.name()).finish_non_exhaustive()
    }
}

impl Interface {
    /// The interface of a generated service.
    ///
    /// `descriptors` is an encoded `google.protobuf.FileDescriptorSet` with all imports.
    pub fn new(name: &'static str, methods: &[&'static Spec], descriptors: &'static [u8]) -> Self {
        Self {
            name: Cow::Borrowed(name),
            methods: methods.iter().map(|spec| Method::from(*spec)).collect(),
            descriptors: Bytes::from_static(descriptors),
        }
    }

    /// The interface of a service that is known only at run time.
    ///
    /// The services of one schema share its descriptors where they are given as [`Bytes`].
    pub fn dynamic(name: String, methods: Vec<Method>, descriptors: impl Into<Bytes>) -> Self {
        Self { name: Cow::Owned(name), methods, descriptors: descriptors.into() }
    }

    /// The service's full name, `shop.v1.Contacts`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its methods, in the order of the `.proto`.
    pub fn methods(&self) -> &[Method] {
        &self.methods
    }

    /// An encoded `google.protobuf.FileDescriptorSet` with all imports.
    pub fn descriptors(&self) -> &Bytes {
        &self.descriptors
    }
}
