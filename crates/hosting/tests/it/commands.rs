//! What ends with a process, and what an answer that is an error is made of: seen by a memo of the
//! gateway that reads a source which the process names too. In Python without any help, in Go and
//! in Rust.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use rustix::process::{Pid, Signal};
use tidewire_hosting::{Host, HostedService, Listen, Program, State};
use tidewire_memo::{Graph, Memo, Source};
use tidewire_service::{
    Call, Code, Codec, Context, Error, Idempotency, Method, Peer, Service, Spec, StreamKind,
};

/// A host with a program, and a source that it names.
struct Shop {
    host: Host,
    hosted: HostedService,
    graph: Graph,
    items: Source<String>,
}

impl Shop {
    /// One with each program.
    fn all() -> impl Iterator<Item = Self> {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/frames.py");
        let frames = ["python3", "-I", "-S", script].map(str::to_owned).to_vec();
        [frames, crate::native::go(), crate::native::rust()].into_iter().map(Self::open)
    }

    fn open(command: Vec<String>) -> Self {
        let graph = Graph::new();
        let host = crate::host().in_graph(&graph);
        let items = Source::new_in(&graph, "items");
        host.sources().share(items);
        let program = Program::new("shop", command).listen(Listen::Native);
        let hosted = host.add(program, crate::patient_limits());
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

    /// Ends its process.
    async fn kill(&self) {
        let [pid] = self.hosted.status().pids[..] else { panic!("one process") };
        rustix::process::kill_process(Pid::from_raw(pid).unwrap(), Signal::KILL).unwrap();
        self.hosted.until(|status| status.failure.is_some()).await;
    }

    fn ask(
        &self,
        name: &'static str,
        text: &str,
    ) -> impl Future<Output = Result<(), Error>> + use<> {
        let method = method(name, name == "Get");
        let request = serde_json::json!({ "text": text }).to_string();
        let answer =
            self.hosted.call(Call::method(method, Context::default(), Codec::Json, request));
        async move { answer.await?.body.collect(100).await.map(drop) }
    }
}

fn method(name: &'static str, is_query: bool) -> Method {
    let service = "tidewire.hosted.v1.Hosted";
    let mut spec = Spec::dynamic(service, name, StreamKind::Unary, ["", ""]);
    spec.idempotency = if is_query { Idempotency::NoSideEffects } else { Idempotency::Unknown };
    Arc::new(spec).into()
}

#[tokio::test]
async fn a_crash_in_the_first_command_of_a_process_ends_what_the_one_before_it_has_named() {
    for shop in Shop::all() {
        shop.ask("Get", "1").await.unwrap();
        let reader = shop.reader();
        shop.hosted.stop();
        shop.hosted.until(|status| status.state == State::Stopped).await;
        assert_eq!((reader().await, reader().await), (1, 1), "a stop ends nothing");
        let error = shop.ask("Do", "crash").await.unwrap_err();
        assert_eq!(error.code(), Code::Aborted);
        assert_eq!(reader().await, 2, "another item, as nobody knows what it did");
        shop.host.stop().await;
    }
}

#[tokio::test]
async fn a_command_that_nobody_waits_for_counts_when_its_process_dies_later() {
    for shop in Shop::all() {
        let reader = shop.reader();
        let mut held = Box::pin(shop.ask("Wait", "1"));
        // The second one is sent after the first, so that its answer says that the process has
        // both.
        tokio::select! {
            biased;
            answer = &mut held => panic!("{answer:?}"),
            answer = shop.ask("Get", "1") => answer.unwrap(),
        }
        drop(held);
        assert_eq!((reader().await, reader().await), (1, 1), "it may still say what it changes");
        shop.kill().await;
        assert_eq!(reader().await, 2);
        shop.host.stop().await;
    }
}

#[tokio::test]
async fn callers_of_methods_whom_nobody_knows_are_told_apart_by_their_addresses() {
    let host = crate::host();
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/frames.py");
    let command = ["python3", "-I", "-S", script].map(str::to_owned).to_vec();
    let mut limits = crate::patient_limits();
    (limits.concurrency, limits.queue_max) = (1, 2);
    let program = Program::new("shop", command).listen(Listen::Native);
    let hosted = host.add(program, limits);
    let ask = |name: &'static str, from: [u8; 4]| {
        let context = Context::default().with_peer(Arc::new(Peer::new(Some((from, 1).into()))));
        let request = r#"{"text":"1"}"#;
        let call = Call::method(method(name, name == "Get"), context, Codec::Json, request);
        tokio::spawn(hosted.call(call))
    };
    let [one, other] = [[192, 0, 2, 1], [192, 0, 2, 2]];
    let held = ask("Wait", one);
    hosted.until(|status| status.calls == 1).await;
    let first = ask("Get", one);
    hosted.until(|status| status.waiting == 1).await;
    let second = ask("Get", one);
    hosted.until(|status| status.waiting == 2).await;
    let of_other = ask("Get", other);
    let refused = second.await.unwrap().unwrap_err();
    assert_eq!(refused.code(), Code::ResourceExhausted, "{refused}");
    assert_eq!(hosted.status().waiting, 2, "the queue took in the call of the other address");
    for call in [held, first, of_other] {
        call.abort();
    }
    host.stop().await;
}

/// As a host says in the change log that commands run on it.
#[tokio::test]
async fn what_is_held_for_a_command_is_held_until_nobody_can_say_more_of_it() {
    for shop in Shop::all() {
        let held = Arc::new(());
        let lent = Arc::clone(&held);
        shop.host.sources().hold_commands(move || Box::new(Arc::clone(&lent)));
        let is_held = || Arc::strong_count(&held) > 2;
        shop.ask("Get", "1").await.unwrap();
        assert!(!is_held());
        shop.ask("Fail", "1").await.unwrap_err();
        assert!(!is_held(), "it is answered, and so is over");
        let mut unanswered = Box::pin(shop.ask("Wait", "1"));
        tokio::select! {
            biased;
            answer = &mut unanswered => panic!("{answer:?}"),
            answer = shop.ask("Get", "1") => answer.unwrap(),
        }
        assert!(is_held());
        drop(unanswered);
        shop.ask("Get", "1").await.unwrap();
        assert!(is_held(), "its caller is gone, and the process goes on with it");
        shop.kill().await;
        assert!(!is_held());
        shop.host.stop().await;
    }
}

#[tokio::test]
async fn a_death_without_a_command_ends_only_what_is_of_the_service() {
    for shop in Shop::all() {
        shop.ask("Get", "1").await.unwrap();
        let reader = shop.reader();
        assert_eq!(reader().await, 1);
        shop.kill().await;
        assert_eq!(reader().await, 1);
        shop.host.stop().await;
    }
}

#[tokio::test]
async fn an_error_ends_when_what_it_was_made_of_changes() {
    for shop in Shop::all() {
        let asked = Arc::new(AtomicUsize::new(0));
        let (hosted, count) = (shop.hosted.clone(), Arc::clone(&asked));
        let missing = Memo::infallible_in(&shop.graph, "missing", move |(): ()| {
            count.fetch_add(1, Ordering::Relaxed);
            let (fail, request) = (method("Fail", true), r#"{"text":"1"}"#);
            let answer = hosted.call(Call::method(fail, Context::default(), Codec::Json, request));
            async move { answer.await.unwrap_err().code() }
        });
        for (asks, key) in [(1, "2"), (1, "1"), (2, "3"), (2, "1"), (3, "3")] {
            let code = pin!(missing.get(())).await.unwrap();
            let found = (*code, asked.load(Ordering::Relaxed));
            assert_eq!(found, (Code::NotFound, asks), "before {key}");
            shop.items.changed(&key.to_owned());
        }
        shop.host.stop().await;
    }
}
