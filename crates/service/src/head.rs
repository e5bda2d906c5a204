//! The head of a request: what is known of it before its body is read, and what gates left to be
//! dropped when it is over.

use std::any::Any;
use std::fmt;
use std::mem::ManuallyDrop;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Instant;

use crate::{Context, Target};

/// What is known of a request before its body is read.
///
/// A gate is tested with a head:
///
/// ```
/// # mod tidewire {
/// #     pub use http;
/// #     pub use tidewire_service::*;
/// #     pub mod service { pub use tidewire_service::*; }
/// # }
/// use tidewire::http;
/// use tidewire::service::{HttpTarget, Target};
/// use tidewire::{Context, Error, Head, Result};
///
/// fn reads_only(head: &mut Head) -> Result<()> {
///     match &head.target {
///         Target::Method(method) if method.is_query() => Ok(()),
///         Target::Http(target) if target.method.is_safe() => Ok(()),
///         _ => Err(Error::unavailable("under maintenance; reading is possible")),
///     }
/// }
///
/// let head = |method| {
///     let target = HttpTarget::new(method, http::Uri::from_static("/orders"));
///     Head::new(Target::Http(target), Context::default())
/// };
/// assert!(reads_only(&mut head(http::Method::GET)).is_ok());
/// assert!(reads_only(&mut head(http::Method::POST)).is_err());
/// ```
#[non_exhaustive]
pub struct Head {
    /// What is called.
    pub target: Target,
    /// What surrounds the call.
    pub context: Context,
    arrived: Option<Instant>,
    guards: Permits,
}

/// What gates left to be dropped when a request is over, in the order in which it was left; one
/// that panics then takes nothing else down.
#[must_use = "dropping them says that the request is over"]
#[derive(Default)]
pub struct Permits {
    /// By themselves, since most requests have no more of them.
    few: ManuallyDrop<[Option<Permit>; 2]>,
    more: ManuallyDrop<Vec<Permit>>,
}

enum Permit {
    Left(Box<dyn Any + Send>),
    Owed(Arc<dyn PermitSource>),
}

/// Who lends requests something of which there is a number, such as places.
///
/// A gate that lets ten requests in at a time:
///
/// ```
/// # mod tidewire { pub use tidewire_service::*; pub mod service { pub use tidewire_service::*; } }
/// use std::sync::Arc;
/// use std::sync::atomic::{AtomicU32, Ordering};
/// use tidewire::service::{PermitSource, Target};
/// use tidewire::{Context, Error, Head};
///
/// struct Places(AtomicU32);
///
/// impl PermitSource for Places {
///     fn take_back(&self) {
///         self.0.fetch_add(1, Ordering::Relaxed);
///     }
/// }
///
/// let places = Arc::new(Places(AtomicU32::new(10)));
/// let taken = Arc::clone(&places);
/// let gate = move |head: &mut Head| {
///     taken.0.try_update(Ordering::Relaxed, Ordering::Relaxed, |free| free.checked_sub(1))
///         .map_err(|_| Error::resource_exhausted("ten requests are under way; try again"))?;
///     head.owe(taken.clone());
///     Ok(())
/// };
/// let mut head = Head::new(Target::Unknown("/".into()), Context::default());
/// gate(&mut head)?;
/// assert_eq!(places.0.load(Ordering::Relaxed), 9);
/// drop(head);
/// assert_eq!(places.0.load(Ordering::Relaxed), 10);
/// # Ok::<(), tidewire::Error>(())
/// ```
pub trait PermitSource: Send + Sync + 'static {
    /// One that was lent is back.
    fn take_back(&self);
}

impl Head {
    /// The head of a request.
    #[inline]
    pub fn new(target: Target, context: Context) -> Self {
        Self { target, context, arrived: None, guards: Permits::default() }
    }

    /// Says when it arrived.
    #[inline]
    pub fn set_arrived(&mut self, now: Instant) {
        self.arrived = Some(now);
    }

    /// When it arrived, so that not everybody who looks at it looks at the clock; `None` inside a
    /// process.
    pub const fn arrived(&self) -> Option<Instant> {
        self.arrived
    }

    /// Leaves something to be dropped when the request is over: after its last byte was written and
    /// its observation ended.
    pub fn leave(&mut self, guard: impl Any + Send) {
        self.guards.add(Permit::Left(Box::new(guard)));
    }

    /// Takes note of something that was lent, to be given back when the request is over, as what is
    /// [left](Self::leave) is dropped: without an allocation, for gates that every request passes.
    #[inline]
    pub fn owe(&mut self, lender: Arc<dyn PermitSource>) {
        self.guards.add(Permit::Owed(lender));
    }

    /// The target, the context, and what gates left.
    #[inline]
    pub fn into_parts(self) -> HeadParts {
        HeadParts { target: self.target, context: self.context, permits: self.guards }
    }
}

/// What a [`Head`] consists of.
#[derive(Debug)]
pub struct HeadParts {
    /// What is called.
    pub target: Target,
    /// What the caller sent with it.
    pub context: Context,
    /// What gates left, to be dropped when the request ends.
    pub permits: Permits,
}

impl fmt::Debug for Head {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Head")
            .field("target", &self.target)
            .field("context", &self.context)
            .field("guards", &self.guards)
            .finish()
    }
}

impl Permits {
    /// Whether nothing was left.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.few[0].is_none()
    }

    #[inline]
    fn add(&mut self, guard: Permit) {
        match self.few.iter_mut().find(|place| place.is_none()) {
            Some(place) => *place = Some(guard),
            None => self.more.push(guard),
        }
    }

    /// Leaves nothing behind that would have to be dropped.
    fn give_back(&mut self) {
        self.few.iter_mut().filter_map(Option::take).for_each(Permit::give_back);
        if !self.more.is_empty() {
            std::mem::take(&mut *self.more).into_iter().for_each(Permit::give_back);
        }
    }
}

impl Permit {
    #[inline]
    fn give_back(self) {
        let _ = catch_unwind(AssertUnwindSafe(|| match self {
            Self::Left(guard) => drop(guard),
            Self::Owed(lender) => lender.take_back(),
        }));
    }
}

impl Drop for Permits {
    #[inline]
    fn drop(&mut self) {
        if !self.is_empty() {
            self.give_back();
        }
    }
}

impl fmt::Debug for Permits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Guards({})", self.few.iter().flatten().count() + self.more.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head() -> Head {
        Head::new(Target::Unknown("/".into()), Context::default())
    }

    /// Says its number when it is given back, or dropped; some panic then.
    struct Lent(u32, Arc<parking_lot::Mutex<Vec<u32>>>);

    impl Lent {
        fn is_back(&self) {
            self.1.lock().push(self.0);
            assert_ne!(self.0, 2, "a lender");
        }
    }

    impl PermitSource for Lent {
        fn take_back(&self) {
            self.is_back();
        }
    }

    struct Left(Lent);

    impl Drop for Left {
        fn drop(&mut self) {
            self.0.is_back();
        }
    }

    #[test]
    fn what_is_owed_is_given_back_with_what_is_left_in_their_order_and_once() {
        for several in 0..6 {
            let back = Arc::new(parking_lot::Mutex::new(Vec::new()));
            let mut head = head();
            for number in 1..=several {
                let lent = Lent(number, Arc::clone(&back));
                match number % 2 {
                    0 => head.owe(Arc::new(lent)),
                    _ => head.leave(Left(lent)),
                }
            }
            let guards = head.into_parts().permits;
            assert_eq!(guards.is_empty(), several == 0);
            assert_eq!(format!("{guards:?}"), format!("Guards({several})"));
            drop(guards);
            assert_eq!(*back.lock(), (1..=several).collect::<Vec<_>>());
        }
    }
}
