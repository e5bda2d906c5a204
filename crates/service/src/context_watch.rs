//! Who is told what is read of a context: an answer that depends on more than its key is shared
//! with nobody.

use std::time::Instant;

/// A part of a context that may differ between calls with the same message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ContextPart<'a> {
    /// One header, by its name in lower case.
    Header(&'a str),
    /// All headers, or which there are.
    Headers,
    /// The other side of the connection.
    Peer,
    /// The protocol.
    Protocol,
    /// Who calls.
    Principal,
    /// What gates, layers or a mounted service attached.
    Extensions,
}

/// Is told what a computation reads of a context; see [`Context::watch`](crate::Context::watch).
///
/// ```
/// # mod tidewire { pub use tidewire_service::*; pub mod service { pub use tidewire_service::*; } }
/// use std::sync::{Arc, atomic::{AtomicBool, Ordering}};
/// use tidewire::Context;
/// use tidewire::service::{ContextPart, ContextWatch};
///
/// /// Notes whether an answer may be another one for another caller.
/// #[derive(Default)]
/// struct DependsOnCaller(AtomicBool);
///
/// impl ContextWatch for DependsOnCaller {
///     fn read(&self, part: ContextPart<'_>) {
///         if matches!(part, ContextPart::Principal | ContextPart::Header("authorization")) {
///             self.0.store(true, Ordering::Relaxed);
///         }
///     }
/// }
///
/// let watch = Arc::new(DependsOnCaller::default());
/// let mut context = Context::default();
/// context.watch(watch.clone());
/// context.header("accept-language");
/// assert!(!watch.0.load(Ordering::Relaxed));
/// context.principal();
/// assert!(watch.0.load(Ordering::Relaxed));
/// ```
pub trait ContextWatch: Send + Sync + 'static {
    /// This part is being read.
    fn read(&self, part: ContextPart<'_>);

    /// The deadline that is seen in place of the caller's `own`.
    fn deadline(&self, own: Option<Instant>) -> Option<Instant> {
        own
    }
}
