//! Which headers of a call a process that speaks the live protocol is given.
//!
//! | call | headers |
//! |---|---|
//! | a unary query that is cached | those that its reply may depend on by its `cache`: `authorization` and `cookie` of a caller, or the named ones but those that only a proxy may say; `traceparent`; and `tracestate` where it is one caller's |
//! | any other method | all but those of the connection, of the protocol that it came by, and those that only a proxy may say |
//! | plain HTTP | all but those of the connection |
//!
//! A cached reply cannot depend on what is one caller's, and nobody sees which headers a
//! foreign program reads: so it is not given the others. Who calls is said in a header of our own
//! (`native/caller.rs`); what callers say under such a name is removed.

use tidewire_service::{
    Call, Context, Headers, Target, headers_without, is_of_connection, is_of_gateway, is_of_proxy,
};

use crate::native::caller::Caller;

/// Makes a call what a process gets of it: what else surrounds it stays here, but for whoever waits
/// for it.
pub(crate) fn prepare(call: &mut Call) {
    let deadline = call.context.deadline();
    let enclosing = call.context.enclosing().cloned();
    let principal = Caller::of(call).principal();
    let mut headers = for_process(&call.target, &mut call.context);
    tidewire_proxy::tell_principal(&mut headers, principal.as_ref());
    call.context = Context::new(headers).with_deadline(deadline);
    call.context.set_principal(principal);
    enclosing.into_iter().for_each(|enclosing| call.context.set_enclosing(enclosing));
}

/// The headers of a call that go to a process.
fn for_process(target: &Target, context: &mut Context) -> Headers {
    if let Some(scope) = target.cache_scope() {
        return context.headers_of_cached(scope);
    }
    match target {
        Target::Method(_) => headers_without(std::mem::take(context.headers_mut()), is_of_rpc),
        _ => headers_without(std::mem::take(context.headers_mut()), |name| {
            is_of_connection(name) || is_of_gateway(name)
        }),
    }
}

fn is_of_rpc(name: &str) -> bool {
    is_of_connection(name)
        || is_of_gateway(name)
        || is_of_proxy(name)
        || name.starts_with("grpc-")
        || name.starts_with("connect-")
        || matches!(
            name,
            "accept"
                | "accept-encoding"
                | "content-encoding"
                | "content-length"
                | "content-type"
                | "expect"
                | "host"
                | "x-grpc-web"
        )
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;
    use std::sync::Arc;
    use tidewire_service::{CacheScope, Idempotency, Spec, StreamKind};

    fn given(cache: Option<CacheScope>, idempotency: Idempotency) -> Vec<String> {
        let mut spec = Spec::dynamic("a.v1.A", "Get", StreamKind::Unary, ["", ""]);
        (spec.cache, spec.idempotency) = (cache, idempotency);
        let mut context = Context::default();
        let proxies = ["forwarded", "x-forwarded-for", "x_forwarded_for", "x.original.url"];
        let names = ["authorization", "cookie", "x-tenant", "grpc-timeout", "te", "traceparent"];
        for name in proxies.into_iter().chain(names).chain(["tracestate"]) {
            context.headers_mut().insert(name, HeaderValue::from_static("a"));
        }
        let target = Target::Method(Arc::new(spec).into());
        let headers = for_process(&target, &mut context);
        let mut names: Vec<_> = headers.keys().map(|name| name.as_str().to_owned()).collect();
        names.sort();
        names
    }

    #[test]
    fn a_cached_query_is_given_what_its_reply_may_depend_on_and_any_other_all() {
        let query = Idempotency::NoSideEffects;
        let cached = |scope| given(Some(scope), query);
        assert_eq!(cached(CacheScope::Public), ["traceparent"]);
        let of_caller = ["authorization", "cookie", "traceparent", "tracestate"];
        assert_eq!(cached(CacheScope::Caller), of_caller);
        assert_eq!(cached(CacheScope::vary(&["x-tenant"])), ["traceparent", "x-tenant"]);
        assert_eq!(cached(CacheScope::vary(&["x-forwarded-for"])), ["traceparent"]);
        let all = ["authorization", "cookie", "traceparent", "tracestate", "x-tenant"];
        assert_eq!(given(None, query), all);
        assert_eq!(given(None, Idempotency::Unknown), all);
    }

    #[test]
    fn a_cached_query_is_given_all_values_of_a_header() {
        let mut spec = Spec::dynamic("a.v1.A", "Get", StreamKind::Unary, ["", ""]);
        (spec.cache, spec.idempotency) = (Some(CacheScope::Caller), Idempotency::NoSideEffects);
        let mut context = Context::default();
        for value in ["s=1", "t=2"] {
            context.headers_mut().append("cookie", HeaderValue::from_static(value));
        }
        let headers = for_process(&Target::Method(Arc::new(spec).into()), &mut context);
        assert!(headers.get_all("cookie").iter().eq(["s=1", "t=2"]));
    }
}
