//! A kept answer tells when it ends.

use std::sync::Arc;

use futures_util::future::{join, poll_immediate};
use tidewire_memo::{Graph, Source};
use tidewire_service::{Body, Call, Context, Reply, Sharing, Staleness};

use crate::harness::{Behind, query};

fn rows() -> (Behind, Source<String>) {
    let graph = Graph::new();
    let source = Source::<String>::new_in(&graph, "rows");
    let behind = Behind::new(&graph, query(Sharing::Public), move |mut call: Call| async move {
        let key = String::from_utf8(call.message().await?.to_vec()).unwrap();
        source.read(&key);
        Ok(Reply::new(Body::from("same")))
    });
    (behind, source)
}

async fn staleness(behind: &Behind, message: &'static str) -> Arc<dyn Staleness> {
    let reply = behind.ask(message, Context::default()).await.unwrap();
    Arc::clone(reply.freshness.staleness().expect("a kept answer tells"))
}

async fn ended(staleness: &Arc<dyn Staleness>) {
    std::future::poll_fn(|cx| staleness.poll_stale(cx)).await;
}

#[tokio::test]
async fn all_who_wait_for_the_end_of_an_answer_are_told_and_nobody_of_another() {
    let (behind, source) = rows();
    let (a, b) = (staleness(&behind, "a").await, staleness(&behind, "b").await);
    let mut waits = (Box::pin(ended(&a)), Box::pin(ended(&a)), Box::pin(ended(&b)));
    assert!(poll_immediate(&mut waits.0).await.is_none());
    assert!(poll_immediate(&mut waits.1).await.is_none());
    assert!(poll_immediate(&mut waits.2).await.is_none());
    source.changed(&"a".to_owned());
    join(waits.0, waits.1).await;
    assert!(a.is_stale());
    assert!(!b.is_stale() && poll_immediate(&mut waits.2).await.is_none());
}

#[tokio::test]
async fn an_answer_stays_stale_though_an_equal_one_is_computed_after_it() {
    let (behind, source) = rows();
    let first = staleness(&behind, "a").await;
    source.changed(&"a".to_owned());
    assert!(first.is_stale());
    let second = staleness(&behind, "a").await;
    assert!(first.is_stale());
    assert!(!second.is_stale());
    ended(&first).await;
}

#[tokio::test]
async fn an_answer_that_ended_before_anybody_waited_is_told_at_once() {
    let (behind, source) = rows();
    let first = staleness(&behind, "a").await;
    source.changed(&"a".to_owned());
    ended(&first).await;
}

#[tokio::test]
async fn an_answer_whose_service_is_gone_is_over() {
    let (behind, _) = rows();
    let first = staleness(&behind, "a").await;
    drop(behind);
    ended(&first).await;
}
