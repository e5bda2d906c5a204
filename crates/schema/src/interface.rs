//! What a service of a schema offers: its methods, with the options of its `.proto`.

use std::sync::Arc;

use buffa::Message as _;
use buffa_descriptor::{DescriptorPool, MethodDescriptor};
use tidewire_proto::MethodOptions;
use tidewire_service::{Access, CacheScope, Caching, Idempotency, Method, Spec, StreamKind};

use crate::SchemaError;

/// A method of the service as every room sees it.
pub(crate) fn method(
    pool: &DescriptorPool,
    service: &str,
    method: &MethodDescriptor,
) -> Result<Method, SchemaError> {
    let kind = match (method.is_client_streaming(), method.is_server_streaming()) {
        (false, false) => StreamKind::Unary,
        (true, false) => StreamKind::Client,
        (false, true) => StreamKind::Server,
        (true, true) => StreamKind::Bidi,
    };
    let messages =
        [pool.message(method.input()).full_name(), pool.message(method.output()).full_name()];
    let mut spec = Spec::dynamic(service, method.name(), kind, messages);
    let Some(options) = method.options() else { return Ok(Arc::new(spec).into()) };
    let encoded = options.encode_to_vec();
    let known = MethodOptions::decode(&encoded)
        .map_err(|why| SchemaError::Descriptors(format!("{service}.{}: {why}", method.name())))?;
    spec.idempotency = idempotency(options.idempotency_level.map_or(0, |level| level as i32));
    spec.ttl_ms = known.ttl.map(|ttl| u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX));
    spec.immutable = known.immutable;
    spec.http_status = known.http_status;
    spec.coalesce = known.coalesce;
    spec.caching = Caching {
        max_age: known.max_age.map(|life| life.as_secs()),
        stale_while_revalidate: known.stale_while_revalidate.map(|life| life.as_secs()),
        stale_if_error: known.stale_if_error.map(|life| life.as_secs()),
    };
    spec.access = known.access.map(|access| match access {
        tidewire_proto::Access::Anonymous => Access::Anonymous,
        tidewire_proto::Access::Authenticated => Access::Authenticated,
        tidewire_proto::Access::Scopes(scopes) => Access::scopes_dynamic(scopes),
    });
    spec.cache = known.cache.map(|scope| match scope {
        tidewire_proto::CacheScope::Public => CacheScope::Public,
        tidewire_proto::CacheScope::Caller => CacheScope::Caller,
        tidewire_proto::CacheScope::Vary(names) => CacheScope::vary_dynamic(names),
    });
    Ok(Arc::new(spec).into())
}

/// `google.protobuf.MethodOptions.IdempotencyLevel`.
const fn idempotency(level: i32) -> Idempotency {
    match level {
        1 => Idempotency::NoSideEffects,
        2 => Idempotency::Idempotent,
        _ => Idempotency::Unknown,
    }
}
