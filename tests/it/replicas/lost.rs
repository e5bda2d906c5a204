//! What is read while a connection is lost, and how it is confirmed.

use std::time::{Duration, Instant};

use tidewire::client::WhenLost;
use tidewire::{Call, Code, Codec, Context, Service};

use super::{Chain, value_of};

/// Waits until C knows that its connection is lost, or is back.
async fn connected(chain: &Chain, is_connected: bool) {
    while (chain.c.client.open_connections() == 1) != is_connected {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn what_is_held_is_served_marked_as_unconfirmed_and_what_is_made_of_it_is_not_kept() {
    let chain = Chain::new(WhenLost::Serve).await;
    chain.write(7, 41).await;
    assert_eq!(chain.label(7).await, 41);
    assert!(!chain.c.get(7).await.unwrap().freshness.is_over());
    chain.wires[1].down();
    connected(&chain, false).await;
    let made = chain.made.count();
    for _ in 0..3 {
        let reply = chain.c.get(7).await.unwrap();
        assert!(reply.freshness.is_over(), "marked");
        assert_eq!(value_of(reply).await.unwrap(), 41);
        assert_eq!(chain.label(7).await, 41);
    }
    assert_eq!(chain.made.count(), made + 3, "each time anew");
    // It changes meanwhile; nobody knows, until it is known to be stale.
    chain.write(7, 42).await;
    chain.wires[1].mend();
    connected(&chain, true).await;
    // B may confirm what it has not yet been told of itself; then it tells that too.
    while chain.c.value(7).await.unwrap() != 42 {
        tokio::task::yield_now().await;
    }
    assert_eq!(chain.label(7).await, 42);
}

#[tokio::test]
async fn what_is_held_is_waited_for_no_longer_than_the_caller_waits() {
    let chain = Chain::new(WhenLost::Wait).await;
    assert_eq!(chain.label(7).await, 0);
    chain.wires[1].down();
    connected(&chain, false).await;
    let interface = chain.rows.schema.interface("test.v1.Rows").unwrap().unwrap();
    let get = interface.methods().iter().find(|method| method.method == "Get").unwrap();
    let soon = Instant::now() + Duration::from_millis(20);
    let context = Context::default().with_deadline(soon);
    let call = Call::method(get.clone(), context, Codec::Json, r#"{"id":"7"}"#);
    let error = chain.c.client.call(call).await.unwrap_err();
    assert_eq!(error.code(), Code::DeadlineExceeded, "{error}");
    let (value, ()) = tokio::join!(chain.label(7), async { chain.wires[1].mend() });
    assert_eq!(value, 0);
}

#[tokio::test]
async fn all_that_did_not_change_is_confirmed_without_a_call_and_what_was_made_of_it_is_kept() {
    for when_lost in [WhenLost::Wait, WhenLost::Serve] {
        let chain = Chain::new(when_lost).await;
        for id in 0..50 {
            chain.label(id).await;
        }
        let counts = chain.counts();
        chain.wires[1].cut();
        connected(&chain, false).await;
        connected(&chain, true).await;
        // One of them is another now.
        chain.write(7, 41).await;
        while chain.c.value(7).await.unwrap() != 41 {
            tokio::task::yield_now().await;
        }
        let made = chain.made.count();
        for id in (0..50).filter(|id| *id != 7) {
            assert!(!chain.c.get(id).await.unwrap().freshness.is_over());
            chain.label(id).await;
        }
        assert_eq!(chain.made.count(), made, "{when_lost:?}: equal, so what depended on it stands");
        let [a, b] = chain.counts();
        assert!(a - counts[0] <= 2 && b - counts[1] <= 2, "{when_lost:?}: only row 7");
    }
}
