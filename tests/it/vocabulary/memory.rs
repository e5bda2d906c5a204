//! A layer that keeps the answers of public unary queries: with validators, "unchanged", and
//! staleness.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use tidewire::service::{
    Answer, CacheScope, ContextPart, ContextWatch, Freshness, Signal, Target, Validator,
};
use tidewire::{Body, Call, Codec, Layer, Reply, Service, http};

use super::{Way, ask, things};
use crate::harness::{Response, start};

/// Counts what is computed, and forgets everything when it is told that something changed.
#[derive(Clone, Default)]
struct Memory(Arc<State>);

#[derive(Default)]
struct State {
    kept: Mutex<HashMap<Key, Kept>>,
    changed: Mutex<Signal>,
    computed: AtomicUsize,
}

type Key = (String, Codec, Vec<u8>);

#[derive(Clone)]
struct Kept {
    message: Vec<u8>,
    freshness: Freshness,
}

/// Notes that something was read that is not in the key.
#[derive(Default)]
struct Private(Mutex<bool>);

impl ContextWatch for Private {
    fn read(&self, _: ContextPart<'_>) {
        *self.0.lock().unwrap() = true;
    }
}

impl Memory {
    fn change(&self) {
        std::mem::take(&mut *self.0.changed.lock().unwrap()).fire();
    }

    fn computed(&self) -> usize {
        self.0.computed.load(Ordering::SeqCst)
    }
}

impl Layer for Memory {
    fn layer(&self, inner: Arc<dyn Service>) -> Arc<dyn Service> {
        Arc::new(Keeping { state: Arc::clone(&self.0), inner })
    }
}

struct Keeping {
    state: Arc<State>,
    inner: Arc<dyn Service>,
}

impl Service for Keeping {
    fn call(&self, mut call: Call) -> Answer {
        let kept_name = match &call.target {
            Target::Method(method)
                if method.is_query() && method.cache == Some(CacheScope::Public) =>
            {
                method.path.to_string()
            }
            Target::Http(target) if target.method == http::Method::GET => target.uri.to_string(),
            _ => return self.inner.call(call),
        };
        let (state, inner) = (Arc::clone(&self.state), Arc::clone(&self.inner));
        Answer::pending(async move {
            let held = call.context.caller_validators();
            let key = (kept_name, call.accept, call.message().await?.to_vec());
            let known = state.kept.lock().unwrap().get(&key).cloned();
            let kept = match known.filter(|kept| !kept.freshness.is_stale()) {
                Some(kept) => kept,
                None => {
                    // What the caller holds is this layer's business, not the service's.
                    call.context.set_held(Vec::new());
                    let private = Arc::new(Private::default());
                    call.context.watch(Arc::clone(&private) as Arc<dyn ContextWatch>);
                    let changed = state.changed.lock().unwrap().clone();
                    state.computed.fetch_add(1, Ordering::SeqCst);
                    let reply = inner.call(call).await?;
                    if *private.0.lock().unwrap() {
                        return Ok(reply);
                    }
                    let message = reply.body.collect(usize::MAX).await?.to_vec();
                    let validator = Validator::new(digest(&message));
                    let freshness = Freshness::tracked(Arc::new(changed)).with_validator(validator);
                    let kept = Kept { message, freshness };
                    state.kept.lock().unwrap().insert(key, kept.clone());
                    kept
                }
            };
            let validator = kept.freshness.validator().unwrap();
            if held.contains(&validator) {
                return Ok(Reply::unchanged(validator));
            }
            Ok(Reply::new(Body::from(kept.message)).with_freshness(kept.freshness))
        })
    }
}

/// Names content well enough for a test.
fn digest(bytes: &[u8]) -> [u8; 16] {
    let mut state: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
    for byte in bytes {
        state = (state ^ u128::from(*byte)).wrapping_mul(0x0000_0000_0100_0000_0000_0000_0000_013b);
    }
    state.to_be_bytes()
}

fn tag(response: &Response) -> String {
    let line = response.head.lines().find_map(|line| line.strip_prefix("etag: "));
    line.unwrap_or_else(|| panic!("no tag in {}", response.head)).to_owned()
}

#[tokio::test]
async fn an_answer_is_computed_once_until_something_changes_and_who_holds_it_gets_no_body() {
    for way in [Way::Plain, Way::Rest] {
        let memory = Memory::default();
        let (_running, address) = start(things().layer(memory.clone())).await;
        let first = ask(way, address, "abc", "").await;
        first.check(200, &["\"size\":3"]);
        let again = ask(way, address, "abc", "").await;
        assert_eq!((again.text(), memory.computed()), (first.text(), 1), "{way:?}");
        let tag = tag(&first);
        let held =
            |tag: &str| format!("if-none-match: \"00112233445566778899aabbccddeeff\", {tag}\n");
        let unchanged = ask(way, address, "abc", &held(&tag)).await;
        unchanged.check(304, &[]);
        assert_eq!((unchanged.body.len(), self::tag(&unchanged)), (0, tag.clone()), "{way:?}");
        assert!(!unchanged.head.contains("content-type"), "{}", unchanged.head);
        ask(way, address, "abc", "if-none-match: \"other\"\n").await.check(200, &["\"size\":3"]);
        memory.change();
        // Stale, computed again, and the same bytes: what is held is still right.
        ask(way, address, "abc", &held(&format!("W/{tag}"))).await.check(304, &[]);
        assert_eq!(memory.computed(), 2, "{way:?}");
        ask(way, address, "other", &held(&tag)).await.check(200, &["\"size\":5"]);
    }
}

#[tokio::test]
async fn who_holds_an_answer_over_live_gets_a_frame_without_it() {
    for way in [Way::Live, Way::LivePlain] {
        let memory = Memory::default();
        let (_running, address) = start(things().layer(memory.clone())).await;
        let client = tidewire::Client::builder(format!("ws://{address}")).build().unwrap();
        let first = client.call(super::live::call(way, "abc", "")).await.unwrap();
        let held = first.freshness.validator().unwrap();
        assert!(!first.is_unchanged());
        for stale in [false, true] {
            if stale {
                memory.change();
            }
            let mut call = super::live::call(way, "abc", "");
            call.context.set_held(vec![held]);
            let again = client.call(call).await.unwrap();
            assert!(again.is_unchanged() && again.is_held(&[held]), "{way:?}");
        }
        let mut call = super::live::call(way, "other", "");
        call.context.set_held(vec![held]);
        let other = client.call(call).await.unwrap();
        assert!(!other.is_unchanged() && other.freshness.validator() != Some(held), "{way:?}");
        assert_eq!(memory.computed(), 3, "{way:?}");
    }
}

#[tokio::test]
async fn an_answer_that_read_more_than_its_key_is_kept_for_nobody() {
    let memory = Memory::default();
    let gate = |head: &mut tidewire::Head| {
        let who = head.context.header("x-who").map(|who| String::from_utf8_lossy(who.as_bytes()));
        let principal = who.map(|who| tidewire::Principal::new("test", who));
        head.context.set_principal(principal);
        Ok(())
    };
    let (_running, address) = start(things().gate(gate).layer(memory.clone())).await;
    for way in [Way::Plain, Way::Rest] {
        ask(way, address, "whoami", "x-who: ada\n").await.check(200, &["\"size\":3"]);
        ask(way, address, "whoami", "x-who: grace\n").await.check(200, &["\"size\":5"]);
    }
    assert_eq!(memory.computed(), 4);
}
