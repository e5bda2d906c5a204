//! How long calls may take: `limits.deadline_min`, `deadline_max` and `deadline_default`.
//!
//! | a call | its deadline |
//! |---|---|
//! | has less left than the least | is refused now: it could not be answered in time |
//! | has more left than the most | is the most |
//! | has none, is unary or plain HTTP | is the default, or the most |
//! | has none, and streams | stays none: a stream may last for as long as both sides like |
//!
//! A call of gRPC or Connect that passes to a server behind has what its header says.

use std::sync::Arc;
use std::time::Duration;

use tidewire_service::{Admission, DeadlineOwner, Error, Gate, Head, Result, StreamKind, Target};
use tidewire_wire::unread;
use tokio::time::Instant;

use crate::limits::Limits;
use crate::runtime::usage::{Bound, Counters};

pub(super) struct Deadlines {
    least: Duration,
    most: Option<Duration>,
    default: Option<Duration>,
    counters: Arc<Counters>,
}

impl Deadlines {
    pub(super) fn new(limits: &Limits, counters: &Arc<Counters>) -> Option<Self> {
        let Limits { deadline_min: least, deadline_max: most, deadline_default: default, .. } =
            limits;
        let is_needed = !least.is_zero() || most.is_some() || default.is_some();
        is_needed.then(|| Self {
            least: *least,
            most: *most,
            default: *default,
            counters: Arc::clone(counters),
        })
    }

    fn decide(&self, head: &mut Head) -> Result<()> {
        let now = head.arrived().unwrap_or_else(|| Instant::now().into_std());
        let ends_by_itself = match &head.target {
            Target::Method(method) => method.kind == StreamKind::Unary,
            _ => true,
        };
        let unread = || match &head.target {
            Target::Method(_) => None,
            _ => unread::timeout(head.context.headers()),
        };
        let left = head.context.remaining(now).or_else(unread);
        if left.is_some_and(|left| left < self.least) {
            self.counters.reach(Bound::DeadlineMin);
            let text = format!(
                "the call has less left than limits.deadline_min = {:?}; it did not run",
                self.least
            );
            return Err(Error::deadline_exceeded(text));
        }
        let wanted = match (left, self.most) {
            (Some(left), Some(most)) if left > most => Some((most, DeadlineOwner::ServerMax)),
            (Some(_), _) => None,
            (None, most) if ends_by_itself => match (self.default, most) {
                (Some(default), most) if most.is_none_or(|most| default <= most) => {
                    Some((default, DeadlineOwner::ServerDefault))
                }
                (_, most) => most.map(|most| (most, DeadlineOwner::ServerMax)),
            },
            (None, _) => None,
        };
        if let Some((wanted, owner)) = wanted
            && let Some(at) = now.checked_add(wanted)
        {
            head.context.set_deadline_of(at, owner);
        }
        Ok(())
    }
}

impl Gate for Deadlines {
    fn admit(&self, head: &mut Head) -> Admission {
        Admission::Ready(self.decide(head))
    }

    /// Their bytes say how long they may take, and an answer from memory takes nothing of it.
    fn admits_again(&self, _: &Head) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidewire_service::{Context, HttpTarget, Method, Spec};

    fn left(limits: &Limits, kind: StreamKind, has: Option<u64>) -> Option<u64> {
        let now = std::time::Instant::now();
        let context = Context::default().with_deadline(has.map(|s| now + Duration::from_secs(s)));
        let spec = Arc::new(Spec::dynamic("a.B", "Get", kind, ["", ""]));
        left_of(limits, Head::new(Target::Method(Method::from(spec)), context))
    }

    fn left_of(limits: &Limits, mut head: Head) -> Option<u64> {
        let now = std::time::Instant::now();
        let gate = Deadlines::new(limits, &Arc::default()).unwrap();
        gate.decide(&mut head).ok()?;
        // To the next second, since time passes.
        Some(head.context.remaining(now).map_or(0, |left| left.as_millis().div_ceil(1000) as u64))
    }

    #[test]
    fn a_call_has_the_deadline_of_the_table() {
        let mut limits = Limits::default();
        assert!(Deadlines::new(&limits, &Arc::default()).is_none());
        limits.deadline_min = Duration::from_secs(2);
        limits.deadline_max = Some(Duration::from_millis(99_900));
        for (default, kind, has, expected) in [
            (None, StreamKind::Unary, Some(1), None),
            (None, StreamKind::Bidi, Some(1), None),
            (None, StreamKind::Unary, Some(50), Some(50)),
            (None, StreamKind::Unary, Some(500), Some(100)),
            (None, StreamKind::Server, Some(500), Some(100)),
            (None, StreamKind::Unary, None, Some(100)),
            (Some(29_900), StreamKind::Unary, None, Some(30)),
            (Some(500_000), StreamKind::Unary, None, Some(100)),
            (Some(29_900), StreamKind::Server, None, Some(0)),
        ] {
            limits.deadline_default = default.map(Duration::from_millis);
            assert_eq!(left(&limits, kind, has), expected, "{default:?} {kind:?} {has:?}");
        }
    }

    #[test]
    fn a_call_that_passes_unread_has_the_deadline_of_its_header() {
        let limits = Limits {
            deadline_min: Duration::from_secs(2),
            deadline_max: Some(Duration::from_millis(99_900)),
            deadline_default: Some(Duration::from_millis(29_900)),
            ..Limits::default()
        };
        for (headers, expected) in [
            (&[][..], Some(30)),
            (&[("grpc-timeout", "50S")], Some(0)),
            (&[("connect-timeout-ms", "50000")], Some(0)),
            (&[("grpc-timeout", "1H")], Some(100)),
            (&[("grpc-timeout", "1S")], None),
            // Refused by whoever passes it on.
            (&[("grpc-timeout", "soon")], Some(30)),
        ] {
            let target = HttpTarget::new(http::Method::POST, "/a.B/Get".parse().unwrap());
            let mut context = Context::default();
            for (name, value) in headers {
                context.headers_mut().insert(*name, value.parse().unwrap());
            }
            let head = Head::new(Target::Http(target), context);
            assert_eq!(left_of(&limits, head), expected, "{headers:?}");
        }
    }
}
