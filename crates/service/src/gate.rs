//! The gates that a request passes before its body is read.
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

use std::future::{Future, ready};
use std::pin::Pin;
use std::sync::Arc;
use std::time::SystemTime;

use crate::{Error, Head, Result};

/// Lets requests pass by their heads: authentication, rates, sizes.
///
/// A function that decides at once is a gate:
///
/// ```
/// # use tidewire_service as tidewire;
/// use tidewire::{Error, Gate, Head, Principal};
/// fn authenticate(head: &mut Head) -> tidewire::Result<()> {
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

    /// Whether a request may be answered from memory by the bytes of the response to one before,
    /// without [`admit`](Self::admit). Both requests have the same bytes, and neither has an
    /// `authorization`, `proxy-authorization` or `cookie`; they may come from different peers.
    ///
    /// `head` is that of the request before as it came, with the peer, the time and the deadline
    /// of now. What gates leave in a head is not in it: where one has set a principal or a header,
    /// requests are not answered so.
    ///
    /// A gate says `true` if it would let the request pass, and if the answer depends on nothing
    /// else that `admit` does: not on an extension or a guard that it leaves. One that knows
    /// callers by their addresses says `false`. It counts nothing here: `admit` may be asked of the
    /// same request afterwards, if another gate says `false` or the reply has left memory. A panic
    /// is a `false`.
    ///
    /// With a gate that says `false`, as here, each request is read, which costs what that costs.
    fn admits_again(&self, head: &Head) -> bool {
        let _ = head;
        false
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
///
/// A gate that asks another service, and so has to wait:
///
/// ```
/// # use tidewire_service as tidewire;
/// use tidewire::{Error, Gate, Head};
/// # mod gate { pub use tidewire_service::{Admission, GateFuture}; }
/// use gate::{Admission, GateFuture};
///
/// struct Sessions;
///
/// impl Sessions {
///     async fn is_open(&self, _session: &[u8]) -> bool {
///         true // as a database says
///     }
/// }
///
/// impl Gate for Sessions {
///     fn admit(&self, head: &mut Head) -> Admission {
///         match head.context.header("x-session") {
///             Some(_) => Admission::Waits,
///             None => Admission::Ready(Err(Error::unauthenticated("send x-session"))),
///         }
///     }
///
///     fn wait<'a>(&'a self, head: &'a mut Head) -> GateFuture<'a> {
///         Box::pin(async {
///             let session = head.context.header("x-session").map(|value| value.as_bytes().to_vec());
///             match self.is_open(&session.unwrap_or_default()).await {
///                 true => Ok(()),
///                 false => Err(Error::unauthenticated("the session is over; sign in")),
///             }
///         })
///     }
/// }
/// # let _: &dyn Gate = &Sessions;
/// ```
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

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;
    use crate::{Context, Target};

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

    #[test]
    fn a_gate_that_does_not_say_for_what_it_waits_lets_nobody_pass() {
        let gates: Vec<Arc<dyn Gate>> = vec![Arc::new(Silent)];
        let refused = admit(&gates, &mut head(), false).now_or_never().unwrap().unwrap_err();
        assert_eq!(refused.code(), crate::Code::Internal);
    }
}
