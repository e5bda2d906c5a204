//! What ends with a process, and what an answer that is an error is made of: seen by a memo of the gateway
//! that reads a source which the process names too.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use rustix::process::{Pid, Signal};
use tidewire_memo::{Graph, Memo, Source};
use tidewire_process::{Host, Hosted, Life, Listen, Program, State};
use tidewire_service::{
    Call, Code, Codec, Context, Error, Idempotency, Method, Service, Spec, StreamKind,
};

/// A host with the program of `frames.py`, and a source that it names.
struct Shop {
    host: Host,
    hosted: Hosted,
    graph: Graph,
    items: Source<String>,
}

impl Shop {
    fn open() -> Self {
        let graph = Graph::new();
        let host = crate::host().in_graph(&graph);
        let items = Source::new_in(&graph, "items");
        host.sources().share(items);
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/frames.py");
        let program = Program::new("shop", ["python3", "-I", "-S", script]).listen(Listen::Native);
        let hosted = host.add(program, Life::default());
        Self { host, hosted, graph, items }
    }

    /// A memo that reads an item, whatever the process does, and how often it was made.
    fn reader(&self) -> impl AsyncFn() -> usize + use<> {
        let (items, made) = (self.items, AtomicUsize::new(0));
        let memo = Memo::infallible_in(&self.graph, "reader", move |(): ()| {
            items.read(&"7".to_owned());
            let made = made.fetch_add(1, Ordering::Relaxed) + 1;
            async move { made }
        });
        async move || *memo.get(()).await.unwrap()
    }

    fn ask(&self, name: &'static str) -> impl Future<Output = Result<String, Error>> + use<> {
        let query = ["Get", "Missing"].contains(&name);
        let call = Call::method(method(name, query), Context::default(), Codec::Json, "1");
        let answer = self.hosted.call(call);
        async move { Ok(crate::text(answer.await?.body.collect(100).await?)) }
    }
}

fn method(name: &'static str, is_query: bool) -> Method {
    let mut spec = Spec::dynamic("a.v1.A", name, StreamKind::Unary, ["", ""]);
    spec.idempotency = if is_query { Idempotency::NoSideEffects } else { Idempotency::Unknown };
    Arc::new(spec).into()
}

#[tokio::test]
async fn a_crash_in_the_first_command_of_a_process_ends_what_the_one_before_it_has_named() {
    let shop = Shop::open();
    assert_eq!(shop.ask("Get").await.unwrap(), "1");
    let reader = shop.reader();
    shop.hosted.stop();
    shop.hosted.until(|status| status.state == State::Stopped).await;
    assert_eq!((reader().await, reader().await), (1, 1), "a stop ends nothing");
    let error = shop.ask("Crash").await.unwrap_err();
    assert_eq!(error.code(), Code::Aborted);
    assert_eq!(reader().await, 2, "another item, as nobody knows what it did");
    shop.host.stop().await;
}

#[tokio::test]
async fn a_command_that_nobody_waits_for_counts_when_its_process_dies_later() {
    let shop = Shop::open();
    let reader = shop.reader();
    let mut held = Box::pin(shop.ask("Hold"));
    // The second one is sent after the first, so that its answer says that the process has both.
    tokio::select! {
        biased;
        answer = &mut held => panic!("{answer:?}"),
        answer = shop.ask("Get") => assert_eq!(answer.unwrap(), "1"),
    }
    drop(held);
    assert_eq!((reader().await, reader().await), (1, 1), "it may still say what it changes");
    let [pid] = shop.hosted.status().pids[..] else { panic!("one process") };
    rustix::process::kill_process(Pid::from_raw(pid).unwrap(), Signal::KILL).unwrap();
    shop.hosted.until(|status| status.failure.is_some()).await;
    assert_eq!(reader().await, 2);
    shop.host.stop().await;
}

#[tokio::test]
async fn a_death_without_a_command_ends_only_what_is_of_the_service() {
    let shop = Shop::open();
    assert_eq!(shop.ask("Get").await.unwrap(), "1");
    let reader = shop.reader();
    assert_eq!(reader().await, 1);
    let [pid] = shop.hosted.status().pids[..] else { panic!("one process") };
    rustix::process::kill_process(Pid::from_raw(pid).unwrap(), Signal::KILL).unwrap();
    shop.hosted.until(|status| status.failure.is_some()).await;
    assert_eq!(reader().await, 1);
    shop.host.stop().await;
}

#[tokio::test]
async fn an_error_ends_when_what_it_was_made_of_changes() {
    let shop = Shop::open();
    let asked = Arc::new(AtomicUsize::new(0));
    let (hosted, count) = (shop.hosted.clone(), Arc::clone(&asked));
    let missing = Memo::infallible_in(&shop.graph, "missing", move |(): ()| {
        count.fetch_add(1, Ordering::Relaxed);
        let missing = method("Missing", true);
        let answer = hosted.call(Call::method(missing, Context::default(), Codec::Json, "1"));
        async move { answer.await.unwrap_err().code() }
    });
    for (asks, key) in [(1, "2"), (1, "1"), (2, "3"), (2, "1"), (3, "3")] {
        let code = pin!(missing.get(())).await.unwrap();
        assert_eq!((*code, asked.load(Ordering::Relaxed)), (Code::NotFound, asks), "before {key}");
        shop.items.changed(&key.to_owned());
    }
    shop.host.stop().await;
}
