//! What the callee answers to calls of this side: values, errors, ends.
//!
//! Every rule that a callee can break is checked here; what a call is and how it is sent is in
//! `caller.rs`.

use bytes::Bytes;
use tidewire_service::{Code, Error, Outcome};

use crate::caller::{OwnCall, State};
use crate::event::{Continuation, Event};
use crate::fields::Fields;
use crate::frame::{Head, Kind, flag};
use crate::hello::feature;
use crate::message::Watch;
use crate::metadata::{Metadata, MetadataMaps, tag};
use crate::outcome;
use crate::reason::{Reason, Violation};
use crate::receive::FrameOutcome;
use crate::session::{NextEvent, Session};
use crate::slots::{CallId, index};
use crate::stream::Finish;
use crate::varint;

impl Session {
    /// The call that the peer answers, if there is one.
    #[inline(always)]
    fn note_answer(&mut self, stream: u32) -> Option<(CallId, &mut OwnCall)> {
        if !self.is_ours(stream) || !self.outgoing_live {
            return None;
        }
        let (generation, call) = self.outgoing.at(index(stream))?;
        (call.state != State::Waiting).then_some((CallId { stream, generation }, call))
    }

    #[cold]
    fn not_asked(&self, stream: u32) -> Violation {
        if let Some(violation) = self.misplaced(stream) {
            return violation;
        }
        let (reason, message) = if self.is_ours(stream) {
            (Reason::UnknownStream, format!("an answer on stream {stream}, where no call is open"))
        } else {
            (
                Reason::StreamNumber,
                format!("an answer on stream {stream}, which is a number of its sender"),
            )
        };
        Violation::new(reason, message)
    }

    /// The last frame of a call came: the slot is free, and the end of a stream is acknowledged.
    #[inline(never)]
    fn terminated(&mut self, index: u32) {
        if self.outgoing.get(index).is_some_and(|call| call.stream.is_some()) {
            let stream = self.own_stream(index);
            self.output.put_number(Kind::Credit, stream, flag::END, 0);
        }
        self.free_outgoing(index);
    }

    #[inline(always)]
    pub(crate) fn receive_reply(&mut self) -> Result<NextEvent, Violation> {
        self.fields.read_next(self.reader.metadata())?;
        let head = self.reader.head();
        if head.has(flag::HTTP) {
            self.need(feature::HTTP, "http")?;
        }
        self.unpack()?;
        if self.fields.has_more() {
            self.receive_rarely()?;
        }
        let is_empty = self.received_payload().range.is_empty();
        let validator = self.fields.validator();
        let stream = head.stream;
        let Some((call, outgoing)) = self.note_answer(stream) else {
            return Err(self.not_asked(stream));
        };
        let then = next(head, outgoing, validator.is_some(), is_empty)?;
        let command = outgoing.command;
        if head.has(flag::UNCHANGED) && outgoing.request.validator.is_none() {
            return Err(Violation::malformed("UNCHANGED, and the caller named no validator"));
        }
        let cancelled = outgoing.state == State::Cancelled;
        match then {
            Continuation::Nothing if outgoing.stream.is_none() => self.free_outgoing(call.index()),
            Continuation::Nothing => self.terminated(call.index()),
            Continuation::Watch => {
                outgoing.watched(validator, head.has(flag::SUSPECT));
                let seen = !cancelled && outgoing.request.watch == Watch::Values;
                let counted = std::mem::take(&mut outgoing.counted);
                self.granted(stream, counted, seen);
            }
            Continuation::Items => outgoing.stream.get_or_insert_default().head = Some(Vec::new()),
        }
        if command != 0 {
            self.commands.acknowledge(command);
        }
        self.received = call;
        Ok(if cancelled { NextEvent::Nothing } else { NextEvent::Reply })
    }

    /// A watch is granted, or has a new value.
    #[inline(never)]
    fn granted(&mut self, stream: u32, counted: bool, seen: bool) {
        if seen {
            self.output.seen.push(stream);
        }
        if counted {
            self.calls_out -= 1;
            if !self.again.is_empty() {
                self.send_waiting();
            }
        }
    }

    /// Fields that few answers have.
    #[cold]
    fn receive_rarely(&mut self) -> Result<(), Violation> {
        if self.fields.has(tag::DEPENDS) {
            self.need(feature::HOSTED, "hosted")?;
        }
        if self.fields.has(tag::TOKEN) {
            let metadata = self.received_metadata();
            let token = metadata.tokens().next().unwrap_or(&[]);
            self.token = Bytes::copy_from_slice(token);
        }
        Ok(())
    }

    pub(crate) fn receive_error(&mut self) -> FrameOutcome {
        let metadata = self.metadata_of()?;
        if self.fields.has_more() {
            self.receive_rarely()?;
        }
        // Before anything of the call is changed: whoever breaks a rule here ends it with the
        // session.
        let error = read_error(&self.fields, &metadata)?;
        let head = self.reader.head();
        let validator = self.fields.validator();
        let watched = head.has(flag::WATCHED);
        let mut outcome = outcome::of_number(self.fields.outcome());
        let Some((call, outgoing)) = self.note_answer(head.stream) else {
            return Err(self.not_asked(head.stream));
        };
        let cancelled = outgoing.state == State::Cancelled;
        let command = outgoing.command;
        if outgoing.was_sent_before() && matches!(outcome, Outcome::NotRun | Outcome::Behind) {
            // Not this time: the time before is not known.
            outcome = Outcome::Unknown;
        }
        if watched {
            next(
                Head { flags: head.flags & (flag::WATCHED | flag::SUSPECT), ..head },
                outgoing,
                validator.is_some(),
                true,
            )?;
            outgoing.watched(validator, head.has(flag::SUSPECT));
            let seen = !cancelled && outgoing.request.watch == Watch::Values;
            let counted = std::mem::take(&mut outgoing.counted);
            self.granted(head.stream, counted, seen);
        } else {
            self.terminated(call.index());
            self.commands.acknowledge(command);
        }
        let error = error.with_outcome(outcome);
        if cancelled {
            return Ok(None);
        }
        let watched = validator.filter(|_| watched);
        self.events.push_back(Event::Failed { call, error, watched, metadata });
        Ok((watched.is_some() && head.has(flag::SUSPECT)).then_some(Event::Suspect { call }))
    }

    pub(crate) fn receive_end_of_reply(&mut self) -> FrameOutcome {
        let metadata = self.metadata_of()?;
        let Some((call, outgoing)) = self.note_answer(self.reader.head().stream) else {
            return Err(self.not_asked(self.reader.head().stream));
        };
        if outgoing.stream.as_ref().is_none_or(|stream| stream.head.is_none()) {
            return Err(Violation::new(Reason::Unexpected, "an end before the head of the reply"));
        }
        let cancelled = outgoing.state == State::Cancelled;
        let command = outgoing.command;
        self.terminated(call.index());
        self.commands.acknowledge(command);
        Ok((!cancelled).then_some(Event::End { call, metadata }))
    }

    /// The callee wants no more items.
    pub(crate) fn receive_stop(&mut self, stream: u32) -> FrameOutcome {
        let Some((call, outgoing)) = self.note_answer(stream) else {
            return Err(self.not_asked(stream));
        };
        let Some(state) = &mut outgoing.stream else { return Ok(None) };
        if std::mem::replace(&mut state.stopped, true) || state.send.finish.is_some() {
            return Ok(None);
        }
        state.send.finish = Some(Finish::end(Vec::new()));
        let cancelled = outgoing.state == State::Cancelled;
        if let Some(stream) = self.outgoing.of(call).and_then(|call| call.stream.as_mut()) {
            stream.send.clear(&mut self.pool);
        }
        self.join_line(stream);
        Ok((!cancelled).then_some(Event::StopSending { call }))
    }
}

impl OwnCall {
    /// It is answered, and watched under this validator.
    fn watched(&mut self, validator: Option<tidewire_service::Validator>, suspect: bool) {
        self.suspect = suspect;
        self.request.validator = validator;
        if self.state != State::Cancelled {
            self.state = State::Watching;
            self.request.deadline = crate::Micros::MAX;
        }
    }
}

/// What a reply means for its call.
#[inline]
fn next(
    head: Head,
    call: &OwnCall,
    has_validator: bool,
    is_empty: bool,
) -> Result<Continuation, Violation> {
    let unexpected = |message| Err(Violation::new(Reason::Unexpected, message));
    if call.stream.as_ref().is_some_and(|stream| stream.head.is_some()) {
        return unexpected("a second reply on a stream");
    }
    if head.has(flag::UNCHANGED) && !is_empty {
        return Err(Violation::malformed("UNCHANGED with a payload"));
    }
    match Continuation::of(head) {
        Continuation::Nothing if head.has(flag::WATCHED) => {
            Err(Violation::malformed("a reply with END and WATCHED"))
        }
        Continuation::Watch if head.has(flag::MORE) && !is_empty => {
            Err(Violation::malformed("a large watched answer with a payload"))
        }
        Continuation::Watch if call.request.watch == Watch::No => {
            unexpected("a watch that nobody asked for")
        }
        Continuation::Watch if call.stream.is_some() => unexpected("a watch of a stream"),
        Continuation::Watch
            if call.request.watch == Watch::Notify && call.state == State::Watching =>
        {
            unexpected("a second value of a watch that is notified")
        }
        Continuation::Watch if call.request.watch == Watch::Notify && head.has(flag::SUSPECT) => {
            unexpected("SUSPECT for a watch that is notified")
        }
        Continuation::Watch if !has_validator => {
            Err(Violation::malformed("a watched reply without validator"))
        }
        Continuation::Items if !is_empty => {
            Err(Violation::malformed("the head of a stream has a payload"))
        }
        Continuation::Items if call.state == State::Watching => unexpected("a stream on a watch"),
        then => Ok(then),
    }
}

pub(crate) fn read_error(fields: &Fields, metadata: &Metadata) -> Result<Error, Violation> {
    let code = fields.code().ok_or_else(|| Violation::malformed("an error without code"))?;
    let code = u32::try_from(code).ok().and_then(Code::from_number).unwrap_or(Code::Unknown);
    let mut error = Error::new(code, fields.message(metadata.raw()).unwrap_or(""));
    for entry in metadata.entries().filter(|entry| entry.tag == tag::DETAIL) {
        let mut value = entry.value;
        if let Some(name) = varint::take_string(&mut value) {
            error = error.with_detail(tidewire_service::Detail {
                type_name: String::from_utf8_lossy(name).into_owned(),
                value: Bytes::copy_from_slice(value),
            });
        }
    }
    let MetadataMaps { headers, trailers } = metadata.to_maps();
    *error.headers_mut() = headers.into();
    *error.trailers_mut() = trailers.into();
    Ok(error)
}
