//! A kept answer tells when it ends.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Wake, Waker};
use std::time::Duration;

use futures_util::future::{join, poll_immediate};
use tidewire_memo::{Graph, Source};
use tidewire_service::{
    Body, CacheScope, Call, Codec, Context, FollowOptions, Reply, Staleness, follow,
};
use tokio::sync::Notify;

use crate::harness::{Behind, TestClock, query, text};

fn rows() -> (Behind, Source<String>) {
    let graph = Graph::new();
    let source = Source::<String>::new_in(&graph, "rows");
    let behind = Behind::new(&graph, query(CacheScope::Public), move |mut call: Call| async move {
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

#[derive(Default)]
struct Woken(AtomicUsize);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

#[tokio::test]
async fn every_task_that_waits_is_woken_whichever_asked_last() {
    let (behind, source) = rows();
    for asked in [&[0][..], &[0, 0], &[0, 1], &[0, 1, 0], &[0, 1, 2, 1], &[0, 1, 1, 2, 0]] {
        let a = staleness(&behind, "a").await;
        let woken: [Arc<Woken>; 3] = Default::default();
        for task in asked {
            let waker = Waker::from(Arc::clone(&woken[*task]));
            assert!(a.poll_stale(&mut std::task::Context::from_waker(&waker)).is_pending());
        }
        source.changed(&"b".to_owned());
        assert!(woken.iter().all(|woken| woken.0.load(Ordering::SeqCst) == 0), "{asked:?}");
        source.changed(&"a".to_owned());
        for (task, woken) in woken.iter().enumerate() {
            let is_woken = woken.0.load(Ordering::SeqCst) > 0;
            assert_eq!(is_woken, asked.contains(&task), "{asked:?}: {task}");
        }
        ended(&a).await;
    }
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

#[tokio::test]
async fn who_follows_a_query_that_changed_while_it_was_answered_is_told_the_change() {
    let graph = Graph::new();
    let source = Source::<()>::new_in(&graph, "rows");
    let value = Arc::new(AtomicUsize::new(0));
    let (read, may_end) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let held_up = (Arc::clone(&value), Arc::clone(&read), Arc::clone(&may_end));
    let behind = Behind::new(&graph, query(CacheScope::Public), move |_: Call| {
        let (value, read, may_end) = held_up.clone();
        async move {
            source.read(&());
            let seen = value.load(Ordering::SeqCst);
            read.notify_one();
            may_end.notified().await;
            Ok(Reply::new(Body::from(seen.to_string())))
        }
    });
    let call = Call::method(behind.method(), Context::default(), Codec::Proto, "a");
    let call = call.buffered().await.unwrap();
    let pace = FollowOptions::default().with_min_interval(Duration::ZERO);
    let mut answers = follow(Arc::clone(&behind.service), call, pace, TestClock);
    let changed = async {
        read.notified().await;
        value.store(1, Ordering::SeqCst);
        source.changed(&());
        may_end.notify_one();
    };
    let (first, ()) = join(answers.next(), changed).await;
    let first = first.unwrap().expect("an answer").unwrap();
    assert!(first.freshness.validator().is_some(), "it can be watched until the next");
    assert_eq!(text(first).await, "0", "asked before");
    may_end.notify_one();
    let second = answers.next().await.unwrap().expect("it goes on");
    assert_eq!(text(second.unwrap()).await, "1");
}
