//! One outcome a request, for logs, metrics and traces.
//!
//! An [`Observer`] sees the beginning of every request, also of those that no service sees: unknown
//! methods, refused heads, broken envelopes. What it returns is told the phases and then exactly
//! one end. Nobody observes: nothing is allocated and nothing is called.
//!
//! One that panics is told no more of that moment, and takes neither the request nor other
//! observers with it. This crate reads no clock: whoever tells an end has looked at one, once for
//! all who observe.

use std::sync::Arc;

use crate::{Head, Observation};

/// Sees every request begin.
///
/// Counts errors by their codes:
///
/// ```
/// # mod tidewire { pub use tidewire_service::*; pub mod service { pub use tidewire_service::*; } }
/// use std::collections::BTreeMap;
/// use std::sync::{Arc, Mutex};
/// use tidewire::service::{End, EndReason, Observation, Observer, Phases, Target};
/// use tidewire::{Code, Context, Head};
///
/// #[derive(Clone, Default)]
/// struct Errors(Arc<Mutex<BTreeMap<Code, u64>>>);
///
/// impl Observer for Errors {
///     fn begin(&self, _: &Head) -> Arc<dyn Observation> {
///         Arc::new(self.clone())
///     }
/// }
///
/// impl Observation for Errors {
///     fn phases(&self) -> Phases {
///         Phases::NONE // only the end counts
///     }
///
///     fn end(&self, end: &End) {
///         if let Some(code) = end.code {
///             *self.0.lock().unwrap().entry(code).or_default() += 1;
///         }
///     }
/// }
///
/// let errors = Errors::default();
/// let head = Head::new(Target::Unknown("/".into()), Context::default());
/// let mut end = End::new(EndReason::Answered);
/// end.code = Some(Code::NotFound);
/// errors.begin(&head).end(&end);
/// assert_eq!(errors.0.lock().unwrap()[&Code::NotFound], 1);
/// ```
pub trait Observer: Send + Sync + 'static {
    /// A request's head has arrived.
    ///
    /// Shared, since what runs inside a service (memoization) has phases to report too.
    fn begin(&self, head: &Head) -> Arc<dyn Observation>;

    /// Whether it may be told of a request that is answered from memory by the bytes of the
    /// response to one before. Its beginning, its phases and its end are then told together, once
    /// gates and memory were asked and before the bytes leave; its messages are not. The head is
    /// that of the request before, with the peer, the time and the deadline of now. Asked for each
    /// such request.
    ///
    /// With an observer that says `false`, as here, each request is read, which costs what that
    /// costs.
    fn accepts_prepared(&self) -> bool {
        false
    }
}
