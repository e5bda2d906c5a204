//! Conversations about commands: each once could run twice, or lose its outcome.

use tidewire_live_proto::{
    CallKind, CommandOrigin, Config, Extra, Limits, OutgoingReply, Reason, Request, feature,
};
use tidewire_service::{Codec, Error, Outcome};

use super::{event, outcome};
use crate::conversation::{PATH, Talk, config, hosted};
use crate::heard::Event;

pub(super) fn t1_drain() -> Talk {
    let mut talk = Talk::new();
    talk.command(b"pay");
    let asked = talk.incoming();
    talk.server.reply(asked.call, OutgoingReply::new(b"paid"));
    talk.lose();
    talk.resume();
    talk.note("drains");
    talk.server.drain(1_000, 2_000);
    talk.settle();
    assert_eq!(event(&talk, "reply")["payload"], "70616964");
    talk
}

pub(super) fn t2_lost_session() -> Talk {
    let features = config().features & !feature::DURABLE;
    let mut talk = Talk::with(Config { features, ..config() });
    talk.command(b"pay");
    talk.lose();
    talk.restart();
    assert_eq!(outcome(&talk), Some(2));
    talk
}

pub(super) fn t2_goaway() -> Talk {
    let mut talk = Talk::with(hosted());
    talk.command(b"pay");
    talk.note("ends for a reason");
    talk.server.end(Reason::Internal, "a bug");
    talk.settle();
    assert_eq!(outcome(&talk), Some(2));
    talk
}

pub(super) fn t3_stream_command() -> Talk {
    let mut talk = Talk::new();
    let method = talk.client.method(PATH, Codec::Proto);
    let call = talk.call(Request::command(method, &b""[..]).streaming());
    talk.push(call, b"item");
    talk.finish(call);
    talk.settle();
    let asked = talk.incoming();
    talk.server.reply(asked.call, OutgoingReply::new(b"stored"));
    talk.lose();
    talk.resume();
    talk.settle();
    assert_eq!(event(&talk, "reply")["payload"], "73746f726564");
    assert!(!talk.at_server.iter().any(|event| matches!(event, Event::Request(_))));
    talk
}

pub(super) fn t5_reply_too_large() -> Talk {
    let limits = Limits { body_max: 65_536, ..hosted().limits };
    let mut talk = Talk::with(Config { limits, ..hosted() });
    talk.command(b"export");
    let asked = talk.incoming();
    talk.note("answers with 65,537 bytes");
    talk.server.reply(asked.call, OutgoingReply::new(&[0; 65_537]));
    talk.settle();
    assert_eq!(outcome(&talk), Some(3));
    talk
}

pub(super) fn t6_idempotent() -> Talk {
    let mut talk = Talk::new();
    let method = talk.client.method(PATH, Codec::Proto);
    let command = Request::command(method, &b"set"[..]);
    talk.call(Request { kind: CallKind::Idempotent, ..command });
    talk.lose();
    talk.restart();
    talk.wait();
    let asked = talk.incoming();
    assert!((asked.command, asked.sent_before) == (Some(1), true), "and under its key");
    talk.server.reply(asked.call, OutgoingReply::new(b"is set"));
    talk.settle();
    talk
}

pub(super) fn t6_durable() -> Talk {
    let mut talk = Talk::new();
    talk.command(b"first");
    let asked = talk.incoming();
    talk.server.reply(asked.call, OutgoingReply::new(b"done"));
    talk.settle();
    talk.command(b"create");
    let first = talk.incoming().origin.unwrap();
    talk.lose();
    talk.restart();
    talk.wait();
    let asked = talk.incoming();
    assert!(asked.sent_before && asked.origin == Some(first) && asked.command == Some(1));
    talk.note("does not keep keys");
    let unknown = Error::aborted("outcome unknown: no keys are kept here");
    talk.server.refuse(asked.call, &unknown, Outcome::Unknown);
    talk.settle();
    assert_eq!(outcome(&talk), Some(2));
    talk
}

pub(super) fn t6_refused() -> Talk {
    let mut talk = Talk::new();
    talk.command(b"create");
    talk.note("runs it, and is restarted before it answers");
    talk.lose();
    talk.restart();
    talk.wait();
    let asked = talk.incoming();
    let full = Error::resource_exhausted("as many commands run as may");
    talk.server.refuse(asked.call, &full, Outcome::NotRun);
    talk.settle();
    assert_eq!(outcome(&talk), Some(2));
    talk
}

pub(super) fn t6_reloaded() -> Talk {
    let mut talk = Talk::new();
    let method = talk.client.method(PATH, Codec::Proto);
    let origin = CommandOrigin { session: [9; 16], id: 300 };
    let extra = Extra { origin: Some(origin), ..Extra::default() };
    talk.call(Request::command(method, &b"create"[..]).extra(extra));
    let asked = talk.incoming();
    assert!(asked.sent_before && asked.origin == Some(origin) && asked.command == Some(1));
    let full = Error::resource_exhausted("as many commands run as may");
    talk.server.refuse(asked.call, &full, Outcome::NotRun);
    talk.settle();
    assert_eq!(outcome(&talk), Some(2), "not this time");
    talk
}

pub(super) fn t6_in_order() -> Talk {
    let mut talk = Talk::new();
    let method = talk.client.method(PATH, Codec::Proto);
    talk.command(b"one");
    let one = talk.incoming();
    talk.call_in_vain(Request::query(method, &b"k"[..]));
    talk.call_in_vain(Request::command(method, &b"two"[..]));
    talk.server.reply(one.call, OutgoingReply::new(b"1"));
    talk.settle();
    let three = talk.call_in_vain(Request::command(method, &b"three"[..]));
    assert_eq!(three.stream(), 1, "a slot before that of the second command");
    talk.lose();
    talk.resume();
    talk.settle();
    let payloads: Vec<_> = talk.requests().into_iter().map(|asked| asked.payload).collect();
    assert_eq!(payloads, [&b"two"[..], b"three", b"k"]);
    talk
}

pub(super) fn t7_cancel() -> Talk {
    let mut talk = Talk::with(hosted());
    let call = talk.command(b"slow");
    let slow = talk.incoming();
    talk.cancel(call);
    talk.settle();
    let next = talk.query(b"next");
    assert_ne!(next.stream(), call.stream());
    talk.server.reply(slow.call, OutgoingReply::new(b"done"));
    talk.settle();
    assert_eq!(talk.client.usage().calls_out, 1);
    talk
}

pub(super) fn t7_cancel_lost() -> Talk {
    let mut talk = Talk::new();
    let call = talk.command(b"slow");
    let slow = talk.incoming();
    let query = talk.query(b"dropped");
    talk.lose();
    talk.cancel(call);
    talk.cancel(query);
    talk.resume();
    talk.settle();
    assert_eq!(talk.server.usage().calls_in, 1, "the command; the query is over");
    talk.server.reply(slow.call, OutgoingReply::new(b"done"));
    talk.settle();
    assert_eq!((talk.server.usage().calls_in, talk.client.usage().calls_out), (0, 0));
    talk
}
