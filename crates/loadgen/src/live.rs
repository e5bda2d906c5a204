//! The client side of the live protocol, without a socket: calls of methods, each answered once.
//!
//! The session is that of the crate `live-proto`, over the bare connection. It has no clock here:
//! its keep-alive and its deadlines are not used, since the engine gives up what takes too long and
//! never lets a connection rest. A session ends with its connection and is not resumed.

use std::collections::HashMap;

use tidewire_live_proto::{
    CallId, CallKind, Config, Continuation, Event, Metadata, Request, Session, feature,
};
use tidewire_service::Codec;

use crate::failure::Failure;
use crate::reply::{Answer, Expectation, Reply, ReplyParts};
use crate::request::{MessageCodec, Wire};

/// One connection's calls under way.
#[derive(Debug)]
pub(crate) struct Live {
    session: Session,
    codec: Codec,
    expectation: Expectation,
    depth: usize,
    hello: Vec<u8>,
    under_way: HashMap<CallId, u32>,
    /// The request line and the headers that the last call had, and the same as the session has it.
    last: (Vec<u8>, Option<Request>),
    reply: Reply,
    is_open: bool,
    refusal: Option<Failure>,
}

impl Live {
    pub(crate) fn new(expectation: Expectation, depth: usize, codec: MessageCodec) -> Self {
        let mut session = Session::dialer(Config {
            features: feature::USUAL & !feature::RESUME,
            ..Config::default()
        });
        let mut hello = Vec::new();
        session.connect(0);
        session.poll_output(0, &mut hello);
        Self {
            session,
            codec: match codec {
                MessageCodec::Json => Codec::Json,
                MessageCodec::Proto => Codec::Proto,
            },
            expectation,
            depth,
            hello,
            under_way: HashMap::new(),
            last: (Vec::new(), None),
            reply: Reply::default(),
            is_open: false,
            refusal: None,
        }
    }

    pub(crate) fn connected(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.hello);
    }

    pub(crate) fn capacity(&self) -> usize {
        if self.is_open { self.depth - self.under_way.len() } else { 0 }
    }

    /// Whether the other side takes no more calls, or is gone.
    pub(crate) fn is_closing(&self) -> bool {
        self.refusal.is_some() || !self.session.is_connected()
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.under_way.is_empty()
    }

    pub(crate) fn reply_parts(&self) -> &ReplyParts {
        &self.reply.kept
    }

    pub(crate) fn refusal(&self) -> Option<Failure> {
        self.refusal.clone()
    }

    pub(crate) fn start(&mut self, flight: u32, wire: &Wire, out: &mut Vec<u8>) {
        if self.last.0 != wire.head {
            self.last = (wire.head.clone(), Some(self.request(&wire.head)));
        }
        let Some(request) = &self.last.1 else { return };
        let request = Request { payload: wire.body.clone().into(), ..request.clone() };
        // There is room for a call, since fewer are under way than the session takes; where there
        // is none after all, the call ends by the engine's time limit.
        if let Ok(call) = self.session.call(request, 0) {
            self.under_way.insert(call, flight);
        }
        self.session.poll_output(0, out);
    }

    /// The call that a request line and headers mean: `GET` is a query.
    fn request(&mut self, head: &[u8]) -> Request {
        let head = String::from_utf8_lossy(head);
        let mut lines = head.lines();
        let (verb, path) = lines.next().and_then(|line| line.split_once(' ')).unwrap_or_default();
        let method = self.session.method(path, self.codec);
        let headers = lines.filter_map(|line| line.split_once(": "));
        let metadata =
            headers.fold(Metadata::builder(), |all, (name, value)| all.header(name, value));
        let kind = if verb == "GET" { CallKind::Query } else { CallKind::Command };
        Request { kind, metadata: metadata.build(), ..Request::query(method, Vec::new()) }
    }

    pub(crate) fn receive(&mut self, input: &mut &[u8], out: &mut Vec<u8>) -> Option<Answer> {
        self.session.input().extend_from_slice(input);
        *input = &[];
        let answer = self.next_answer();
        self.session.poll_output(0, out);
        answer
    }

    fn next_answer(&mut self) -> Option<Answer> {
        while let Some(event) = self.session.poll_event(0) {
            match event {
                Event::Connected { .. } => self.is_open = true,
                Event::Reply(reply) if reply.then() == Continuation::Nothing => {
                    let Some(flight) = self.under_way.remove(&reply.call) else { continue };
                    self.reply.reset(&self.expectation);
                    self.reply.status = reply.status().unwrap_or(200);
                    self.reply.bytes = reply.payload().len() as u64;
                    self.reply.body(reply.payload());
                    return Some(self.reply.answer(flight, &self.expectation));
                }
                // A stream, of which nobody asked for one.
                Event::Reply(reply) => {
                    let Some(flight) = self.under_way.remove(&reply.call) else { continue };
                    return Some(failed_reply(
                        flight,
                        Failure::Protocol("a stream in place of an answer"),
                    ));
                }
                Event::Failed { call, error, .. } => {
                    let Some(flight) = self.under_way.remove(&call) else { continue };
                    return Some(failed_reply(
                        flight,
                        Failure::Code(error.code().as_str().to_owned()),
                    ));
                }
                Event::Refused(_) => self.refusal = Some(Failure::Protocol("the hello is refused")),
                Event::Draining { .. } | Event::Closed(_) | Event::Lost => self.is_open = false,
                _ => {}
            }
        }
        None
    }
}

fn failed_reply(flight: u32, failure: Failure) -> Answer {
    Answer { flight, status: 0, bytes: 0, messages: 0, failure: Some(failure) }
}

#[cfg(test)]
mod tests {
    use tidewire_live_proto::{Acceptor, OutgoingReply, SessionId};
    use tidewire_service::Error;

    use super::*;
    use crate::reply::Keep;
    use crate::verdict::{AnyStatus, Dialect};

    #[test]
    fn calls_under_way_are_answered_by_replies_and_errors_in_any_order() {
        let expectation = Expectation {
            dialect: Dialect::Plain,
            keep: Keep::Everything,
            any_status: AnyStatus::No,
        };
        let mut client = Live::new(expectation, 2, MessageCodec::Proto);
        let mut out = Vec::new();
        client.connected(&mut out);
        assert_eq!(client.capacity(), 0, "not before the other side has said hello");
        let mut acceptor = Acceptor::new(Config::default(), 0);
        acceptor.input().extend_from_slice(&out);
        let hello = acceptor.poll(0).unwrap().unwrap();
        let mut server = acceptor.accept(hello, SessionId { id: [1; 16], secret: [2; 32] }, 0);
        let mut back = Vec::new();
        server.poll_output(0, &mut back);
        out.clear();
        assert!(client.receive(&mut &back[..], &mut out).is_none());
        assert_eq!(client.capacity(), 2);
        for (flight, body) in [(7, "good"), (8, "bad")] {
            let head = b"POST /a.B/C\nauthorization: me\n".to_vec();
            let wire = Wire { head, body: body.into(), ..Wire::default() };
            client.start(flight, &wire, &mut out);
        }
        assert_eq!(client.capacity(), 0);
        server.input().extend_from_slice(&out);
        let mut calls = Vec::new();
        while let Some(event) = server.poll_event(0) {
            if let Event::Request(request) = event {
                calls.push((request.call, request.payload().to_vec()));
            }
        }
        // The last one first.
        for (call, payload) in calls.into_iter().rev() {
            match &payload[..] {
                b"good" => server.reply(call, OutgoingReply::new(b"answer")),
                _ => server.fail(call, &Error::not_found("no")),
            }
        }
        back.clear();
        server.poll_output(0, &mut back);
        let mut input = &back[..];
        let mut answers = Vec::new();
        while let Some(answer) = client.receive(&mut input, &mut out) {
            answers.push((answer.flight, answer.status, answer.failure));
        }
        let not_found = Failure::Code("not_found".to_owned());
        assert_eq!(answers, [(8, 0, Some(not_found)), (7, 200, None)]);
        assert_eq!(client.reply_parts().body, b"answer");
        assert!(client.is_idle() && !client.is_closing());
    }
}
