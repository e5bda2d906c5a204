//! What a memo answers when it has no value.
//!
//! One pointer wide, cheap to clone: a memoized failure is handed to every caller.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

/// Why a `get` has no value.
///
/// [`ErrorKind`] says who is at fault; [`Error::source`](std::error::Error::source) and
/// [`Error::downcast_ref`] reach the error that the memoized function returned.
///
/// ```
/// # mod tidewire { pub mod memo { pub use tidewire_memo::*; } }
/// use tidewire::memo::{ErrorKind, Graph, Memo};
///
/// # futures::executor::block_on(async {
/// let graph = Graph::new();
/// let number = Memo::new_in(&graph, "number", async |text: String| text.parse::<u32>());
/// let error = number.get("seven".to_owned()).await.unwrap_err();
/// assert_eq!(error.kind(), ErrorKind::Failed);
/// assert!(error.downcast_ref::<std::num::ParseIntError>().is_some());
/// # });
/// ```
#[derive(Clone)]
pub struct Error(Arc<Repr>);

/// Who is at fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The memoized function returned an error.
    Failed,
    /// The memoized function panicked; the next call runs it anew.
    Panicked,
    /// The value depends on itself; the message names the cycle. Never memoized.
    Cycle,
    /// The memo or its graph was closed, or the object behind a `#[memo]` method is gone.
    Closed,
}

/// The error type that a memoized function's own error is turned into.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

struct Repr {
    kind: ErrorKind,
    version: AtomicU64,
    text: String,
    cause: Option<Cause>,
}

/// An error that memos hand on has one place, however many of them do: a chain of them would be dropped
/// level by level, each on the stack of the one above.
type Cause = Arc<dyn std::error::Error + Send + Sync>;

impl Error {
    pub(crate) fn failed(cause: BoxError) -> Self {
        let text = cause.to_string();
        let cause = match cause.downcast::<Self>() {
            Ok(error) => error.0.cause.clone().unwrap_or_else(|| Arc::new(*error)),
            Err(cause) => Arc::from(cause),
        };
        Self::new(ErrorKind::Failed, text, Some(cause))
    }

    pub(crate) fn panicked(memo: &str, payload: &(dyn std::any::Any + Send)) -> Self {
        let message = payload
            .downcast_ref::<&str>()
            .copied()
            .or_else(|| payload.downcast_ref::<String>().map(String::as_str))
            .unwrap_or("no message");
        Self::new(ErrorKind::Panicked, format!("memo {memo} panicked: {message}"), None)
    }

    pub(crate) fn cycle(names: &[String]) -> Self {
        Self::new(ErrorKind::Cycle, format!("cycle: {}", names.join(" -> ")), None)
    }

    pub(crate) fn closed(memo: &str) -> Self {
        Self::new(ErrorKind::Closed, format!("memo {memo} is closed"), None)
    }

    fn new(kind: ErrorKind, text: String, cause: Option<Cause>) -> Self {
        Self(Arc::new(Repr { kind, version: AtomicU64::new(0), text, cause }))
    }

    /// About what it holds: its message, which its cause mostly has, too.
    pub(crate) fn heap_bytes(&self) -> usize {
        size_of::<Repr>() + 2 * self.0.text.len()
    }

    pub(crate) fn set_version(&self, version: u64) {
        self.0.version.store(version, Relaxed);
    }

    /// The version of an error that is memoized, as [`CachedValue::version`](crate::CachedValue::version) is that of a
    /// value; 0 for one that is not, after which nothing says when it is over.
    /// [`Memo::validate`](crate::Memo::validate) is of values, and says `false` of it.
    #[must_use]
    pub fn version(&self) -> u64 {
        self.0.version.load(Relaxed)
    }

    /// Who is at fault.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// The error that the memoized function returned, if it was an `E`. One that it had from another memo, and
    /// handed on, is that one's cause, however many hand it on; an error without a cause is its own.
    #[must_use]
    pub fn downcast_ref<E: std::error::Error + 'static>(&self) -> Option<&E> {
        self.0.cause.as_ref()?.downcast_ref()
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.text)
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Error").field("kind", &self.0.kind).field("text", &self.0.text).finish()
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.cause.as_ref().map(|cause| &**cause as &(dyn std::error::Error + 'static))
    }
}
