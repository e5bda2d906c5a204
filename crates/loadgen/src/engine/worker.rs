//! One worker: its share of the connections and of the load, in one epoll loop.

use std::collections::VecDeque;
use std::num::NonZeroU64;
use std::os::fd::OwnedFd;

use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::fs::Timespec;
use rustix::io::Errno;
use tokio::sync::mpsc::UnboundedSender;

use super::cpu_reading::CpuReading;
use super::{Progress, Run, Stop};
use crate::codec::Codec;
use crate::error::Error;
use crate::failure::Failure;
use crate::flight::{Flight, Flights};
use crate::generate::{Load, Share, Source};
use crate::plan::{Model, Plan, Reuse};
use crate::recorder::{Correction, Recorder, Sample};
use crate::reply::Answer;
use crate::run_clock::{Nanos, RunClock, SECOND, nanos};
use crate::schedule::{Schedule, Segment};
use crate::transport::{Connection, State};
use crate::workload::Composer;

/// Housekeeping (time limits, reconnecting, progress) happens this often.
const TICK: Nanos = SECOND / 20;
/// The last part of a wait for a due request is spent awake, because timers wake late.
const AWAKE: Nanos = 60_000;
const READ_BUFFER: usize = 64 * 1024;
/// How long answers are awaited after a run was stopped by hand.
const STOP_GRACE: Nanos = SECOND;

pub(super) struct Worker<'a> {
    plan: &'a Plan,
    index: usize,
    clock: RunClock,
    stop: &'a Stop,
    /// Raised by the worker that finds that the run makes no sense; the caller's is not its to
    /// raise.
    given_up: &'a Stop,
    progress: &'a UnboundedSender<Progress>,
    epoll: OwnedFd,
    connections: Vec<Connection>,
    /// Connections with room, each at most once.
    line: VecDeque<u32>,
    /// Connections with bytes to write after a round of starts.
    dirty: Vec<u32>,
    /// Iterations whose next step waits for a connection.
    resumes: VecDeque<(u32, u32)>,
    flights: Flights,
    composer: Composer<'a>,
    load: Load,
    buffer: Vec<u8>,
    next_tick: Nanos,
    seconds_reported: usize,
    stopped_at: Option<Nanos>,
    /// A request that could not even be written: the run ends.
    fault: Option<Error>,
    cpu_at_origin: Option<CpuReading>,
    cpu_at_end: Option<CpuReading>,
    reconnects: u64,
}

/// What ends a run early.
#[derive(Clone, Copy)]
pub(super) struct Stops<'a> {
    /// Somebody wants it.
    pub(super) stop: &'a Stop,
    /// A worker cannot go on.
    pub(super) given_up: &'a Stop,
}

impl<'a> Worker<'a> {
    pub(super) fn new(
        plan: &'a Plan,
        index: usize,
        clock: RunClock,
        Stops { stop, given_up }: Stops<'a>,
        progress: &'a UnboundedSender<Progress>,
    ) -> Result<Self, Error> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)
            .map_err(|errno| Error::system(format!("epoll: {errno}")))?;
        // Without this the kernel may wake the worker 50 µs after a request was due.
        let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
        let connections = (index..plan.connections)
            .step_by(plan.threads)
            .map(|number| Connection::new(Codec::new(plan), plan.opens_at(number)))
            .collect();
        Ok(Self {
            plan,
            index,
            clock,
            stop,
            given_up,
            progress,
            epoll,
            connections,
            line: VecDeque::new(),
            dirty: Vec::new(),
            resumes: VecDeque::new(),
            flights: Flights::default(),
            composer: Composer::new(&plan.workload, index, plan.threads)?,
            load: load(plan, index),
            buffer: vec![0; READ_BUFFER],
            next_tick: 0,
            seconds_reported: 0,
            stopped_at: None,
            fault: None,
            cpu_at_origin: None,
            cpu_at_end: None,
            reconnects: 0,
        })
    }

    pub(super) fn run(mut self) -> Result<Run, Error> {
        let mut events: Vec<Event> = Vec::with_capacity(256);
        loop {
            let now = self.clock.now();
            self.load.advance(now);
            if now >= self.next_tick {
                self.tick(now);
            }
            self.dispatch(now);
            if let Some(fault) = self.fault.take() {
                return Err(fault);
            }
            if self.is_done(now) {
                break;
            }
            let timeout = self.timeout(now);
            match epoll::wait(
                &self.epoll,
                rustix::buffer::spare_capacity(&mut events),
                timeout.as_ref(),
            ) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(errno) => return Err(Error::system(format!("epoll: {errno}"))),
            }
            for event in events.drain(..) {
                let data = event.data;
                let flags = event.flags;
                self.event(data.u64() as usize, flags);
            }
        }
        Ok(self.finish())
    }

    /// Hands work to connections with room, then writes.
    fn dispatch(&mut self, now: Nanos) {
        while let Some(number) = self.line.front().copied() {
            let index = number as usize;
            let connection = &self.connections[index];
            let usable = match self.plan.reuse {
                Reuse::KeepAlive => connection.state == State::Open,
                Reuse::NewPerRequest => connection.opens_at <= now,
            };
            if !usable || connection.codec.capacity() == 0 {
                self.connections[index].in_line = false;
                self.line.pop_front();
                continue;
            }
            if !self.start_next(index, now) {
                break;
            }
            // One request each in turn, so that load spreads over the connections.
            self.line.rotate_left(1);
        }
        for number in std::mem::take(&mut self.dirty) {
            self.flush(number as usize, now);
        }
    }

    /// Starts the next request on a connection with room; false if there is none to start.
    fn start_next(&mut self, index: usize, now: Nanos) -> bool {
        if self.fault.is_some() {
            return false;
        }
        if let Some((session, step)) = self.resumes.pop_front() {
            self.load.resume(now);
            self.start(index, now, now, session, step);
            return true;
        }
        let Some(intended) = self.load.take(now) else { return false };
        let session = self.composer.begin();
        self.start(index, now, intended, session, 0);
        true
    }

    fn start(&mut self, index: usize, now: Nanos, intended: Nanos, session: u32, step: u32) {
        let connection = index as u32;
        let key = self.flights.insert(Flight { intended, sent: now, connection, session, step });
        if self.connections[index].state == State::Closed {
            self.open(index, now);
            if self.connections[index].state == State::Closed {
                return;
            }
        }
        let wire = match self.composer.wire(session, step) {
            Ok(wire) => wire,
            Err(fault) => {
                self.fault = Some(fault);
                return;
            }
        };
        let connection = &mut self.connections[index];
        let quiet = connection.out.is_empty();
        connection.codec.start(key, wire, &mut connection.out);
        if quiet {
            self.dirty.push(index as u32);
        }
    }

    fn open(&mut self, index: usize, now: Nanos) {
        let plan = self.plan;
        let opened = self.connections[index].open(&plan.target.address, plan.tls.as_ref(), now);
        let registered = opened.and_then(|fd| {
            let flags = EventFlags::IN | EventFlags::OUT | EventFlags::RDHUP | EventFlags::ET;
            epoll::add(&self.epoll, fd, EventData::new_u64(index as u64), flags)
                .map_err(Failure::Connect)
        });
        if let Err(failure) = registered {
            self.lost(index, now, &failure);
        }
    }

    fn event(&mut self, index: usize, flags: EventFlags) {
        let state = self.connections[index].state;
        if state == State::Closed {
            return;
        }
        let hung_up = flags.intersects(EventFlags::RDHUP | EventFlags::HUP | EventFlags::ERR);
        // A target may say something right after the handshake of TLS, read with its end.
        let greeted = state == State::Greeting;
        let news = greeted || flags.intersects(EventFlags::OUT | EventFlags::ERR);
        if state != State::Open && news && !self.proceed(index) {
            return;
        }
        if flags.intersects(EventFlags::IN) || hung_up || greeted {
            self.read(index, hung_up);
        } else if flags.contains(EventFlags::OUT) {
            let now = self.clock.now();
            self.flush(index, now);
        }
    }

    /// Goes on with opening a connection; true once it is open.
    fn proceed(&mut self, index: usize) -> bool {
        let proceeded = self.connections[index].proceed();
        let now = self.clock.now();
        match proceeded {
            Ok(true) => {}
            Ok(false) => return false,
            Err(failure) => {
                self.lost(index, now, &failure);
                return false;
            }
        }
        let connection = &mut self.connections[index];
        self.load.recorder.connects.record(now - connection.opened_at);
        let mut first = Vec::new();
        connection.codec.connected(&mut first);
        connection.out.splice(..0, first);
        self.flush(index, now);
        self.room(index, now);
        true
    }

    fn read(&mut self, index: usize, hung_up: bool) {
        let mut buffer = std::mem::take(&mut self.buffer);
        loop {
            let got = self.connections[index].read(&mut buffer);
            match got {
                Ok(0) => {
                    self.ended(index);
                    break;
                }
                Ok(count) => {
                    self.received(index, &buffer[..count]);
                    let open = self.connections[index].state == State::Open;
                    if !open || (count < buffer.len() && !hung_up) {
                        break;
                    }
                }
                Err(Failure::Broken(Errno::AGAIN)) => break,
                Err(Failure::Broken(Errno::INTR)) => {}
                Err(Failure::Broken(Errno::CONNRESET)) => {
                    self.ended(index);
                    break;
                }
                Err(failure) => {
                    let now = self.clock.now();
                    self.lost(index, now, &failure);
                    break;
                }
            }
        }
        self.buffer = buffer;
    }

    fn received(&mut self, index: usize, mut input: &[u8]) {
        let now = self.clock.now();
        loop {
            let connection = &mut self.connections[index];
            let Some(answer) = connection.codec.receive(&mut input, &mut connection.out) else {
                break;
            };
            self.take_answer(index, answer, now);
            if self.connections[index].state != State::Open {
                return;
            }
        }
        let connection = &self.connections[index];
        if let Some(failure) = connection.codec.refusal() {
            self.lost(index, now, &failure);
            return;
        }
        if connection.codec.is_closing() && connection.codec.is_idle() {
            self.closed(index, now);
            return;
        }
        self.room(index, now);
        self.flush(index, now);
    }

    fn take_answer(&mut self, index: usize, mut answer: Answer, now: Nanos) {
        let Some(flight) = self.flights.remove(answer.flight) else { return };
        let kept = self.connections[index].codec.reply_parts();
        let verdict = self.composer.judge(flight.session, flight.step, &mut answer, kept);
        self.complete(now, &flight, answer.bytes, answer.messages, verdict);
        if self.plan.reuse == Reuse::NewPerRequest {
            self.closed(index, now);
        } else if self.connections[index].codec.capacity() > 0 {
            self.start_next(index, now);
        }
    }

    /// Books the end of a flight and lets its scenario go on or end.
    fn complete(
        &mut self,
        now: Nanos,
        flight: &Flight,
        bytes: u64,
        messages: u64,
        verdict: Result<(), Failure>,
    ) {
        let Flight { intended, sent, session, step, .. } = *flight;
        let sample = Sample { intended, sent, step: step as usize, bytes, messages };
        let went_well = verdict.is_ok();
        if let Err(failure) = &verdict
            && self.is_first_answer_wrong(failure)
        {
            let protocol = self.plan.workload.speech.protocol;
            self.fault = Some(Error::wrong_request(failure, protocol));
            self.given_up.raise();
        }
        self.load.complete(now, &sample, verdict);
        match self.composer.next_step(step).filter(|_| went_well && self.stopped_at.is_none()) {
            Some(next) => self.resumes.push_back((session, next)),
            None => self.composer.end(session),
        }
    }

    /// Whether every answer will be this one: each request is the same, none was answered well.
    fn is_first_answer_wrong(&self, failure: &Failure) -> bool {
        let recorder = &self.load.recorder;
        let answered = recorder.measured.ok + recorder.warm_up.ok;
        answered == 0 && self.plan.workload.is_fixed() && failure.blames_request()
    }

    /// Puts a connection with room in line.
    fn room(&mut self, index: usize, now: Nanos) {
        while self.connections[index].codec.capacity() > 0 && self.start_next(index, now) {}
        let connection = &mut self.connections[index];
        if connection.codec.capacity() > 0 && !connection.in_line {
            connection.in_line = true;
            self.line.push_back(index as u32);
        }
    }

    fn flush(&mut self, index: usize, now: Nanos) {
        if let Err(errno) = self.connections[index].flush() {
            let failure = match errno {
                Errno::PIPE | Errno::CONNRESET => Failure::Closed,
                other => Failure::Broken(other),
            };
            self.lost(index, now, &failure);
        }
    }

    /// The target closed the connection.
    fn ended(&mut self, index: usize) {
        let now = self.clock.now();
        if let Some(answer) = self.connections[index].codec.end_of_input() {
            self.take_answer(index, answer, now);
            if self.plan.reuse == Reuse::NewPerRequest {
                return;
            }
        }
        self.lost(index, now, &Failure::Closed);
    }

    /// The connection is gone, and with it every request on it.
    fn lost(&mut self, index: usize, now: Nanos, failure: &Failure) {
        let keys = self.flights.keys(|flight| flight.connection as usize == index);
        for key in &keys {
            if let Some(flight) = self.flights.remove(*key) {
                self.complete(now, &flight, 0, 0, Err(failure.clone()));
            }
        }
        if failure.is_refusal() || self.connections[index].codec.refusal().is_some() {
            self.connect_failed(index, now, failure, keys.is_empty());
        }
        self.closed(index, now);
    }

    /// A connection could not be opened: waits before the next attempt, and in a closed model
    /// counts a failed request even if none was queued on it, because one would have been sent.
    fn connect_failed(&mut self, index: usize, now: Nanos, failure: &Failure, unused: bool) {
        self.load.recorder.refused_since.get_or_insert(now);
        self.connections[index].back_off(now);
        let closed_model = matches!(self.plan.model, Model::Closed { .. });
        if unused
            && closed_model
            && let Some(intended) = self.load.take(now)
        {
            let sample = Sample { intended, sent: now, step: 0, bytes: 0, messages: 0 };
            self.load.complete(now, &sample, Err(failure.clone()));
        }
    }

    fn closed(&mut self, index: usize, now: Nanos) {
        let codec = Codec::new(self.plan);
        let connection = &mut self.connections[index];
        connection.close(codec);
        if self.plan.reuse == Reuse::NewPerRequest {
            if connection.opens_at <= now {
                self.room(index, now);
            }
            return;
        }
        self.reconnects += 1;
        if connection.opens_at <= now && self.wants_connections(now) {
            self.open(index, now);
        }
    }

    fn wants_connections(&self, now: Nanos) -> bool {
        self.load.may_start(now) || self.load.has_work(now) || !self.resumes.is_empty()
    }

    /// Housekeeping.
    fn tick(&mut self, now: Nanos) {
        self.next_tick = now + TICK;
        if (self.stop.is_raised() || self.given_up.is_raised()) && self.stopped_at.is_none() {
            self.stopped_at = Some(now);
            self.load.stop();
            self.resumes.clear();
        }
        self.expire(now);
        self.connect(now);
        let open = self.connections.iter().filter(|one| one.state == State::Open).count();
        self.load.recorder.connections(open);
        self.account(now);
        self.load.recorder.roll(now);
        // An answer may have ended the second already.
        let seconds = self.load.recorder.timeline.len();
        if std::mem::replace(&mut self.seconds_reported, seconds) < seconds {
            self.report(now);
        }
    }

    /// Gives up requests over the time limit, and all of them after a stop.
    fn expire(&mut self, now: Nanos) {
        let abandoned = self.stopped_at.is_some_and(|at| now > at + STOP_GRACE);
        let limit = nanos(self.plan.timeout);
        let late = self.flights.keys(|flight| abandoned || now.saturating_sub(flight.sent) > limit);
        for key in late {
            let Some(flight) = self.flights.get(key).copied() else { continue };
            let failure = if abandoned { Failure::Abandoned } else { Failure::Timeout };
            let index = flight.connection as usize;
            let connection = &mut self.connections[index];
            if connection.codec.cancel(key, &mut connection.out) {
                self.flights.remove(key);
                self.complete(now, &flight, 0, 0, Err(failure));
                self.flush(index, now);
            } else {
                self.lost(index, now, &failure);
            }
        }
    }

    fn connect(&mut self, now: Nanos) {
        if !self.wants_connections(now) {
            return;
        }
        for index in 0..self.connections.len() {
            let connection = &self.connections[index];
            if connection.state != State::Closed || connection.opens_at > now {
                continue;
            }
            match self.plan.reuse {
                Reuse::KeepAlive => self.open(index, now),
                Reuse::NewPerRequest => self.room(index, now),
            }
        }
    }

    /// Notes the CPU time of this thread at the borders of the measured part.
    fn account(&mut self, now: Nanos) {
        if now >= self.plan.origin() && self.cpu_at_origin.is_none() {
            self.cpu_at_origin = Some(CpuReading::take(now));
        }
        if now >= self.plan.until() && self.cpu_at_end.is_none() {
            self.cpu_at_end = Some(CpuReading::take(now));
        }
    }

    fn report(&self, now: Nanos) {
        let recorder = &self.load.recorder;
        let last = recorder.timeline.last();
        let _ = self.progress.send(Progress {
            worker: self.index,
            at: now,
            ok: recorder.measured.ok,
            failed: recorder.measured.failed,
            dropped: recorder.measured.dropped,
            p50: last.map_or(0.0, |row| row.p50),
            p99: last.map_or(0.0, |row| row.p99),
        });
    }

    fn is_done(&self, now: Nanos) -> bool {
        self.load.is_done(now) && self.resumes.is_empty()
    }

    /// How long to sleep: until the next due request or the next tick.
    fn timeout(&self, now: Nanos) -> Option<Timespec> {
        let due = self.load.next_due().map_or(Nanos::MAX, |due| due.saturating_sub(AWAKE));
        let wait = self.next_tick.min(due).saturating_sub(now);
        let nanos = i64::try_from(wait).unwrap_or(i64::MAX);
        Some(Timespec { tv_sec: nanos / 1_000_000_000, tv_nsec: nanos % 1_000_000_000 })
    }

    fn finish(mut self) -> Run {
        let now = self.clock.now();
        self.load.recorder.finish(now);
        let from = self.cpu_at_origin.unwrap_or_else(|| CpuReading::take(now));
        let to = self.cpu_at_end.unwrap_or_else(|| CpuReading::take(now));
        let client_cpu = to.used.saturating_sub(from.used);
        Run {
            recorder: self.load.recorder,
            client_cpu,
            busiest: client_cpu as f64 / to.at.saturating_sub(from.at).max(1) as f64,
            reconnects: self.reconnects,
            ended_at: now,
            interrupted: self.stopped_at.is_some(),
        }
    }
}

fn load(plan: &Plan, index: usize) -> Load {
    let share = |total: u64| {
        let threads = plan.threads as u64;
        total / threads + u64::from((index as u64) < total % threads)
    };
    let steps = plan.workload.steps.len();
    let (source, correction) = match &plan.model {
        Model::Closed { .. } => (Source::Closed { until: plan.until() }, Correction::None),
        Model::Open { segments, spacing, in_flight_max } => {
            let mut all = Vec::new();
            if !plan.warm_up.is_zero() {
                let rate = segments.first().map_or(1.0, |first| first.from.max(1.0));
                let seconds = plan.warm_up.as_secs_f64();
                all.push(Segment { from: rate, to: rate, seconds });
            }
            all.extend(segments);
            let source = Source::Open {
                schedule: Schedule::new(all, *spacing),
                in_flight_max: in_flight_max.div_ceil(plan.threads),
                share: Share { index, workers: plan.threads },
            };
            (source, Correction::FromIntendedStart)
        }
    };
    let recorder = Recorder::new(plan.origin(), correction, steps);
    let requests = plan.requests.map_or(u64::MAX, share);
    Load::new(source, requests, nanos(plan.timeout), recorder)
}
