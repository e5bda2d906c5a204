//! Hits that are computed again: handlers that read what they do not declare are found, others are
//! left alone.

use std::sync::{Arc, Mutex};

use futures_util::future::poll_immediate;
use tidewire_cache::{Mismatch, ReplyCache};
use tidewire_memo::{Graph, Source};
use tidewire_service::{Body, CacheScope, Context, Error, Reply, Spec};

use crate::harness::{Behind, query, text};

/// A handler that reads a source and a variable, behind a cache that checks every hit.
struct Stage {
    behind: Behind,
    rows: Source<()>,
    variable: Arc<Mutex<&'static str>>,
    found: Arc<Mutex<Vec<Mismatch>>>,
}

impl Stage {
    fn new(spec: Spec, is_external: bool) -> Self {
        let graph = Graph::new();
        let rows = Source::<()>::new_in(&graph, "rows");
        let rows = if is_external { rows.external() } else { rows };
        let variable = Arc::new(Mutex::new("one"));
        let found = Arc::<Mutex<Vec<Mismatch>>>::default();
        let (read, log) = (Arc::clone(&variable), Arc::clone(&found));
        let cache = ReplyCache::new(&graph)
            .verify(1.0)
            .on_mismatch(move |mismatch| log.lock().unwrap().push(mismatch.clone()));
        let behind = Behind::with(cache, spec, move |_| {
            rows.read(&());
            let now = *read.lock().unwrap();
            async move {
                match now {
                    "missing" => Err(Error::not_found("no row")),
                    now => Ok(Reply::new(Body::from(now))),
                }
            }
        });
        Self { behind, rows, variable, found }
    }

    async fn ask(&self) -> String {
        self.behind.text("", Context::default()).await
    }

    fn set(&self, value: &'static str) {
        *self.variable.lock().unwrap() = value;
    }

    fn found(&self) -> Vec<Mismatch> {
        std::mem::take(&mut *self.found.lock().unwrap())
    }
}

#[tokio::test]
async fn a_hit_whose_method_reads_a_variable_is_reported_and_given() {
    let stage = Stage::new(query(CacheScope::Public), false);
    for _ in 0..2 {
        assert_eq!(stage.ask().await, "one");
    }
    assert_eq!(stage.found(), []);
    stage.set("two");
    assert_eq!(stage.ask().await, "one", "it is cached, and wrong");
    let found = stage.found();
    assert_eq!(found.len(), 1);
    assert!(found[0].method.contains("test.v1.Rows/Get"), "{found:?}");
    assert_eq!(found[0].declared, ["rows(())"]);
    let text = found[0].to_string();
    assert!(text.contains("rows(())") && text.contains("ttl"), "{text}");
    stage.set("missing");
    assert_eq!(stage.ask().await, "one");
    assert!(stage.found()[0].difference.contains("not_found"), "a reply, then an error");
    stage.rows.changed(&());
    stage.set("two");
    assert_eq!(stage.ask().await, "two");
    assert_eq!(stage.ask().await, "two");
    assert_eq!(stage.found(), []);
    assert_eq!(stage.behind.runs(), 6, "each call ran it once");
}

#[tokio::test]
async fn what_may_be_old_by_its_own_terms_is_not_reported() {
    let mut lasting = query(CacheScope::Public);
    lasting.ttl_ms = Some(60_000);
    for (spec, is_external) in [(query(CacheScope::Public), true), (lasting, false)] {
        let stage = Stage::new(spec, is_external);
        stage.ask().await;
        stage.set("two");
        assert_eq!(stage.ask().await, "one");
        assert_eq!(stage.found(), []);
    }
}

#[tokio::test]
async fn a_change_during_the_second_run_is_no_mismatch() {
    let graph = Graph::new();
    let rows = Source::<()>::new_in(&graph, "rows");
    let (runs, found) = (Arc::new(Mutex::new(0)), Arc::new(Mutex::new(0)));
    let (ran, log) = (Arc::clone(&runs), Arc::clone(&found));
    let cache = ReplyCache::new(&graph).verify(1.0).on_mismatch(move |_| *log.lock().unwrap() += 1);
    let behind = Behind::with(cache, query(CacheScope::Public), move |_| {
        rows.read(&());
        let mut runs = ran.lock().unwrap();
        *runs += 1;
        let now = *runs;
        if now == 2 {
            rows.changed(&());
        }
        async move { Ok(Reply::new(Body::from(now.to_string().into_bytes()))) }
    });
    assert_eq!(behind.text("", Context::default()).await, "1");
    behind.text("", Context::default()).await;
    assert_eq!((*runs.lock().unwrap(), *found.lock().unwrap()), (2, 0));
}

#[tokio::test]
async fn a_write_that_is_not_announced_yet_is_no_mismatch() {
    let stage = Stage::new(query(CacheScope::Public), false);
    stage.ask().await;
    // Somebody else has committed, and announces it only then.
    let rows = stage.rows;
    let guard = std::thread::spawn(move || rows.write(&())).join().unwrap();
    stage.set("two");
    let mut hit = stage.behind.ask("", Context::default());
    assert!(poll_immediate(&mut hit).await.is_none(), "the second run is held");
    guard.finish();
    assert_eq!(text(hit.await.unwrap()).await, "one");
    assert_eq!(stage.found(), []);
    assert_eq!(stage.ask().await, "two");
}

#[tokio::test]
async fn a_share_of_the_hits_is_looked_at() {
    let graph = Graph::new();
    let rows = Source::<()>::new_in(&graph, "rows");
    let behind =
        Behind::with(ReplyCache::new(&graph).verify(0.25), query(CacheScope::Public), move |_| {
            rows.read(&());
            async { Ok(Reply::new(Body::from("one"))) }
        });
    for _ in 0..41 {
        behind.text("", Context::default()).await;
    }
    assert_eq!(behind.runs(), 1 + 10, "a miss, and a quarter of 40 hits");
}
