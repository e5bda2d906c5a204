//! The head of a request, and the gates that it passes before its body is read.
//!
//! ```text
//! head ─▶ gate ─▶ gate ─▶ layers ─▶ (memo) ─▶ validation ─▶ service
//!           │
//!           └▶ refused: the body is never read
//! ```
//!
//! A gate sees every request, also one whose target does not exist, and every protocol alike. What it
//! finds out (who calls) goes into the context; what has to be given back when the request is over (a
//! permit) it leaves as a guard.

use std::any::Any;
use std::fmt;
use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;

use futures_util::FutureExt;

use crate::{Answer, Call, Context, Error, Result, Service, Target};

/// What is known of a request before its body is read.
#[non_exhaustive]
pub struct Head {
    /// What is called.
    pub target: Target,
    /// What surrounds the call.
    pub context: Context,
    guards: Guards,
}

/// What gates left to be dropped when a request is over, in the order in which it was left; one that
/// panics then takes nothing else down.
#[must_use = "dropping them says that the request is over"]
#[derive(Default)]
pub struct Guards(Vec<Box<dyn Any + Send>>);

impl Head {
    /// The head of a request.
    pub fn new(target: Target, context: Context) -> Self {
        Self { target, context, guards: Guards::default() }
    }

    /// Leaves something to be dropped when the request is over: after its last byte was written and
    /// its observation ended.
    pub fn leave(&mut self, guard: impl Any + Send) {
        self.guards.0.push(Box::new(guard));
    }

    /// The target, the context, and what gates left.
    pub fn into_parts(self) -> (Target, Context, Guards) {
        (self.target, self.context, self.guards)
    }
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

impl Drop for Guards {
    fn drop(&mut self) {
        for guard in self.0.drain(..) {
            let _ = catch_unwind(AssertUnwindSafe(|| drop(guard)));
        }
    }
}

impl fmt::Debug for Guards {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Guards({})", self.0.len())
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
    /// Lets the request pass, or refuses it.
    ///
    /// The deadline goes on while a gate waits; a panic refuses the request with
    /// [`Code::Internal`](crate::Code::Internal).
    ///
    /// # Errors
    /// Through the admission: why the request is refused; it is answered in the caller's protocol.
    fn admit<'a>(&'a self, head: &'a mut Head) -> Admission<'a>;
}

impl<F> Gate for F
where
    F: Fn(&mut Head) -> Result<()> + Send + Sync + 'static,
{
    fn admit<'a>(&'a self, head: &'a mut Head) -> Admission<'a> {
        Admission::Ready(self(head))
    }
}

/// What a gate decides: usually at once, and then without an allocation.
#[must_use = "a request passes only when its admission is ready and well"]
#[non_exhaustive]
pub enum Admission<'a> {
    /// It has decided.
    Ready(Result<()>),
    /// It has to wait: for a token service, for a place.
    Pending(Pin<Box<dyn Future<Output = Result<()>> + Send + 'a>>),
}

impl<'a> Admission<'a> {
    /// A decision that has to be awaited.
    pub fn pending(decision: impl Future<Output = Result<()>> + Send + 'a) -> Self {
        Self::Pending(Box::pin(decision))
    }
}

impl Future for Admission<'_> {
    type Output = Result<()>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut std::task::Context<'_>) -> Poll<Result<()>> {
        match &mut *self {
            Self::Ready(decision) => Poll::Ready(std::mem::replace(decision, Ok(()))),
            Self::Pending(decision) => decision.as_mut().poll(cx),
        }
    }
}

impl fmt::Debug for Admission<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ready(decision) => f.debug_tuple("Ready").field(decision).finish(),
            Self::Pending(_) => f.write_str("Pending"),
        }
    }
}

/// Passes `head` through `gates` in their order.
///
/// # Errors
/// That of the first gate that refuses; later ones are not asked.
pub async fn admit(gates: &[Arc<dyn Gate>], head: &mut Head) -> Result<()> {
    for gate in gates {
        gate.admit(head).await?;
    }
    Ok(())
}

/// Puts `gates` before `service`, for calls that do not come in through a server: a followed query, a
/// test. Guards are dropped when the reply's head is there.
pub fn gated(gates: Vec<Arc<dyn Gate>>, service: Arc<dyn Service>) -> impl Service {
    Gated { gates: gates.into(), service }
}

struct Gated {
    gates: Arc<[Arc<dyn Gate>]>,
    service: Arc<dyn Service>,
}

impl Service for Gated {
    fn call(&self, call: Call) -> Answer {
        let (gates, service) = (Arc::clone(&self.gates), Arc::clone(&self.service));
        Answer::pending(async move {
            let Call { target, context, codec, accept, body } = call;
            let mut head = Head::new(target, context);
            let admitted = AssertUnwindSafe(admit(&gates, &mut head)).catch_unwind().await;
            admitted.unwrap_or_else(|_| Err(Error::internal("a gate panicked")))?;
            let (target, context, guards) = head.into_parts();
            let mut answer = service.call(Call { target, context, codec, accept, body });
            let outcome = poll_fn(|cx| Pin::new(&mut answer).poll(cx)).await;
            drop(guards);
            outcome
        })
    }
}
