//! What every log has, whatever database it is in: the position, the lease, what is suspended, and
//! who waits for a poll.
//!
//! Sources are suspended (nothing that reads them is kept) from the moment that they are registered
//! until the first position is taken, whenever the lease has ended, and for as long as their
//! capture is broken.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tidewire_memo::Suspension;
use tokio::sync::{Notify, watch};

use crate::apply::{ApplyResult, apply, apply_all, apply_sources, tell_everything};
use crate::collect::note;
use crate::cursor::{Cursor, Poll, Position, ResetReason, Step};
use crate::error::CatchUpError;
use crate::intent::Intents;
use crate::lease::{Lease, Moment};
use crate::outbox::Outbox;
use crate::own::OwnCommits;
use crate::registry::Registry;
use crate::settings::Settings;
use crate::status::{Counts, SourceStatus, Status};
use crate::token::{Token, parse_mark};

/// The state of a host's log.
#[derive(Debug)]
pub(crate) struct Core {
    pub(crate) settings: Settings,
    pub(crate) registry: Registry,
    pub(crate) lease: Lease,
    state: Mutex<State>,
    pub(crate) own: Mutex<OwnCommits>,
    pub(crate) outbox: Outbox,
    pub(crate) intents: Arc<Intents>,
    polls: watch::Sender<Polls>,
    /// Somebody waits for a poll.
    pub(crate) wanted: Notify,
    /// Other hosts should poll.
    pub(crate) wake_others: Notify,
}

/// When the last poll of the log was.
#[derive(Debug, Clone, Copy)]
struct PollTimes {
    begun: Moment,
    ended: Moment,
}

#[derive(Debug, Default)]
struct State {
    cursor: Cursor,
    /// While the position is not known, or too old.
    suspended: Option<Vec<Suspension>>,
    /// Sources whose capture is broken, and why.
    broken: BTreeMap<String, (String, Option<Suspension>)>,
    /// Why the log cannot be read.
    problem: Option<String>,
    last_poll: Option<PollTimes>,
    hosts: Option<u64>,
    rows: Option<u64>,
    counts: Counts,
}

/// Polls are numbered from 1.
#[derive(Debug, Default, Clone, Copy)]
struct Polls {
    begun: u64,
    done: u64,
    /// There will be none any more.
    is_closed: bool,
}

/// A poll that has begun.
#[derive(Debug)]
pub(crate) struct OpenPoll {
    number: u64,
    at: Moment,
}

impl Core {
    /// Nothing is kept until the first poll.
    pub(crate) fn new(settings: Settings, registry: Registry, suspended: Vec<Suspension>) -> Self {
        let state = State { suspended: Some(suspended), ..State::default() };
        Self {
            lease: Lease::new(settings.lease),
            settings,
            registry,
            state: Mutex::new(state),
            own: Mutex::default(),
            outbox: Outbox::default(),
            intents: Arc::default(),
            polls: watch::Sender::default(),
            wanted: Notify::new(),
            wake_others: Notify::new(),
        }
    }

    /// To be called before the statement is sent.
    pub(crate) fn begin(&self) -> OpenPoll {
        let mut number = 0;
        self.polls.send_modify(|polls| {
            polls.begun += 1;
            number = polls.begun;
        });
        OpenPoll { number, at: Moment::now() }
    }

    /// What is to be read from the log, by the cursor.
    pub(crate) fn with_cursor<R>(&self, read: impl FnOnce(&Cursor) -> R) -> R {
        read(&self.state.lock().cursor)
    }

    /// Applies a poll of PostgreSQL: marks, then trusts again.
    pub(crate) fn end(&self, begun: &OpenPoll, poll: Poll) {
        self.end_with(begun, |cursor| cursor.take(poll));
    }

    /// Applies a poll of a log whose cursor is elsewhere.
    pub(crate) fn end_step(&self, begun: &OpenPoll, step: Step) {
        self.end_with(begun, |_| step);
    }

    fn end_with(&self, begun: &OpenPoll, step: impl FnOnce(&mut Cursor) -> Step) {
        let mut resumed = None;
        {
            let mut state = self.state.lock();
            let step = step(&mut state.cursor);
            self.apply(&mut state, step);
            state.problem = None;
            state.counts.polls += 1;
            state.last_poll = Some(PollTimes { begun: begun.at, ended: Moment::now() });
            if self.polls.borrow().is_closed {
                return;
            }
            self.lease.renew(begun.at);
            if self.lease.is_valid() {
                resumed = state.suspended.take();
            }
        }
        // Marks everything, so that nothing computed meanwhile is kept. Wakers may come back here.
        if resumed.is_some() {
            drop(resumed);
            tell_everything(&self.registry);
        }
        self.polls.send_modify(|polls| polls.done = polls.done.max(begun.number));
    }

    fn apply(&self, state: &mut State, step: Step) {
        match step {
            Step::Apply(changes) => {
                if !changes.is_empty() {
                    state.counts.add(apply(&self.registry, changes));
                }
            }
            Step::Reset(reason) => self.reset(state, reason),
        }
    }

    fn reset(&self, state: &mut State, reason: ResetReason) {
        tracing::warn!(
            reason = reason.as_str(),
            "everything that depends on the database is stale"
        );
        apply_all(&self.registry);
        *state.counts.resets.entry(reason).or_default() += 1;
    }

    /// A poll failed; the lease runs on.
    pub(crate) fn fail(&self, problem: String) {
        let mut state = self.state.lock();
        if state.problem.as_ref() != Some(&problem) {
            tracing::warn!(%problem, "the change log cannot be read");
        }
        state.counts.failures += 1;
        state.problem = Some(problem);
    }

    /// Suspends everything if the lease has ended. Returns whether memory may be trusted.
    ///
    /// One clock is read; nothing is locked while the lease runs.
    pub(crate) fn check_lease(&self) -> bool {
        if self.lease.is_valid() {
            return true;
        }
        let has_lapsed = {
            let mut state = self.state.lock();
            let has_lapsed = !self.lease.is_valid() && state.suspended.is_none();
            if has_lapsed {
                tracing::warn!(
                    "the lease on the change log has ended; nothing is answered from memory"
                );
                state.suspended = Some(self.registry.suspend());
                state.counts.lapses += 1;
            }
            has_lapsed
        };
        if has_lapsed {
            tell_everything(&self.registry);
        }
        self.lease.is_valid()
    }

    /// Suspends when the lease ends, whether or not anybody asks. For ever.
    pub(crate) async fn watch_lease(&self) {
        let mut polls = self.polls.subscribe();
        loop {
            tokio::time::sleep(self.lease.remaining()).await;
            if !self.check_lease() && polls.changed().await.is_err() {
                return;
            }
        }
    }

    /// These sources have broken triggers, and no others.
    pub(crate) fn set_broken(&self, broken: &BTreeMap<String, String>) {
        let mut repaired = Vec::new();
        {
            let mut state = self.state.lock();
            let known: BTreeSet<String> = state.broken.keys().cloned().collect();
            for name in known.iter().filter(|name| !broken.contains_key(*name)) {
                tracing::info!(source = name, "its changes are captured again");
                // Other hosts may look only now, and find all in place.
                self.outbox.add(&self.settings, name, None);
                repaired.extend(state.broken.remove(name));
                *state.counts.resets.entry(ResetReason::CaptureRestored).or_default() += 1;
            }
            for (name, reason) in broken {
                if known.contains(name) {
                    continue;
                }
                tracing::error!(source = name, reason, "its changes are not captured");
                let registered = self.registry.find(name);
                let suspension = registered.map(|registered| registered.target.suspend());
                state.broken.insert(name.clone(), (reason.clone(), suspension));
            }
        }
        drop(repaired);
    }

    /// Figures of the log's tables.
    pub(crate) fn set_figures(&self, rows: Option<u64>, hosts: Option<u64>) {
        let mut state = self.state.lock();
        (state.rows, state.hosts) = (rows, hosts);
    }

    pub(crate) fn position(&self) -> Option<Position> {
        self.state.lock().cursor.position().cloned()
    }

    /// Waits until a poll that begins after this call has been applied.
    pub(crate) async fn barrier(&self) -> Result<(), CatchUpError> {
        let mut polls = self.polls.subscribe();
        let number = polls.borrow().begun + 1;
        self.state.lock().counts.barriers += 1;
        self.wanted.notify_one();
        let done = polls.wait_for(|polls| polls.done >= number || polls.is_closed);
        match tokio::time::timeout(self.settings.token_wait, done).await {
            Ok(Ok(polls)) if polls.done >= number => Ok(()),
            Ok(_) => Err(CatchUpError::Stopped),
            Err(_) => Err(CatchUpError::Timeout),
        }
    }

    /// Nobody follows the log any more: nothing is trusted from here on.
    pub(crate) fn close(&self) {
        // At once, so that no poll that ends now trusts memory again.
        let mut state = self.state.lock();
        self.lease.end();
        self.polls.send_modify(|polls| polls.is_closed = true);
        state.suspended.get_or_insert_with(|| self.registry.suspend());
        self.outbox.close();
        self.intents.end();
    }

    /// What tables feed has to be computed again: for a while its changes were not captured.
    pub(crate) fn capture_restored(&self, sources: &BTreeSet<&str>) {
        // Other hosts may look only now, and find all in place.
        sources.iter().for_each(|source| self.outbox.add(&self.settings, source, None));
        // What is suspended is marked when it is trusted again.
        if sources.is_empty() || self.state.lock().suspended.is_some() {
            return;
        }
        tracing::warn!(?sources, "changes were not captured for a while; what reads them is stale");
        apply_sources(&self.registry, sources);
        let mut state = self.state.lock();
        *state.counts.resets.entry(ResetReason::CaptureRestored).or_default() += 1;
    }

    /// A commit of this process was acknowledged; its keys are not marked yet.
    pub(crate) fn committed(&self, mark: &str) -> Token {
        let Some((incarnation, xid)) = parse_mark(mark) else { return Token::unclear() };
        let now = self.registry.ticks();
        self.own.lock().add_transaction(incarnation.short(), xid, now);
        Token::of(&incarnation, xid)
    }

    /// The same, by the rows of a SQLite file.
    pub(crate) fn committed_rows(&self, rows: RangeInclusive<i64>) {
        let now = self.registry.ticks();
        self.own.lock().add_rows(rows, now);
    }

    /// Changes that were marked here before are to be committed: their rows need no second mark.
    pub(crate) fn published(&self, mark: &str) -> Token {
        let Some((incarnation, xid)) = parse_mark(mark) else { return Token::unclear() };
        self.own.lock().add_published(incarnation.short(), xid);
        Token::of(&incarnation, xid)
    }

    /// The same, by the rows of a SQLite file, which have these numbers for good once `commit` has
    /// succeeded; no poll takes its rows up meanwhile.
    pub(crate) fn publish_rows<E>(
        &self,
        rows: RangeInclusive<i64>,
        commit: impl FnOnce() -> Result<(), E>,
    ) -> Result<(), E> {
        let mut own = self.own.lock();
        commit()?;
        own.add_published_rows(rows);
        Ok(())
    }

    /// See `OplogHandle::published`.
    pub(crate) async fn until_published(&self) -> Result<Token, CatchUpError> {
        let written = self.outbox.until_written();
        match tokio::time::timeout(self.settings.token_wait, written).await {
            Ok(token) => token.ok_or(CatchUpError::Stopped),
            Err(_) => Err(CatchUpError::Timeout),
        }
    }

    /// A commit was acknowledged and marked here: other hosts should poll.
    pub(crate) fn wrote(&self, token: &Token) {
        note(token);
        self.wake_others.notify_one();
    }

    pub(crate) fn includes(&self, token: &Token) -> bool {
        token.is_empty()
            || self.state.lock().cursor.position().is_some_and(|here| token.is_met_by(here))
    }

    /// See `OplogHandle::caught_up`.
    pub(crate) async fn caught_up(&self, token: &Token) -> Result<(), CatchUpError> {
        match self.includes(token) {
            true => Ok(()),
            false => self.barrier().await,
        }
    }

    pub(crate) fn status(&self) -> Status {
        let state = self.state.lock();
        let is_suspended = state.suspended.is_some();
        let source =
            |(name, registered): (&str, &crate::registry::RegisteredSource)| SourceStatus {
                name: name.to_owned(),
                tables: registered.tables.clone(),
                problem: state.broken.get(name).map(|(reason, _)| reason.clone()),
            };
        Status {
            position: state.cursor.position().map(ToString::to_string),
            is_suspended,
            problem: state.problem.clone(),
            lag: state.last_poll.map(|poll| Moment::now().since(poll.begun)),
            poll_time: state.last_poll.map(|poll| poll.ended.since(poll.begun)),
            lease_remaining: self.lease.remaining(),
            hosts: state.hosts,
            rows: state.rows,
            sources: self.registry.iter().map(source).collect(),
            counts: state.counts.clone(),
        }
    }
}

impl Drop for Core {
    fn drop(&mut self) {
        // Nobody hears of changes after a log that was followed, so nothing that depends on them
        // may be kept. One that never started leaves the sources as they were.
        if self.polls.borrow().is_closed {
            std::mem::forget(self.state.get_mut().suspended.take());
        }
    }
}

/// Pauses between attempts to reach the database.
#[derive(Debug)]
pub(crate) struct Backoff(Duration);

impl Backoff {
    pub(crate) fn new() -> Self {
        Self(SHORTEST)
    }

    pub(crate) async fn wait(&mut self) {
        tokio::time::sleep(self.0).await;
        self.0 = (self.0 * 2).min(LONGEST);
    }
}

impl Counts {
    fn add(&mut self, applied: ApplyResult) {
        self.batches += 1;
        self.keys += applied.keys as u64;
        self.whole_sources += applied.whole as u64;
        self.unknown_sources += applied.unknown as u64;
        self.unreadable_keys += applied.unreadable as u64;
    }
}

/// The core as tasks share it.
pub(crate) type SharedCore = Arc<Core>;

const SHORTEST: Duration = Duration::from_millis(20);
const LONGEST: Duration = Duration::from_millis(500);
