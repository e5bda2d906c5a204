//! Freshness: telling the peer that answers are stale, and hearing it (specification 5).
//!
//! | mode | when the memo marks it | when it was computed again |
//! |---|---|---|
//! | notify | [`Session::stale`]: named in the next `stale`, the watch is over | |
//! | values | [`Session::stale`]: suspect, told only to a writer | [`Session::refresh`]: a value, or nothing |
//!
//! Staleness is gathered and written at the latest before the next reply to a command, so that a
//! writer never reads its own older answer.

use tidewire_service::Validator;

use crate::callee::Serving;
use crate::caller::State;
use crate::event::Event;
use crate::frame::{Kind, flag};
use crate::message::{Refresh, Reply, Watch};
use crate::output::{Output, put_error};
use crate::reason::Violation;
use crate::receive::Received;
use crate::session::Session;
use crate::slots::{CallId, index};
use crate::varint;

impl Session {
    /// A watched answer is stale. Mode *notify*: the caller hears it and the watch is over. Mode
    /// *values*: compute it again and give the outcome to [`refresh`](Self::refresh).
    ///
    /// Returns whether the watch goes on.
    pub fn stale(&mut self, call: CallId) -> bool {
        let live = self.incoming_live;
        let Some(served) = self.incoming.of(call).filter(|served| served.state.is_watch()) else {
            return false;
        };
        if served.watch == Watch::Values {
            if served.state == Serving::Fresh {
                served.state = Serving::Suspect;
                self.output.suspects.push(call.stream);
            }
            return true;
        }
        self.remove_served(call.index());
        if live {
            self.output.stale.push(call.stream);
        }
        false
    }

    /// What became of a stale watch of mode *values*.
    pub fn refresh(&mut self, call: CallId, outcome: Refresh<'_>) {
        let live = self.incoming_live;
        let Some(served) = self.incoming.of(call).filter(|served| served.state.is_watch()) else {
            return;
        };
        let told = served.state == Serving::Told;
        let http = if served.http { flag::HTTP } else { 0 };
        let current = Validator::new(served.validator);
        match outcome {
            Refresh::Failed(error) => {
                self.remove_served(call.index());
                if live {
                    let max = self.peer.limits.metadata_max;
                    put_error(&mut self.output.main, call.stream, &error, false, max);
                }
            }
            Refresh::Value(reply) if reply.validator != Some(current) => {
                self.send_value(call, &reply, http);
            }
            Refresh::Unchanged | Refresh::Value(_) => {
                served.state = Serving::Fresh;
                if told && live {
                    let reply = Reply::default().validator(current);
                    self.write_reply(call.stream, http | flag::WATCHED, &reply, true);
                }
            }
        }
    }

    fn send_value(&mut self, call: CallId, reply: &Reply<'_>, http: u8) {
        let Some(validator) = reply.validator else {
            // Without a name for the content it cannot be compared later: the watch ends here.
            return self.end_watch(call);
        };
        if self.check_reply(reply).is_err() {
            return self.end_watch(call);
        }
        let live = self.incoming_live;
        let Some(served) = self.incoming.of(call) else { return };
        if !live {
            // The value is lost with the connection; resuming must not confirm the old one.
            served.state = Serving::Suspect;
            return;
        }
        served.state = Serving::Fresh;
        served.validator = validator.bytes();
        self.write_reply(call.stream, http | flag::WATCHED, reply, false);
    }

    fn end_watch(&mut self, call: CallId) {
        self.remove_served(call.index());
        if self.incoming_live {
            self.output.stale.push(call.stream);
        }
    }

    /// Writes the gathered staleness.
    pub(crate) fn flush_stale(&mut self) {
        let Output { main, stale, .. } = &mut self.output;
        Output::put_list(main, Kind::Stale, 0, stale);
    }

    /// Before a reply to a command: all staleness, also of watches whose value is still computed.
    #[inline]
    pub(crate) fn tell_writer(&mut self) {
        if self.output.stale.is_empty() && self.output.suspects.is_empty() {
            return;
        }
        self.flush_stale();
        let mut suspects = std::mem::take(&mut self.output.suspects);
        suspects.retain(|&stream| {
            let served = self.incoming.get_mut(index(stream));
            let is_suspect = |served: &&mut crate::callee::Served| served.state == Serving::Suspect;
            served.filter(is_suspect).map(|served| served.state = Serving::Told).is_some()
        });
        if self.incoming_live {
            Output::put_list(&mut self.output.main, Kind::Stale, flag::KEEP, &mut suspects);
        }
        suspects.clear();
        self.output.suspects = suspects;
    }

    /// Answers that this side watches are stale.
    pub(crate) fn receive_stale(&mut self) -> Received {
        let keep = self.reader.head().has(flag::KEEP);
        for stream in varint::take_numbers(&self.reader.share_payload()) {
            let stream = stream.ok_or_else(|| bad_list("stale"))?;
            if !self.is_ours(stream) {
                return Err(bad_list("stale"));
            }
            self.one_stale(stream, keep)?;
        }
        Ok(None)
    }

    /// A watch of this side may be stale.
    pub(crate) fn suspect(&mut self, index: u32) {
        let call = self.own_call(index);
        if let Some(outgoing) = self.outgoing.get_mut(index)
            && !std::mem::replace(&mut outgoing.suspect, true)
        {
            self.events.push_back(Event::Suspect { call });
        }
    }

    /// A watch of this side is fresh after all.
    pub(crate) fn confirm(&mut self, index: u32) {
        let call = self.own_call(index);
        let Some(outgoing) = self.outgoing.get_mut(index) else { return };
        if outgoing.state == State::Watching && std::mem::take(&mut outgoing.suspect) {
            self.events.push_back(Event::Confirmed { call });
        }
    }

    fn one_stale(&mut self, stream: u32, keep: bool) -> Result<(), Violation> {
        let index = index(stream);
        let call = self.own_call(index);
        match self.outgoing.get(index).map(|outgoing| outgoing.state) {
            Some(State::Watching) if keep => self.suspect(index),
            Some(State::Watching) => {
                self.events.push_back(Event::Stale { call });
                self.free_outgoing(index);
            }
            Some(State::Cancelled) if keep => {}
            Some(State::Cancelled) => self.free_outgoing(index),
            _ => {
                return Err(Violation::new(
                    crate::reason::Reason::UnknownStream,
                    format!("stale names stream {stream}, which is no watch"),
                ));
            }
        }
        Ok(())
    }
}

pub(crate) fn bad_list(what: &'static str) -> Violation {
    Violation::malformed(match what {
        "cancel" => "cancel is not an ascending list of its sender's streams",
        _ => "stale is not an ascending list of its receiver's streams",
    })
}
