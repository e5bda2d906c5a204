//! What panics beside a handler: a gate, its guard, an observer. One request fails, and no other;
//! `Gate::admit`, `tidewire_server`'s "a panic in a handler is one failed call".

use std::sync::{Arc, Mutex};

use tidewire::client::Protocol;
use tidewire::gate::{Admission, gated};
use tidewire::service::{End, Observation, Observer, Phase, Query};
use tidewire::{Call, Code, Context, Gate, Head};
use tidewire_tests::proto::*;

use super::{PROTOCOLS, client, stage};
use crate::harness::{send, start};

struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        panic!("a guard");
    }
}

/// Tells that it was dropped.
struct Flag(Arc<Mutex<Vec<u8>>>, u8);

impl Drop for Flag {
    fn drop(&mut self) {
        self.0.lock().unwrap().push(self.1);
    }
}

fn slow(millis: u32) -> SlowRequest {
    SlowRequest { millis, ..Default::default() }
}

#[tokio::test]
async fn guards_are_dropped_in_the_order_in_which_they_were_left() {
    let dropped = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&dropped);
    let gate = move |head: &mut Head| {
        (1..=3).for_each(|number| head.leave(Flag(Arc::clone(&log), number)));
        Ok(())
    };
    let (running, address) = start(stage().gate(gate)).await;
    send(address, "GET /plain/a", b"").await.check(200, &[]);
    running.drain().await;
    assert_eq!(*dropped.lock().unwrap(), [1, 2, 3]);
}

#[tokio::test]
async fn a_guard_that_panics_takes_neither_its_neighbours_nor_other_guards_down() {
    let dropped = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&dropped);
    let gate = move |head: &mut Head| {
        if head.context.header("x-bomb").is_some() {
            head.leave(Flag(Arc::clone(&log), 1));
            head.leave(Bomb);
            head.leave(Flag(Arc::clone(&log), 2));
        }
        Ok(())
    };
    let (_running, address) = start(stage().gate(gate)).await;
    for protocol in PROTOCOLS {
        let client = client(address, protocol);
        let neighbour = client.slow(slow(100));
        let bombs = async {
            for unary in [true, false] {
                let mut context = Context::default();
                context.headers_mut().insert("x-bomb", "1".parse().unwrap());
                if unary {
                    let _ = BehaviourService::echo(&client, context, EchoRequest::default()).await;
                } else {
                    let request = CountRequest { n: 2, ..Default::default() };
                    let reply = BehaviourService::count(&client, context, request).await;
                    if let Ok(mut reply) = reply {
                        while let Ok(Some(_)) = reply.body.next().await {}
                    }
                }
            }
        };
        let (slept, ()) = tokio::join!(neighbour, bombs);
        assert_eq!(slept.unwrap().body.millis, 100, "{protocol:?}");
        let dropped = std::mem::take(&mut *dropped.lock().unwrap());
        assert_eq!(dropped, [1, 2, 1, 2], "{protocol:?}");
    }
    send(address, "GET /plain/a\nx-bomb: 1", b"").await.check(200, &["\"size\":1"]);
    send(address, "GET /plain/panic\nx-bomb: 1", b"").await.check(500, &["internal"]);
    send(address, "GET /plain/a", b"").await.check(200, &["\"size\":1"]);
}

/// Panics where its name says.
#[derive(Clone)]
struct Faulty(&'static str);

impl Observer for Faulty {
    fn begin(&self, head: &Head) -> Arc<dyn Observation> {
        let is_meant = head.context.header("x-bomb").is_some();
        assert!(!is_meant || self.0 != "begin", "an observer");
        Arc::new(Self(if is_meant { self.0 } else { "" }))
    }
}

impl Observation for Faulty {
    fn phase(&self, phase: Phase) {
        assert_ne!(self.0, format!("{phase:?}"), "an observer");
    }

    fn end(&self, _: &End) {
        assert_ne!(self.0, "end", "an observer");
    }
}

#[tokio::test]
async fn an_observer_that_panics_takes_no_neighbour_down_and_other_observers_are_told() {
    for place in ["begin", "Gates", "Handler", "FirstByte", "Written", "end"] {
        let (log, mut heard) = tokio::sync::mpsc::unbounded_channel();
        let builder = stage().observer(Faulty(place)).observer(super::Log(log));
        let (_running, address) = start(builder).await;
        for protocol in [Protocol::Grpc, Protocol::Connect] {
            let client = client(address, protocol);
            let neighbour = client.slow(slow(50));
            let bombs = async {
                let mut context = Context::default();
                context.headers_mut().insert("x-bomb", "1".parse().unwrap());
                let request = EchoRequest::default();
                let _ = BehaviourService::echo(&client, context.clone(), request).await;
                let _ = BehaviourService::panic(&client, context, PanicRequest::default()).await;
            };
            let (slept, ()) = tokio::join!(neighbour, bombs);
            assert_eq!(slept.unwrap().body.millis, 50, "{place} {protocol:?}");
        }
        let mut ends = 0;
        while ends < 6 {
            match heard.recv().await {
                Some(super::Event::End(_)) => ends += 1,
                Some(_) => {}
                None => panic!("{place}: {ends}"),
            }
        }
        send(address, "GET /plain/a", b"").await.check(200, &["\"size\":1"]);
    }
}

#[tokio::test]
async fn a_gate_that_panics_refuses_with_internal_on_every_protocol_at_once_or_later() {
    struct Panics(bool);
    impl Gate for Panics {
        fn admit(&self, head: &mut Head) -> Admission {
            head.leave(());
            if self.0 {
                return Admission::Waits;
            }
            panic!("a gate")
        }

        fn wait<'a>(&'a self, _: &'a mut Head) -> tidewire::gate::GateFuture<'a> {
            Box::pin(async { panic!("a gate") })
        }
    }
    for later in [false, true] {
        let (_running, address) = start(stage().gate(Panics(later))).await;
        for protocol in PROTOCOLS {
            let client = client(address, protocol);
            let error = client.echo(EchoRequest::default()).await.unwrap_err();
            assert_eq!(error.code(), Code::Internal, "{protocol:?}");
        }
        send(address, "GET /things/a", b"").await.check(500, &["internal"]);
        send(address, "GET /nowhere", b"").await.check(500, &["internal"]);
    }
}

#[tokio::test]
async fn in_the_process_a_gate_that_panics_refuses_its_call_too() {
    let gate = |_: &mut Head| -> tidewire::Result<()> { panic!("a gate") };
    let service = gated(vec![Arc::new(gate)], Arc::new(async |_: Call| Ok("well")));
    let get = || {
        let uri = "/a".parse().unwrap();
        Call::http(tidewire::http::Method::GET, uri, Context::default(), "")
    };
    let call = get();
    let call = async move { tidewire::Service::call(&service, call).await.map(|_| ()) };
    let outcome = tokio::spawn(call).await.expect("no panic comes out");
    assert_eq!(outcome.unwrap_err().code(), Code::Internal);
    let query: Query = get().buffered().await.unwrap();
    assert_eq!(query.message().len(), 0);
}

#[tokio::test]
async fn what_a_handler_keeps_may_panic_when_its_time_is_over_and_takes_no_neighbour_down() {
    let layer = super::answering(|call: Call, inner: Arc<dyn tidewire::Service>| async move {
        if call.context.header("x-bomb").is_none() {
            return inner.call(call).await;
        }
        let bomb = Bomb;
        let streams = call.spec().is_some_and(|spec| spec.kind.server_streams());
        if !streams {
            std::future::pending::<()>().await;
        }
        let rest = futures_util::stream::pending();
        let rest = futures_util::StreamExt::inspect(rest, move |_: &tidewire::Result<_>| {
            let _ = &bomb;
        });
        Ok(tidewire::Reply::new(tidewire::Body::stream(rest)))
    });
    let (_running, address) = start(stage().layer(layer)).await;
    for protocol in PROTOCOLS {
        let client = client(address, protocol);
        let neighbour = client.slow(slow(150));
        let bombs = async {
            let mut context = Context::default();
            context.headers_mut().insert("x-bomb", "1".parse().unwrap());
            let soon = || std::time::Instant::now() + std::time::Duration::from_millis(30);
            let late = context.clone().with_deadline(soon());
            let error = BehaviourService::look(&client, late, LookRequest::default()).await;
            assert_eq!(error.unwrap_err().code(), Code::DeadlineExceeded, "{protocol:?}");
            let late = context.with_deadline(soon());
            let reply = BehaviourService::count(&client, late, CountRequest::default()).await;
            let error = match reply {
                Ok(mut reply) => reply.body.next().await.unwrap_err(),
                Err(error) => error,
            };
            assert_eq!(error.code(), Code::DeadlineExceeded, "{protocol:?}");
        };
        let (slept, ()) = tokio::join!(neighbour, bombs);
        assert_eq!(slept.unwrap().body.millis, 150, "{protocol:?}");
    }
}
