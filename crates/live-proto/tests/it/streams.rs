//! The four kinds of calls, items, credit, half-close, cancel.

use tidewire_live_proto::{
    CallId, Config, Continuation, Limits, Metadata, OutgoingReply, Push, Request, Session,
};
use tidewire_service::{Code, Error};

use crate::heard::Event;
use crate::pair::Pair;

fn push_all(session: &mut Session, call: CallId, items: &[&[u8]]) {
    for item in items {
        assert_eq!(session.push(call, item), Push::Queued);
    }
}

/// Takes the items out of the events, consuming them.
fn items(events: &mut Vec<Event>, session: &mut Session) -> Vec<Vec<u8>> {
    let mut found = Vec::new();
    events.retain(|event| match event {
        Event::Items { call, items } => {
            found.extend(items.iter().map(<[u8]>::to_vec));
            session.consumed(*call, items.bytes());
            false
        }
        _ => true,
    });
    found
}

#[test]
fn a_server_stream_sends_head_items_and_trailers() {
    let mut pair = Pair::new();
    let method = pair.method();
    let call = pair.call(Request::query(method, &b"range"[..]));
    let incoming = pair.incoming();
    let head = OutgoingReply::default().metadata(Metadata::builder().header("x-h", "1").build());
    pair.server.reply_stream(incoming.call, &head);
    push_all(&mut pair.server, incoming.call, &[b"a", b"", b"ccc"]);
    pair.server.finish(incoming.call, &Metadata::builder().header("x-t", "2").build());
    pair.run();
    assert_eq!(items(&mut pair.at_client, &mut pair.client), [&b"a"[..], b"", b"ccc"]);
    assert!(matches!(&pair.at_client[..], [
        Event::Reply(answer),
        Event::End { call: ended, metadata },
    ] if answer.then == Continuation::Items && *ended == call
        && answer.metadata.header("x-h") == Some(b"1")
        && metadata.header("x-t") == Some(b"2")));
    assert_eq!(pair.server.usage().calls_in, 0, "the end was acknowledged");
    assert_eq!(pair.client.usage().calls_out, 0);
}

#[test]
fn a_client_stream_gets_one_reply_after_its_end() {
    let mut pair = Pair::new();
    let method = pair.method();
    let call = pair.call(Request::command(method, &b""[..]).streaming());
    push_all(&mut pair.client, call, &[b"1", b"2"]);
    pair.client.finish(call, &Metadata::default());
    pair.run();
    let incoming = pair.incoming();
    assert!(incoming.streaming);
    assert_eq!(items(&mut pair.at_server, &mut pair.server), [b"1", b"2"]);
    assert!(matches!(&pair.at_server[..], [Event::End { .. }]));
    pair.reply(incoming.call, OutgoingReply::new(&b"3"[..]));
    assert_eq!(pair.answers(), [b"3"]);
    assert_eq!((pair.server.usage().calls_in, pair.client.usage().calls_out), (0, 0));
}

#[test]
fn a_bidirectional_stream_goes_both_ways_in_any_order() {
    let mut pair = Pair::new();
    let method = pair.method();
    let call = pair.call(Request::query(method, &b""[..]).streaming());
    let incoming = pair.incoming();
    pair.server.reply_stream(incoming.call, &OutgoingReply::default());
    for round in 0..10u8 {
        push_all(&mut pair.client, call, &[&[round]]);
        pair.run();
        assert_eq!(items(&mut pair.at_server, &mut pair.server), [[round]]);
        push_all(&mut pair.server, incoming.call, &[&[round], &[round]]);
        pair.run();
        assert_eq!(items(&mut pair.at_client, &mut pair.client), [[round], [round]]);
    }
    pair.client.finish(call, &Metadata::default());
    pair.server.finish(incoming.call, &Metadata::default());
    pair.run();
    assert!(matches!(pair.at_client.last(), Some(Event::End { .. })));
}

#[test]
fn a_slow_reader_stops_the_producer_and_nothing_grows() {
    let limits =
        Limits { stream_credit: 1000, connection_credit: 4000, ..Config::default().limits };
    let config = Config { limits, ..Config::default() };
    let mut pair = Pair::with(config.clone(), config);
    let method = pair.method();
    let call = pair.call(Request::query(method, &b""[..]));
    let incoming = pair.incoming();
    pair.server.reply_stream(incoming.call, &OutgoingReply::default());
    let mut sent = 0u32;
    let mut push = |pair: &mut Pair| {
        while pair.server.push(incoming.call, &[7; 99]) == Push::Queued {
            sent += 1;
        }
        pair.run();
        sent
    };
    for _ in 0..100 {
        push(&mut pair);
    }
    assert!(pair.client.usage().received_bytes <= 2000, "{:?}", pair.client.usage());
    assert!(pair.server.usage().stream_bytes <= 4000, "{:?}", pair.server.usage());
    let before = push(&mut pair);
    let mut received = 0;
    for _ in 0..100 {
        received += items(&mut pair.at_client, &mut pair.client).len() as u32;
        pair.run();
        push(&mut pair);
    }
    assert!(received > 10 * before, "credit came back: {received} after {before}");
    let call_there = incoming.call;
    let is_room = |event: &Event| matches!(event, Event::Writable { call } if *call == call_there);
    assert!(pair.at_server.iter().any(is_room));
    assert_eq!(call.stream(), incoming.call.stream());
}

#[test]
fn an_item_larger_than_the_window_passes() {
    let limits = Limits { stream_credit: 100, connection_credit: 100, ..Config::default().limits };
    let config = Config { limits, ..Config::default() };
    let mut pair = Pair::with(config.clone(), config);
    let method = pair.method();
    let call = pair.call(Request::query(method, &b""[..]).streaming());
    for _ in 0..3 {
        push_all(&mut pair.client, call, &[&[1; 10_000]]);
        pair.run();
        assert_eq!(items(&mut pair.at_server, &mut pair.server).len(), 1);
        pair.run();
    }
    assert_eq!(pair.client.push(call, &vec![0; (4 << 20) + 1]), Push::TooLarge);
}

#[test]
fn streams_take_turns() {
    let mut pair = Pair::new();
    let method = pair.method();
    let first = pair.call(Request::query(method, &b""[..]).streaming());
    let second = pair.call(Request::query(method, &b""[..]).streaming());
    for call in [first, second] {
        for _ in 0..20 {
            assert_eq!(pair.client.push(call, &[0; 10_000]), Push::Queued);
        }
    }
    pair.run();
    let order: Vec<_> = pair
        .at_server
        .iter()
        .filter_map(|event| match event {
            Event::Items { call, .. } => Some(call.stream()),
            _ => None,
        })
        .collect();
    assert_eq!(order[..4], [1, 3, 1, 3]);
}

#[test]
fn a_callee_may_want_no_more_items_and_still_answer() {
    let mut pair = Pair::new();
    let method = pair.method();
    let call = pair.call(Request::command(method, &b""[..]).streaming());
    let incoming = pair.incoming();
    pair.server.stop(incoming.call);
    pair.run();
    assert!(
        matches!(pair.at_client.pop(), Some(Event::StopSending { call: stopped }) if stopped == call)
    );
    assert_eq!(pair.client.push(call, b"more"), Push::Over);
    pair.reply(incoming.call, OutgoingReply::new(&b"enough"[..]));
    assert_eq!(pair.answers(), [b"enough"]);
}

#[test]
fn a_cancelled_stream_ends_on_both_sides_and_returns_its_credit() {
    let limits = Limits { connection_credit: 1000, ..Config::default().limits };
    let config = Config { limits, ..Config::default() };
    let mut pair = Pair::with(config.clone(), config);
    let method = pair.method();
    for _ in 0..50 {
        let call = pair.call(Request::query(method, &b""[..]).streaming());
        let incoming = pair.incoming();
        pair.server.reply_stream(incoming.call, &OutgoingReply::default());
        push_all(&mut pair.server, incoming.call, &[&[0; 900]]);
        push_all(&mut pair.client, call, &[&[0; 900]]);
        pair.run();
        pair.client.cancel(call);
        push_all(&mut pair.server, incoming.call, &[&[0; 90]]);
        pair.run();
        assert!(matches!(pair.at_server.last(), Some(Event::Cancelled { .. })));
        assert_eq!((pair.client.usage().calls_out, pair.server.usage().calls_in), (0, 0));
    }
    assert_eq!(pair.client.usage().received_bytes, 0);
    assert_eq!(pair.server.usage().received_bytes, 0);
}

#[test]
fn a_stream_that_fails_ends_with_the_error_and_not_with_an_end() {
    let mut pair = Pair::new();
    let method = pair.method();
    pair.call(Request::query(method, &b""[..]));
    let incoming = pair.incoming();
    pair.server.reply_stream(incoming.call, &OutgoingReply::default());
    push_all(&mut pair.server, incoming.call, &[b"one"]);
    pair.run();
    push_all(&mut pair.server, incoming.call, &[b"two"]);
    pair.server.fail(incoming.call, &Error::data_loss("the disk is gone"));
    pair.run();
    let items = pair.at_client.iter().filter(|event| matches!(event, Event::Items { .. }));
    assert_eq!(items.count(), 2, "what was queued comes before the error");
    assert!(matches!(pair.at_client.last(), Some(Event::Failed { error, .. })
        if error.code() == Code::DataLoss));
    assert_eq!(pair.server.usage().calls_in, 0);
}
