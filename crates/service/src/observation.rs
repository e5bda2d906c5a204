//! What becomes of one request: its phases, its messages, and its one end.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::StatusCode;

use crate::{Code, Codec, Principal};

/// Is told what becomes of one request.
///
/// Tells how long requests wait for a place before they run; see [`Observer`](crate::Observer) for
/// how one begins.
///
/// ```
/// # mod tidewire { pub mod service { pub use tidewire_service::*; } }
/// use std::sync::Mutex;
/// use std::time::Instant;
/// use tidewire::service::{End, Observation, Phase, Phases};
///
/// #[derive(Default)]
/// struct Waiting(Mutex<Option<Instant>>);
///
/// impl Observation for Waiting {
///     fn phases(&self) -> Phases {
///         Phases::NONE.with(Phase::Queued).with(Phase::Handler)
///     }
///
///     fn phase(&self, phase: Phase) {
///         let before = self.0.lock().unwrap().replace(Instant::now());
///         if let (Phase::Handler, Some(queued)) = (phase, before) {
///             println!("waited for {:?}", queued.elapsed());
///         }
///     }
///
///     fn end(&self, _: &End) {}
/// }
/// # let waiting = Waiting::default();
/// # waiting.phase(Phase::Queued);
/// # assert!(waiting.0.lock().unwrap().is_some());
/// ```
pub trait Observation: Send + Sync + 'static {
    /// The phases that are told, asked once: each that is not saves every request something.
    fn phases(&self) -> Phases {
        Phases::ALL
    }

    /// The request reached a phase. Each is told at most once, in this order, and some are left
    /// out.
    fn phase(&self, phase: Phase) {
        let _ = phase;
    }

    /// A hosted program of this name is given the call; told at most once. What is answered from
    /// the cache reaches no program.
    fn program(&self, name: &Arc<str>) {
        let _ = name;
    }

    /// Whether messages are told, asked once.
    fn wants_messages(&self) -> bool {
        false
    }

    /// A message of a call of a method went by: its bytes in this codec, without envelope and
    /// compression.
    fn message(&self, side: Side, codec: Codec, message: &Bytes) {
        let _ = (side, codec, message);
    }

    /// The request is over: told exactly once, and last.
    fn end(&self, end: &End);
}

/// How far a request has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Phase {
    /// Its gates are asked.
    Gates,
    /// It waits for a place.
    Queued,
    /// Its layers and its service run.
    Handler,
    /// A layer looks for it among what is kept.
    Memo,
    /// It is not among what is kept: its service runs, or it waits for a run.
    Computed,
    /// The head of its answer is on its way.
    FirstByte,
    /// The last byte of its answer was handed to the connection.
    Written,
}

/// Who sent a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Side {
    /// It is of the request.
    Request,
    /// It is of the reply.
    Reply,
}

/// Some of the phases.
///
/// ```
/// # mod tidewire { pub mod service { pub use tidewire_service::*; } }
/// use tidewire::service::{Phase, Phases};
///
/// let wanted = Phases::NONE.with(Phase::Queued).with(Phase::Handler);
/// assert!(wanted.has(Phase::Queued));
/// assert!(!wanted.has(Phase::Memo));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Phases(u8);

impl Phases {
    /// None of them.
    pub const NONE: Self = Self(0);
    /// All of them.
    pub const ALL: Self = Self(u8::MAX);

    /// These, and that one.
    #[must_use]
    pub const fn with(self, phase: Phase) -> Self {
        Self(self.0 | 1 << phase as u8)
    }

    /// These and those.
    #[must_use]
    pub const fn or(self, others: Self) -> Self {
        Self(self.0 | others.0)
    }

    /// Whether it is one of these.
    #[inline]
    pub const fn has(self, phase: Phase) -> bool {
        self.0 & 1 << phase as u8 != 0
    }

    /// These as a number, one bit each, in their order from below.
    #[inline]
    pub const fn bits(self) -> u8 {
        self.0
    }

    /// Those of such a number.
    #[inline]
    pub const fn of_bits(bits: u8) -> Self {
        Self(bits)
    }
}

/// How a request ended.
///
/// ```
/// # mod tidewire { pub use tidewire_service::*; pub mod service { pub use tidewire_service::*; } }
/// use tidewire::Code;
/// use tidewire::service::{End, EndReason};
///
/// /// What an operator has to look at.
/// fn is_a_fault(end: &End) -> bool {
///     end.how == EndReason::Panicked || matches!(end.code, Some(Code::Internal | Code::DataLoss))
/// }
///
/// assert!(is_a_fault(&End::new(EndReason::Panicked)));
/// assert!(!is_a_fault(&End::new(EndReason::Canceled)));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct End {
    /// What ended it.
    pub how: EndReason,
    /// The outcome of a call of a method: `None` is success. For plain HTTP that of a refusal.
    pub code: Option<Code>,
    /// The HTTP status that was sent, where one was.
    pub status: Option<StatusCode>,
    /// How long the request took, since its head arrived.
    pub took: Duration,
    /// Bytes of the request's body as they arrived, as far as they were read.
    pub bytes_in: u64,
    /// Bytes of the answer's body as they were handed to the connection.
    pub bytes_out: u64,
    /// The phases that it reached, whether or not they were told.
    pub phases: Phases,
    /// The hosted program that was given the call, where one was.
    pub program: Option<Arc<str>>,
    /// Who called, where a gate found that out.
    pub caller: Option<Principal>,
}

/// What ended a request.
///
/// ```
/// # mod tidewire { pub mod service { pub use tidewire_service::*; } }
/// use tidewire::service::EndReason;
///
/// // Whose doing it was that a call came to no end:
/// let by_the_caller = |how| matches!(how, EndReason::Canceled | EndReason::Deadline);
/// assert!(by_the_caller(EndReason::Canceled));
/// assert!(!by_the_caller(EndReason::Drained));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum EndReason {
    /// It was answered, well or with an error.
    Answered,
    /// The caller went away, or reset the stream.
    Canceled,
    /// Its deadline passed.
    Deadline,
    /// Its handler panicked.
    Panicked,
    /// The server stopped.
    Drained,
}

impl End {
    /// An end of this kind, without code, status and bytes.
    pub const fn new(how: EndReason) -> Self {
        Self {
            how,
            code: None,
            status: None,
            took: Duration::ZERO,
            bytes_in: 0,
            bytes_out: 0,
            phases: Phases::NONE,
            program: None,
            caller: None,
        }
    }
}
