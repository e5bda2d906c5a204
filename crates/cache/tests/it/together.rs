//! Many callers at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::future::{join_all, poll_immediate};
use tidewire_cache::ReplyCache;
use tidewire_memo::{Graph, Source};
use tidewire_service::{Body, CacheScope, Call, Code, Context, Reply, Signal, Spec};

use crate::harness::{Behind, from, query, text};

/// A service that reads a source if `is_tracked`, waits for a signal, and answers with how often it
/// ran.
fn waiting(spec: Spec, is_tracked: bool, reads_header: bool) -> (Behind, Source<u8>, Signal) {
    let graph = Graph::new();
    let source = Source::<u8>::new_in(&graph, "rows");
    let signal = Signal::new();
    let waited = signal.clone();
    let count = Arc::new(AtomicUsize::new(0));
    let behind = Behind::new(&graph, spec, move |call: Call| {
        let (waited, count) = (waited.clone(), Arc::clone(&count));
        async move {
            if is_tracked {
                source.read(&1);
            }
            let number = count.fetch_add(1, Ordering::SeqCst) + 1;
            waited.fired().await;
            let who = match reads_header {
                true => format!(" {:?}", call.context.header("x-who")),
                false => String::new(),
            };
            Ok(Reply::new(Body::from(format!("{number}{who}").into_bytes())))
        }
    });
    (behind, source, signal)
}

#[tokio::test]
async fn callers_of_one_key_wait_for_one_run() {
    let (behind, _, signal) = waiting(query(CacheScope::Public), true, false);
    let mut answers = Vec::new();
    for _ in 0..100 {
        let mut answer = behind.ask("", Context::default());
        assert!(poll_immediate(&mut answer).await.is_none());
        answers.push(answer);
    }
    signal.fire();
    for answer in join_all(answers).await {
        assert_eq!(text(answer.unwrap()).await, "1");
    }
    assert_eq!(behind.runs(), 1);
}

#[tokio::test]
async fn callers_who_waited_for_a_private_run_run_by_themselves() {
    let (behind, _, signal) = waiting(query(CacheScope::Public), true, true);
    let mut one = behind.ask("", from("x-who", "ada"));
    assert!(poll_immediate(&mut one).await.is_none());
    let mut two = behind.ask("", from("x-who", "grace"));
    assert!(poll_immediate(&mut two).await.is_none());
    assert_eq!(behind.runs(), 1, "the second waits");
    signal.fire();
    let (one, two) = (text(one.await.unwrap()).await, text(two.await.unwrap()).await);
    assert!(one.contains("ada") && two.contains("grace"), "{one} {two}");
}

#[tokio::test]
async fn an_untracked_run_is_shared_with_those_who_waited_only_where_the_method_says_so() {
    for (spec, runs) in [(query(CacheScope::Public), 2), (query(CacheScope::Public).coalesce(), 1)]
    {
        let (behind, _, signal) = waiting(spec, false, false);
        let mut answers = [(); 2].map(|()| behind.ask("", Context::default()));
        for answer in &mut answers {
            assert!(poll_immediate(answer).await.is_none());
        }
        signal.fire();
        for answer in answers {
            answer.await.unwrap();
        }
        assert_eq!(behind.runs(), runs);
        behind.ask("", Context::default()).await.unwrap();
        assert_eq!(behind.runs(), runs + 1, "it is not kept");
    }
}

#[tokio::test]
async fn a_caller_who_comes_after_a_write_is_not_given_what_an_older_run_computes() {
    let (behind, source, signal) = waiting(query(CacheScope::Public), true, false);
    let mut older = behind.ask("", Context::default());
    assert!(poll_immediate(&mut older).await.is_none());
    source.changed(&1);
    let mut own = behind.ask("", Context::default());
    assert!(poll_immediate(&mut own).await.is_none());
    signal.fire();
    let (own, older) = futures_util::future::join(own, older).await;
    assert_eq!(text(own.unwrap()).await, "2");
    older.unwrap();
    assert_eq!(behind.text("", Context::default()).await, "2");
}

#[tokio::test]
async fn a_caller_who_gives_up_leaves_the_run_to_the_others_and_the_last_one_ends_it() {
    let (behind, _, signal) = waiting(query(CacheScope::Public), true, false);
    let mut first = behind.ask("", Context::default());
    assert!(poll_immediate(&mut first).await.is_none());
    let mut second = behind.ask("", Context::default());
    assert!(poll_immediate(&mut second).await.is_none());
    drop(first);
    signal.fire();
    assert_eq!(text(second.await.unwrap()).await, "1");

    let (behind, _, signal) = waiting(query(CacheScope::Public), true, false);
    let mut only = behind.ask("", Context::default());
    assert!(poll_immediate(&mut only).await.is_none());
    drop(only);
    signal.fire();
    assert_eq!(behind.text("", Context::default()).await, "2");
}

#[tokio::test(start_paused = true)]
async fn a_run_sees_the_time_that_all_callers_have_and_ends_with_it() {
    let graph = Graph::new();
    let source = Source::<u8>::new_in(&graph, "rows");
    let cache = ReplyCache::new(&graph).compute_timeout(Duration::from_secs(7));
    let behind = Behind::with(cache, query(CacheScope::Public), move |call: Call| async move {
        source.read(&1);
        let left = call.context.remaining(tokio::time::Instant::now().into_std());
        assert_eq!(left, Some(Duration::from_secs(7)));
        std::future::pending().await
    });
    let soon = tokio::time::Instant::now().into_std() + Duration::from_secs(1);
    let error = behind.ask("", Context::default().with_deadline(soon)).await.unwrap_err();
    assert_eq!(error.code(), Code::DeadlineExceeded);
    assert!(error.message().contains("compute_timeout 7s"), "{error}");
}

#[tokio::test]
async fn a_panic_is_an_error_of_that_run_and_nothing_is_kept_of_it() {
    let graph = Graph::new();
    let source = Source::<u8>::new_in(&graph, "rows");
    let count = Arc::new(AtomicUsize::new(0));
    let behind = Behind::new(&graph, query(CacheScope::Public), move |_| {
        let number = count.fetch_add(1, Ordering::SeqCst);
        async move {
            source.read(&1);
            assert!(number > 0, "the first run fails");
            Ok(Reply::new(Body::from("well")))
        }
    });
    let error = behind.ask("", Context::default()).await.unwrap_err();
    assert_eq!(error.code(), Code::Internal);
    assert_eq!(behind.text("", Context::default()).await, "well");
}

#[tokio::test]
async fn calls_of_a_method_of_which_nothing_is_ever_kept_stop_waiting_for_each_other() {
    let (behind, _, signal) = waiting(query(CacheScope::Public), false, false);
    signal.fire();
    for _ in 0..16 {
        behind.ask("", Context::default()).await.unwrap();
    }
    let (held, _, signal) = waiting(query(CacheScope::Public), false, false);
    drop((held, signal));
    let before = behind.runs();
    let answers: Vec<_> = (0..8).map(|_| behind.ask("", Context::default())).collect();
    join_all(answers).await.into_iter().for_each(|answer| drop(answer.unwrap()));
    assert_eq!(behind.runs(), before + 8);
}

#[tokio::test(start_paused = true)]
async fn a_private_run_has_the_time_of_its_caller_and_is_not_cut_off_by_that_of_shared_ones() {
    let graph = Graph::new();
    let cache = ReplyCache::new(&graph).compute_timeout(Duration::from_secs(7));
    let behind = Behind::with(cache, query(CacheScope::Public), |call: Call| async move {
        let now = || tokio::time::Instant::now().into_std();
        assert_eq!(call.context.remaining(now()), Some(Duration::from_secs(7)));
        let _ = call.context.header("x-who");
        let left = call.context.remaining(now());
        // tidy: allow-sleep the clock of the test is paused
        tokio::time::sleep(Duration::from_secs(20)).await;
        Ok(Reply::text(format!("{left:?}")))
    });
    let late = tokio::time::Instant::now().into_std() + Duration::from_secs(60);
    let answer = behind.text("", Context::default().with_deadline(late)).await;
    assert_eq!(answer, "Some(60s)");
    assert_eq!(behind.text("", Context::default()).await, "None");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_hot_key_under_constant_changes_never_gives_what_is_older_than_the_call() {
    let graph = Graph::new();
    let source = Source::<u8>::new_in(&graph, "rows");
    let value = Arc::new(AtomicUsize::new(0));
    let read = Arc::clone(&value);
    let behind = Behind::new(&graph, query(CacheScope::Public), move |_| {
        let read = Arc::clone(&read);
        async move {
            source.read(&1);
            let seen = read.load(Ordering::SeqCst);
            tokio::task::yield_now().await;
            Ok(Reply::text(seen.to_string()))
        }
    });
    let written = Arc::new(AtomicUsize::new(0));
    let done = Signal::new();
    let writer = {
        let (value, written, done) = (Arc::clone(&value), Arc::clone(&written), done.clone());
        tokio::spawn(async move {
            for number in 1.. {
                let write = source.write(&1);
                value.store(number, Ordering::SeqCst);
                write.finish();
                written.store(number, Ordering::SeqCst);
                if poll_immediate(done.fired()).await.is_some() {
                    return number;
                }
                tokio::task::yield_now().await;
            }
            0
        })
    };
    let readers = (0..4).map(|_| {
        let (behind, written) = (behind.clone(), Arc::clone(&written));
        tokio::spawn(async move {
            for _ in 0..1000 {
                let least = written.load(Ordering::SeqCst);
                let seen: usize = behind.text("", Context::default()).await.parse().unwrap();
                assert!(seen >= least, "{seen} was given after {least} was written");
            }
        })
    });
    for reader in readers.collect::<Vec<_>>() {
        reader.await.unwrap();
    }
    done.fire();
    let last = writer.await.unwrap();
    assert_eq!(behind.text("", Context::default()).await, last.to_string());
}

/// Only the head of its answer says of a page whether it may be shared, and that may be long in
/// coming.
#[tokio::test]
async fn callers_of_a_page_wait_for_each_other_once_an_answer_was_kept() {
    let graph = Graph::new();
    let source = Source::<u8>::new_in(&graph, "rows");
    let signals = [(); 3].map(|()| Signal::new());
    let (waits, count) = (signals.clone(), Arc::new(AtomicUsize::new(0)));
    let behind = Behind::new(&graph, query(CacheScope::Public), move |_| {
        source.read(&1);
        let number = count.fetch_add(1, Ordering::SeqCst);
        let waited = waits[number].clone();
        async move {
            waited.fired().await;
            Ok(Reply::text(number.to_string()))
        }
    });
    let ask = || {
        let uri = "/a".parse().unwrap();
        let call = Call::http(http::Method::GET, uri, Context::default(), Body::Empty);
        behind.service.call(call)
    };
    let mut first = ask();
    assert!(poll_immediate(&mut first).await.is_none());
    let mut second = ask();
    assert!(poll_immediate(&mut second).await.is_none());
    assert_eq!(behind.runs(), 2, "nobody waits for another");
    signals[1].fire();
    assert_eq!(text(second.await.unwrap()).await, "1");
    signals[0].fire();
    assert_eq!(text(first.await.unwrap()).await, "0");
    source.changed(&1);
    let mut first = ask();
    assert!(poll_immediate(&mut first).await.is_none());
    let mut second = ask();
    assert!(poll_immediate(&mut second).await.is_none());
    assert_eq!(behind.runs(), 3, "one asks for both");
    signals[2].fire();
    for answer in [first, second] {
        assert_eq!(text(answer.await.unwrap()).await, "2");
    }
}
