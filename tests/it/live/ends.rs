//! A server that drains, a client that goes away, limits.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tidewire::service::{Idempotency, Spec, StreamKind};
use tidewire::{Call, Code, Context, Limits, Outcome, Reply, Service};
use tokio::sync::{Notify, Semaphore};

use super::{client, look};
use crate::harness::{at_last, behaviour, late, start};

/// A service whose calls wait until they are let go.
#[derive(Clone, Default)]
struct Gate(Arc<(Began, Notify)>);

struct Began {
    calls: Semaphore,
    /// Calls that did not have to wait.
    others: AtomicUsize,
}

impl Default for Began {
    fn default() -> Self {
        Self { calls: Semaphore::new(0), others: AtomicUsize::new(0) }
    }
}

impl Gate {
    async fn began(&self) {
        self.0.0.calls.acquire().await.unwrap().forget();
    }

    fn open(&self) {
        self.0.1.notify_one();
    }

    fn layer(&self) -> impl tidewire::Layer + use<> {
        let gate = self.clone();
        move |inner: Arc<dyn Service>| -> Arc<dyn Service> {
            let gate = gate.clone();
            Arc::new(move |call: Call| {
                let (gate, inner) = (gate.clone(), Arc::clone(&inner));
                async move {
                    if call.describe().ends_with("/Echo") {
                        gate.0.0.calls.add_permits(1);
                        gate.0.1.notified().await;
                    } else {
                        gate.0.0.others.fetch_add(1, Ordering::SeqCst);
                    }
                    inner.call(call).await
                }
            })
        }
    }
}

fn echo() -> Call {
    let service = "tidewire.test.v1.BehaviourService";
    let mut spec = Spec::dynamic(service, "Echo", StreamKind::Unary, ["", ""]);
    spec.idempotency = Idempotency::Unknown;
    Call::method(Arc::new(spec), Context::default(), tidewire::Codec::Json, r#"{"text":"a"}"#)
}

#[tokio::test]
async fn a_drain_lets_live_calls_end_and_takes_no_others() {
    for scheme in ["ws", "tcp"] {
        let (gate, (builder, _)) = (Gate::default(), behaviour());
        let (running, address) = start(builder.layer(gate.layer())).await;
        let client = client(format!("{scheme}://{address}"));
        client.call(look("a")).await.unwrap();
        let call = tokio::spawn({
            let client = client.clone();
            async move { client.call(echo()).await }
        });
        gate.began().await;
        let drains = tokio::spawn(running.drain());
        // It is told on the connection; from then on calls wait for another server.
        let mut answered = 1;
        while let Ok(looked) =
            tokio::time::timeout(Duration::from_secs(2), client.call(look("b"))).await
        {
            if let Err(refused) = looked {
                // It was on its way when the drain began.
                assert_eq!(refused.outcome(), Outcome::NotRun, "{scheme}: {refused}");
                break;
            }
            answered += 1;
            assert!(answered < 1000, "{scheme}: it goes on as if nothing had been told");
        }
        assert!(!drains.is_finished(), "a call runs");
        gate.open();
        assert!(call.await.unwrap().is_ok(), "{scheme}");
        assert!(drains.await.unwrap(), "every call ended by itself");
        assert_eq!(gate.0.0.others.load(Ordering::SeqCst), answered, "{scheme}: it took no others");
    }
}

#[tokio::test]
async fn a_command_of_a_client_that_goes_away_runs_to_its_end() {
    let (gate, (builder, _)) = (Gate::default(), behaviour());
    let (running, address) = start(builder.layer(gate.layer())).await;
    let client = client(format!("ws://{address}"));
    tokio::select! {
        _ = client.call(echo()) => panic!("nobody opened the gate"),
        () = gate.began() => {}
    }
    drop(client);
    assert_eq!(running.commands_running(), 1);
    gate.open();
    while running.commands_running() > 0 {
        tokio::task::yield_now().await;
    }
    assert!(running.drain().await);
}

#[tokio::test]
async fn a_command_past_its_deadline_is_unknown_to_its_caller_and_runs_on() {
    let (gate, (builder, _)) = (Gate::default(), behaviour());
    let (running, address) = start(builder.layer(gate.layer())).await;
    let client = client(format!("ws://{address}"));
    let mut call = echo();
    call.context = call.context.with_deadline(at_last());
    let error = late(client.call(call), gate.began()).await.unwrap_err();
    assert_eq!((error.code(), error.outcome()), (Code::DeadlineExceeded, Outcome::Unknown));
    assert_eq!(running.commands_running(), 1);
    gate.open();
    while running.commands_running() > 0 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn limits_hold_for_live_calls_too() {
    let (gate, (builder, _)) = (Gate::default(), behaviour());
    let mut limits = Limits::default();
    limits.commands_max = 1;
    limits.message_bytes_max = 1000;
    let (_running, address) = start(builder.limits(limits).layer(gate.layer())).await;
    let client = client(format!("tcp://{address}"));
    let first = tokio::spawn({
        let client = client.clone();
        async move { client.call(echo()).await }
    });
    gate.began().await;
    let error = client.call(echo()).await.unwrap_err();
    assert_eq!((error.code(), error.outcome()), (Code::ResourceExhausted, Outcome::NotRun));
    assert!(error.message().contains("limits.commands_max"), "{error}");
    let error = client.call(look(&"k".repeat(1000))).await.unwrap_err();
    assert_eq!((error.code(), error.outcome()), (Code::ResourceExhausted, Outcome::NotRun));
    assert!(error.message().contains("limits.message_bytes_max"), "{error}");
    gate.open();
    let reply: Reply = first.await.unwrap().unwrap();
    assert!(reply.body.collect(1000).await.is_ok());
}

#[tokio::test]
async fn what_is_not_there_and_a_command_that_came_as_a_query_did_not_run() {
    let (builder, _) = behaviour();
    let (_running, address) = start(builder).await;
    let client = client(format!("ws://{address}"));
    for (method, code) in [("Echo", Code::FailedPrecondition), ("None", Code::Unimplemented)] {
        let service = "tidewire.test.v1.BehaviourService";
        let mut spec = Spec::dynamic(service, method, StreamKind::Unary, ["", ""]);
        spec.idempotency = Idempotency::NoSideEffects;
        let call = Call::method(Arc::new(spec), Context::default(), tidewire::Codec::Json, "{}");
        let error = client.call(call).await.unwrap_err();
        assert_eq!((error.code(), error.outcome()), (code, Outcome::NotRun), "{error}");
    }
}
