//! Two callers never share what one of them could not have been given: one test an identity
//! carrier.

use std::sync::Arc;

use tidewire_memo::{Graph, Source};
use tidewire_service::{Body, CacheScope, Call, Context, Peer, Principal, Protocol, Reply};

use crate::harness::{Behind, from, query};

/// A service that reads a source and answers with `look` at its context.
fn behind(sharing: CacheScope, look: fn(&Call) -> String) -> Behind {
    let graph = Graph::new();
    let source = Source::<u8>::new_in(&graph, "rows");
    Behind::new(&graph, query(sharing), move |call: Call| {
        source.read(&1);
        let seen = look(&call);
        async move { Ok(Reply::new(Body::from(seen.into_bytes()))) }
    })
}

fn header(name: &'static str) -> impl Fn(&Call) -> String {
    move |call| format!("{:?}", call.context.header(name))
}

/// Asks as each of two callers, twice; each must be given what is its own. Says how often the
/// service ran.
async fn runs_of_two(
    behind: &Behind,
    one: impl Fn() -> Context,
    two: impl Fn() -> Context,
) -> usize {
    let of_one = behind.text("", one()).await;
    let of_two = behind.text("", two()).await;
    assert_ne!(of_one, of_two, "the service tells them apart");
    assert_eq!(behind.text("", one()).await, of_one);
    assert_eq!(behind.text("", two()).await, of_two);
    behind.runs()
}

fn principal(principal: Principal) -> Context {
    let mut context = Context::default();
    context.set_principal(principal);
    context
}

#[tokio::test]
async fn a_caller_is_kept_apart_by_authorization_and_cookie_and_given_its_own_from_memory() {
    let both = behind(CacheScope::Caller, |call| header("authorization")(call));
    let by = |value: &'static str| move || from("authorization", value);
    assert_eq!(runs_of_two(&both, by("Bearer one"), by("Bearer two")).await, 2);
    let look = |call: &Call| header("cookie")(call);
    let both = behind(CacheScope::Caller, look);
    let runs = runs_of_two(&both, || from("cookie", "s=1"), || from("cookie", "s=2"));
    assert_eq!(runs.await, 2);
}

#[tokio::test]
async fn a_caller_is_kept_apart_by_everything_that_is_known_of_the_principal() {
    let look = |call: &Call| format!("{:?}", call.context.principal());
    let ada = || Principal::new("issuer", "ada");
    for other in [
        Principal::new("issuer", "grace"),
        Principal::new("other", "ada"),
        Principal::new("issuera", "da"),
        ada().with_scope("read"),
        ada().with_claim("tenant", "acme"),
        ada().with_claim("tenant", 7),
    ] {
        let both = behind(CacheScope::Caller, look);
        let runs = runs_of_two(&both, || principal(ada()), || principal(other.clone()));
        assert_eq!(runs.await, 2, "{other:?}");
    }
}

#[tokio::test]
async fn callers_with_different_certificates_do_not_share_even_if_the_service_does_not_look() {
    let both = behind(CacheScope::Caller, |_| String::new());
    let with = |der: &[u8]| {
        let peer = Peer::new(None).with_certificates(vec![der.to_vec()]);
        Context::default().with_peer(Arc::new(peer))
    };
    for (runs, der) in [(1, b"one"), (1, b"one"), (2, b"two"), (2, b"two")] {
        both.text("", with(der)).await;
        assert_eq!(both.runs(), runs);
    }
}

#[tokio::test]
async fn what_is_in_no_key_makes_an_answer_private() {
    let api_key = |call: &Call| header("x-api-key")(call);
    let headers = |call: &Call| format!("{:?}", call.context.headers());
    for sharing in [CacheScope::Public, CacheScope::Caller, CacheScope::vary(&["accept-language"])]
    {
        for look in [api_key, headers] {
            let both = behind(sharing.clone(), look);
            let runs = runs_of_two(&both, || from("x-api-key", "one"), || from("x-api-key", "two"));
            assert_eq!(runs.await, 4, "{sharing:?}");
        }
        let peer = |port: u16| {
            move || {
                let address = core::net::SocketAddr::from(([127, 0, 0, 1], port));
                Context::default().with_peer(Arc::new(Peer::new(address)))
            }
        };
        let both = behind(sharing.clone(), |call| format!("{:?}", call.context.peer()));
        assert_eq!(runs_of_two(&both, peer(1), peer(2)).await, 4, "{sharing:?}");
        let by = |protocol| move || Context::default().with_protocol(protocol);
        let both = behind(sharing.clone(), |call| format!("{:?}", call.context.protocol()));
        let runs = runs_of_two(&both, by(Protocol::Grpc), by(Protocol::Rest)).await;
        assert_eq!(runs, 4, "{sharing:?}");
        let with = |text: &'static str| {
            move || {
                let mut context = Context::default();
                context.extensions_mut().insert(text);
                context
            }
        };
        let look = |call: &Call| format!("{:?}", call.context.extensions().get::<&'static str>());
        let both = behind(sharing.clone(), look);
        assert_eq!(runs_of_two(&both, with("one"), with("two")).await, 4, "{sharing:?}");
    }
}

#[tokio::test]
async fn a_public_answer_that_looked_at_who_calls_is_private() {
    let look = |call: &Call| format!("{:?}", call.context.principal());
    let both = behind(CacheScope::Public, look);
    let by = |name: &'static str| move || principal(Principal::new("issuer", name));
    assert_eq!(runs_of_two(&both, by("ada"), by("grace")).await, 4);
    let both = behind(CacheScope::Public, |call| header("authorization")(call));
    let by = |value: &'static str| move || from("authorization", value);
    assert_eq!(runs_of_two(&both, by("Bearer one"), by("Bearer two")).await, 4);
}

#[tokio::test]
async fn an_answer_that_varies_is_kept_by_the_headers_that_it_names() {
    let look = |call: &Call| header("accept-language")(call);
    let both = behind(CacheScope::vary(&["accept-language"]), look);
    let by = |value: &'static str| move || from("accept-language", value);
    assert_eq!(runs_of_two(&both, by("de"), by("fr")).await, 2);
    let none = both.text("", Context::default()).await;
    assert_eq!((none.as_str(), both.runs()), ("None", 3));
}

#[tokio::test]
async fn a_header_that_is_read_only_sometimes_makes_only_those_answers_private() {
    let graph = Graph::new();
    let source = Source::<String>::new_in(&graph, "rows");
    let behind = Behind::new(&graph, query(CacheScope::Public), move |mut call: Call| async move {
        let message = String::from_utf8(call.message().await?.to_vec()).unwrap();
        source.read(&message);
        let seen = match message.as_str() {
            "secret" => format!("{:?}", call.context.header("x-who")),
            _ => "the same for all".to_owned(),
        };
        Ok(Reply::new(Body::from(seen.into_bytes())))
    });
    let ada = || from("x-who", "ada");
    let grace = || from("x-who", "grace");
    assert_eq!(behind.text("open", ada()).await, behind.text("open", grace()).await);
    assert_eq!(behind.runs(), 1);
    assert_ne!(behind.text("secret", ada()).await, behind.text("secret", grace()).await);
    assert_eq!(behind.runs(), 3);
    assert_eq!(behind.text("open", grace()).await, "the same for all");
    assert_eq!(behind.runs(), 3);
}

#[tokio::test]
async fn what_the_caller_holds_is_not_shown_to_the_service_and_no_part_of_the_key() {
    let behind =
        behind(CacheScope::Public, |call| format!("{:?}", call.context.caller_validators()));
    assert_eq!(behind.text("", Context::default()).await, "[]");
    let kept = behind.ask("", Context::default()).await.unwrap();
    let validator = kept.freshness.validator().expect("a kept answer has one");
    let mut context = Context::default();
    context.set_held(vec![validator]);
    let reply = behind.ask("", context).await.unwrap();
    assert!(reply.is_unchanged());
    assert_eq!(reply.freshness.validator(), Some(validator));
    assert_eq!(behind.runs(), 1);
}

#[tokio::test]
async fn values_of_a_header_that_stand_apart_are_not_those_that_are_joined_or_elsewhere() {
    let shown = |values: &'static [(&'static str, &'static str)]| {
        move || {
            let mut context = Context::default();
            for (name, value) in values {
                let value = http::HeaderValue::from_static(value);
                context.headers_mut().append(*name, value);
            }
            context
        }
    };
    let all: [&[(&str, &str)]; 6] = [
        &[],
        &[("authorization", "")],
        &[("authorization", "a"), ("authorization", "b")],
        &[("authorization", "a, b")],
        &[("authorization", "a"), ("cookie", "b")],
        &[("cookie", "a"), ("authorization", "b")],
    ];
    for (at, one) in all.into_iter().enumerate() {
        for two in &all[at + 1..] {
            let both = behind(CacheScope::Caller, |_| String::new());
            for context in [shown(one), shown(two), shown(one), shown(two)] {
                both.text("", context()).await;
            }
            assert_eq!(both.runs(), 2, "{one:?} {two:?}");
        }
    }
}
