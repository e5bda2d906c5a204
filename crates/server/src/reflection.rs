//! Server reflection, v1 and v1alpha: the schema, for tools such as grpcurl.
//!
//! Reflection publishes the schema; it is on where only this machine can reach the server, and
//! elsewhere only when asked for.

use std::collections::HashSet;

use connectrpc::Router;
use connectrpc_reflection::{ReflectionError, Reflector};
use tidewire_service::Interface;

/// The methods of reflection over the descriptors of these services.
pub(crate) fn router(interfaces: &[Interface]) -> Result<Router, ReflectionError> {
    let mut reflector = Reflector::from_descriptor_set_bytes(&[])?;
    let mut seen = HashSet::new();
    for set in interfaces.iter().map(Interface::descriptors) {
        if seen.insert(set) {
            reflector.add_descriptor_set_bytes(set)?;
        }
    }
    let names = interfaces.iter().map(Interface::name).chain(OWN_SERVICES);
    Ok(connectrpc_reflection::install(Router::new(), reflector.with_services(names)))
}

const OWN_SERVICES: [&str; 2] =
    ["grpc.reflection.v1.ServerReflection", "grpc.reflection.v1alpha.ServerReflection"];
