//! What becomes of one request, told to whoever observes, once.
//!
//! A request that is observed, or that gates left something for, has one [`Watch`]: shared by its
//! future and its body, it ends when the last of them is gone. So the end is told exactly once, however
//! the request ends, and guards are dropped after it. An observer that panics is told no more of that
//! moment; the request goes on, and other observers are told.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context as TaskContext, Poll, ready};

use bytes::Bytes;
use http::{Method, Response, StatusCode};
use http_body::Frame;
use tidewire_service::{Code, End, Error, Guards, Head, How, Observation, Observer, Phase};

use crate::stop::{Stage, Stop};

/// One request that is watched; the end is told when the last reference is gone.
pub(crate) struct Watch {
    told: Arc<Told>,
    guards: Mutex<Option<Guards>>,
    stop: Stop,
    /// By itself, since a command that reads it may outlive the request.
    bytes_in: Arc<AtomicU64>,
    bytes_out: AtomicU64,
    outcome: Mutex<Outcome>,
}

#[derive(Default)]
struct Outcome {
    how: Option<How>,
    code: Option<Code>,
    status: Option<StatusCode>,
}

impl Watch {
    /// Tells every observer of a request, and lets its context reach them.
    pub(crate) fn begin(
        observers: &[Arc<dyn Observer>],
        stop: &Stop,
        head: &mut Head,
    ) -> Arc<Self> {
        let observations: Vec<_> =
            observers.iter().filter_map(|observer| shielded(|| observer.begin(head))).collect();
        let told = Arc::new(Told { observations, reached: AtomicU8::default() });
        if !told.observations.is_empty() {
            head.context.observe(Arc::clone(&told) as Arc<dyn Observation>);
        }
        Arc::new(Self {
            told,
            guards: Mutex::default(),
            stop: stop.clone(),
            bytes_in: Arc::default(),
            bytes_out: AtomicU64::default(),
            outcome: Mutex::default(),
        })
    }

    /// Keeps what gates left until the end.
    pub(crate) fn keep(&self, guards: Guards) {
        *lock(&self.guards) = Some(guards);
    }

    /// Where what is read of the request's body is counted.
    pub(crate) fn counter(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.bytes_in)
    }

    /// Takes note of an error that comes after the response's head.
    pub(crate) fn failed(&self, error: &Error) {
        let failed = Failed::new(error);
        let mut outcome = lock(&self.outcome);
        outcome.code.get_or_insert(failed.code);
        outcome.how.get_or_insert(failed.how);
    }

    /// Takes note of the response's head, and follows its body.
    pub(crate) fn response<B: http_body::Body>(
        self: Arc<Self>,
        response: Response<B>,
        verb: &Method,
    ) -> Response<Watched<B>> {
        {
            let mut outcome = lock(&self.outcome);
            let failed = response.extensions().get::<Failed>().copied();
            outcome.status = Some(response.status());
            outcome.code = failed.map(|failed| failed.code);
            outcome.how = failed.map(|failed| failed.how);
        }
        self.phase(Phase::FirstByte);
        // A body that is empty, or is left out, is never asked for a frame.
        let is_over = verb == Method::HEAD || response.body().is_end_stream();
        if is_over {
            self.over();
        }
        response.map(|body| Watched { body, watch: self, is_over })
    }

    pub(crate) fn phase(&self, phase: Phase) {
        self.told.phase(phase);
    }

    /// Takes note of bytes of an answer that is no response of HTTP.
    pub(crate) fn sent(&self, bytes: usize) {
        self.bytes_out.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// The last of the answer was given.
    pub(crate) fn over(&self) {
        lock(&self.outcome).how.get_or_insert(How::Answered);
        self.phase(Phase::Written);
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let outcome = self.outcome.get_mut().unwrap_or_else(PoisonError::into_inner);
        let gone = if self.stop.has_reached(Stage::CutOff) { How::Drained } else { How::Canceled };
        let mut end = End::new(outcome.how.unwrap_or(gone));
        (end.code, end.status) = (outcome.code, outcome.status);
        end.bytes_in = self.bytes_in.load(Ordering::Relaxed);
        end.bytes_out = self.bytes_out.load(Ordering::Relaxed);
        self.told.end(&end);
        // After the end was told.
        drop(self.guards.get_mut().unwrap_or_else(PoisonError::into_inner).take());
    }
}

/// Everybody who observes a request. Whatever holds its context can tell a phase, and may outlive it: each
/// is told once and in their order, and none after the end.
struct Told {
    observations: Vec<Arc<dyn Observation>>,
    /// One more than the number of the last phase.
    reached: AtomicU8,
}

impl Observation for Told {
    fn phase(&self, phase: Phase) {
        let number = phase as u8 + 1;
        if self.reached.fetch_max(number, Ordering::Relaxed) < number {
            for told in &self.observations {
                shielded(|| told.phase(phase));
            }
        }
    }

    fn end(&self, end: &End) {
        self.reached.store(u8::MAX, Ordering::Relaxed);
        for told in &self.observations {
            shielded(|| told.end(end));
        }
    }
}

/// How a request failed, on its response.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Failed {
    code: Code,
    how: How,
}

impl Failed {
    pub(crate) fn new(error: &Error) -> Self {
        let cause = std::error::Error::source(error);
        let how = match cause.and_then(|cause| cause.downcast_ref()) {
            Some(Ended::Panicked) => How::Panicked,
            Some(Ended::Deadline) => How::Deadline,
            None => How::Answered,
        };
        Self { code: error.code(), how }
    }
}

/// Why the server itself ended a call: the cause of the error that it then has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ended {
    Panicked,
    Deadline,
}

impl std::fmt::Display for Ended {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Panicked => "the handler panicked",
            Self::Deadline => "the deadline passed",
        })
    }
}

impl std::error::Error for Ended {}

/// Whether an error says that the caller's deadline passed here.
pub(crate) fn is_late(error: &Error) -> bool {
    let cause = std::error::Error::source(error);
    cause.and_then(|cause| cause.downcast_ref()) == Some(&Ended::Deadline)
}

/// The body of a watched response.
pub(crate) struct Watched<B> {
    body: B,
    watch: Arc<Watch>,
    is_over: bool,
}

impl<B> Watched<B> {
    /// The body that is watched.
    pub(crate) fn inner(&self) -> &B {
        &self.body
    }
}

impl<B> http_body::Body for Watched<B>
where
    B: http_body::Body<Data = Bytes, Error = Error> + Unpin,
{
    type Data = Bytes;
    type Error = Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut TaskContext<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Error>>> {
        let this = &mut *self;
        let frame = ready!(Pin::new(&mut this.body).poll_frame(cx));
        match &frame {
            Some(Ok(frame)) => {
                let bytes = frame.data_ref().map_or(0, Bytes::len);
                this.watch.bytes_out.fetch_add(bytes as u64, Ordering::Relaxed);
            }
            Some(Err(error)) => this.watch.failed(error),
            None => {}
        }
        if !this.is_over && (frame.is_none() || this.body.is_end_stream()) {
            this.is_over = true;
            this.watch.over();
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> http_body::SizeHint {
        self.body.size_hint()
    }
}

/// What an observer makes of something; `None` when it panics.
fn shielded<T>(told: impl FnOnce() -> T) -> Option<T> {
    let outcome = catch_unwind(AssertUnwindSafe(told));
    outcome.inspect_err(|_| tracing::error!("an observer panicked; the request goes on")).ok()
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
