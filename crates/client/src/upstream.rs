//! A remote service as a backend: what a server passes calls on to.
//!
//! Messages, headers, errors with their details, and trailers pass through as they are; nothing is
//! decoded, unless an upstream that speaks protobuf only is called with JSON.

use http::HeaderValue;
use http::header::HOST;
use tidewire_schema::Schema;
use tidewire_service::{
    Answer, CacheScope, Call, Codec, Context, Forwarded, Peer, Service, end_to_end,
    remove_gateway_headers,
};

use crate::Client;
use crate::trace::Trace;

/// Passes calls on to a remote service.
///
/// The caller's headers go along, credentials too, but for those of the connection and the
/// protocol, those that a gateway alone says (`tidewire-principal`), and those that only a proxy
/// may say (`forwarded`, `x-forwarded-for`, `x-original-url`; see [`Forwarded`]), in whose place
/// this process says what it knows of the caller. A query that is cached gets only the headers
/// that its `cache` names, as a hosted program does. The deadline goes along with what is left of
/// it. A reply or an error comes back with its headers and trailers. Calls of plain HTTP pass
/// through as well.
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
            None => {
                let host = call.http_target().and_then(|target| target.uri.authority());
                let host = host.and_then(|host| HeaderValue::from_str(host.as_str()).ok());
                passed_on(call.context, host)
            }
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

/// What the caller sent along, without what belongs to this process or to the connection that it
/// came by, and with what is known of the caller. `host` is that of its target, if that has one.
fn passed_on(context: Context, host: Option<HeaderValue>) -> Context {
    let deadline = context.deadline();
    let trace = context.extensions().get::<Trace>().cloned();
    let address = context.peer().and_then(Peer::address_header);
    let is_https = context.peer().map(|peer| peer.is_secure);
    let mut headers = end_to_end(context.into_headers());
    remove_gateway_headers(&mut headers);
    let host = host.or_else(|| headers.get(HOST).cloned());
    Forwarded { address, host, is_https, prefix: None }.tell(&mut headers);
    let mut context = Context::new(headers).with_deadline(deadline);
    if let Some(trace) = trace {
        context.extensions_mut().insert(trace);
    }
    context
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tidewire_service::Headers;

    use super::*;

    fn passed(names: &[&'static str], peer: Option<Peer>) -> Headers {
        let mut headers = Headers::new();
        for name in names {
            headers.insert(*name, HeaderValue::from_static("a"));
        }
        passed_on(Context::new(headers).with_peer(peer.map(Arc::new)), None).into_headers()
    }

    #[test]
    fn what_a_caller_says_in_a_header_of_gateways_is_not_passed_on() {
        let names = ["tidewire-principal", "tidewire_principal", "tidewire-rights", "x-own"];
        assert_eq!(passed(&names, None).keys().collect::<Vec<_>>(), ["x-own"]);
    }

    #[test]
    fn an_upstream_is_told_of_the_caller_by_this_process_alone() {
        let claimed = ["forwarded", "x-forwarded-for", "x_forwarded_for", "x-host", "x_own"];
        assert_eq!(passed(&claimed, None).keys().collect::<Vec<_>>(), ["x_own"]);
        let peer = Peer::new(Some(([192, 0, 2, 7], 1234).into())).over_tls();
        let told = passed(&["host", "x-forwarded-for"], Some(peer));
        assert_eq!(told["x-forwarded-for"], "192.0.2.7");
        assert_eq!(told["x-forwarded-host"], "a");
        assert_eq!(told["x-forwarded-proto"], "https");
        let mut headers = Headers::new();
        headers.insert("connection", HeaderValue::from_static("x-forwarded-for, x-own"));
        headers.insert("x-own", HeaderValue::from_static("a"));
        let peer = Arc::new(Peer::new(Some(([192, 0, 2, 7], 1234).into())));
        let told = passed_on(Context::new(headers).with_peer(peer), None).into_headers();
        assert!(told.contains_key("x-forwarded-for") && !told.contains_key("x-own"));
    }

    #[test]
    fn an_upstream_of_a_cached_query_gets_what_is_in_the_key() {
        let mut headers = Headers::new();
        for name in
            ["authorization", "x-tenant", "x-own", "x-forwarded-for", "traceparent", "tracestate"]
        {
            headers.insert(name, HeaderValue::from_static("a"));
        }
        let context = Context::new(headers);
        let passed = |scope: CacheScope| {
            let headers = within_key(&context, &scope).into_headers();
            headers.keys().map(|name| name.as_str().to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(passed(CacheScope::Public), ["traceparent"]);
        assert_eq!(passed(CacheScope::vary(&["x-tenant"])), ["x-tenant", "traceparent"]);
        assert_eq!(passed(CacheScope::vary(&["x-forwarded-for"])), ["traceparent"]);
        let of_caller = ["authorization", "traceparent", "tracestate"];
        assert_eq!(passed(CacheScope::Caller), of_caller);
    }
}
