//! Freshness: telling the peer that answers are stale, and hearing it (specification 5).
//!
//! | mode | [`Session::stale`] | computed again |
//! |---|---|---|
//! | notify | named in the next `stale`, the watch is over | |
//! | values | suspect: named with KEEP, unless the value is there first | [`Session::refresh`]: a value, or nothing; [`Session::refresh_outdated`]: a value that is stale already |
//!
//! Staleness is gathered and written with the next output, and at the latest before the next reply
//! to a command. Of each watch at most one value is on its way: the caller says when it has taken
//! it (`seen`), and what changed meanwhile is computed then.

use tidewire_service::{Error, Outcome, Validator};

use crate::callee::{PeerCallState, mark};
use crate::caller::State;
use crate::event::Event;
use crate::frame::{self, Kind, flag};
use crate::message::{Change, OutgoingReply, Refresh, Watch};
use crate::metadata::{self, Metadata, tag};
use crate::output::{Output, put_error, put_error_metadata};
use crate::reason::Violation;
use crate::receive::FrameOutcome;
use crate::session::Session;
use crate::slots::{CallId, index};
use crate::varint;

/// The `validator` field with its head.
const VALIDATOR_BYTES: u16 = 18;

impl Session {
    /// A watched answer is stale, or one that is computed for a watch will be. Mode *notify*: the
    /// caller hears it and the watch is over, or is not granted. Mode *values*: what is returned
    /// says that the answer is to be computed again, from now on, and the outcome given to
    /// [`refresh`](Self::refresh).
    ///
    /// To be called before the reply to the command that changed it, so that a writer never reads
    /// its own older answer.
    pub fn stale(&mut self, call: CallId) -> Option<Change> {
        let live = self.incoming_live;
        let served = self.incoming.of(call).filter(|served| served.watch != Watch::No)?;
        if !served.state.is_watch() {
            served.marks |= mark::OUTDATED;
            return None;
        }
        if served.watch == Watch::Values {
            served.count = served.count.wrapping_add(1);
            if served.state == PeerCallState::Fresh {
                served.state = PeerCallState::Suspect;
                self.output.suspects.push(call.stream);
            }
            return Some(Change(served.count));
        }
        self.remove_served(call.index());
        if live {
            self.output.stale.push(call.stream);
        }
        None
    }

    /// Whether a call of the peer is not over: it waits for its answer, or the answer goes on.
    pub fn is_open(&self, call: CallId) -> bool {
        let is_current = self.incoming.generation(call.index()) == call.generation;
        let is_theirs = is_current && !self.is_ours(call.stream);
        is_theirs && self.incoming.get(call.index()).is_some()
    }

    /// Whether a call of the peer is an answered watch.
    pub fn is_watch(&self, call: CallId) -> bool {
        let served =
            (!self.is_ours(call.stream)).then(|| self.incoming.get(call.index())).flatten();
        let is_current = self.incoming.generation(call.index()) == call.generation;
        is_current && served.is_some_and(|served| served.state.is_watch())
    }

    /// The call of the peer that has this stream number now.
    pub fn call_of_peer(&self, stream: u32) -> Option<CallId> {
        let is_open = !self.is_ours(stream) && self.incoming.get(index(stream)).is_some();
        is_open.then(|| CallId { stream, generation: self.incoming.generation(index(stream)) })
    }

    /// Whether a watch of the peer has not been stale again since this change.
    pub fn is_last(&self, call: CallId, change: Change) -> bool {
        let served = self.is_watch(call).then(|| self.incoming.get(call.index())).flatten();
        served.is_some_and(|served| served.count == change.0)
    }

    /// Names the answer of a watch of the peer that was sent last.
    pub fn watched_validator(&self, call: CallId) -> Option<Validator> {
        let served = self.is_watch(call).then(|| self.incoming.get(call.index())).flatten();
        served.map(|served| Validator::new(served.validator))
    }

    /// What became of a stale watch of mode *values*. An outcome whose computation began before the
    /// last change is dropped, since it may miss that one; one that comes before the caller has
    /// taken the value before it is asked for again by [`Event::Recompute`].
    pub fn refresh(&mut self, call: CallId, change: Change, outcome: Refresh<'_>) {
        let live = self.incoming_live;
        if !self.is_last(call, change) {
            return;
        }
        let Some(new) = self.name_of(call, &outcome) else { return };
        let Some(served) = self.incoming.of(call) else { return };
        let is_same = new.bytes() == served.validator;
        let told = served.state == PeerCallState::Told;
        if is_same && !(told && live) {
            served.state = PeerCallState::Fresh;
            return;
        }
        if !live {
            // The value is lost with the connection; resuming must not confirm the old one.
            served.state = PeerCallState::Suspect;
            return;
        }
        if served.has(mark::UNSEEN) {
            served.marks |= mark::BEHIND;
            return;
        }
        served.state = PeerCallState::Fresh;
        self.write_refreshed(call, outcome, new, is_same);
    }

    /// What a computation gave that began before the last change of a watch of mode *values*. Of a
    /// watch that has waited for long it is sent as what it is, stale already, since one that
    /// nothing disturbs may never come.
    ///
    /// Says whether the next one is to be computed now. Otherwise it is asked for by
    /// [`Event::Recompute`], once the caller has taken the value before, or made by whoever resumes
    /// a lost connection; or the watch is over.
    pub fn refresh_outdated(&mut self, call: CallId, outcome: Refresh<'_>) -> bool {
        let live = self.incoming_live;
        let stale = [PeerCallState::Suspect, PeerCallState::Told];
        if !self.incoming.of(call).is_some_and(|served| stale.contains(&served.state)) {
            return false;
        }
        let Some(new) = self.name_of(call, &outcome) else { return false };
        let Some(served) = self.incoming.of(call) else { return false };
        if !live {
            served.state = PeerCallState::Suspect;
            return false;
        }
        if served.has(mark::UNSEEN) {
            served.marks |= mark::BEHIND;
            return false;
        }
        if new.bytes() != served.validator {
            served.state = PeerCallState::Told;
            self.write_refreshed(call, outcome, new, false);
        }
        true
    }

    /// The name of what a stale watch is refreshed with; `None` where the watch ends.
    fn name_of(&mut self, call: CallId, outcome: &Refresh<'_>) -> Option<Validator> {
        match outcome {
            Refresh::Failed(error) => self.fail_watch(call, error),
            Refresh::Unchanged => return self.watched_validator(call),
            Refresh::Error(_, validator) => return Some(*validator),
            Refresh::Value(reply) => match reply.validator {
                Some(validator) if self.check_reply(reply).is_ok() => return Some(validator),
                // Without a name for the content, or room for it, the watch ends here.
                _ => self.end_watch(call),
            },
        }
        None
    }

    /// Writes another answer of a watch, with SUSPECT unless it is fresh.
    fn write_refreshed(
        &mut self,
        call: CallId,
        outcome: Refresh<'_>,
        new: Validator,
        is_same: bool,
    ) {
        // What changed with it is suspect before the new value is there.
        self.tell_writer();
        let Some(served) = self.incoming.of(call) else { return };
        served.marks |= mark::UNSEEN;
        served.validator = new.bytes();
        let is_fresh = served.state == PeerCallState::Fresh;
        let flags = served.http() | flag::WATCHED | if is_fresh { 0 } else { flag::SUSPECT };
        match outcome {
            Refresh::Value(reply) => self.write_reply(call.stream, flags, &reply, is_same),
            Refresh::Error(error, _) => {
                self.write_watched_error(call.stream, flags, &error, new, is_same);
            }
            _ => {
                self.write_reply(call.stream, flags, &OutgoingReply::default().validator(new), true)
            }
        }
    }

    pub(crate) fn write_watched_error(
        &mut self,
        stream: u32,
        flags: u8,
        error: &Error,
        validator: Validator,
        current: bool,
    ) {
        if current {
            return self.write_reply(
                stream,
                flags,
                &OutgoingReply::default().validator(validator),
                true,
            );
        }
        let out = &mut self.output.main;
        let frame = frame::open(out, Kind::Error, stream, flags & !flag::HTTP);
        metadata::put_entry(out, tag::VALIDATOR, &validator.bytes());
        let maps = Metadata::from_maps(error.headers(), error.trailers());
        let max = self.peer.limits.metadata_max - VALIDATOR_BYTES;
        put_error_metadata(out, error, Outcome::Answered, &maps, max);
        let frame = frame.metadata_ends(out);
        frame.finish(out);
    }

    fn fail_watch(&mut self, call: CallId, error: &Error) {
        self.remove_served(call.index());
        if self.incoming_live {
            put_error(
                &mut self.output.main,
                call.stream,
                error,
                Outcome::Answered,
                self.peer.limits.metadata_max,
            );
        }
    }

    fn end_watch(&mut self, call: CallId) {
        self.remove_served(call.index());
        if self.incoming_live {
            self.output.stale.push(call.stream);
        }
    }

    /// Writes all staleness that is not said yet: before a reply to a command, before a value that
    /// a change made, and at the latest with the next output.
    #[inline]
    pub(crate) fn tell_writer(&mut self) {
        if self.output.stale.is_empty() && self.output.suspects.is_empty() {
            return;
        }
        let Output { main, stale, .. } = &mut self.output;
        Output::put_list(main, Kind::Stale, 0, stale);
        let mut suspects = std::mem::take(&mut self.output.suspects);
        if self.incoming_live {
            suspects.retain(|&stream| {
                let served = self.incoming.get_mut(index(stream));
                let suspect = served.filter(|served| served.state == PeerCallState::Suspect);
                suspect.map(|served| served.state = PeerCallState::Told).is_some()
            });
            Output::put_list(&mut self.output.main, Kind::Stale, flag::KEEP, &mut suspects);
        }
        suspects.clear();
        self.output.suspects = suspects;
    }

    /// The caller has taken the last values of these watches.
    pub(crate) fn receive_seen(&mut self) -> FrameOutcome {
        for stream in varint::take_numbers(&self.reader.share_payload()) {
            let stream = stream.filter(|&stream| !self.is_ours(stream));
            let stream = stream.ok_or_else(|| bad_list("seen"))?;
            let Some((generation, served)) = self.incoming.at(index(stream)) else { continue };
            let behind = served.has(mark::BEHIND);
            served.marks &= !(mark::UNSEEN | mark::BEHIND);
            if behind && served.state.is_watch() {
                let call = CallId { stream, generation };
                let change = Change(served.count);
                self.events.push_back(Event::Recompute { call, change });
            }
        }
        Ok(None)
    }

    /// Answers that this side watches are stale.
    pub(crate) fn receive_stale(&mut self) -> FrameOutcome {
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
        let watch = self.outgoing.get(index).map(|outgoing| outgoing.request.watch);
        match self.outgoing.get(index).map(|outgoing| outgoing.state) {
            Some(State::Watching) if keep && watch == Some(Watch::Notify) => {
                return Err(Violation::new(
                    crate::reason::Reason::Unexpected,
                    format!("KEEP of stream {stream}, a watch that is notified"),
                ));
            }
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
                    format!("stale names stream {stream}, which is not a watch"),
                ));
            }
        }
        Ok(())
    }
}

pub(crate) fn bad_list(what: &'static str) -> Violation {
    Violation::malformed(match what {
        "cancel" => "cancel is not an ascending list of its sender's streams",
        "seen" => "seen is not an ascending list of its sender's streams",
        _ => "stale is not an ascending list of its receiver's streams",
    })
}
