//! The head of a request, and the gates that it passes before its body is read.
//!
//! ```text
//! head ─▶ gate ─▶ gate ─▶ layers ─▶ (memo) ─▶ validation ─▶ service
//!           │
//!           └▶ refused: the body is never read
//! ```
//!
//! A gate sees every request, also one whose target does not exist, and every protocol alike. What
//! it finds out (who calls) goes into the context; what has to be given back when the request is
//! over (a permit) it leaves as a guard, or owes it to whoever lent it.

use std::any::Any;
use std::fmt;
use std::future::{Future, poll_fn, ready};
use std::mem::ManuallyDrop;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Instant, SystemTime};

use futures_util::FutureExt;

use crate::{Answer, Call, Context, Error, Result, Service, Target};

/// What is known of a request before its body is read.
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

/// Lets requests pass by their heads: authentication, rates, sizes.
///
/// A function that decides at once is a gate:
///
/// ```
/// use tidewire_service::{Error, Gate, Head, Principal};
/// fn authenticate(head: &mut Head) -> tidewire_service::Result<()> {
///     match head.context.header("authorization").map(|value| value.as_bytes()) {
///         Some(b"Bearer ada") => head.context.set_principal(Principal::new("example", "ada")),
///         _ => return Err(Error::unauthenticated("send a bearer token")),
///     }
///     Ok(())
/// }
/// # let _: &dyn Gate = &authenticate;
/// ```
pub trait Gate: Send + Sync + 'static {
    /// Lets the request pass, or refuses it, or has to wait before it knows.
    ///
    /// A panic refuses the request with [`Code::Internal`](crate::Code::Internal).
    ///
    /// # Errors
    /// Through the admission: why the request is refused; it is answered in the caller's protocol.
    fn admit(&self, head: &mut Head) -> Admission;

    /// Decides on a request of which [`admit`](Self::admit) just said that it has to wait: for a
    /// token service, for a place. The deadline goes on meanwhile.
    ///
    /// # Errors
    /// As those of an admission.
    fn wait<'a>(&'a self, head: &'a mut Head) -> GateFuture<'a> {
        let _ = head;
        Box::pin(ready(Err(Error::internal("a gate waits, and does not say for what"))))
    }

    /// Until when the credential of a request that was let pass is good, where that is known:
    /// callers of long connections are told, so that they send another one in time.
    fn expires(&self, head: &Head) -> Option<SystemTime> {
        let _ = head;
        None
    }
}

/// A gate that waits before it decides.
pub type GateFuture<'a> = Pin<Box<dyn Future<Output = Result<()>> + Send + 'a>>;

impl<F> Gate for F
where
    F: Fn(&mut Head) -> Result<()> + Send + Sync + 'static,
{
    fn admit(&self, head: &mut Head) -> Admission {
        Admission::Ready(self(head))
    }
}

/// What a gate decides: usually at once, and then without an allocation.
#[must_use = "a request passes only when its admission is ready and well"]
#[derive(Debug)]
pub enum Admission {
    /// It has decided.
    Ready(Result<()>),
    /// It is to be asked by [`Gate::wait`].
    Waits,
}

/// Asks `gates` in their order until one has to wait, and says which that is.
///
/// # Errors
/// That of the first gate that refuses; later ones are not asked.
pub fn ask(gates: &[Arc<dyn Gate>], head: &mut Head) -> Result<Option<usize>> {
    for (number, gate) in gates.iter().enumerate() {
        match gate.admit(head) {
            Admission::Ready(decision) => decision?,
            Admission::Waits => return Ok(Some(number)),
        }
    }
    Ok(None)
}

/// Passes `head` through `gates` in their order, of which the first waits if it is `waiting`.
///
/// # Errors
/// That of the first gate that refuses; later ones are not asked.
pub async fn admit(mut gates: &[Arc<dyn Gate>], head: &mut Head, waiting: bool) -> Result<()> {
    let mut waits = waiting.then_some(0);
    loop {
        if let Some(number) = waits {
            gates[number].wait(head).await?;
            gates = &gates[number + 1..];
        }
        waits = ask(gates, head)?;
        if waits.is_none() {
            return Ok(());
        }
    }
}

/// Puts `gates` before `service`, for calls that do not come in through a server: a followed query,
/// a test. Guards are dropped when the reply's head is there.
pub fn gated(gates: Vec<Arc<dyn Gate>>, service: Arc<dyn Service>) -> impl Service {
    GatedService { gates: gates.into(), service }
}

struct GatedService {
    gates: Arc<[Arc<dyn Gate>]>,
    service: Arc<dyn Service>,
}

impl Service for GatedService {
    fn call(&self, call: Call) -> Answer {
        let gates = Arc::clone(&self.gates);
        let service = Arc::clone(&self.service);
        Answer::pending(async move {
            let Call { target, context, codec, accept, body } = call;
            let mut head = Head::new(target, context);
            let admitted = AssertUnwindSafe(admit(&gates, &mut head, false)).catch_unwind().await;
            admitted.unwrap_or_else(|_| Err(Error::internal("a gate panicked")))?;
            let HeadParts { target, context, permits } = head.into_parts();
            let mut answer = service.call(Call { target, context, codec, accept, body });
            let outcome = poll_fn(|cx| Pin::new(&mut answer).poll(cx)).await;
            drop(permits);
            outcome
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Waits, and leaves its name in the header `asked`.
    struct Named(&'static str, bool);

    impl Gate for Named {
        fn admit(&self, head: &mut Head) -> Admission {
            if self.1 {
                return Admission::Waits;
            }
            Admission::Ready(self.note(head))
        }

        fn wait<'a>(&'a self, head: &'a mut Head) -> GateFuture<'a> {
            Box::pin(ready(self.note(head)))
        }
    }

    impl Named {
        fn note(&self, head: &mut Head) -> Result<()> {
            let value = http::HeaderValue::from_static(self.0);
            head.context.headers_mut().append("asked", value);
            Ok(())
        }
    }

    /// Says that it waits, and not how.
    struct Silent;

    impl Gate for Silent {
        fn admit(&self, _: &mut Head) -> Admission {
            Admission::Waits
        }
    }

    fn head() -> Head {
        Head::new(Target::Unknown("/".into()), Context::default())
    }

    #[test]
    fn each_gate_is_asked_once_and_in_order_whether_it_waits_or_not() {
        let gates: Vec<Arc<dyn Gate>> = [("a", false), ("b", true), ("c", false), ("d", true)]
            .map(|(name, waits)| Arc::new(Named(name, waits)) as Arc<dyn Gate>)
            .into();
        let asked = |head: &Head| {
            let values = head.context.headers().get_all("asked").iter();
            values.map(|value| value.to_str().unwrap().to_owned()).collect::<String>()
        };
        let mut at_once = head();
        assert_eq!(ask(&gates, &mut at_once).unwrap(), Some(1));
        assert_eq!(asked(&at_once), "a");
        admit(&gates[1..], &mut at_once, true).now_or_never().unwrap().unwrap();
        assert_eq!(asked(&at_once), "abcd");
        let mut all = head();
        admit(&gates, &mut all, false).now_or_never().unwrap().unwrap();
        assert_eq!(asked(&all), "abcd");
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

    #[test]
    fn a_gate_that_does_not_say_for_what_it_waits_lets_nobody_pass() {
        let gates: Vec<Arc<dyn Gate>> = vec![Arc::new(Silent)];
        let refused = admit(&gates, &mut head(), false).now_or_never().unwrap().unwrap_err();
        assert_eq!(refused.code(), crate::Code::Internal);
    }
}
