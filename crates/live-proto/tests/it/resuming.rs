//! Lost connections, lost sessions, restarted servers, commands at most once.

use std::time::Duration;

use tidewire_live_proto::{
    Acceptor, CallId, CallKind, Config, Continuation, Limits, Metadata, OutgoingReply, Push,
    Refresh, Request, Session, SessionId, Sessions, Watch, feature,
};
use tidewire_service::{Code, Outcome};

use crate::freshness::{named, value, watch};
use crate::heard::Event;
use crate::pair::{ID, Pair, carry};

#[test]
fn a_call_that_runs_goes_on_over_a_new_connection() {
    let mut pair = Pair::new();
    let method = pair.method();
    let call = pair.call(Request::query(method, &b"slow"[..]));
    let incoming = pair.incoming();
    pair.reconnect();
    assert!(matches!(&pair.at_client[..], [Event::Lost, Event::Connected { resumed: true }]));
    assert!(matches!(&pair.at_server[..], [Event::Lost, Event::Connected { resumed: true }]));
    pair.reply(incoming.call, OutgoingReply::new(&b"done"[..]));
    assert!(matches!(pair.at_client.last(), Some(Event::Reply(answer)) if answer.call == call));
}

#[test]
fn a_query_whose_request_or_answer_was_lost_is_asked_again() {
    for lost_answer in [false, true] {
        let mut pair = Pair::new();
        let method = pair.method();
        let call = pair.client.call(Request::query(method, &b"q"[..]), 0).unwrap();
        if lost_answer {
            pair.run();
            let incoming = pair.incoming();
            pair.server.reply(incoming.call, OutgoingReply::new(&b"lost"[..]));
        }
        let mut lost = Vec::new();
        pair.client.poll_output(0, &mut lost);
        pair.server.poll_output(0, &mut lost);
        pair.reconnect();
        let incoming = pair.incoming();
        pair.reply(incoming.call, OutgoingReply::new(&b"again"[..]));
        assert!(matches!(pair.at_client.last(), Some(Event::Reply(answer))
            if answer.call == call && &answer.payload[..] == b"again"));
    }
}

#[test]
fn a_command_whose_answer_was_lost_gets_the_stored_one_and_does_not_run_twice() {
    let mut pair = Pair::new();
    let method = pair.method();
    let call = pair.call(Request::command(method, &b"pay"[..]));
    let incoming = pair.incoming();
    assert_eq!(incoming.command, Some(1));
    let said = Metadata::builder().header("x-receipt", "9").build();
    pair.server.reply(incoming.call, OutgoingReply::new(&b"paid"[..]).metadata(said));
    pair.server.poll_output(0, &mut Vec::new());
    pair.reconnect();
    assert!(!pair.at_server.iter().any(|event| matches!(event, Event::Request(_))));
    assert!(matches!(pair.at_client.last(), Some(Event::Reply(answer))
        if answer.call == call && &answer.payload[..] == b"paid"
        && answer.metadata.header("x-receipt") == Some(b"9")));
}

#[test]
fn a_command_answered_while_nobody_is_connected_is_remembered() {
    let mut pair = Pair::new();
    let method = pair.method();
    pair.call(Request::command(method, &b"pay"[..]));
    let incoming = pair.incoming();
    pair.client.connection_lost(0);
    pair.server.connection_lost(0);
    pair.server.reply(incoming.call, OutgoingReply::new(&b"paid"[..]));
    pair.resume();
    assert_eq!(pair.answers(), [b"paid"]);
}

#[test]
fn a_stream_goes_on_with_the_next_item_in_both_directions() {
    let mut pair = Pair::new();
    let method = pair.method();
    let call = pair.call(Request::query(method, &b""[..]).streaming());
    let incoming = pair.incoming();
    pair.server.reply_stream(incoming.call, &OutgoingReply::default());
    let (mut at_client, mut at_server) = (Vec::new(), Vec::new());
    for round in 0..60u8 {
        assert_eq!(pair.client.push(call, &[round]), Push::Queued);
        assert_eq!(pair.server.push(incoming.call, &[round]), Push::Queued);
        match round % 6 {
            1 => drop(carry(&mut pair.client, &mut pair.server, 0)),
            2 => drop(carry(&mut pair.server, &mut pair.client, 0)),
            3 => {
                pair.client.poll_output(0, &mut Vec::new());
                pair.server.poll_output(0, &mut Vec::new());
                pair.reconnect();
            }
            4 => pair.reconnect(),
            _ => pair.run(),
        }
        collect(&mut pair.at_client, &mut pair.client, &mut at_client);
        collect(&mut pair.at_server, &mut pair.server, &mut at_server);
    }
    pair.client.finish(call, &Metadata::default());
    pair.server.finish(incoming.call, &Metadata::default());
    pair.client.poll_output(0, &mut Vec::new());
    pair.server.poll_output(0, &mut Vec::new());
    pair.reconnect();
    collect(&mut pair.at_client, &mut pair.client, &mut at_client);
    collect(&mut pair.at_server, &mut pair.server, &mut at_server);
    let all: Vec<u8> = (0..60).collect();
    assert_eq!((at_client, at_server), (all.clone(), all));
    assert!(matches!(pair.at_client.last(), Some(Event::End { .. })));
    assert_eq!((pair.client.usage().calls_out, pair.server.usage().calls_in), (0, 0));
}

fn collect(events: &mut [Event], session: &mut Session, into: &mut Vec<u8>) {
    for event in events.iter_mut() {
        if let Event::Items { call, items } = event {
            into.extend(items.iter().flatten());
            session.consumed(*call, items.bytes());
            *event = Event::Room;
        }
    }
}

fn watched(pair: &mut Pair, mode: Watch) -> (CallId, CallId) {
    let method = pair.method();
    let call = pair.call(Request::query(method, &b"key"[..]).watch(mode));
    let incoming = pair.incoming();
    pair.reply(incoming.call, value(b"one"));
    pair.at_client.clear();
    pair.at_server.clear();
    (call, incoming.call)
}

fn change_to_two(pair: &mut Pair, served: CallId) {
    if let Some(change) = pair.server.stale(served) {
        pair.server.refresh(served, change, Refresh::Value(value(b"two")));
    }
}

#[test]
fn fresh_watches_stay_and_cost_a_bit_each() {
    for mode in [Watch::Notify, Watch::Values] {
        let mut pair = Pair::new();
        let (call, served) = watched(&mut pair, mode);
        pair.reconnect();
        assert!(!pair.at_server.iter().any(|event| matches!(event, Event::Request(_))));
        change_to_two(&mut pair, served);
        pair.run();
        assert!(
            matches!((mode, pair.at_client.last()),
            (Watch::Notify, Some(Event::Stale { call: over })) if *over == call)
                || matches!((mode, pair.at_client.last()),
            (Watch::Values, Some(Event::Reply(new))) if &new.payload[..] == b"two")
        );
    }
}

#[test]
fn a_watch_that_became_stale_meanwhile_is_asked_for_again() {
    for (mode, lost_on_the_wire) in [
        (Watch::Notify, true),
        (Watch::Notify, false),
        (Watch::Values, true),
        (Watch::Values, false),
    ] {
        let mut pair = Pair::new();
        let (call, served) = watched(&mut pair, mode);
        if !lost_on_the_wire {
            pair.client.connection_lost(0);
            pair.server.connection_lost(0);
        }
        change_to_two(&mut pair, served);
        pair.server.poll_output(0, &mut Vec::new());
        if lost_on_the_wire {
            pair.client.connection_lost(0);
            pair.server.connection_lost(0);
        }
        pair.resume();
        pair.now = 10_000_000;
        pair.client.handle_timeout(pair.now);
        pair.run();
        let incoming = pair.incoming();
        assert_eq!(incoming.validator, Some(named(b"one")), "with what it holds");
        pair.reply(incoming.call, value(b"two"));
        assert!(
            matches!(pair.at_client.last(), Some(Event::Reply(new))
            if new.call == call && &new.payload[..] == b"two"),
            "{mode:?}"
        );
    }
}

#[test]
fn after_a_restart_watches_are_asked_for_again_spread_in_time_with_their_validators() {
    let mut pair = Pair::new();
    let calls: Vec<_> = (0..1000).map(|_| watched(&mut pair, Watch::Notify).0).collect();
    pair.restart_server();
    let mut at_once = 0;
    let mut answered = 0;
    while let Some(due) = pair.client.poll_timeout().filter(|due| *due < 5_000_000) {
        pair.now = due;
        pair.client.handle_timeout(due);
        pair.run();
        let asked: Vec<_> = pair.at_server.drain(..).collect();
        at_once = at_once.max(asked.len());
        for event in asked {
            let Event::Request(incoming) = event else { continue };
            assert_eq!(incoming.validator, Some(named(b"one")));
            pair.server.reply(incoming.call, value(b"one"));
            answered += 1;
        }
    }
    pair.run();
    let unchanged = |event: &&Event| {
        matches!(event, Event::Reply(answer) if answer.unchanged
        && answer.then == Continuation::Watch)
    };
    assert_eq!((answered, pair.at_client.iter().filter(unchanged).count()), (1000, 1000));
    assert!(at_once < 20, "no herd: {at_once} at one moment");
    assert_eq!(calls.len(), 1000);
}

#[test]
fn after_a_restart_a_sent_command_is_unknown_and_an_idempotent_one_runs_again() {
    let mut pair = Pair::new();
    let method = pair.method();
    let sent = pair.call(Request::command(method, &b"once"[..]));
    let repeatable = Request { kind: CallKind::Idempotent, ..Request::command(method, &b"i"[..]) };
    let again = pair.call(repeatable);
    let stream = pair.call(Request::query(method, &b""[..]).streaming());
    pair.at_server.clear();
    pair.restart_server();
    pair.now = 5_000_000;
    pair.client.handle_timeout(pair.now);
    pair.run();
    let incoming = pair.incoming();
    assert_eq!((&incoming.payload[..], incoming.command), (&b"i"[..], Some(1)));
    pair.reply(incoming.call, OutgoingReply::new(&b"ok"[..]));
    let failures: Vec<_> = pair
        .at_client
        .iter()
        .filter_map(|event| match event {
            Event::Failed { call, error, .. } => Some((*call, error.code())),
            _ => None,
        })
        .collect();
    assert_eq!(failures, [(sent, Code::Aborted), (stream, Code::Unavailable)]);
    assert!(matches!(pair.at_client.last(), Some(Event::Reply(answer)) if answer.call == again));
}

#[test]
fn a_suspect_answer_whose_all_clear_was_lost_is_confirmed_by_resuming() {
    let mut pair = Pair::new();
    let (call, served) = watch(&mut pair, Watch::Values, b"one");
    let method = pair.method();
    pair.call(Request::command(method, &b"write"[..]));
    let incoming = pair.incoming();
    let change = pair.server.stale(served).unwrap();
    pair.reply(incoming.call, OutgoingReply::new(b"written"));
    assert!(matches!(&pair.at_client[..], [Event::Suspect { call: suspect }, Event::Reply(_)]
        if *suspect == call));
    pair.at_client.clear();
    pair.server.refresh(served, change, Refresh::Unchanged);
    assert!(pair.server.poll_output(0, &mut Vec::new()), "the all-clear is lost");
    pair.reconnect();
    assert!(
        pair.at_client.iter().any(|event| matches!(event, Event::Confirmed { call: confirmed }
        if *confirmed == call))
    );
}

#[test]
fn calls_of_the_acceptor_survive_too() {
    let mut pair = Pair::new();
    let method = pair.server.method("/a.B/Back", tidewire_service::Codec::Proto);
    let call = pair.server.call(Request::command(method, &b"back"[..]), 0).unwrap();
    pair.run();
    let Some(Event::Request(incoming)) = pair.at_client.pop() else { panic!("a request") };
    pair.client.reply(incoming.call, OutgoingReply::new(&b"lost"[..]));
    pair.client.poll_output(0, &mut Vec::new());
    pair.reconnect();
    assert!(matches!(pair.at_server.last(), Some(Event::Reply(answer)) if answer.call == call));
}

#[test]
fn a_session_is_resumed_only_with_its_secret_by_its_principal_and_page_and_in_time() {
    let boot = Config { boot: Some([9; 16]), ..Config::default() };
    let mut pair = Pair::with(boot, Config::default());
    pair.client.connection_lost(0);
    pair.server.connection_lost(0);
    let mut sessions = Sessions::new(2);
    sessions.hold(pair.server.ticket().unwrap(), "ada".into(), "opened");
    assert!(sessions.park(&ID.id, 0, 0).is_empty());
    pair.client.connect(0);
    let mut wire = Vec::new();
    pair.client.poll_output(0, &mut wire);
    let mut acceptor = Acceptor::new(Config::default(), 0);
    acceptor.input().extend_from_slice(&wire);
    let hello = acceptor.poll(0).unwrap().unwrap();
    let mut forged = hello.clone();
    forged.secret = Some([3; 32]);
    assert!(sessions.take(&forged, b"ada").is_none());
    assert!(sessions.take(&hello, b"eve").is_none());
    let reloaded = tidewire_live_proto::Hello { boot: Some([8; 16]), ..hello.clone() };
    assert!(sessions.take(&reloaded, b"ada").is_none(), "a page that begins its counts anew");
    let features = hello.features & !feature::RESUME;
    let without = tidewire_live_proto::Hello { features, ..hello.clone() };
    assert!(sessions.take(&without, b"ada").is_none(), "it does not offer to resume");
    assert_eq!(sessions.parked(), 1);
    assert_eq!(sessions.take(&hello, b"ada"), Some("opened"));
    assert!(sessions.take(&hello, b"ada").is_none(), "once");
    sessions.hold(pair.server.ticket().unwrap(), "ada".into(), "again");
    assert_eq!(sessions.poll_timeout(), None, "it has a connection");
    assert!(sessions.park(&ID.id, 0, 0).is_empty());
    let due = sessions.poll_timeout().unwrap();
    assert!(sessions.expire(due - 1).is_empty());
    assert_eq!((sessions.expire(due), sessions.parked()), (vec!["again"], 0));
}

/// A session that lost its connection.
fn lost_session(id: u8) -> Session {
    let mut pair = Pair::new();
    let mut acceptor = Acceptor::new(Config::default(), 0);
    pair.client.connection_lost(0);
    pair.client.connect(0);
    let mut wire = Vec::new();
    pair.client.poll_output(0, &mut wire);
    acceptor.input().extend_from_slice(&wire);
    let hello = acceptor.poll(0).unwrap().unwrap();
    let mut server = acceptor.accept(hello, SessionId { id: [id; 16], ..ID }, 0);
    server.connection_lost(0);
    server
}

#[test]
fn parked_sessions_are_bounded_and_the_oldest_goes() {
    let mut sessions = Sessions::new(2);
    for id in 0..3u8 {
        sessions.hold(lost_session(id).ticket().unwrap(), "ada".into(), id);
        let dropped = sessions.park(&[id; 16], 0, id.into());
        assert_eq!(dropped, [0; 1][..usize::from(id == 2)]);
    }
    assert_eq!(sessions.parked(), 2);
}

#[test]
fn parked_sessions_hold_so_many_bytes_together_and_the_oldest_goes() {
    let mut sessions = Sessions::new(10).with_bytes_max(100);
    for (id, dropped) in [(0, vec![]), (1, vec![]), (2, vec![0])] {
        sessions.hold(lost_session(id).ticket().unwrap(), "ada".into(), id);
        assert_eq!(sessions.park(&[id; 16], 40, id.into()), dropped);
    }
    assert_eq!(sessions.parked_bytes(), 80);
    // Their calls go on.
    assert_eq!(sessions.measure(|id| if *id == 2 { 90 } else { 40 }), [1]);
    assert_eq!(sessions.measure(|_| 101), [2], "alone too much");
    assert_eq!((sessions.parked(), sessions.parked_bytes()), (0, 0));
}

#[test]
fn without_the_feature_a_lost_connection_ends_every_call() {
    let config = Config { features: feature::USUAL & !feature::RESUME, ..Config::default() };
    let mut pair = Pair::with(config, Config::default());
    let method = pair.method();
    let call = pair.call(Request::query(method, &b""[..]));
    let incoming = pair.incoming();
    pair.client.connection_lost(0);
    pair.server.connection_lost(0);
    pair.run();
    assert!(
        matches!(&pair.at_client[..], [Event::Failed { call: over, error, .. }, Event::Closed(_)]
        if *over == call && error.code() == Code::Unavailable)
    );
    assert!(matches!(&pair.at_server[..], [Event::Cancelled { call }, Event::Closed(_)]
        if *call == incoming.call));
}

#[test]
fn a_cancelled_command_runs_on_and_holds_its_slot() {
    let mut pair = Pair::new();
    let method = pair.method();
    let call = pair.call(Request::command(method, &b"pay"[..]));
    let incoming = pair.incoming();
    pair.client.cancel(call);
    pair.run();
    assert!(pair.at_server.is_empty(), "nothing is to be stopped");
    assert_eq!((pair.server.usage().calls_in, pair.client.usage().calls_out), (1, 1));
    pair.reply(incoming.call, OutgoingReply::new(&b"paid"[..]));
    assert_eq!((pair.server.usage().calls_in, pair.client.usage().calls_out), (0, 0));
    assert!(pair.at_client.is_empty());
}

#[test]
fn a_resume_of_many_watches_goes_in_parts() {
    let mut pair = Pair::new();
    for _ in 0..5_000 {
        watched(&mut pair, Watch::Notify);
    }
    pair.reconnect();
    assert!(matches!(&pair.at_client[..], [Event::Lost, Event::Connected { resumed: true }]));
    assert_eq!((pair.server.usage().watches_in, pair.client.usage().calls_out), (5_000, 5_000));
}

#[test]
fn a_command_is_not_sent_again_after_half_of_the_time_for_which_its_key_is_kept() {
    let config = |features| Config {
        features: feature::USUAL | features,
        keys_kept: Duration::from_secs(60),
        ..Config::default()
    };
    let durable = config(feature::DURABLE);
    for (kind, age_s, next, sent) in [
        (CallKind::Command, 25, &durable, true),
        (CallKind::Command, 31, &durable, false),
        (CallKind::Command, 1, &config(0), false),
        (CallKind::Idempotent, 31, &durable, true),
        (CallKind::Idempotent, 31, &config(0), true),
    ] {
        let mut pair = Pair::with(durable.clone(), durable.clone());
        let method = pair.method();
        pair.call(Request { kind, ..Request::command(method, &b"x"[..]) });
        // Ids before and after it do not make it younger.
        for _ in 0..age_s {
            pair.now += 1_000_000;
            pair.call(Request::command(method, &b"other"[..]).deadline(pair.now + 1));
        }
        pair.now += 1;
        pair.client.handle_timeout(pair.now);
        pair.at_client.clear();
        pair.at_server.clear();
        pair.restart_server_with(next.clone());
        pair.now += 1_000_000;
        pair.client.handle_timeout(pair.now);
        pair.run();
        let again: Vec<_> = pair
            .at_server
            .iter()
            .filter_map(|event| match event {
                Event::Request(asked) if asked.payload == b"x" => Some(asked.sent_before),
                _ => None,
            })
            .collect();
        let is_durable = next.features & feature::DURABLE != 0;
        assert_eq!(again.len(), usize::from(sent), "{kind:?} after {age_s} s");
        assert!(again.iter().all(|keyed| *keyed == is_durable));
        let unknown = pair.at_client.iter().any(|event| match event {
            Event::Failed { error, .. } => {
                (error.code(), error.outcome()) == (Code::Aborted, Outcome::Unknown)
            }
            _ => false,
        });
        assert_eq!(unknown, !sent, "{kind:?} after {age_s} s: {:?}", pair.at_client);
    }
}

/// What comes of a large request, consumed.
fn pieces(pair: &mut Pair, of: CallId) -> Vec<u8> {
    let mut all = Vec::new();
    loop {
        let before = all.len();
        pair.at_server.retain(|event| match event {
            Event::Piece { call, bytes, .. } if *call == of => {
                all.extend_from_slice(bytes);
                false
            }
            _ => true,
        });
        if all.len() == before {
            return all;
        }
        pair.server.consumed(of, (all.len() - before) as u64);
        pair.run();
    }
}

/// A large request is sent in pieces, for which the peer has given credit by then.
#[test]
fn a_large_query_that_the_peer_forgot_is_asked_again() {
    let limits = Limits { stream_credit: 50_000, ..Config::default().limits };
    let server = Config { parked_answers_max: 150_000, limits, ..Config::default() };
    let mut pair = Pair::with(Config::default(), server);
    let method = pair.method();
    let large = vec![7; 200_000];
    pair.call(Request::query(method, &b""[..]));
    let other = pair.incoming();
    let call = pair.call(Request::query(method, large.clone()));
    let asked = pair.incoming();
    assert!(pieces(&mut pair, asked.call) == large);
    pair.client.connection_lost(0);
    pair.server.connection_lost(0);
    pair.run();
    let body = vec![1; 100_000].into();
    for asked in [&other, &asked] {
        pair.server.reply_body(asked.call, &OutgoingReply::default(), &body);
    }
    pair.at_server.clear();
    pair.resume();
    let again = pair.incoming();
    assert!(pieces(&mut pair, again.call) == large);
    pair.reply(again.call, OutgoingReply::new(&b"again"[..]));
    let is_answer = |event: &Event| matches!(event, Event::Reply(answer) if answer.call == call);
    assert!(pair.at_client.iter().any(is_answer));
}

#[test]
fn without_a_connection_queries_over_the_bound_are_forgotten_and_answers_of_commands_are_lost() {
    let server = Config { parked_answers_max: 150_000, ..Config::default() };
    let mut pair = Pair::with(Config::default(), server);
    let method = pair.method();
    let [kept, forgotten] =
        [(); 2].map(|()| (pair.call(Request::query(method, &b""[..])), pair.incoming().call));
    let lost = (pair.call(Request::command(method, &b""[..])), pair.incoming().call);
    pair.client.connection_lost(0);
    pair.server.connection_lost(0);
    pair.run();
    let body = vec![1; 100_000].into();
    for (_, asked) in [kept, forgotten, lost] {
        pair.server.reply_body(asked, &OutgoingReply::default(), &body);
    }
    pair.at_server.clear();
    pair.resume();
    let again = pair.at_server.iter().filter(|event| matches!(event, Event::Request(_)));
    assert_eq!(again.count(), 1, "one query is asked again");
    let failed = pair.at_client.iter().find_map(|event| match event {
        Event::Failed { call, error, .. } => Some((*call, error)),
        _ => None,
    });
    let (call, error) = failed.unwrap();
    assert_eq!((call, error.outcome()), (lost.0, Outcome::ReplyLost));
    assert!(error.message().contains("parked_answers_max = 150000"), "{error}");
}
