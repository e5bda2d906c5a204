//! Unary calls, errors, deadlines, cancel, HTTP, numbering, compression, drain, identity.

use tidewire_live_proto::{
    BoundNames, CallRefusal, Config, Continuation, Extra, Limits, Metadata, OutgoingReply, Request,
    Session, feature,
};
use tidewire_service::{Code, Codec, Detail, Error, Outcome};

use crate::heard::{Event, hear};
use crate::pair::Pair;

#[test]
fn a_call_is_answered_and_the_method_is_named_once() {
    let mut pair = Pair::new();
    let method = pair.method();
    for round in 0..3u8 {
        let call = pair.call(Request::query(method, vec![round]));
        let incoming = pair.incoming();
        assert_eq!(incoming.method, Some(0));
        let named = pair.server.peer_method(0).unwrap();
        assert_eq!((&*named.path, named.codec), ("/test.v1.Test/Do", Codec::Proto));
        pair.reply(
            incoming.call,
            OutgoingReply::new(&[incoming.payload[..].to_vec(), vec![9]].concat()),
        );
        let Some(Event::Reply(answer)) = pair.at_client.pop() else { panic!("an answer") };
        assert_eq!((answer.call, &answer.payload[..]), (call, &[round, 9][..]));
        assert_eq!(answer.then, Continuation::Nothing);
    }
    let json = pair.client.method("/test.v1.Test/Do", Codec::Json);
    pair.call(Request::query(json, &b"{}"[..]));
    assert_eq!(pair.incoming().method, Some(1));
    assert_eq!(pair.server.peer_method(1).unwrap().codec, Codec::Json);
}

#[test]
fn either_side_may_call_at_once() {
    let mut pair = Pair::new();
    let method = pair.method();
    let back = pair.server.method("/test.v1.Test/Back", Codec::Proto);
    let there = pair.client.call(Request::query(method, &b"there"[..]), 0).unwrap();
    let home = pair.server.call(Request::query(back, &b"home"[..]), 0).unwrap();
    assert_eq!((there.stream(), home.stream()), (1, 2));
    pair.run();
    let at_client = pair.at_client.pop().unwrap();
    let Event::Request(asked) = at_client else { panic!("{at_client:?}") };
    pair.client.reply(asked.call, OutgoingReply::new(&b"yes"[..]));
    pair.run();
    assert!(matches!(&pair.at_server[..], [Event::Request(_), Event::Reply(a)]
        if a.call == home && &a.payload[..] == b"yes"));
}

#[test]
fn an_error_keeps_code_message_details_headers_and_trailers() {
    let mut pair = Pair::new();
    let method = pair.method();
    let call = pair.call(Request::query(method, &b""[..]));
    let incoming = pair.incoming();
    let detail = Detail { type_name: "google.rpc.RetryInfo".into(), value: b"\x0a\x00"[..].into() };
    let mut error = Error::not_found("no contact has id 7").with_detail(detail.clone());
    error.headers_mut().append("x-a", "1".parse().unwrap());
    error.trailers_mut().append("x-b", "2".parse().unwrap());
    pair.server.fail(incoming.call, &error);
    pair.run();
    let Some(Event::Failed { call: failed, error, .. }) = pair.at_client.pop() else {
        panic!("a failure")
    };
    assert_eq!((failed, error.code(), error.outcome()), (call, Code::NotFound, Outcome::Answered));
    assert_eq!(error.message(), "no contact has id 7");
    assert_eq!(error.details(), [detail]);
    assert_eq!((error.headers().len(), error.trailers().len()), (1, 1));
}

#[test]
fn metadata_travels_both_ways_with_repeats_and_trailers() {
    let mut pair = Pair::new();
    let method = pair.method();
    let asked = Metadata::builder().header("cookie", "a").header("cookie", "b").build();
    pair.call(Request::query(method, &b""[..]).metadata(asked));
    let incoming = pair.incoming();
    let cookies: Vec<_> = incoming.metadata.headers().collect();
    assert_eq!(cookies, [("cookie", &b"a"[..]), ("cookie", b"b")]);
    let said = Metadata::builder().header("x-h", "1").trailers().header("x-t", "2").build();
    let said =
        OutgoingReply { max_age_ms: Some(60_000), ..OutgoingReply::new(b"ok") }.metadata(said);
    pair.reply(incoming.call, said);
    let Some(Event::Reply(answer)) = pair.at_client.pop() else { panic!("an answer") };
    assert_eq!(answer.max_age_ms, Some(60_000));
    assert_eq!(answer.metadata.header("x-h"), Some(&b"1"[..]));
    assert_eq!(answer.metadata.trailers().collect::<Vec<_>>(), [("x-t", &b"2"[..])]);
}

#[test]
fn a_late_call_ends_for_the_caller_and_the_callee_hears_it() {
    let mut pair = Pair::new();
    let method = pair.method();
    let call = pair.call(Request::query(method, &b""[..]).deadline(5_000));
    let incoming = pair.incoming();
    assert_eq!(incoming.deadline, Some(5_000));
    assert_eq!(pair.client.poll_timeout(), Some(5_000));
    pair.now = 5_000;
    pair.client.handle_timeout(5_000);
    pair.run();
    assert!(matches!(&pair.at_client[..], [Event::Failed { call: late, error, .. }]
        if *late == call && error.code() == Code::DeadlineExceeded));
    assert!(matches!(&pair.at_server[..], [Event::Cancelled { call }] if *call == incoming.call));
    pair.reply(incoming.call, OutgoingReply::new(&b"too late"[..]));
    assert_eq!(pair.at_client.len(), 1, "it ended once");
    assert_eq!(pair.client.usage().calls_out, 0, "the slot is free");
}

#[test]
fn a_reply_that_crosses_a_cancel_frees_the_slot_once() {
    let mut pair = Pair::new();
    let method = pair.method();
    let call = pair.call(Request::query(method, &b""[..]));
    let incoming = pair.incoming();
    pair.client.cancel(call);
    pair.server.reply(incoming.call, OutgoingReply::new(&b"crossing"[..]));
    pair.run();
    assert!(pair.at_client.is_empty(), "nobody listens");
    assert!(pair.at_server.is_empty(), "the call was over when the cancel came");
    let next = pair.call(Request::query(method, &b""[..]));
    assert_eq!((next.stream(), next == call), (call.stream(), false));
}

#[test]
fn a_full_callee_is_not_asked_and_room_is_told() {
    let limits = Limits { calls_max: 2, ..Limits::default() };
    let mut pair = Pair::with(Config::default(), Config { limits, ..Config::default() });
    let method = pair.method();
    pair.call(Request::query(method, &b"1"[..]));
    pair.call(Request::query(method, &b"2"[..]));
    let refused = pair.client.call(Request::query(method, &b"3"[..]), 0);
    assert_eq!(refused, Err(CallRefusal::Full { calls_max: 2 }));
    let incoming = pair.incoming();
    pair.reply(incoming.call, OutgoingReply::default());
    assert!(pair.at_client.iter().any(|event| matches!(event, Event::Room)));
    pair.call(Request::query(method, &b"3"[..]));
    assert_eq!(&pair.incoming().payload[..], b"3");
}

#[test]
fn http_calls_keep_method_target_query_status_and_repeated_headers() {
    let mut pair = Pair::new();
    let asked = Metadata::builder().header("host", "shop").header("x-own", "1").build();
    pair.call(Request::http("POST", "/a/b?c=d&e", &b"body"[..]).metadata(asked));
    let incoming = pair.incoming();
    let http = incoming.http.unwrap();
    assert_eq!((&http.0[..], &http.1[..]), (&b"POST"[..], &b"/a/b?c=d&e"[..]));
    assert_eq!(incoming.command, Some(1), "a POST is a command");
    let cookies =
        Metadata::builder().header("set-cookie", "a=1").header("set-cookie", "b=2").build();
    pair.reply(incoming.call, OutgoingReply::new(&b"made"[..]).status(201).metadata(cookies));
    let Some(Event::Reply(answer)) = pair.at_client.pop() else { panic!("an answer") };
    assert_eq!((answer.status, &answer.payload[..]), (Some(201), &b"made"[..]));
    assert_eq!(answer.metadata.headers().count(), 2);
}

#[test]
fn large_payloads_are_compressed_only_when_both_offer_it() {
    let sizes = [feature::USUAL, feature::USUAL & !feature::ZSTD].map(|features| {
        let mut pair = Pair::with(Config { features, ..Config::default() }, Config::default());
        let method = pair.method();
        pair.client.call(Request::query(method, vec![b'a'; 10_000]), 0).unwrap();
        let mut wire = Vec::new();
        pair.client.poll_output(0, &mut wire);
        pair.server.input().extend_from_slice(&wire);
        pair.run();
        let incoming = pair.incoming();
        assert_eq!(incoming.payload.len(), 10_000);
        assert_eq!(pair.server.usage().input_bytes, 0, "what was handed out is not kept");
        pair.reply(incoming.call, OutgoingReply::new(&[b'b'; 5_000]));
        assert_eq!(pair.answers(), [vec![b'b'; 5_000]]);
        wire.len()
    });
    assert!(sizes[0] < 1_000 && sizes[1] > 10_000, "{sizes:?}");
}

#[test]
fn what_the_peer_could_not_take_ends_here_and_names_the_limit() {
    let limits = Limits { body_max: 64 << 10, metadata_max: 300, ..Limits::default() };
    let mut pair = Pair::with(
        Config { limits: limits.clone(), ..Config::default() },
        Config { limits, ..Config::default() },
    );
    let method = pair.method();
    pair.call(Request::query(method, vec![0; 65_537]));
    let many = Metadata::builder().header("x", vec![b'y'; 300]).build();
    pair.call(Request::query(method, &b""[..]).metadata(many));
    pair.call(Request::query(method, &b""[..]));
    let incoming = pair.incoming();
    pair.reply(incoming.call, OutgoingReply::new(&[0; 65_537]));
    let messages: Vec<_> = pair
        .at_client
        .iter()
        .map(|event| match event {
            Event::Failed { error, .. } if error.code() == Code::ResourceExhausted => {
                error.message().to_owned()
            }
            other => panic!("{other:?}"),
        })
        .collect();
    assert!(messages[0].contains("body_max"), "{messages:?}");
    assert!(messages[1].contains("metadata_max"), "{messages:?}");
    assert!(messages[2].contains("body_max = 65536"), "{messages:?}");
}

#[test]
fn a_drain_lets_open_calls_end_and_refuses_new_ones() {
    let mut pair = Pair::new();
    let method = pair.method();
    pair.call(Request::query(method, &b"open"[..]));
    let incoming = pair.incoming();
    pair.server.drain(30_000, 0);
    // This one is on its way when the drain is announced.
    pair.client.call(Request::query(method, &b"crossing"[..]), 0).unwrap();
    pair.run();
    assert!(matches!(&pair.at_client[..], [
        Event::Draining { grace_ms: 30_000, after_ms: 0 },
        Event::Failed { error, .. },
    ] if (error.code(), error.outcome()) == (Code::Unavailable, Outcome::NotRun)));
    let refused = pair.client.call(Request::query(method, &b""[..]), 0);
    assert_eq!(refused, Err(CallRefusal::Draining));
    assert!(!pair.server.is_drained());
    pair.reply(incoming.call, OutgoingReply::new(&b"done"[..]));
    assert_eq!(pair.answers(), [b"done"]);
    assert!(pair.server.is_drained() && pair.client.is_drained());
}

#[test]
fn identity_headers_come_with_hello_and_are_renewed_by_auth() {
    let metadata = Metadata::builder().header("authorization", "one").header("x-a", "1").build();
    let config = Config { metadata, ..Config::default() };
    let mut pair = Pair::with(config, Config::default());
    assert_eq!(pair.server.peer_headers().header("authorization"), Some(&b"one"[..]));
    pair.client.auth(&Metadata::builder().header("authorization", "two").build());
    pair.run();
    assert!(matches!(&pair.at_server[..], [Event::Auth]));
    assert_eq!(pair.server.peer_headers().header("authorization"), Some(&b"two"[..]));
    assert_eq!(pair.server.peer_headers().header("x-a"), Some(&b"1"[..]));
    pair.client.auth(&Metadata::builder().header("authorization", "").build());
    pair.run();
    assert_eq!(pair.server.peer_headers().header("authorization"), None);
}

#[test]
fn a_hosted_process_says_ready_busy_logs_and_changes() {
    let config = || Config { features: feature::USUAL | feature::HOSTED, ..Config::default() };
    let mut pair = Pair::with(config(), config());
    pair.server.ready();
    pair.server.busy(2);
    pair.server.log(4, "careful", &Metadata::builder().header("job", "7").build());
    pair.server.changed([(&b"contacts"[..], &b"7"[..]), (b"lists", b"")]);
    pair.run();
    let mut events = pair.at_client.drain(..);
    assert!(matches!(events.next(), Some(Event::Ready)));
    assert!(matches!(events.next(), Some(Event::Busy(2))));
    let Some(Event::Log { level: 4, text, metadata }) = events.next() else { panic!("a log") };
    assert_eq!((text.as_str(), metadata.header("job")), ("careful", Some(&b"7"[..])));
    let Some(Event::Changed(changed)) = events.next() else { panic!("changes") };
    assert_eq!(changed, [(b"contacts".to_vec(), b"7".to_vec()), (b"lists".to_vec(), Vec::new())]);
}

#[test]
fn a_change_of_a_key_that_is_too_long_is_one_of_any_key() {
    let config = || Config { features: feature::USUAL | feature::HOSTED, ..Config::default() };
    let mut pair = Pair::with(config(), config());
    let long = vec![b'x'; 70_000];
    pair.server.changed([(&b"contacts"[..], &long[..]), (&long, b"7"), (b"lists", b"7")]);
    pair.server.changed([(&long[..], &b""[..])]);
    pair.server.ready();
    pair.run();
    let changed = [(b"contacts".to_vec(), Vec::new()), (b"lists".to_vec(), b"7".to_vec())].to_vec();
    let [Event::Ready, Event::Changed(said)] = &pair.at_client[..] else { panic!("and no more") };
    assert_eq!(*said, changed);
}

#[test]
fn what_a_connection_says_itself_is_not_overridden_by_its_peer() {
    let said = Metadata::builder()
        .header("cookie", "stolen")
        .header("x-forwarded-for", "10.0.0.1")
        .header("accept", "a/b")
        .build();
    let mut client = Session::dialer(Config { metadata: said.clone(), ..Config::default() });
    client.connect(0);
    let mut wire = Vec::new();
    client.poll_output(0, &mut wire);
    let mut acceptor = tidewire_live_proto::Acceptor::new(Config::default(), 0);
    let upgrade = Metadata::builder().header("cookie", "own").header("accept", "*/*").build();
    acceptor.upgraded_with(upgrade);
    acceptor.expires(60_000);
    acceptor.input().extend_from_slice(&wire);
    let hello = acceptor.poll(0).unwrap().unwrap();
    let server = acceptor.accept(hello, crate::pair::ID, 0);
    let mut pair = Pair { client, server, now: 0, at_client: vec![], at_server: vec![] };
    pair.run();
    pair.client.auth(&said);
    pair.run();
    for headers in [pair.server.peer_headers().clone(), pair.server.headers_of(&said)] {
        assert_eq!(headers.header("cookie"), Some(&b"own"[..]));
        assert_eq!(headers.header("x-forwarded-for"), None);
        assert_eq!(headers.header("accept"), Some(&b"a/b"[..]));
    }
    assert_eq!(pair.client.peer().expires_ms, 60_000);
}

#[test]
fn a_renewed_credential_is_answered() {
    let mut pair = Pair::new();
    pair.client.auth(&Metadata::builder().header("authorization", "two").build());
    pair.run();
    pair.server.credential(Ok(900_000));
    pair.client.auth(&Metadata::builder().header("authorization", "one").build());
    pair.run();
    pair.server.credential(Err(&Error::unauthenticated("that one is old")));
    pair.run();
    assert_eq!(pair.server.peer_headers().header("authorization"), Some(&b"two"[..]));
    assert!(matches!(&pair.at_client[..], [
        Event::Credential { expires_ms: 900_000, refused: None },
        Event::Credential { refused: Some(error), .. },
    ] if error.code() == Code::Unauthenticated));
    pair.restart_server();
    let said = pair.server.peer_headers().header("authorization");
    assert_eq!(said, Some(&b"two"[..]), "a refused one is not said again");
}

#[test]
fn the_newest_token_goes_with_the_next_hello_and_others_with_requests() {
    let mut pair = Pair::new();
    let method = pair.method();
    let other = Extra { tokens: vec![b"elsewhere"[..].into()], ..Extra::default() };
    for token in [b"one", b"two"] {
        pair.call(Request::query(method, &b""[..]).extra(other.clone()));
        let asked = pair.incoming();
        assert_eq!(asked.tokens, [b"elsewhere"]);
        pair.reply(asked.call, OutgoingReply { token, ..OutgoingReply::default() });
    }
    assert_eq!(&pair.client.token()[..], b"two");
    pair.restart_server();
    assert_eq!(pair.server.peer().metadata.tokens().collect::<Vec<_>>(), [b"two"]);
    pair.call(Request::query(method, &b""[..]));
    let asked = pair.incoming();
    pair.server.refuse(asked.call, &Error::unavailable("not there yet"), Outcome::Behind);
    pair.run();
    let Some(Event::Failed { error, .. }) = pair.at_client.pop() else { panic!("a failure") };
    assert_eq!(error.outcome(), Outcome::Behind);
}

#[test]
fn a_silent_connection_is_pinged_and_then_lost() {
    let mut pair = Pair::new();
    let second = 1_000_000;
    assert_eq!(pair.client.poll_timeout(), Some(10 * second));
    pair.now = 10 * second;
    pair.client.handle_timeout(pair.now);
    pair.run();
    assert_eq!(pair.client.poll_timeout(), Some(20 * second), "the pong was heard");
    pair.now = 20 * second;
    pair.client.handle_timeout(pair.now);
    pair.client.handle_timeout(45 * second);
    assert!(!pair.client.is_connected() && !pair.client.is_closed(), "it can be resumed");
    assert!(matches!(hear(&mut pair.client, pair.now), Some(Event::Lost)));
}

#[test]
fn calls_made_before_the_connection_wait_for_it() {
    let mut client = Session::dialer(Config::default());
    let method = client.method("/a.B/C", Codec::Proto);
    client.call(Request::query(method, &b"early"[..]), 0).unwrap();
    let mut wire = Vec::new();
    assert!(!client.poll_output(0, &mut wire));
    client.connection_lost(0);
    client.connect(0);
    client.connection_lost(0);
    client.connect(0);
    client.poll_output(0, &mut wire);
    let mut acceptor = tidewire_live_proto::Acceptor::new(Config::default(), 0);
    acceptor.input().extend_from_slice(&wire);
    let hello = acceptor.poll(0).unwrap().unwrap();
    let server = acceptor.accept(hello, crate::pair::ID, 0);
    let mut pair = Pair { client, server, now: 0, at_client: vec![], at_server: vec![] };
    pair.run();
    assert_eq!(&pair.incoming().payload[..], b"early");
}

#[test]
fn a_large_reply_on_top_of_others_is_refused_and_names_the_bound_that_held() {
    let bound_names = BoundNames { output_hard_max: "one", output_all_max: "all" };
    let features = feature::USUAL & !feature::ZSTD;
    let server = Config { output_hard_max: 300_000, bound_names, features, ..Config::default() };
    let mut pair = Pair::with(Config::default(), server);
    let method = pair.method();
    let calls = [(); 4].map(|()| pair.call(Request::query(method, &b""[..])));
    pair.run();
    let asked: Vec<_> = std::mem::take(&mut pair.at_server)
        .into_iter()
        .filter_map(|event| match event {
            Event::Request(incoming) => Some(incoming.call),
            _ => None,
        })
        .collect();
    let body = vec![1; 100_000].into();
    let whole = vec![1; 250_000].into();
    for (number, is_over_budget, body) in
        [(0, true, &body), (1, true, &body), (2, false, &body), (3, false, &whole)]
    {
        pair.server.set_over_budget(is_over_budget);
        pair.server.reply_body(asked[number], &OutgoingReply::default(), body);
    }
    pair.run();
    let told: Vec<_> = pair
        .at_client
        .iter()
        .filter_map(|event| match event {
            Event::Failed { call, error, .. } => Some((*call, error.code(), error.message())),
            _ => None,
        })
        .collect();
    let all = "answers that no peer reads are over all; read those at hand first";
    let one = "answers that the peer does not read at 450000 bytes are over one = 300000";
    let code = Code::ResourceExhausted;
    assert_eq!(told, [(calls[1], code, all), (calls[3], code, one)], "one that is alone passes");
}
