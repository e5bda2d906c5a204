//! Calls that the peer makes: what it may ask, what is refused, what is answered from the window.
//!
//! | a request | then |
//! |---|---|
//! | breaks a rule | the connection ends |
//! | is a command whose id is known | the window answers it, whatever else is the case |
//! | is new, and this side drains, or runs as many commands as it may | `error`, outcome *not run* |
//! | is part of a call that is over | `error` FAILED_PRECONDITION, *not run* |
//! | else | [`Event::Request`](crate::Event::Request); `callee.rs` answers it |

use tidewire_service::{Error, Outcome};

use crate::callee::{PeerCall, PeerCallState, mark, put_stored};
use crate::caller::State;
use crate::command_window::Admit;
use crate::fields::CommandNumbers;
use crate::frame::{Head, flag};
use crate::hello::feature;
use crate::message::Watch;
use crate::output::put_error;
use crate::reason::{Reason, Violation};
use crate::session::{NextEvent, Session};
use crate::slots::{CallId, index};

impl Session {
    #[inline(always)]
    pub(crate) fn receive_request(&mut self) -> Result<NextEvent, Violation> {
        let head = self.reader.head();
        let call = self.new_call(head.stream)?;
        let number = self.requests_in;
        self.requests_in = number.wrapping_add(1);
        self.fields.read_next(self.reader.metadata())?;
        let http = head.has(flag::HTTP);
        if http {
            self.check_http()?;
        } else if self.fields.has_name() || !self.named.knows(self.fields.method()) {
            self.name_method()?;
        }
        self.unpack()?;
        let streams = !head.has(flag::END);
        if streams && !self.received_payload().range.is_empty() {
            return Err(Violation::malformed("a request without END has a payload"));
        }
        let command = self.fields.command();
        if let Some(CommandNumbers { id, done_below }) = command
            && self.features & feature::RESUME != 0
            && !self.admits(call, id, done_below)?
        {
            return Ok(NextEvent::Nothing);
        }
        let is_full = command.is_some() && self.is_full();
        if (is_full || self.drain_sent || self.fields.is_rare()) && self.refuses(call, is_full)? {
            return Ok(NextEvent::Nothing);
        }
        self.calls_in += 1;
        let watch = self.asked_watch(head);
        let validator = self.fields.validator();
        if let free @ None = self.incoming.take(call.index()).value() {
            *free = Some(PeerCall {
                state: PeerCallState::Open,
                watch,
                count: number,
                marks: if http { mark::HTTP } else { 0 }
                    | if validator.is_some() { mark::HELD } else { 0 },
                validator: validator.map_or([0; 16], |validator| validator.bytes()),
                command: command.map_or(0, |command| command.id),
                stream: if streams { Some(Box::default()) } else { None },
            });
        }
        self.received = call;
        Ok(NextEvent::Request)
    }

    /// Whether as many commands run as may, those counted that nobody waits for.
    #[inline]
    fn is_full(&self) -> bool {
        let runs = self.calls_in as usize + self.orphans.len();
        runs >= self.config.limits.calls_max as usize
    }

    /// The handle of a new call of the peer.
    #[inline]
    fn new_call(&self, stream: u32) -> Result<CallId, Violation> {
        let index = index(stream);
        if self.is_ours(stream) || index >= self.slots_in || !self.incoming_live {
            return Err(self.misplaced_request(stream));
        }
        let Some(generation) = self.incoming.vacant(index) else { return Err(in_use(stream)) };
        if self.calls_in >= self.config.limits.calls_max {
            return Err(too_many(self.config.limits.calls_max));
        }
        Ok(CallId { stream, generation })
    }

    #[cold]
    fn misplaced_request(&self, stream: u32) -> Violation {
        if let Some(violation) = self.misplaced(stream) {
            return violation;
        }
        let slots = self.slots_in;
        if self.is_ours(stream) || index(stream) >= slots {
            let message = format!(
                "a request on stream {stream}; its sender has {slots} numbers of one parity"
            );
            return Violation::new(Reason::StreamNumber, message);
        }
        Violation::new(Reason::Unexpected, "a request before resuming is done")
    }

    #[inline(never)]
    fn check_http(&self) -> Result<(), Violation> {
        self.need(feature::HTTP, "http")?;
        let raw = self.reader.metadata();
        if self.fields.http_method(raw).is_none() || self.fields.target(raw).is_none() {
            return Err(Violation::malformed("an HTTP request without method or target"));
        }
        Ok(())
    }

    #[inline]
    pub(crate) fn asked_watch(&self, head: Head) -> Watch {
        let asked = head.flags & (flag::VALUES | flag::NOTIFY);
        if asked == 0 {
            return Watch::No;
        }
        let is_command = self.fields.command().is_some();
        if is_command || self.features & feature::WATCH == 0 || !head.has(flag::END) {
            Watch::No
        } else if asked & flag::VALUES != 0 {
            Watch::Values
        } else {
            Watch::Notify
        }
    }

    /// Takes the name of a method, or says what is wrong with its number.
    #[cold]
    fn name_method(&mut self) -> Result<(), Violation> {
        let raw = self.reader.metadata();
        let methods_max = self.config.limits.methods_max;
        self.named.add(self.fields.method(), self.fields.name(raw), methods_max)
    }

    /// Whether a command is new. If not, the window answered it: what a draining or full side ran
    /// is not denied.
    #[inline]
    fn admits(&mut self, call: CallId, id: u64, done: u64) -> Result<bool, Violation> {
        let (outcome, text) = match self.window.admit(id, done)? {
            Admit::Run => return Ok(true),
            Admit::Replay(stored) => {
                put_stored(&mut self.output.main, call.stream, &stored);
                return Ok(false);
            }
            Admit::Ran => (Outcome::ReplyLost, "the command ran; its answer is not kept"),
            Admit::Unknown => (Outcome::Unknown, "outcome unknown: the command is forgotten"),
        };
        self.put_refusal(call, &Error::aborted(text), outcome);
        Ok(false)
    }

    /// Whether a new call is not taken now; then it was answered, and a command's id is used up.
    #[cold]
    fn refuses(&mut self, call: CallId, is_full: bool) -> Result<bool, Violation> {
        if self.fields.key().is_some() {
            self.need(feature::DURABLE, "durable")?;
        }
        let mut error = None;
        if let Some(parent) = self.fields.parent() {
            self.need(feature::HOSTED, "hosted")?;
            error = self.parent_is_over(parent);
        }
        if self.drain_sent {
            error = Some(Error::unavailable("this side is going away; use another connection"));
        } else if is_full {
            let calls_max = self.config.limits.calls_max;
            error = Some(Error::resource_exhausted(format!(
                "as many commands run as limits.calls_max = {calls_max}"
            )));
        }
        let Some(error) = error else { return Ok(false) };
        self.put_refusal(call, &error, Outcome::NotRun);
        if let Some(CommandNumbers { id, .. }) = self.fields.command() {
            self.window.release(id);
        }
        Ok(true)
    }

    /// What is wrong with the call that a request is part of.
    fn parent_is_over(&self, parent: u64) -> Option<Error> {
        let stream = u32::try_from(parent).ok().filter(|&stream| self.is_ours(stream));
        let call = stream.and_then(|stream| self.outgoing.get(index(stream)));
        if call.is_some_and(|call| call.state == State::Sent) {
            return None;
        }
        Some(Error::failed_precondition(format!(
            "parent {parent} is not an open call of this side"
        )))
    }

    pub(crate) fn put_refusal(&mut self, call: CallId, error: &Error, outcome: Outcome) {
        let max = self.peer.limits.metadata_max;
        put_error(&mut self.output.main, call.stream, error, outcome, max);
    }
}

#[cold]
fn in_use(stream: u32) -> Violation {
    let message = format!("a request on stream {stream}, where a call is open");
    Violation::new(Reason::StreamInUse, message)
}

#[cold]
fn too_many(calls_max: u32) -> Violation {
    let message = format!("more open calls than calls_max = {calls_max}");
    Violation::new(Reason::CallsMax, message)
}
