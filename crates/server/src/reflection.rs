//! Server reflection, v1 and v1alpha: the schema, for tools such as grpcurl.
//!
//! Reflection publishes the schema; it is on where only this machine can reach the server, and
//! elsewhere only when asked for.

use std::collections::HashSet;
use std::error::Error;
use std::sync::Arc;

use buffa_descriptor::DescriptorPool;
use buffa_descriptor::generated::descriptor::FileDescriptorSet;
use connectrpc::Router;
use connectrpc_reflection::Reflector;
use tidewire_service::Interface;

/// The methods of reflection over the descriptors of these services.
///
/// The pool is made here, since the library's bound for one that it makes ends at a few hundred files.
pub(crate) fn router(interfaces: &[Interface]) -> Result<Router, Box<dyn Error>> {
    let trusted = buffa::DecodeOptions::new().with_element_memory_limit(usize::MAX);
    let (mut places, mut sets, mut names) = (HashSet::new(), HashSet::new(), HashSet::new());
    let mut all = FileDescriptorSet::default();
    for set in interfaces.iter().map(Interface::descriptors) {
        // The services of one schema share their descriptors: most need not be looked at.
        if places.insert(set.as_ptr()) && sets.insert(set) {
            let files = trusted.decode_from_slice::<FileDescriptorSet>(set)?.file;
            all.file.extend(files.into_iter().filter(|file| names.insert(file.name.clone())));
        }
    }
    let reflector = Reflector::from_descriptor_pool(Arc::new(DescriptorPool::new(all)?))?;
    let names = interfaces.iter().map(Interface::name).chain(OWN_SERVICES);
    Ok(connectrpc_reflection::install(Router::new(), reflector.with_services(names)))
}

const OWN_SERVICES: [&str; 2] =
    ["grpc.reflection.v1.ServerReflection", "grpc.reflection.v1alpha.ServerReflection"];
