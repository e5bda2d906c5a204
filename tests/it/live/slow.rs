//! Peers that do not read, or read late: what waits for them is bounded, and what they read then is
//! new.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tidewire::service::{Freshness, Signal, Validator};
use tidewire::{Body, Call, Layer, Limits, Reply, Service};
use tidewire_live_proto::Watch;

use super::by_hand::{ByHand, Told};
use crate::harness::{behaviour, start};

const LOOK: &str = "/tidewire.test.v1.BehaviourService/Look";

/// Answers every query with a number, until that changes.
#[derive(Clone, Default)]
struct Number(Arc<(AtomicUsize, Mutex<Signal>)>);

impl Number {
    fn change(&self) {
        self.0.0.fetch_add(1, Ordering::SeqCst);
        std::mem::take(&mut *self.0.1.lock().unwrap()).fire();
    }

    fn reply(&self) -> Reply {
        let changes = self.0.1.lock().unwrap().clone();
        let number = self.0.0.load(Ordering::SeqCst);
        let freshness = Freshness::tracked(Arc::new(changes))
            .with_validator(Validator::new((number as u128).to_be_bytes()));
        Reply::new(Body::Full(number.to_string().into())).with_freshness(freshness)
    }
}

impl Layer for Number {
    fn layer(&self, _: Arc<dyn Service>) -> Arc<dyn Service> {
        let number = self.clone();
        Arc::new(move |_: Call| {
            let number = number.clone();
            async move { Ok(number.reply()) }
        })
    }
}

/// Asks for so many watches, a few at once; how many were granted.
async fn watches(peer: &mut ByHand, count: usize) -> usize {
    let mut granted = 0;
    for _ in 0..count / AT_ONCE {
        for _ in 0..AT_ONCE {
            peer.ask(LOOK, "{}", Watch::Notify);
        }
        let mut answers = 0;
        while answers < AT_ONCE {
            if let Told::Reply { is_watched, .. } = peer.next().await {
                granted += usize::from(is_watched);
                answers += 1;
            }
        }
    }
    granted
}

/// Fewer than may run on a connection.
const AT_ONCE: usize = 200;

fn limits(watches_max: u32) -> Limits {
    let mut limits = Limits::default();
    limits.watches_max = watches_max;
    limits
}

#[tokio::test]
async fn notices_to_who_does_not_read_are_gathered_into_lists_of_a_byte_each() {
    const WATCHES: usize = 20_000;
    let (number, (builder, _)) = (Number::default(), behaviour());
    let (_running, address) = start(builder.limits(limits(1 << 20)).layer(number.clone())).await;
    let mut peer = ByHand::dial(address).await;
    assert_eq!(watches(&mut peer, WATCHES).await, WATCHES);
    let before = peer.read;
    number.change();
    let mut stale = 0;
    while stale < WATCHES {
        stale += usize::from(matches!(peer.next().await, Told::Stale(_)));
    }
    let bytes = peer.read - before;
    assert!(bytes < WATCHES * 11 / 10, "{bytes} bytes for {WATCHES} notices");
    assert_eq!(peer.session.usage().calls_out, 0);
}

#[tokio::test]
async fn who_reads_late_finds_one_value_a_watch_and_then_the_newest() {
    const WATCHES: usize = 50;
    let (number, (builder, _)) = (Number::default(), behaviour());
    let (_running, address) = start(builder.layer(number.clone())).await;
    let mut peer = ByHand::dial(address).await;
    for _ in 0..WATCHES {
        peer.ask(LOOK, "{}", Watch::Values);
    }
    let mut replies = 0;
    while replies < WATCHES {
        replies += usize::from(matches!(peer.next().await, Told::Reply { .. }));
    }
    // Two thousand values; the peer reads nothing meanwhile.
    let mut other = ByHand::dial(address).await;
    for value in 1..=40 {
        number.change();
        other.ask(LOOK, "{}", Watch::No);
        while !matches!(other.next().await, Told::Reply { text, .. } if text == value.to_string()) {
        }
    }
    let (mut newest, mut values) = (0, 0);
    while newest < WATCHES {
        if let Told::Reply { text, .. } = peer.next().await {
            values += 1;
            newest += usize::from(text == "40");
        }
    }
    assert!(values <= 2 * WATCHES, "{values} values of {WATCHES} watches that changed 40 times");
}

#[tokio::test]
async fn queries_past_the_cap_are_answered_without_word_of_changes_until_there_is_room() {
    let (number, (builder, _)) = (Number::default(), behaviour());
    let (_running, address) = start(builder.limits(limits(1000)).layer(number.clone())).await;
    let mut peer = ByHand::dial(address).await;
    assert_eq!(watches(&mut peer, 10_000).await, 1000);
    number.change();
    let mut stale = 0;
    while stale < 1000 {
        stale += usize::from(matches!(peer.next().await, Told::Stale(_)));
    }
    assert_eq!(watches(&mut peer, 2000).await, 1000);
}

#[tokio::test]
async fn a_peer_that_went_silent_is_let_go_and_its_session_goes_on_elsewhere() {
    let (number, (builder, _)) = (Number::default(), behaviour());
    let (_running, address) = start(builder.layer(number.clone())).await;
    let mut peer = ByHand::dial(address).await;
    // Before the last byte that the server hears of it.
    let began = tokio::time::Instant::now();
    let watch = peer.ask(LOOK, "{}", Watch::Notify);
    while !matches!(peer.next().await, Told::Reply { is_watched: true, .. }) {}
    // From here on time passes as fast as nothing else happens.
    tokio::time::pause();
    while peer.session.is_connected() {
        // It reads and never answers: not even a ping.
        peer.read().await;
    }
    assert!(began.elapsed() >= Duration::from_secs(25), "{:?}", began.elapsed());
    number.change();
    // It changed while nobody listened, so it is not confirmed.
    let told = peer.dial_again().await;
    assert_eq!(told.last(), Some(&Told::Connected { resumed: true }), "{told:?}");
    assert!(told.contains(&Told::Suspect(watch)), "{told:?}");
}
