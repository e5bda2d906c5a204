//! Validators, watches of both modes, unchanged answers, read-your-writes.

use tidewire_live_proto::{
    CallId, Config, Continuation, Limits, Metadata, OutgoingReply, Refresh, Request, Watch,
};
use tidewire_service::{Code, Error, Validator};

use crate::heard::Event;
use crate::pair::Pair;

pub(crate) fn named(content: &[u8]) -> Validator {
    let mut validator = [0; 16];
    validator[..content.len().min(16)].copy_from_slice(&content[..content.len().min(16)]);
    Validator::new(validator)
}

pub(crate) fn value(content: &[u8]) -> OutgoingReply<'_> {
    OutgoingReply::new(content).validator(named(content)).watched()
}

/// Makes a watched call and grants it; returns the handles of client and server.
pub(crate) fn watch(pair: &mut Pair, mode: Watch, content: &[u8]) -> (CallId, CallId) {
    let method = pair.method();
    let call = pair.call(Request::query(method, &b"key"[..]).watch(mode));
    let incoming = pair.incoming();
    assert_eq!(incoming.watch, mode);
    pair.reply(incoming.call, value(content));
    let Some(Event::Reply(answer)) = pair.at_client.pop() else { panic!("an answer") };
    assert_eq!((answer.then, answer.validator), (Continuation::Watch, Some(named(content))));
    (call, incoming.call)
}

#[test]
fn an_answer_that_the_caller_holds_is_one_small_frame() {
    let mut pair = Pair::new();
    let method = pair.method();
    let held = named(b"content");
    for content in [&b"content"[..], b"another"] {
        pair.call(Request::query(method, &b"key"[..]).validator(held));
        let incoming = pair.incoming();
        assert_eq!(incoming.validator, Some(held));
        pair.reply(incoming.call, value(content));
    }
    assert!(matches!(&pair.at_client[..], [Event::Reply(same), Event::Reply(other)]
        if same.unchanged && same.payload.is_empty() && same.validator == Some(held)
        && !other.unchanged && &other.payload[..] == b"another"));
}

#[test]
fn one_frame_names_all_stale_answers_and_ends_their_watches() {
    let mut pair = Pair::new();
    let watches: Vec<_> = (0..100).map(|_| watch(&mut pair, Watch::Notify, b"old")).collect();
    assert_eq!(pair.server.usage().watches_in, 100);
    assert_eq!(pair.server.usage().calls_in, 0, "watches are not calls");
    for (_, served) in &watches {
        assert_eq!(pair.server.stale(*served), None);
    }
    let mut wire = Vec::new();
    pair.server.poll_output(0, &mut wire);
    assert_eq!(wire.len(), 16 + 100, "one frame, one byte a watch");
    pair.client.input().extend_from_slice(&wire);
    pair.run();
    let stale: Vec<_> = pair
        .at_client
        .drain(..)
        .map(|event| match event {
            Event::Stale { call } => call,
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(stale, watches.iter().map(|(call, _)| *call).collect::<Vec<_>>());
    assert_eq!((pair.server.usage().watches_in, pair.client.usage().calls_out), (0, 0));
}

#[test]
fn values_mode_sends_what_changed_and_nothing_else() {
    let mut pair = Pair::new();
    let (call, served) = watch(&mut pair, Watch::Values, b"one");
    let change = pair.server.stale(served).unwrap();
    pair.server.refresh(served, change, Refresh::Unchanged);
    let change = pair.server.stale(served).unwrap();
    pair.server.refresh(served, change, Refresh::Value(value(b"one")));
    let mut wire = Vec::new();
    assert!(!pair.server.poll_output(0, &mut wire), "no frame for an unchanged value");
    let change = pair.server.stale(served).unwrap();
    pair.server.refresh(served, change, Refresh::Value(value(b"two")));
    pair.run();
    assert!(matches!(&pair.at_client[..], [Event::Reply(new)]
        if new.call == call && new.then == Continuation::Watch && &new.payload[..] == b"two"));
    let refused = Error::permission_denied("not any more");
    pair.server.refresh(served, change, Refresh::Failed(refused));
    pair.run();
    assert!(matches!(pair.at_client.last(), Some(Event::Failed { call: over, error, .. })
        if *over == call && error.code() == Code::PermissionDenied));
    assert_eq!(pair.server.usage().watches_in, 0);
}

#[test]
fn a_writer_hears_of_staleness_before_its_command_is_answered() {
    let mut pair = Pair::new();
    let (notified, served) = watch(&mut pair, Watch::Notify, b"one");
    let (valued, served_value) = watch(&mut pair, Watch::Values, b"one");
    let method = pair.method();
    pair.call(Request::command(method, &b"write"[..]));
    let incoming = pair.incoming();
    pair.server.stale(served);
    let change = pair.server.stale(served_value).unwrap();
    pair.reply(incoming.call, OutgoingReply::new(&b"written"[..]));
    assert!(matches!(&pair.at_client[..], [
        Event::Stale { call },
        Event::Suspect { call: suspect },
        Event::Reply(answer),
    ] if *call == notified && *suspect == valued && &answer.payload[..] == b"written"));
    pair.at_client.clear();
    pair.server.refresh(served_value, change, Refresh::Unchanged);
    pair.run();
    assert!(
        matches!(&pair.at_client[..], [Event::Reply(answer)]
        if answer.unchanged && answer.call == valued),
        "who was told is told again"
    );
}

#[test]
fn a_watch_may_be_dropped_and_many_at_once_are_one_frame() {
    let mut pair = Pair::new();
    let watches: Vec<_> = (0..50).map(|_| watch(&mut pair, Watch::Values, b"x")).collect();
    for (call, _) in &watches {
        pair.client.cancel(*call);
    }
    let mut wire = Vec::new();
    pair.client.poll_output(0, &mut wire);
    assert_eq!(wire.len(), 16 + 50);
    pair.server.input().extend_from_slice(&wire);
    pair.run();
    assert_eq!(pair.at_server.len(), 50, "the application hears each");
    assert!(pair.at_client.is_empty());
    assert_eq!((pair.server.usage().watches_in, pair.client.usage().calls_out), (0, 0));
}

#[test]
fn staleness_that_crosses_the_drop_of_its_watch_is_no_error() {
    let mut pair = Pair::new();
    let (call, served) = watch(&mut pair, Watch::Notify, b"x");
    pair.client.cancel(call);
    pair.server.stale(served);
    pair.run();
    assert!(pair.client.is_connected() && pair.server.is_connected());
    assert_eq!(pair.client.usage().calls_out, 0);
}

#[test]
fn watches_over_the_cap_are_answered_without_a_watch() {
    let limits = Limits { watches_max: 1, ..Config::default().limits };
    let mut pair = Pair::with(Config::default(), Config { limits, ..Config::default() });
    watch(&mut pair, Watch::Notify, b"x");
    let method = pair.method();
    pair.call(Request::query(method, &b"key"[..]).watch(Watch::Notify));
    let incoming = pair.incoming();
    pair.reply(incoming.call, value(b"y"));
    assert!(
        matches!(&pair.at_client[..], [Event::Reply(answer)] if answer.then == Continuation::Nothing)
    );
}

#[test]
fn a_watch_of_an_answer_without_validator_is_not_granted() {
    let mut pair = Pair::new();
    let method = pair.method();
    pair.call(Request::query(method, &b"key"[..]).watch(Watch::Notify));
    let incoming = pair.incoming();
    let nameless = OutgoingReply { watch: true, ..OutgoingReply::new(&b"y"[..]) };
    pair.reply(incoming.call, nameless.metadata(Metadata::default()));
    assert!(
        matches!(&pair.at_client[..], [Event::Reply(answer)] if answer.then == Continuation::Nothing)
    );
    assert_eq!(pair.server.usage().watches_in, 0);
}

#[test]
fn a_hundred_thousand_watches_are_marked_by_one_frame() {
    let mut pair = Pair::new();
    let method = pair.method();
    let mut served = Vec::new();
    for _ in 0..100 {
        for _ in 0..1000 {
            let query = Request::query(method, &b"key"[..]).watch(Watch::Notify);
            pair.client.call(query, 0).unwrap();
        }
        pair.run();
        for event in pair.at_server.drain(..).collect::<Vec<_>>() {
            let Event::Request(incoming) = event else { panic!("{event:?}") };
            pair.server.reply(incoming.call, value(b"x"));
            served.push(incoming.call);
        }
        pair.run();
        pair.at_client.clear();
    }
    assert_eq!(pair.server.usage().watches_in, 100_000);
    for call in served {
        pair.server.stale(call);
    }
    let mut wire = Vec::new();
    pair.server.poll_output(0, &mut wire);
    let frames = 100_000usize.div_ceil(65_536 / 5);
    assert!(wire.len() < 100_000 + frames * 20, "a byte each: {}", wire.len());
    pair.client.input().extend_from_slice(&wire);
    pair.run();
    assert_eq!(pair.at_client.len(), 100_000);
}

#[test]
fn a_peer_that_never_takes_a_value_costs_one() {
    let mut pair = Pair::new();
    let (_, served) = watch(&mut pair, Watch::Values, b"one");
    let before = pair.server.usage().output_bytes;
    for round in 0..1_000u32 {
        let change = pair.server.stale(served).unwrap();
        let bytes = round.to_le_bytes();
        pair.server.refresh(served, change, Refresh::Value(value(&bytes)));
        // Written, and never acknowledged.
        pair.server.poll_output(0, &mut Vec::new());
        assert!(pair.server.usage().output_bytes < before + 100);
    }
    let mut wire = Vec::new();
    assert!(!pair.server.poll_output(0, &mut wire), "told once, then silent: {wire:?}");
}

#[test]
fn a_command_is_not_watched() {
    for watch in [Watch::Notify, Watch::Values] {
        let mut pair = Pair::new();
        let method = pair.method();
        pair.call(Request::command(method, &b"write"[..]).watch(watch));
        let asked = pair.incoming();
        assert_eq!(asked.watch, Watch::No, "else it would run at each change");
        pair.reply(asked.call, value(b"done"));
        let Some(Event::Reply(answer)) = pair.at_client.pop() else { panic!("an answer") };
        assert_eq!(answer.then, Continuation::Nothing);
    }
}

#[test]
fn a_pong_comes_after_what_is_known_to_be_stale() {
    let mut pair = Pair::new();
    let (call, served) = watch(&mut pair, Watch::Notify, b"one");
    pair.client.wake(0);
    let mut wire = Vec::new();
    pair.client.poll_output(0, &mut wire);
    pair.server.input().extend_from_slice(&wire);
    while pair.server.poll_event(0).is_some() {}
    assert_eq!(pair.server.stale(served), None);
    pair.run();
    let heard: Vec<_> = pair.at_client.iter().collect();
    assert!(
        matches!(&heard[..], [Event::Unsure, Event::Stale { call: stale }, Event::Sure] if *stale == call),
        "{heard:?}"
    );
}
