//! Terms that are set for a method hold in place of what its `.proto` says.

use std::time::Duration;

use http::header::CACHE_CONTROL;
use tidewire_cache::{CacheSetting, MethodOverride, ReplyCache};
use tidewire_memo::Graph;
use tidewire_service::{CacheScope, Caching, Call, Context, Idempotency, Reply, Spec, StreamKind};

use crate::harness::{Behind, from, query};

/// How often a service that reads nothing runs for two callers who ask twice, under terms.
async fn runs(spec: Spec, set: impl FnOnce(&mut MethodOverride)) -> usize {
    let graph = Graph::new();
    let mut terms = MethodOverride::default();
    set(&mut terms);
    let cache = ReplyCache::new(&graph).method("test.v1.Rows/Get", terms);
    let service = Behind::with(cache, spec, async |_| Ok(Reply::text("7")));
    for who in ["ada", "grace", "ada", "grace"] {
        service.text("7", from("authorization", who)).await;
    }
    service.runs()
}

#[tokio::test]
async fn a_ttl_keeps_what_depends_on_nothing_and_sharing_says_for_whom() {
    let minute = Duration::from_secs(60);
    assert_eq!(runs(query(CacheScope::Caller), |_| {}).await, 4);
    assert_eq!(runs(query(CacheScope::Caller), |terms| terms.ttl = Some(minute)).await, 2);
    let public = |terms: &mut MethodOverride| {
        terms.ttl = Some(minute);
        terms.cache = Some(CacheSetting::On(CacheScope::Public));
    };
    assert_eq!(runs(query(CacheScope::Caller), public).await, 1);
    let caller =
        |terms: &mut MethodOverride| terms.cache = Some(CacheSetting::On(CacheScope::Caller));
    assert_eq!(runs(query(CacheScope::Public).immutable(), caller).await, 2);
}

#[tokio::test]
async fn what_a_method_says_itself_holds_before_what_is_set_for_its_service_but_for_off() {
    let public = CacheSetting::On(CacheScope::Public);
    for (own, of_service, expected) in [
        (Some(CacheScope::Caller), public.clone(), 2),
        (None, public, 1),
        (Some(CacheScope::Public), CacheSetting::Off, 4),
    ] {
        let mut spec = query(CacheScope::Public).ttl_ms(60_000);
        spec.cache = own;
        let mut terms = MethodOverride::default();
        terms.cache = Some(of_service);
        let cache = ReplyCache::new(&Graph::new()).method("test.v1.Rows/*", terms);
        let service = Behind::with(cache, spec, async |_| Ok(Reply::text("7")));
        for who in ["ada", "grace", "ada", "grace"] {
            service.text("7", from("authorization", who)).await;
        }
        assert_eq!(service.runs(), expected);
    }
}

/// A program that is hosted is told of its caller by that.
#[tokio::test]
async fn whoever_serves_a_method_is_told_what_is_set_for_it() {
    let vary = CacheScope::vary(&["x-tenant"]);
    for (own, set, expected) in [
        (None, CacheSetting::On(CacheScope::Public), Some(CacheScope::Public)),
        (Some(CacheScope::Public), CacheSetting::On(vary.clone()), Some(vary)),
        (Some(CacheScope::Caller), CacheSetting::Off, None),
    ] {
        let mut spec = query(CacheScope::Public);
        spec.cache = own;
        let mut terms = MethodOverride::default();
        terms.cache = Some(set);
        let cache = ReplyCache::new(&Graph::new()).method("test.v1.Rows/Get", terms);
        let service = Behind::with(cache, spec, async move |call: Call| {
            let said = &call.spec().expect("a method is called").cache;
            Ok(Reply::text(format!("{said:?}")))
        });
        assert_eq!(service.text("7", Context::default()).await, format!("{expected:?}"));
    }
}

#[test]
fn only_public_replies_are_for_everybody() {
    let cache = ReplyCache::new(&Graph::new());
    for (scope, is_public) in [
        (CacheScope::Public, true),
        (CacheScope::Caller, false),
        (CacheScope::vary(&["x-tenant"]), false),
    ] {
        assert_eq!(cache.is_public(&query(scope.clone())), is_public, "{scope:?}");
    }
}

#[tokio::test]
async fn immutable_is_set_and_taken_back() {
    assert_eq!(runs(query(CacheScope::Public), |terms| terms.immutable = Some(true)).await, 1);
    let immutable = || query(CacheScope::Public).immutable();
    assert_eq!(runs(immutable(), |_| {}).await, 1);
    assert_eq!(runs(immutable(), |terms| terms.immutable = Some(false)).await, 4);
    let lasting = || query(CacheScope::Public).ttl_ms(1000);
    assert_eq!(runs(lasting(), |terms| terms.immutable = Some(false)).await, 1);
}

#[tokio::test]
async fn what_caches_are_told_is_what_is_set_then_what_is_declared_then_what_holds_for_all() {
    let of_all = Caching { max_age: Some(1), stale_if_error: Some(2), ..Caching::NONE };
    let declared = Caching { max_age: Some(3), stale_while_revalidate: Some(4), ..Caching::NONE };
    let set = Caching { max_age: Some(5), ..Caching::NONE };
    for (declared, set, expected) in [
        (Caching::NONE, Caching::NONE, "public, max-age=1, stale-if-error=2"),
        (declared, Caching::NONE, "public, max-age=3, stale-while-revalidate=4, stale-if-error=2"),
        (declared, set, "public, max-age=5, stale-while-revalidate=4, stale-if-error=2"),
    ] {
        let mut terms = MethodOverride::default();
        terms.caching = set;
        let cache =
            ReplyCache::new(&Graph::new()).caching(of_all).method("test.v1.Rows/Get", terms);
        let spec = query(CacheScope::Public).ttl_ms(60_000).caching(declared);
        let service = Behind::with(cache, spec, async |_| Ok(Reply::text("7")));
        let reply = service.ask("7", Context::default().with_conditions()).await.unwrap();
        assert_eq!(reply.headers.get(CACHE_CONTROL).unwrap(), expected);
    }
}

#[test]
fn terms_for_what_is_no_query_are_refused_with_what_there_is() {
    let messages = ["test.v1.Id", "test.v1.Row"];
    let set = Spec::dynamic("test.v1.Rows", "Set", StreamKind::Unary, messages)
        .idempotency(Idempotency::Idempotent);
    let served = [query(CacheScope::Public), set];
    let check = |name: &str| {
        let cache = ReplyCache::new(&Graph::new()).method(name, MethodOverride::default());
        cache.check(served.iter()).map_err(|error| (error.method().to_owned(), error.to_string()))
    };
    assert_eq!(check("test.v1.Rows/Get"), Ok(()));
    for (name, says) in [
        ("test.v1.Rows/Gt", "not served; there is test.v1.Rows/Get"),
        ("/test.v1.Rows/Get", "not served; write the full name"),
        ("Rows/Get", "not served; write the full name"),
        ("test.v1.Rows/Set", "a command: its replies are never cached; mark it in its .proto"),
    ] {
        let (method, text) = check(name).unwrap_err();
        assert_eq!(method, name);
        assert!(text.contains(says), "{text}");
    }
}
