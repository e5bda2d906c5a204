//! Answers that say when they are stale, told over a connection.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use tidewire_live::{ByteStream, Config, Limits};
use tidewire_live_proto::{Event, Request, Session, Watch};
use tidewire_service::{Body, Codec, Reply, Staleness};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};

use crate::pair::{BUSY_UNTIL, Served, client, command, pair, query, text};

fn staleness(reply: &Reply) -> Arc<dyn Staleness> {
    Arc::clone(reply.freshness.staleness().expect("it is watched"))
}

async fn stale(staleness: &Arc<dyn Staleness>) {
    std::future::poll_fn(|cx| staleness.poll_stale(cx)).await;
}

#[tokio::test]
async fn who_holds_an_answer_is_told_that_it_is_stale_once_and_the_next_answer_is_new() {
    let (remote, served) = pair();
    let first = remote.link().call_fresh(query("Value", Body::Empty)).await.unwrap();
    let told = staleness(&first);
    assert!(!told.is_stale());
    served.echo.change(1);
    stale(&told).await;
    let second = remote.link().call_fresh(query("Value", Body::Empty)).await.unwrap();
    assert!(told.is_stale() && !staleness(&second).is_stale());
    assert_eq!(text(Ok(second)).await.unwrap(), "1");
    let unasked = remote.call(query("Value", Body::Empty)).await.unwrap();
    assert!(unasked.freshness.staleness().is_none());
}

#[tokio::test]
async fn a_writer_knows_what_its_command_made_stale_when_it_has_the_reply() {
    let (remote, _served) = pair();
    for _ in 0..100 {
        let held = remote.link().call_fresh(query("Value", Body::Empty)).await.unwrap();
        let told = staleness(&held);
        assert_eq!(text(remote.call(command("Change")).await).await.unwrap(), "changed");
        assert!(told.is_stale(), "before the reply");
    }
}

#[tokio::test]
async fn what_is_held_and_still_right_is_unchanged_and_watched_anew() {
    let (remote, served) = pair();
    let link = remote.link();
    let held = link.call_fresh(query("Value", Body::Empty)).await.unwrap();
    served.echo.change(0);
    stale(&staleness(&held)).await;
    // The same content: it is unchanged, and watched anew.
    let mut again = query("Value", Body::Empty);
    again.context.set_held(held.freshness.validator().into_iter().collect());
    let again = link.call_fresh(again).await.unwrap();
    assert!(again.is_unchanged() && !staleness(&again).is_stale());
}

#[tokio::test]
async fn an_answer_that_nobody_holds_is_not_watched_any_more_and_watches_are_bounded() {
    let limits = Limits { watches_max: 2, ..Config::default().limits };
    let config = Config { limits, boot: Some([1; 16]), ..Config::default() };
    let served = Arc::new(Served::with(config));
    let server = Arc::clone(&served);
    let remote = client(move || {
        let (near, far) = tokio::io::duplex(4096);
        server.serve(ByteStream::new(far));
        Ok(near)
    });
    let link = remote.link();
    let mut held = Vec::new();
    for at in 0..4 {
        let reply = link.call_fresh(query("Value", Bytes::from_static(b"x"))).await.unwrap();
        assert_eq!(reply.freshness.staleness().is_some(), at < 2, "{at}");
        held.push(reply);
    }
    assert_eq!(link.usage().calls_out, 2, "answered ones over the bound are over");
    drop(held);
    // The drop has arrived when a call after it is answered.
    link.call(query("Say", Body::Empty)).await.unwrap();
    assert_eq!(link.usage().calls_out, 0);
    let reply = link.call_fresh(query("Value", Body::Empty)).await.unwrap();
    assert!(reply.freshness.staleness().is_some(), "there is room again");
}

#[tokio::test]
async fn a_lost_connection_makes_what_was_watched_stale() {
    let (remote, served) = pair();
    let held = remote.link().call_fresh(query("Value", Body::Empty)).await.unwrap();
    let told = staleness(&held);
    remote.link().drain(0, 0);
    stale(&told).await;
    assert_eq!(served.echo.value.load(Ordering::SeqCst), 0, "though nothing changed");
}

/// A dialer that is driven by hand.
struct ByHand {
    session: Session,
    wire: DuplexStream,
    /// Whether the last answer was stale when it came.
    is_suspect: bool,
}

impl ByHand {
    async fn write(&mut self) {
        let mut out = Vec::new();
        while self.session.poll_output(0, &mut out) {}
        self.wire.write_all(&out).await.unwrap();
    }

    /// The next value of a watch, as text, or what else is told of it.
    async fn next(&mut self) -> String {
        loop {
            while let Some(event) = self.session.poll_event(0) {
                match event {
                    Event::Reply(reply) if reply.is_unchanged() => return "unchanged".into(),
                    Event::Reply(reply) => {
                        self.is_suspect = reply.is_suspect();
                        return String::from_utf8(reply.payload().to_vec()).unwrap();
                    }
                    Event::Suspect { .. } => return "suspect".into(),
                    Event::Confirmed { .. } => return "confirmed".into(),
                    Event::Failed { error, .. } => return error.code().to_string(),
                    _ => {}
                }
            }
            self.write().await;
            let mut read = vec![0; 4096];
            let count = self.wire.read(&mut read).await.unwrap();
            assert!(count > 0, "the server ended the connection");
            self.session.input().extend_from_slice(&read[..count]);
        }
    }
}

/// A dialer that watches the values of this method.
fn watching(served: &Served, method: &str) -> ByHand {
    let (wire, far) = tokio::io::duplex(4096);
    served.serve(ByteStream::new(far));
    let session = Session::dialer(Config::default());
    let mut dialer = ByHand { session, wire, is_suspect: false };
    dialer.session.connect(0);
    let method = dialer.session.method(&format!("/test.v1.Echo/{method}"), Codec::Proto);
    dialer.session.call(Request::query(method, "").watch(Watch::Values), 0).unwrap();
    dialer
}

#[tokio::test]
async fn an_error_that_tells_of_its_end_is_watched_like_a_value() {
    let served = Served::new();
    let mut dialer = watching(&served, "Absent");
    for expected in ["not_found", "there", "not_found"] {
        let mut told = dialer.next().await;
        while told == "suspect" {
            told = dialer.next().await;
        }
        assert_eq!(told, expected);
        dialer.write().await;
        served.echo.change(1);
    }
}

#[tokio::test]
async fn a_first_value_that_is_over_at_once_is_watched_and_made_again() {
    let served = Served::new();
    let mut dialer = watching(&served, "Over");
    // The first one is sent as one that is stale already.
    for expected in ["over", "unchanged"] {
        assert_eq!(dialer.next().await, expected);
    }
}

#[tokio::test]
async fn a_value_that_is_old_when_it_is_made_is_not_sent() {
    let served = Served::new();
    let mut dialer = watching(&served, "Overtaken");
    assert_eq!(dialer.next().await, "0");
    dialer.write().await;
    // While 1 is answered it becomes 2.
    served.echo.change(1);
    let mut told = dialer.next().await;
    while told == "suspect" {
        told = dialer.next().await;
    }
    assert_eq!(told, "2");
}

#[tokio::test(start_paused = true)]
async fn a_watch_whose_answer_changes_faster_than_it_is_made_is_given_values_that_are_stale() {
    let served = Served::new();
    let mut dialer = watching(&served, "Busy");
    let (mut value, mut told, mut fresh) = (0, Vec::new(), None);
    while fresh.is_none() {
        match dialer.next().await.as_str() {
            "suspect" => {}
            "unchanged" => fresh = Some(value),
            newer => {
                let newer = newer.parse::<usize>().unwrap();
                assert!(told.is_empty() || newer > value, "{newer} after {value}");
                value = newer;
                told.push(value);
                fresh = (!dialer.is_suspect).then_some(value);
            }
        }
        dialer.write().await;
    }
    assert_eq!(fresh, Some(BUSY_UNTIL), "the last one is not suspect");
    // The first one, and after the first second of waiting one each tenth of a second.
    assert!(told.len() > BUSY_UNTIL / 2, "{told:?}");
}

#[tokio::test]
async fn who_wants_values_is_sent_each_that_differs() {
    let served = Served::new();
    let mut dialer = watching(&served, "Value");
    assert_eq!(dialer.next().await, "0");
    for expected in ["1", "2", "3"] {
        // `seen` has gone before the next one is made.
        dialer.write().await;
        served.echo.change(1);
        let mut told = dialer.next().await;
        while told == "suspect" {
            told = dialer.next().await;
        }
        assert_eq!(told, expected);
    }
}
