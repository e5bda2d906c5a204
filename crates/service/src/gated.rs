//! A service behind gates.

use std::future::{Future, poll_fn};
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::Arc;

use futures_util::FutureExt;

use crate::{Answer, Call, Error, Gate, Head, HeadParts, Service, admit};

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
