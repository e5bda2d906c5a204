//! A few connections that are always there, or on their way back.
//!
//! Each place in the pool has a task that keeps it filled: it opens a connection, waits until that
//! ends, and opens another, with pauses that grow while nobody answers. A call takes the connection
//! with the fewest statements on their way, the first of equals: under a light load that is always
//! the same one, and the others stay idle.

use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tidewire::{Error, Outcome, Result};
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio_postgres::Config;

use super::session::{Line, Session};
use super::{Backoff, Options, fault};

/// The connections.
#[derive(Debug)]
pub(super) struct Pool {
    places: Arc<[Place]>,
    in_flight_max: usize,
    answer_timeout: Duration,
    /// The tasks that keep the places filled; they end with the pool.
    _keepers: JoinSet<()>,
}

/// Where a connection is, when it is there.
#[derive(Debug, Default)]
struct Place {
    session: Mutex<Option<Arc<Session>>>,
    in_flight: AtomicUsize,
    /// Told when the connection is of no use any more.
    broken: Notify,
}

impl Pool {
    /// Opens the first connection; the others follow by themselves.
    ///
    /// Writes ask for the mark of their transaction, where a change log is in a schema.
    pub(super) async fn start(
        config: &Config,
        options: &Options,
        marks: Option<String>,
    ) -> anyhow::Result<Self> {
        let places: Arc<[Place]> =
            (0..options.connections.max(1)).map(|_| Place::default()).collect();
        let (session, line) = Session::open(config, marks.as_deref()).await?;
        places[0].set(Some(session));
        let mut keepers = JoinSet::new();
        let mut line = Some(line);
        for index in 0..places.len() {
            let keeper = CachedBody {
                places: Arc::clone(&places),
                index,
                config: config.clone(),
                marks: marks.clone(),
                backoff: options.backoff,
            };
            keepers.spawn(keeper.run(line.take()));
        }
        Ok(Self {
            places,
            in_flight_max: options.in_flight_max,
            answer_timeout: options.statement_timeout * 2,
            _keepers: keepers,
        })
    }

    /// A connection for one statement.
    ///
    /// # Errors
    /// `UNAVAILABLE` when none is up, `RESOURCE_EXHAUSTED` when all have enough to do.
    pub(super) fn lease(&self) -> Result<Lease<'_>> {
        let mut best: Option<(usize, &Place)> = None;
        let mut all = 0;
        for place in &*self.places {
            let in_flight = place.in_flight.load(Ordering::Relaxed);
            all += in_flight;
            if best.is_none_or(|(least, _)| in_flight < least) && place.is_up() {
                best = Some((in_flight, place));
            }
        }
        if all >= self.in_flight_max {
            return Err(fault::too_many(self.in_flight_max));
        }
        let leased = best.and_then(|(_, place)| Some((place, place.current()?)));
        let (place, session) = leased.ok_or_else(fault::away)?;
        place.in_flight.fetch_add(1, Ordering::Relaxed);
        Ok(Lease { place, session, answer_timeout: self.answer_timeout })
    }
}

impl Place {
    fn current(&self) -> Option<Arc<Session>> {
        self.session.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn is_up(&self) -> bool {
        let session = self.session.lock().unwrap_or_else(PoisonError::into_inner);
        session.as_ref().is_some_and(|session| !session.client.is_closed())
    }

    fn set(&self, session: Option<Session>) {
        *self.session.lock().unwrap_or_else(PoisonError::into_inner) = session.map(Arc::new);
    }
}

/// A connection while a statement is on its way.
#[derive(Debug)]
pub(super) struct Lease<'a> {
    place: &'a Place,
    session: Arc<Session>,
    answer_timeout: Duration,
}

impl Lease<'_> {
    pub(super) fn session(&self) -> &Session {
        &self.session
    }

    /// Waits for a statement that changes nothing.
    pub(super) async fn read<T>(
        &self,
        answer: impl Future<Output = Result<T, tokio_postgres::Error>>,
    ) -> Result<T> {
        self.wait(answer, fault::explain_read, ("try again", Outcome::Answered)).await
    }

    /// Waits for a statement that changes something.
    pub(super) async fn write<T>(
        &self,
        answer: impl Future<Output = Result<T, tokio_postgres::Error>>,
    ) -> Result<T> {
        self.wait(answer, fault::explain_write, (fault::OUTCOME_UNKNOWN, Outcome::Unknown)).await
    }

    /// Waits for a statement that changes something once, however often it is sent.
    pub(super) async fn write_once<T>(
        &self,
        answer: impl Future<Output = Result<T, tokio_postgres::Error>>,
    ) -> Result<T> {
        self.wait(answer, fault::explain_write_once, (fault::SEND_AGAIN, Outcome::Unknown)).await
    }

    async fn wait<T>(
        &self,
        answer: impl Future<Output = Result<T, tokio_postgres::Error>>,
        explain: fn(tokio_postgres::Error) -> Error,
        (after_silence, outcome): (&str, Outcome),
    ) -> Result<T> {
        match tokio::time::timeout(self.answer_timeout, pin!(answer)).await {
            Ok(Ok(value)) => Ok(value),
            Ok(Err(error)) => {
                if fault::is_of_connection(&error) {
                    self.place.broken.notify_one();
                }
                Err(explain(error))
            }
            Err(_) => {
                self.place.broken.notify_one();
                let error = format!("the database does not answer; {after_silence}");
                Err(Error::unavailable(error).with_outcome(outcome))
            }
        }
    }
}

impl Drop for Lease<'_> {
    fn drop(&mut self) {
        self.place.in_flight.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Keeps one place filled.
struct CachedBody {
    places: Arc<[Place]>,
    index: usize,
    config: Config,
    marks: Option<String>,
    backoff: Backoff,
}

impl CachedBody {
    async fn run(self, mut line: Option<Line>) {
        let place = &self.places[self.index];
        loop {
            let mut open = match line.take() {
                Some(line) => line,
                None => self.reopen(place).await,
            };
            tokio::select! {
                () = open.ended() => {}
                () = place.broken.notified() => {}
            }
            place.set(None);
        }
    }

    async fn reopen(&self, place: &Place) -> Line {
        let Backoff { first: mut pause, longest } = self.backoff;
        loop {
            match Session::open(&self.config, self.marks.as_deref()).await {
                Ok((session, line)) => {
                    tracing::info!("connected to the database");
                    place.set(Some(session));
                    return line;
                }
                Err(error) => tracing::warn!(error = format!("{error:#}"), "trying again"),
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(longest);
        }
    }
}
