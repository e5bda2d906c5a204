//! What a call brings along that is no part of its key.
#![allow(unsafe_code)]

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::fmt;
use std::pin::Pin;
use std::ptr;
use std::sync::Arc;
use std::task::{Context, Poll};

use crate::memory::sync;

/// What a call brings along that is no part of its key: a deadline, a trace, the number of the call.
///
/// It is ambient while a future that was wrapped in [`Ambient::scope`] is polled. The call that starts a
/// computation gives it its own; a call that joins it brings its own in vain. A value must not depend on
/// it: it is served to everybody.
///
/// ```
/// use tidewire_memo::{Ambient, Graph, Memo};
///
/// struct Trace(&'static str);
/// let graph = Graph::new();
/// let memo = Memo::infallible_in(&graph, "memo", |key: u64| async move {
///     let trace = Ambient::current().get::<Trace>();
///     assert_eq!(trace.map(|trace| trace.0), Some("4bf92f"));
///     key
/// });
/// let ambient = Ambient::new(17).with(Trace("4bf92f"));
/// let value = futures::executor::block_on(ambient.scope(memo.get(1)));
/// assert_eq!(*value?, 1);
/// # Ok::<(), tidewire_memo::Error>(())
/// ```
#[derive(Clone, Default)]
pub struct Ambient(Option<Arc<Inner>>);

struct Inner {
    tag: u64,
    value: Option<Arc<dyn Any + Send + Sync>>,
}

impl Ambient {
    /// A context with a number of the caller's, which events carry; 0 stands for none.
    #[must_use]
    pub fn new(tag: u64) -> Self {
        Self(Some(Arc::new(Inner { tag, value: None })))
    }

    /// Gives the functions that run in this context a value, in place of one that it had.
    #[must_use]
    pub fn with<T: Send + Sync + 'static>(self, value: T) -> Self {
        Self(Some(Arc::new(Inner { tag: self.tag(), value: Some(Arc::new(value)) })))
    }

    /// The context in which this is called: that of the running computation, or of the wrapped future.
    #[must_use]
    #[inline]
    pub fn current() -> Self {
        if ADDRESS.with(Cell::get).is_null() { Self(None) } else { Self::current_some() }
    }

    #[inline(never)]
    fn current_some() -> Self {
        CURRENT.try_with(|current| current.borrow().clone()).unwrap_or_default()
    }

    /// The number given to [`Ambient::new`].
    #[must_use]
    pub fn tag(&self) -> u64 {
        self.0.as_ref().map_or(0, |inner| inner.tag)
    }

    /// The value given to [`Ambient::with`], if it is a `T`.
    #[must_use]
    pub fn get<T: Send + Sync + 'static>(&self) -> Option<Arc<T>> {
        let value = self.0.as_ref()?.value.clone()?;
        value.downcast().ok()
    }

    /// Runs a future in this context.
    pub fn scope<F: Future>(self, future: F) -> InAmbient<F> {
        InAmbient { ambient: self, future }
    }

    /// Makes this the current context until the guard is dropped.
    pub(crate) fn enter(self) -> AmbientGuard {
        AmbientGuard { before: self.replace_current() }
    }

    /// Makes this the current context and returns the one that was; `None` in a thread that is ending.
    fn replace_current(self) -> Option<Self> {
        let address = self.address();
        let before = CURRENT.try_with(|current| {
            ADDRESS.with(|current| current.set(address));
            current.replace(self)
        });
        before.ok()
    }

    fn address(&self) -> *const Inner {
        self.0.as_ref().map_or(ptr::null(), Arc::as_ptr)
    }

    /// Whether there is no context.
    pub(crate) fn is_none(&self) -> bool {
        self.0.is_none()
    }

    /// The same, unless it is the current context already.
    pub(crate) fn enter_from_elsewhere(&self) -> Option<AmbientGuard> {
        let is_here = ptr::eq(ADDRESS.with(Cell::get), self.address());
        (!is_here).then(|| self.clone().enter())
    }
}

/// The number of the current context, for events.
pub(crate) fn tag() -> u64 {
    CURRENT.try_with(|current| current.borrow().tag()).unwrap_or(0)
}

/// Puts the outer context back.
#[derive(Debug)]
pub(crate) struct AmbientGuard {
    /// `None` in a thread that is ending, which has no context any more.
    before: Option<Ambient>,
}

impl Drop for AmbientGuard {
    fn drop(&mut self) {
        if let Some(before) = self.before.take() {
            // What a context holds is user code's to drop, so it is dropped outside of the borrow.
            drop(before.replace_current());
        }
    }
}

/// The future of [`Ambient::scope`].
#[must_use = "futures do nothing unless polled"]
pub struct InAmbient<F> {
    ambient: Ambient,
    future: F,
}

impl<F: Future> Future for InAmbient<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        // SAFETY: `future` is structurally pinned: never moved out of, and this type has no `Drop`.
        let this = unsafe { self.get_unchecked_mut() };
        let _entered = this.ambient.clone().enter();
        // SAFETY: as above.
        unsafe { Pin::new_unchecked(&mut this.future) }.poll(context)
    }
}

impl fmt::Debug for Ambient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ambient").field("tag", &self.tag()).finish_non_exhaustive()
    }
}

impl<F> fmt::Debug for InAmbient<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InAmbient").field("ambient", &self.ambient).finish_non_exhaustive()
    }
}

sync::thread_local! {
    static CURRENT: RefCell<Ambient> = const { RefCell::new(Ambient(None)) };
    /// That of the current context: most code runs in none, which is then known without asking for it.
    static ADDRESS: Cell<*const Inner> = const { Cell::new(ptr::null()) };
}
