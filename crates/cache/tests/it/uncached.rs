//! Queries that do not ask for caching: each call runs, and they can be watched all the same.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use futures_util::future::{join_all, poll_immediate};
use tidewire_cache::ReplyCache;
use tidewire_memo::{Graph, Source};
use tidewire_service::{
    Body, CacheScope, Call, Context, Idempotency, Reply, Signal, Spec, Staleness, StreamKind,
    WatchMode,
};

use crate::harness::{Behind, from, query, text};

/// A query that says nothing of caching.
fn plain() -> Spec {
    Spec::dynamic("test.v1.Rows", "Peek", StreamKind::Unary, ["test.v1.Id", "test.v1.Row"])
        .idempotency(Idempotency::NoSideEffects)
}

fn watching(context: Context) -> Context {
    as_watcher(WatchMode::Begins, context)
}

fn as_watcher(watching: WatchMode, mut context: Context) -> Context {
    context.set_watching(watching);
    context
}

/// A handler that reads the source `rows` and a variable of which nobody tells.
fn variable(graph: &Graph) -> (Behind, Source<()>, Arc<Mutex<&'static str>>) {
    let rows = Source::<()>::new_in(graph, "rows");
    let variable = Arc::new(Mutex::new("one"));
    let read = Arc::clone(&variable);
    let behind = Behind::new(graph, plain(), move |_| {
        rows.read(&());
        let now = *read.lock().unwrap();
        async move { Ok(Reply::new(Body::from(now))) }
    });
    (behind, rows, variable)
}

fn staleness(reply: &Reply) -> Arc<dyn Staleness> {
    Arc::clone(reply.freshness.staleness().expect("a watched reply tells of its end"))
}

#[tokio::test]
async fn a_handler_that_reads_a_source_and_a_variable_is_not_frozen_unasked() {
    let (behind, ..) = variable(&Graph::new());
    assert_eq!(behind.text("", Context::default()).await, "one");
    let (behind, _, variable) = variable(&Graph::new());
    for now in ["one", "two", "three"] {
        *variable.lock().unwrap() = now;
        assert_eq!(behind.text("", Context::default()).await, now);
        let reply = behind.ask("", Context::default().with_conditions()).await.unwrap();
        assert!(reply.headers.is_empty(), "HTTP caches are told nothing: {:?}", reply.headers);
    }
    assert_eq!(behind.runs(), 6);
}

#[tokio::test]
async fn calls_that_overlap_are_not_joined() {
    let (signal, runs) = (Signal::new(), Arc::new(AtomicUsize::new(0)));
    let graph = Graph::new();
    let rows = Source::<()>::new_in(&graph, "rows");
    let waited = signal.clone();
    let behind = Behind::new(&graph, plain(), move |_| {
        rows.read(&());
        let (waited, run) = (waited.clone(), runs.fetch_add(1, Ordering::SeqCst));
        async move {
            waited.fired().await;
            Ok(Reply::new(Body::from(run.to_string().into_bytes())))
        }
    });
    let mut calls: Vec<_> = (0..3).map(|_| behind.ask("", Context::default())).collect();
    for call in &mut calls {
        assert!(poll_immediate(call).await.is_none());
    }
    signal.fire();
    let mut texts = Vec::new();
    for reply in join_all(calls).await {
        texts.push(text(reply.unwrap()).await);
    }
    assert_eq!(texts, ["0", "1", "2"]);
}

#[tokio::test]
async fn a_watched_reply_tells_of_its_end_and_is_not_kept() {
    let (behind, rows, variable) = variable(&Graph::new());
    let watched = behind.ask("", watching(Context::default())).await.unwrap();
    assert!(watched.freshness.validator().is_some());
    let end = staleness(&watched);
    assert_eq!(text(watched).await, "one");
    assert!(!end.is_stale());
    // Who does not watch runs the service, whatever a watcher was given.
    *variable.lock().unwrap() = "two";
    assert_eq!(behind.text("", Context::default()).await, "two");
    assert!(!end.is_stale(), "nobody told");
    rows.changed(&());
    assert!(end.is_stale());
}

#[tokio::test]
async fn watchers_of_one_key_share_one_run_a_change_and_those_of_another_do_not() {
    let (behind, rows, _) = variable(&Graph::new());
    let ask = |context| behind.ask("", as_watcher(WatchMode::Continues, context));
    for change in 1..=3 {
        // One after the other, as a server asks again for its watchers.
        let mut ends = Vec::new();
        for _ in 0..20 {
            ends.push(staleness(&ask(Context::default()).await.unwrap()));
        }
        assert_eq!(behind.runs(), change * 2 - 1);
        ask(from("x-tenant", "b")).await.unwrap();
        assert_eq!(behind.runs(), change * 2, "another header may be another reply");
        assert!(ends.iter().all(|end| !end.is_stale()));
        rows.changed(&());
        assert!(ends.iter().all(|end| end.is_stale()));
    }
}

#[tokio::test]
async fn a_later_watcher_has_a_run_of_its_own_and_leaves_an_equal_reply_fresh() {
    let (behind, rows, variable) = variable(&Graph::new());
    let first = staleness(&behind.ask("", watching(Context::default())).await.unwrap());
    let second = behind.ask("", watching(Context::default())).await.unwrap();
    assert_eq!(behind.runs(), 2);
    let (second, shown) = (staleness(&second), text(second).await);
    assert_eq!(shown, "one");
    assert!(!first.is_stale() && !second.is_stale());
    // One that is given something else says so to the others.
    *variable.lock().unwrap() = "two";
    let third = behind.ask("", watching(Context::default())).await.unwrap();
    assert!(first.is_stale() && second.is_stale());
    let end = staleness(&third);
    assert_eq!(text(third).await, "two");
    assert!(!end.is_stale());
    rows.changed(&());
    assert!(end.is_stale());
}

#[tokio::test]
async fn a_watcher_that_holds_the_reply_is_told_that_it_is_unchanged() {
    let (behind, rows, _) = variable(&Graph::new());
    let first = behind.ask("", watching(Context::default())).await.unwrap();
    rows.changed(&());
    let mut context = watching(Context::default());
    context.set_held(first.freshness.validator().into_iter().collect());
    let again = behind.ask("", context).await.unwrap();
    assert!(again.is_unchanged());
    assert!(!staleness(&again).is_stale());
}

#[tokio::test]
async fn what_read_headers_is_watched_and_what_read_the_peer_is_not() {
    for (is_watched, look) in [
        (true, (|call| format!("{:?}", call.context.headers())) as fn(&Call) -> String),
        (true, |call| format!("{:?}", call.context.principal())),
        (false, |call| format!("{:?}", call.context.peer())),
    ] {
        let graph = Graph::new();
        let rows = Source::<()>::new_in(&graph, "rows");
        let behind = Behind::new(&graph, plain(), move |call: Call| {
            rows.read(&());
            let seen = look(&call);
            async move { Ok(Reply::new(Body::from(seen.into_bytes()))) }
        });
        let reply = behind.ask("", watching(from("x-a", "1"))).await.unwrap();
        assert_eq!(reply.freshness.is_known(), is_watched);
    }
}

#[tokio::test]
async fn what_asks_a_cached_query_for_its_caller_is_watched() {
    let graph = Graph::new();
    let rows = Source::<()>::new_in(&graph, "rows");
    let inner = Behind::new(&graph, query(CacheScope::Public), move |_| {
        rows.read(&());
        async { Ok(Reply::new(Body::from("a"))) }
    });
    let outer = Behind::new(&graph, plain(), move |call: Call| {
        let (inner, context) = (inner.clone(), call.context);
        async move { Ok(Reply::new(Body::from(inner.text("", context).await))) }
    });
    let reply = outer.ask("", watching(Context::default())).await.unwrap();
    assert!(reply.freshness.is_known());
}

#[tokio::test]
async fn a_cached_reply_made_of_an_uncached_one_ends_with_what_that_one_read() {
    let graph = Graph::new();
    let (inner, rows, variable) = variable(&graph);
    let asked = inner.clone();
    let outer = Behind::new(&graph, query(CacheScope::Public), move |_| {
        let asked = asked.clone();
        async move { Ok(Reply::new(Body::from(asked.text("", Context::default()).await))) }
    });
    for now in ["one", "two"] {
        *variable.lock().unwrap() = now;
        rows.changed(&());
        for _ in 0..3 {
            assert_eq!(outer.text("", Context::default()).await, now);
        }
    }
    assert_eq!((outer.runs(), inner.runs()), (2, 2));
}

#[tokio::test]
async fn a_reply_made_of_one_that_read_nothing_is_not_cached() {
    let graph = Graph::new();
    let rows = Source::<()>::new_in(&graph, "rows");
    let inner = Behind::new(&graph, plain(), |_| async { Ok(Reply::new(Body::from("a"))) });
    let outer = Behind::new(&graph, query(CacheScope::Public), move |_| {
        rows.read(&());
        let inner = inner.clone();
        async move { Ok(Reply::new(Body::from(inner.text("", Context::default()).await))) }
    });
    for runs in 1..=3 {
        outer.text("", Context::default()).await;
        assert_eq!(outer.runs(), runs);
    }
}

#[tokio::test]
async fn many_watchers_of_large_replies_keep_no_reply() {
    let graph = Graph::new();
    let rows = Source::<()>::new_in(&graph, "rows");
    let behind = Behind::with(ReplyCache::new(&graph), plain(), move |mut call: Call| async move {
        rows.read(&());
        let key = call.message().await?;
        Ok(Reply::new(Body::from([&key[..], &[7; 100_000]].concat())))
    });
    let mut held = Vec::new();
    for key in ["a", "b", "c", "d", "e", "f", "g", "h"] {
        let reply = behind.ask(key, watching(Context::default())).await.unwrap();
        held.push(staleness(&reply));
    }
    assert!(graph.stats().bytes < 20_000, "{} bytes are kept", graph.stats().bytes);
    assert!(held.iter().all(|end| !end.is_stale()));
}

#[tokio::test]
async fn a_watcher_is_told_although_replies_to_others_could_not_be_cached() {
    let graph = Graph::new();
    let rows = Source::<()>::new_in(&graph, "rows");
    let is_callers = Arc::new(AtomicBool::new(true));
    let reads = Arc::clone(&is_callers);
    let behind = Behind::new(&graph, query(CacheScope::Public), move |call: Call| {
        rows.read(&());
        // A reply that depends on what is not in the key is its caller's alone.
        let named = reads.load(Ordering::SeqCst).then(|| call.context.header("x-name").is_some());
        async move { Ok(Reply::new(Body::from(format!("{named:?}")))) }
    });
    for _ in 0..100 {
        behind.text("", Context::default()).await;
    }
    assert_eq!(behind.runs(), 100, "nothing was cached");
    is_callers.store(false, Ordering::SeqCst);
    let reply = behind.ask("", watching(Context::default())).await.unwrap();
    let change = staleness(&reply);
    assert!(!change.is_stale());
    rows.changed(&());
    assert!(change.is_stale());
}
