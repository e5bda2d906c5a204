//! How connections and sessions end: drained, lost, taken over, given up.
//!
//! | what | the connection | the session |
//! |---|---|---|
//! | [`drain`](Session::drain) | ends when its calls have | is parked |
//! | [`connection_lost`](Session::connection_lost) | is gone | is parked if it can be resumed, else over |
//! | [`take_over`](Session::take_over) | is told, and gone | goes on over another one |
//! | [`end`](Session::end), a violation, [`expire`](Session::expire) | is told | is over |
//!
//! A session that is over ends every call: *not run* if it was never sent, else *unknown*
//! (`caller.rs`).

use std::borrow::Cow;

use tidewire_service::{Code, Error};

use crate::caller::OwnCall;
use crate::config::Micros;
use crate::event::Event;
use crate::message::CallKind;
use crate::output::put_goaway;
use crate::reason::{Reason, Violation};
use crate::session::{Phase, Session};

impl Session {
    /// Says that this side takes no new calls; open ones have this long, 0 for no limit. The peer
    /// may come back after `after_ms`, 0 for at once.
    pub fn drain(&mut self, grace_ms: u32, after_ms: u64) {
        if self.phase == Phase::Open && !self.drain_sent {
            self.drain_sent = true;
            let drain = Violation { after_ms, ..Violation::new(Reason::Drain, "") };
            put_goaway(&mut self.output.control, &drain, grace_ms);
        }
    }

    /// Ends the session and tells the peer why.
    pub fn end(&mut self, reason: Reason, message: impl Into<Cow<'static, str>>) {
        self.close(Violation::new(reason, message));
    }

    /// Whether either side said that it takes no new calls.
    pub fn is_draining(&self) -> bool {
        self.drain_sent || self.drain_received
    }

    /// The connection is gone: both sides keep what can be resumed.
    pub fn connection_lost(&mut self, now: Micros) {
        self.now = self.now.max(now);
        if matches!(self.phase, Phase::Closed | Phase::Idle) {
            return;
        }
        let greeting = self.phase == Phase::Greeting && self.dialer;
        let may_resume = self.is_resumable() || greeting;
        self.phase = Phase::Idle;
        self.incoming_live = false;
        self.outgoing_live = false;
        // What was not answered goes with the next hello.
        self.own_headers_before.clear();
        self.drain_sent = false;
        self.drain_received = false;
        self.reader.reset();
        self.output.clear();
        self.called.restart();
        self.named.restart();
        self.receive_window.restart();
        self.part.clear();
        self.part_kind = None;
        self.wake_due = Micros::MAX;
        if may_resume {
            self.forget_lost_frames();
            self.events.push_back(Event::Lost);
        } else {
            self.close(Violation::new(Reason::Drain, "the connection was lost"));
        }
    }

    /// Another connection resumes this session while the peer's old one seems to be open: what is
    /// in it unread is dropped, and `out` has what to write to it before it is closed. The session
    /// is parked.
    pub fn take_over(&mut self, now: Micros, out: &mut Vec<u8>) {
        if self.is_connected() {
            let message = "another connection resumed the session";
            put_goaway(out, &Violation::new(Reason::TakenOver, message), 0);
        }
        self.connection_lost(now);
    }

    /// A parked session is not resumed any more: every call ends.
    pub fn expire(&mut self) {
        self.close(Violation::new(Reason::Drain, "the session was not resumed in time"));
    }

    /// Ends everything; the peer hears why, unless it is gone or ended the session itself.
    #[cold]
    pub(crate) fn close(&mut self, violation: Violation) {
        if self.phase == Phase::Closed {
            return;
        }
        if self.phase != Phase::Idle {
            put_goaway(&mut self.output.main, &violation, 0);
        }
        self.close_silently(violation);
    }

    pub(crate) fn close_silently(&mut self, violation: Violation) {
        self.phase = Phase::Closed;
        self.earliest_deadline = Micros::MAX;
        self.output.line.clear();
        for index in self.outgoing.indexes().collect::<Vec<_>>() {
            self.give_up(index, violation.reason, &format!("the session ended: {violation}"));
        }
        self.end_all_incoming();
        self.events.push_back(Event::Closed(violation));
    }

    /// Ends a call of this side because its session, or its place in it, is lost.
    pub(crate) fn give_up(&mut self, index: u32, reason: Reason, why: &str) {
        let is_unknown = self.outgoing.get(index).is_some_and(OwnCall::may_have_run);
        self.end_outgoing(index, || match is_unknown {
            true => Error::aborted(format!("outcome unknown: {why}")),
            false if reason == Reason::Unauthenticated => Error::new(Code::Unauthenticated, why),
            false => Error::new(Code::Unavailable, why),
        });
    }
}

impl OwnCall {
    /// Whether it may have changed something: a command that was sent.
    fn may_have_run(&self) -> bool {
        self.was_sent() && self.request.kind != CallKind::Query
    }
}
