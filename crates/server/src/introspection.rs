//! What a server says of itself: `grpc.health.v1` and server reflection (v1 and v1alpha).
//!
//! Health reports SERVING for each service until a drain begins, and NOT_SERVING from then on, so
//! that load balancers turn away before connections close. Reflection publishes the schema; it is on
//! where only this machine can reach the server, and elsewhere only when asked for.

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;

use connectrpc::Router;
use connectrpc_health::StaticChecker;
use connectrpc_reflection::{ReflectionError, Reflector};
use tidewire_service::Interface;

/// The health of the services of a server.
#[derive(Clone)]
pub(crate) struct Health(Arc<StaticChecker>);

impl fmt::Debug for Health {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Health")
    }
}

impl Health {
    /// Reports every service as not serving.
    pub(crate) fn shut_down(&self) {
        self.0.shutdown();
    }
}

/// The methods of health and, if asked for, reflection.
pub(crate) fn router(
    interfaces: &[Interface],
    with_reflection: bool,
) -> Result<(Router, Health), ReflectionError> {
    let names = interfaces.iter().map(|interface| interface.name().to_owned());
    let (router, health) = connectrpc_health::install_static(Router::new(), names);
    if !with_reflection {
        return Ok((router, Health(health)));
    }
    Ok((connectrpc_reflection::install(router, reflector(interfaces)?), Health(health)))
}

fn reflector(interfaces: &[Interface]) -> Result<Reflector, ReflectionError> {
    let mut sets = interfaces.iter().map(Interface::descriptors).filter(|set| !set.is_empty());
    let mut reflector = Reflector::from_descriptor_set_bytes(sets.next().unwrap_or_default())?;
    let mut seen: HashSet<*const u8> =
        interfaces.iter().take(1).map(|i| i.descriptors().as_ptr()).collect();
    for set in sets.filter(|set| seen.insert(set.as_ptr())) {
        reflector.add_descriptor_set_bytes(set)?;
    }
    let names = interfaces.iter().map(|interface| interface.name().to_owned());
    Ok(reflector.with_services(names.chain(OWN_SERVICES.map(str::to_owned))))
}

/// What every server offers beside its own services.
const OWN_SERVICES: [&str; 3] = [
    "grpc.health.v1.Health",
    "grpc.reflection.v1.ServerReflection",
    "grpc.reflection.v1alpha.ServerReflection",
];
