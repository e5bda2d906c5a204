//! A remote service as a backend: what a server passes calls on to.
//!
//! Messages, headers, errors with their details, and trailers pass through as they are; nothing is
//! decoded, unless an upstream that speaks protobuf only is called with JSON.

use tidewire_schema::Schema;
use tidewire_service::{Answer, CacheScope, Call, Codec, Context, Service, remove_gateway_headers};

use crate::Client;
use crate::trace::Trace;

/// Passes calls on to a remote service.
///
/// The caller's headers go along, credentials too, but for those of the connection and the
/// protocol, and those that a gateway alone says (`tidewire-principal`). A query that is cached
/// gets only the headers that its `cache` names, as a hosted program does. The deadline goes along
/// with what is left of it. A reply or an error comes back with its headers and trailers. Calls of
/// plain HTTP pass through as well.
///
/// What another server has surely not seen is sent to the next: a unary message always, a body of
/// plain HTTP if all of it came by then and it has up to 64 KiB, a stream of messages never.
///
/// ```no_run
/// # fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use tidewire_client::{Client, Protocol, Upstream};
/// use tidewire_schema::Schema;
/// let schema = Schema::from_folder("protos")?;
/// let client = Client::builder("http://10.0.0.7:50051").protocol(Protocol::Grpc).build()?;
/// let upstream = Upstream::new(client).protobuf_only(&schema);
/// let service = schema.serve("shop.v1.Contacts", upstream)?;
/// // Server::builder().service(service)
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct Upstream {
    client: Client,
    schema: Option<Schema>,
}

impl Upstream {
    /// Passes calls on through `client`, in the protocol of the client and the codec of the caller.
    pub fn new(client: Client) -> Self {
        Self { client, schema: None }
    }

    /// Sends protobuf whatever the caller sends, since most gRPC servers know no JSON.
    ///
    /// `schema` knows the messages, to make JSON of replies.
    #[must_use]
    pub fn protobuf_only(mut self, schema: &Schema) -> Self {
        self.schema = Some(schema.clone());
        self
    }
}

impl Service for Upstream {
    fn call(&self, mut call: Call) -> Answer {
        call.context = match call.target.cache_scope() {
            Some(scope) => within_key(&call.context, scope),
            None => passed_on(call.context),
        };
        match &self.schema {
            Some(schema) => schema.transcode(Codec::Proto, &self.client, call),
            None => self.client.call(call),
        }
    }
}

/// What a reply may depend on that is cached: see [`Context::headers_of_cached`].
fn within_key(context: &Context, scope: &CacheScope) -> Context {
    Context::new(context.headers_of_cached(scope)).with_deadline(context.deadline())
}

/// What the caller sent along, without what belongs to this process.
fn passed_on(context: Context) -> Context {
    let deadline = context.deadline();
    let trace = context.extensions().get::<Trace>().cloned();
    let mut headers = context.into_headers();
    remove_gateway_headers(&mut headers);
    let mut context = Context::new(headers).with_deadline(deadline);
    if let Some(trace) = trace {
        context.extensions_mut().insert(trace);
    }
    context
}

#[cfg(test)]
mod tests {
    use http::{HeaderMap, HeaderValue};

    use super::*;

    #[test]
    fn what_a_caller_says_in_a_header_of_gateways_is_not_passed_on() {
        let mut headers = HeaderMap::new();
        for name in ["tidewire-principal", "tidewire_principal", "tidewire-rights", "x-own"] {
            headers.insert(name, HeaderValue::from_static("a"));
        }
        let passed = passed_on(Context::new(headers)).into_headers();
        assert_eq!(passed.keys().collect::<Vec<_>>(), ["x-own"]);
    }

    #[test]
    fn an_upstream_of_a_cached_query_gets_what_is_in_the_key() {
        let mut headers = HeaderMap::new();
        for name in ["authorization", "x-tenant", "x-own", "traceparent", "tracestate"] {
            headers.insert(name, HeaderValue::from_static("a"));
        }
        let context = Context::new(headers);
        let passed = |scope: CacheScope| {
            let headers = within_key(&context, &scope).into_headers();
            headers.keys().map(|name| name.as_str().to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(passed(CacheScope::Public), ["traceparent"]);
        assert_eq!(passed(CacheScope::vary(&["x-tenant"])), ["x-tenant", "traceparent"]);
        let of_caller = ["authorization", "traceparent", "tracestate"];
        assert_eq!(passed(CacheScope::Caller), of_caller);
    }
}
