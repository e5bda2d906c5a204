//! Hellos in their places: nothing before them, what a second one of a session changes, and what a
//! goaway leaves of a session.

use std::time::Duration;

use tidewire_live_proto::frame::{self, Kind};
use tidewire_live_proto::metadata::{put_number, tag};
use tidewire_live_proto::{
    Acceptor, Config, Hello, Limits, Metadata, Reason, Session, Violation, feature,
};

use crate::heard::{Event, hear};
use crate::pair::{ID, Pair};

fn all(session: &mut Session) -> Vec<Event> {
    std::iter::from_fn(|| hear(session, 0)).collect()
}

fn reason(events: &[Event]) -> Option<Reason> {
    events.iter().find_map(|event| match event {
        Event::Closed(Violation { reason, .. }) => Some(*reason),
        _ => None,
    })
}

fn dialer() -> Session {
    let mut dialer = Session::dialer(Config::default());
    dialer.connect(0);
    dialer.poll_output(0, &mut Vec::new());
    dialer
}

fn read(session: &mut Session, hello: &Hello) {
    let mut wire = Vec::new();
    hello.encode(&mut wire);
    session.input().extend_from_slice(&wire);
}

#[test]
fn the_first_frame_is_a_hello_or_the_connection_is_over() {
    for kind in Kind::ALL {
        if matches!(kind, Kind::Hello | Kind::Goaway) {
            continue;
        }
        let mut dialer = dialer();
        let mut wire = Vec::new();
        frame::put(&mut wire, *kind, 0, 0, &[]);
        dialer.input().extend_from_slice(&wire);
        assert_eq!(reason(&all(&mut dialer)), Some(Reason::Magic), "{kind:?}, the first frame");
    }
    let mut acceptor = Acceptor::new(Config::default(), 0);
    let mut wire = Vec::new();
    frame::put(&mut wire, Kind::Ping, 0, 0, &[]);
    acceptor.input().extend_from_slice(&wire);
    assert_eq!(acceptor.poll(0).unwrap_err().reason, Reason::Magic);
}

#[test]
fn a_session_that_was_not_asked_for_is_not_resumed() {
    let resumed = Hello {
        features: feature::USUAL,
        session: Some(ID.id),
        secret: Some(ID.secret),
        resumed: true,
        ..Hello::default()
    };
    let mut first = dialer();
    read(&mut first, &resumed);
    assert_eq!(reason(&all(&mut first)), Some(Reason::Malformed), "there was none");

    let mut pair = Pair::new();
    pair.client.connection_lost(0);
    pair.client.connect(0);
    read(&mut pair.client, &Hello { session: Some([9; 16]), ..resumed });
    assert_eq!(reason(&all(&mut pair.client)), Some(Reason::Malformed), "another one");
}

#[test]
fn a_resumed_hello_says_all_but_the_limits_anew() {
    let with = |calls_max, header: &'static str, features| Config {
        limits: Limits { calls_max, ..Config::default().limits },
        metadata: Metadata::builder().header("x-own", header).build(),
        retain: Duration::from_secs(calls_max.into()),
        features,
        ..Config::default()
    };
    let mut pair = Pair::with(with(5, "one", feature::USUAL), with(5, "one", feature::USUAL));
    pair.client.connection_lost(0);
    pair.server.connection_lost(0);
    pair.client.connect(0);
    let mut wire = Vec::new();
    pair.client.poll_output(0, &mut wire);
    let mut acceptor = Acceptor::new(with(7, "two", feature::USUAL & !feature::ZSTD), 0);
    acceptor.input().extend_from_slice(&wire);
    let hello = acceptor.poll(0).unwrap().unwrap();
    acceptor.resume(&mut pair.server, hello, 0);
    let again = Hello {
        features: feature::USUAL & !feature::ZSTD,
        session: Some(ID.id),
        secret: Some(ID.secret),
        resumed: true,
        retain_ms: 7_000,
        limits: Limits { calls_max: 7, ..Limits::default() },
        metadata: Metadata::builder().header("x-own", "two").build(),
        ..Hello::default()
    };
    read(&mut pair.client, &again);
    all(&mut pair.client);
    assert_eq!(pair.client.peer().limits.calls_max, 5, "as in the session's first hello");
    assert_eq!(pair.client.peer().retain_ms, 7_000);
    assert_eq!(pair.client.features() & feature::ZSTD, 0);
    assert_eq!(pair.client.peer_headers().header("x-own"), Some(&b"two"[..]));
}

/// A goaway with this reason.
fn goaway(reason: u64) -> Vec<u8> {
    let mut wire = Vec::new();
    let frame = frame::open(&mut wire, Kind::Goaway, 0, 0);
    put_number(&mut wire, tag::REASON, reason);
    let frame = frame.metadata_ends(&wire);
    frame.finish(&mut wire);
    wire
}

#[test]
fn what_parks_a_session_and_what_ends_it() {
    for number in 1..40 {
        let known = Reason::from_number(number);
        let parks =
            matches!(known, Reason::HandshakeTimeout | Reason::KeepAlive | Reason::TakenOver);
        let mut pair = Pair::new();
        pair.client.input().extend_from_slice(&goaway(number));
        let heard = all(&mut pair.client);
        let lost = heard.iter().any(|event| matches!(event, Event::Lost));
        assert_eq!((lost, reason(&heard)), (parks, (!parks).then_some(known)), "reason {number}");
        assert_eq!(pair.client.is_closed(), !parks);
    }
    for number in 0..40 {
        let mut pair = Pair::new();
        pair.client.connection_lost(0);
        all(&mut pair.client);
        pair.client.connect(0);
        pair.client.input().extend_from_slice(&goaway(number));
        let heard = all(&mut pair.client);
        assert!(
            matches!(&heard[..], [Event::Refused(_), Event::Lost]),
            "in place of the hello, reason {number}: {heard:?}"
        );
        assert!(pair.client.is_resumable(), "it may be resumed over another connection");
    }
}

#[test]
fn a_process_that_is_greeted_first_says_hello_and_is_ready_in_one_write() {
    let hosted = Config { features: feature::HTTP | feature::HOSTED, ..Config::default() };
    let mut acceptor = Acceptor::new(hosted.clone(), 0);
    let greeting = acceptor.greet_first();
    let mut process = Session::dialer(hosted);
    process.connect(0);
    process.input().extend_from_slice(&greeting);
    assert!(matches!(all(&mut process)[..], [Event::Connected { resumed: false }]));
    process.ready();
    let mut wire = Vec::new();
    process.poll_output(0, &mut wire);
    acceptor.input().extend_from_slice(&wire);
    let hello = acceptor.poll(0).unwrap().unwrap();
    let mut host = acceptor.accept(hello, ID, 0);
    assert!(all(&mut host).iter().any(|event| matches!(event, Event::Ready)));
    let mut more = Vec::new();
    host.poll_output(0, &mut more);
    assert!(more.is_empty(), "it says hello once");
}
