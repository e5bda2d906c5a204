//! The conversations of `tests/fixtures/live/conversations.json`: whole calls, and each sequence
//! that once broke a promise.

mod commands;

use serde_json::{Value, json};
use tidewire_live_proto::frame::{self, Kind, flag};
use tidewire_live_proto::{
    Config, Extra, Limits, Metadata, OutgoingReply, Push, Reason, Refresh, Request, Watch, metadata,
};
use tidewire_service::{Codec, Detail, Error};

use crate::conversation::{PATH, Talk, config, hosted};
use crate::fixtures::{check, check_example};
use crate::freshness::{named, value};
use crate::heard::Event;

type Play = fn() -> Talk;

/// Name, whether a hosted process can be the client, which neither watches nor resumes nor keeps
/// answers, and the play.
const PLAYS: [(&str, bool, Play); 35] = [
    ("calls of every kind, and a lost connection", false, calls_of_every_kind),
    ("a body in pieces, both ways", true, bodies_in_pieces),
    ("a method without a number", true, methods_without_number),
    ("a call within a call", true, calls_within_calls),
    ("credit of a stream comes back as its items are taken", true, credit_comes_back),
    ("T1: a command that ran is answered although the callee drains", false, commands::t1_drain),
    ("T2: a command whose session is lost ends unknown", false, commands::t2_lost_session),
    ("T2: a command whose connection ends for a reason ends unknown", true, commands::t2_goaway),
    (
        "T3: a stream command whose end was lost is not sent again",
        false,
        commands::t3_stream_command,
    ),
    (
        "T5: a reply that cannot be sent says that the command ran",
        true,
        commands::t5_reply_too_large,
    ),
    ("T6: an idempotent command goes again under a new id", false, commands::t6_idempotent),
    ("T6: a command goes again under its key", false, commands::t6_durable),
    (
        "T6: a command that is refused the second time may have run the first",
        false,
        commands::t6_refused,
    ),
    ("T6: a reloaded page sends a command under its key", false, commands::t6_reloaded),
    ("T6: commands are sent again in the order of their ids", false, commands::t6_in_order),
    ("T7: a cancelled command holds its slot until it has run", true, commands::t7_cancel),
    ("T7: a cancelled command is listed, and cancelled again", false, commands::t7_cancel_lost),
    ("S1: an answer older than a command is suspect from the start", false, s1_granted_late),
    ("S2: a change during a computation is not swallowed", false, s2_second_change),
    ("S2: a watch that waits for long is given what was overtaken", false, s2_overtaken),
    ("S3: staleness comes before the answer of a stream command", false, s3_stream_command),
    ("S4: a kept answer is not used after a command", false, s4_max_age),
    ("S5: what is read after sleep is suspect until the pong", false, s5_wake),
    ("S5: a slow reader gets the newest value only", false, s5_slow_reader),
    ("a cancel does not meet the next call of its slot", false, cancel_crosses_stale),
    ("a watch over a lost connection and a lost session", false, watch_lost),
    ("a watch that is refused", false, watch_refused),
    ("a watch of values that ends by staleness", false, values_end_stale),
    ("an error that is watched", false, error_watched),
    ("a second value of a watch that is notified", false, notify_twice),
    ("KEEP of a watch that is notified", false, notify_kept),
    ("SUSPECT for a watch that is notified", false, notify_suspect),
    ("a watched answer that is too large", false, watch_large),
    ("a drain, then bye", true, drain_and_bye),
    ("a session taken over", false, taken_over),
];

#[test]
fn every_conversation_has_its_golden_bytes() {
    let played: Vec<Value> = PLAYS
        .iter()
        .map(|(name, hosted, play)| {
            println!("{name}");
            play().into_fixture(name, *hosted)
        })
        .collect();
    check(
        "conversations.json",
        &json!({
            "about": "Each: what a client does (client), what it must then write (client_writes) when it reads what the server writes (server_writes), and what it must tell its application (client_hears). What the server's application does (server) is for the reader. In those that are `hosted` the client is a process that a gateway hosts, on features HTTP and HOSTED; what else its hello offers is its own. The others need WATCH, RESUME or kept answers. Between two writes a client has handled all it has read. `client_ends`: it writes a goaway with this reason, and its own message. `wait`: time passes until nothing waits any more. Conventions of `client_hears`: what ends or becomes suspect is heard before the `connected` or `closed` that it comes from, in ascending order of streams; `connected` is heard when both halves of resuming are done; a new answer ends a suspicion without its own event; a cancelled call is not heard of. The ping of `wake` carries the count of wakes, from 1, as u64 little-endian. `unsure` and `sure`: a wake makes all watches suspect, and its pong has come (section 5.6). `count_kept`: how many of the answers that were read and have `max_age` may be used again (5.5). A client leaves it to its transport to close a drained connection, and reads on after its last call has ended. Methods are names only: any answer may be a stream.",
            "conversations": played,
        }),
    );
}

fn event(talk: &Talk, name: &str) -> Value {
    let heard = talk.heard();
    let found = heard.iter().rev().find(|event| event["event"] == name);
    found.unwrap_or_else(|| panic!("{name} was not heard: {heard:?}")).clone()
}

fn outcome(talk: &Talk) -> Option<u64> {
    event(talk, "failed")["outcome"].as_u64()
}

fn calls_of_every_kind() -> Talk {
    let mut talk = Talk::new();
    talk.query(b"\x0a\x03Ada");
    let asked = talk.incoming();
    talk.server.reply(asked.call, OutgoingReply::new(b"\x0a\x0aHello, Ada"));
    talk.settle();
    check_example(&talk.bytes);
    talk.command(b"write");
    let asked = talk.incoming();
    let detail = Detail { type_name: "a.B".into(), value: (&b"x"[..]).into() };
    talk.server.fail(asked.call, &Error::not_found("nobody").with_detail(detail));
    talk.settle();
    let (kept, watched) = watch(&mut talk, Watch::Values);
    let change = talk.server.stale(watched).unwrap();
    talk.server.refresh(watched, change, Refresh::Value(value(b"two")));
    talk.settle();
    let method = talk.client.method(PATH, Codec::Proto);
    let stream = talk.call(Request::query(method, &b""[..]).streaming());
    let streamed = talk.incoming();
    talk.push(stream, b"up");
    talk.server.reply_stream(streamed.call, &OutgoingReply::default());
    assert_eq!(talk.server.push(streamed.call, b"down"), Push::Queued);
    talk.settle();
    // The command is received and answered, and the answer is lost with the connection.
    talk.command(b"pay");
    let asked = talk.incoming();
    talk.server.reply(asked.call, OutgoingReply::new(b"paid"));
    talk.lose();
    talk.resume();
    talk.settle();
    assert_eq!(event(&talk, "reply")["payload"], "70616964");
    talk.cancel(kept);
    talk.settle();
    talk.finish(stream);
    talk.server.finish(streamed.call, &Metadata::default());
    talk.settle();
    event(&talk, "end");
    talk
}

/// A watch that is granted; the handles of both sides.
fn watch(
    talk: &mut Talk,
    mode: Watch,
) -> (tidewire_live_proto::CallId, tidewire_live_proto::CallId) {
    let method = talk.client.method(PATH, Codec::Proto);
    let call = talk.call(Request::query(method, &b"k"[..]).watch(mode));
    let asked = talk.incoming();
    talk.server.reply(asked.call, value(b"one"));
    talk.settle();
    (call, asked.call)
}

fn small_windows() -> Config {
    let limits = Limits { stream_credit: 20_000, connection_credit: 40_000, ..hosted().limits };
    Config { limits, ..hosted() }
}

fn bodies_in_pieces() -> Talk {
    let mut talk = Talk::with(small_windows());
    talk.query(&[7; 17_000]);
    let asked = talk.incoming();
    talk.server.reply(asked.call, OutgoingReply::new(&[8; 22_000]));
    talk.settle();
    assert_eq!(event(&talk, "piece")["last"], true);
    event(&talk, "end");
    talk
}

fn methods_without_number() -> Talk {
    let limits = Limits { methods_max: 1, ..hosted().limits };
    let mut talk = Talk::with(Config { limits, ..hosted() });
    let bye = talk.client.method("/hello.v1.Greeter/SayBye", Codec::Proto);
    for _ in 0..2 {
        talk.query(b"x");
        assert_eq!(talk.incoming().method, Some(0));
        talk.call(Request::query(bye, &b"x"[..]));
        let asked = talk.incoming();
        assert_eq!((asked.method, &*asked.path.unwrap().path), (None, "/hello.v1.Greeter/SayBye"));
    }
    talk
}

fn calls_within_calls() -> Talk {
    let mut talk = Talk::with(hosted());
    let method = talk.server.method("/a.B/Host", Codec::Proto);
    let outer = talk.server.call(Request::query(method, &b"outer"[..]), 0).unwrap();
    talk.settle();
    let back = talk.client.method(PATH, Codec::Proto);
    let within = |parent| Extra { parent: Some(parent), ..Extra::default() };
    talk.call(Request::query(back, &b"inner"[..]).extra(within(outer)));
    let asked = talk.incoming();
    assert_eq!(asked.parent, Some(outer));
    talk.server.reply(asked.call, OutgoingReply::new(b"back"));
    talk.settle();
    talk.reply_to(outer, b"done");
    talk.call(Request::query(back, &b"late"[..]).extra(within(outer)));
    assert_eq!(outcome(&talk), Some(1));
    talk
}

fn credit_comes_back() -> Talk {
    let limits = Limits { stream_credit: 1_000, connection_credit: 2_000, ..hosted().limits };
    let mut talk = Talk::with(Config { limits, ..hosted() });
    let method = talk.client.method(PATH, Codec::Proto);
    talk.call(Request::query(method, &b""[..]));
    let asked = talk.incoming();
    talk.server.reply_stream(asked.call, &OutgoingReply::default());
    for _ in 0..6 {
        let _ = talk.server.push(asked.call, &[1; 300]);
        talk.settle();
    }
    talk.server.finish(asked.call, &Metadata::default());
    talk.settle();
    event(&talk, "end");
    talk
}

fn s1_granted_late() -> Talk {
    let mut talk = Talk::new();
    let method = talk.client.method(PATH, Codec::Proto);
    talk.call(Request::query(method, &b"k"[..]).watch(Watch::Values));
    let read = talk.incoming();
    talk.call(Request::query(method, &b"k"[..]).watch(Watch::Notify));
    let notified = talk.incoming();
    talk.command(b"write");
    let write = talk.incoming();
    talk.note("has computed the first two, then runs the command, which changes them");
    assert_eq!(talk.server.stale(read.call), None);
    assert_eq!(talk.server.stale(notified.call), None);
    talk.server.reply(write.call, OutgoingReply::new(b"written"));
    talk.server.reply(read.call, value(b"one"));
    talk.server.reply(notified.call, value(b"one"));
    talk.settle();
    let heard = talk.heard();
    let late: Vec<_> = heard.iter().filter(|event| event["payload"] == "6f6e65").collect();
    assert_eq!((&late[0]["suspect"], &late[1]["then"]), (&json!(true), &json!("nothing")));
    let Some(Event::Recompute { call, change }) = talk.at_server.pop() else { panic!("recompute") };
    talk.server.refresh(call, change, Refresh::Value(value(b"two")));
    talk.settle();
    assert_eq!(event(&talk, "reply")["suspect"], false);
    talk
}

fn s2_second_change() -> Talk {
    let mut talk = Talk::new();
    let (_, watched) = watch(&mut talk, Watch::Values);
    let first = talk.server.stale(watched).unwrap();
    talk.settle();
    event(&talk, "suspect");
    talk.note("is computing when a second change comes");
    let second = talk.server.stale(watched).unwrap();
    talk.server.refresh(watched, first, Refresh::Value(value(b"two")));
    talk.settle();
    assert_eq!(event(&talk, "reply")["payload"], "6f6e65", "nothing yet");
    talk.server.refresh(watched, second, Refresh::Value(value(b"three")));
    talk.settle();
    assert_eq!(event(&talk, "reply")["payload"], "7468726565");
    talk
}

fn s2_overtaken() -> Talk {
    let mut talk = Talk::new();
    let (_, watched) = watch(&mut talk, Watch::Values);
    talk.server.stale(watched).unwrap();
    talk.settle();
    talk.note("has computed for a second, each time overtaken by a change");
    assert!(talk.server.refresh_outdated(watched, Refresh::Value(value(b"two"))));
    talk.settle();
    assert_eq!(
        (&event(&talk, "reply")["payload"], &event(&talk, "reply")["suspect"]),
        (&json!("74776f"), &json!(true))
    );
    let absent = Error::not_found("gone");
    assert!(talk.server.refresh_outdated(watched, Refresh::Error(absent, named(b"gone"))));
    talk.note("is overtaken again, before the client has taken the last one");
    assert!(!talk.server.refresh_outdated(watched, Refresh::Value(value(b"three"))));
    talk.settle();
    let names: Vec<_> = talk.heard().iter().map(|event| event["event"].clone()).collect();
    assert_eq!(names[names.len() - 2..], ["failed", "suspect"]);
    let Some(Event::Recompute { call, change }) = talk.at_server.pop() else { panic!("recompute") };
    talk.server.refresh(call, change, Refresh::Value(value(b"four")));
    talk.settle();
    assert_eq!(event(&talk, "reply")["payload"], "666f7572");
    assert_eq!(event(&talk, "reply")["suspect"], false);
    talk
}

fn s3_stream_command() -> Talk {
    let mut talk = Talk::new();
    let (_, watched) = watch(&mut talk, Watch::Values);
    let method = talk.client.method(PATH, Codec::Proto);
    talk.call(Request::command(method, &b"import"[..]));
    let import = talk.incoming();
    let change = talk.server.stale(watched).unwrap();
    talk.server.reply_stream(import.call, &OutgoingReply::default());
    assert_eq!(talk.server.push(import.call, b"row"), Push::Queued);
    talk.settle();
    let names: Vec<_> = talk.heard().iter().map(|event| event["event"].clone()).collect();
    assert_eq!(names[names.len() - 3..], ["suspect", "reply", "items"]);
    talk.server.refresh(watched, change, Refresh::Unchanged);
    talk.server.finish(import.call, &Metadata::default());
    talk.settle();
    talk
}

fn s4_max_age() -> Talk {
    let mut talk = Talk::new();
    let keep = |payload: &'static [u8]| OutgoingReply {
        max_age_ms: Some(60_000),
        ..OutgoingReply::new(payload)
    };
    talk.query(b"k");
    let asked = talk.incoming();
    talk.server.reply(asked.call, keep(b"old"));
    talk.settle();
    assert_eq!(talk.count_kept(), 1);
    talk.command(b"write");
    let write = talk.incoming();
    assert_eq!(talk.count_kept(), 0);
    talk.query(b"k");
    let early = talk.incoming();
    talk.server.reply(write.call, OutgoingReply::new(b"written"));
    talk.server.reply(early.call, keep(b"older than the command"));
    talk.settle();
    assert_eq!(talk.count_kept(), 0);
    talk.query(b"k");
    let asked = talk.incoming();
    talk.server.reply(asked.call, keep(b"new"));
    talk.settle();
    assert_eq!(talk.count_kept(), 1);
    talk
}

fn s5_wake() -> Talk {
    let mut talk = Talk::new();
    let (_, fresh) = watch(&mut talk, Watch::Values);
    let (_, buffered) = watch(&mut talk, Watch::Values);
    let change = talk.server.stale(buffered).unwrap();
    talk.server.refresh(buffered, change, Refresh::Value(value(b"an hour old")));
    let (_, changed) = watch(&mut talk, Watch::Notify);
    talk.server.stale(changed);
    talk.wake();
    talk.settle();
    let names: Vec<_> = talk.heard().iter().map(|event| event["event"].clone()).collect();
    assert!(names.contains(&"unsure".into()) && names.contains(&"sure".into()));
    assert!(talk.server.stale(fresh).is_some());
    talk.settle();
    talk
}

fn s5_slow_reader() -> Talk {
    let mut talk = Talk::new();
    let (_, watched) = watch(&mut talk, Watch::Values);
    let change = talk.server.stale(watched).unwrap();
    talk.server.refresh(watched, change, Refresh::Value(value(b"two")));
    for late in [&b"three"[..], b"four"] {
        talk.note("changes it again before the client has taken the value");
        let change = talk.server.stale(watched).unwrap();
        talk.server.refresh(watched, change, Refresh::Value(value(late)));
    }
    talk.settle();
    let Some(Event::Recompute { call, change }) = talk.at_server.pop() else { panic!("recompute") };
    talk.server.refresh(call, change, Refresh::Value(value(b"four")));
    talk.settle();
    let heard = talk.heard();
    let payloads: Vec<_> = heard.iter().filter_map(|event| event["payload"].as_str()).collect();
    assert_eq!(payloads, ["6f6e65", "74776f", "666f7572"]);
    talk
}

fn cancel_crosses_stale() -> Talk {
    let mut talk = Talk::new();
    let (call, watched) = watch(&mut talk, Watch::Notify);
    talk.server.stale(watched);
    talk.cancel(call);
    talk.settle();
    let next = talk.query(b"next");
    assert_eq!(next.stream(), call.stream());
    let asked = talk.incoming();
    talk.server.reply(asked.call, OutgoingReply::new(b"answered"));
    talk.settle();
    assert_eq!(event(&talk, "reply")["payload"], "616e737765726564");
    talk
}

fn watch_lost() -> Talk {
    let mut talk = Talk::new();
    let (call, first) = watch(&mut talk, Watch::Values);
    watch(&mut talk, Watch::Notify);
    let change = talk.server.stale(first).unwrap();
    talk.server.refresh(first, change, Refresh::Value(value(b"two")));
    talk.lose();
    talk.resume();
    talk.settle();
    talk.wait();
    let asked = talk.incoming();
    assert_eq!(asked.validator, Some(named(b"one")));
    talk.server.reply(asked.call, value(b"two"));
    talk.settle();
    talk.cancel(call);
    talk.settle();
    talk.lose();
    talk.restart();
    talk.wait();
    let asked = talk.incoming();
    talk.server.reply(asked.call, value(b"one"));
    talk.settle();
    assert_eq!(event(&talk, "reply")["unchanged"], true);
    talk
}

fn watch_refused() -> Talk {
    let limits = Limits { watches_max: 1, ..config().limits };
    let mut talk = Talk::with(Config { limits, ..config() });
    watch(&mut talk, Watch::Notify);
    watch(&mut talk, Watch::Notify);
    assert_eq!(event(&talk, "reply")["then"], "nothing");
    talk
}

fn error_watched() -> Talk {
    let mut talk = Talk::new();
    let method = talk.client.method(PATH, Codec::Proto);
    talk.call(Request::query(method, &b"7"[..]).watch(Watch::Values));
    let asked = talk.incoming();
    let nobody = Error::not_found("no contact has id 7");
    talk.server.reply_error(asked.call, &nobody, named(b"nobody"));
    talk.settle();
    assert_eq!(event(&talk, "failed")["watched"], true);
    let change = talk.server.stale(asked.call).unwrap();
    talk.server.refresh(asked.call, change, Refresh::Value(value(b"Ada")));
    talk.settle();
    let change = talk.server.stale(asked.call).unwrap();
    talk.server.refresh(asked.call, change, Refresh::Error(nobody, named(b"nobody")));
    talk.settle();
    let change = talk.server.stale(asked.call).unwrap();
    talk.server.refresh(asked.call, change, Refresh::Failed(Error::permission_denied("no more")));
    talk.settle();
    assert_eq!(event(&talk, "failed")["watched"], false);
    talk
}

fn values_end_stale() -> Talk {
    let mut talk = Talk::new();
    let (_, watched) = watch(&mut talk, Watch::Values);
    let change = talk.server.stale(watched).unwrap();
    talk.note("has an answer that it cannot name");
    talk.server.refresh(watched, change, Refresh::Value(OutgoingReply::new(b"two")));
    talk.settle();
    event(&talk, "stale");
    let (again, _) = watch(&mut talk, Watch::Values);
    assert_eq!(again.stream(), 1, "its slot is free");
    talk
}

/// A watch that is notified, answered.
fn notified() -> Talk {
    let mut talk = Talk::new();
    watch(&mut talk, Watch::Notify);
    talk
}

/// The client reads what breaks a rule.
fn refused(mut talk: Talk, kind: Kind, stream: u32, flags: u8, payload: &[u8]) -> Talk {
    let mut out = Vec::new();
    let frame = frame::open(&mut out, kind, stream, flags);
    if kind == Kind::Reply {
        metadata::put_entry(&mut out, metadata::tag::VALIDATOR, &[7; 16]);
    }
    let frame = frame.metadata_ends(&out);
    out.extend_from_slice(payload);
    frame.finish(&mut out);
    talk.read(&out);
    talk.client_ends(Reason::Unexpected);
    assert_eq!(event(&talk, "closed")["reason"], "unexpected");
    talk
}

fn notify_twice() -> Talk {
    refused(notified(), Kind::Reply, 1, flag::WATCHED, b"two")
}

fn notify_kept() -> Talk {
    refused(notified(), Kind::Stale, 0, flag::KEEP, &[1])
}

fn notify_suspect() -> Talk {
    let mut talk = Talk::new();
    let method = talk.client.method(PATH, Codec::Proto);
    talk.call(Request::query(method, &b"k"[..]).watch(Watch::Notify));
    refused(talk, Kind::Reply, 1, flag::WATCHED | flag::SUSPECT, b"one")
}

fn watch_large() -> Talk {
    let mut talk = Talk::new();
    let method = talk.client.method(PATH, Codec::Proto);
    let large = vec![1; 66_000];
    talk.call(Request::query(method, &b"k"[..]).watch(Watch::Values));
    let asked = talk.incoming();
    talk.server.reply(asked.call, OutgoingReply { payload: &large, ..value(b"large") });
    talk.settle();
    let heard = event(&talk, "reply");
    assert_eq!((&heard["large"], &heard["payload"]), (&json!(true), &json!("")));
    talk
}

fn drain_and_bye() -> Talk {
    let mut talk = Talk::with(hosted());
    talk.query(b"open");
    let asked = talk.incoming();
    talk.server.drain(30_000, 2_000);
    talk.settle();
    event(&talk, "draining");
    talk.server.reply(asked.call, OutgoingReply::new(b"done"));
    talk.settle();
    talk.server.end(Reason::Bye, "");
    talk.settle();
    assert_eq!(event(&talk, "closed")["reason"], "bye");
    talk
}

fn taken_over() -> Talk {
    let mut talk = Talk::new();
    talk.query(b"open");
    talk.command(b"pay");
    let mut last = Vec::new();
    talk.server.take_over(0, &mut last);
    talk.note("resumes the session over another connection");
    talk.read(&last);
    event(&talk, "lost");
    talk.note("took it over for a hello that came late: the client comes again");
    talk.resume();
    talk.settle();
    assert_eq!(event(&talk, "connected")["resumed"], true);
    for _ in 0..2 {
        let asked = talk.incoming();
        talk.server.reply(asked.call, OutgoingReply::new(b"done"));
        talk.settle();
    }
    talk
}
