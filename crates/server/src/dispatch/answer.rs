//! Where a request comes in: who calls, for which host, and from which page.
//!
//! A browser's question for other origins and a request for a live connection are answered here;
//! all else goes its way (`pipeline.rs`).

use std::sync::Arc;

use http::Request;
use http::header::CONTENT_LENGTH;
use hyper::body::Incoming;
use hyper::upgrade::OnUpgrade;
use tidewire_service::Error;

use crate::dispatch::dispatcher::Dispatcher;
use crate::dispatch::response_future::ResponseFuture;
use crate::gate::cors::CorsFuture;
use crate::protocols::live::upgrade::upgrade;
use crate::response::body::ResponseBody;
use crate::response::error::error_response;
use crate::response::faults;
use crate::socket::activity::Slot;

impl Dispatcher {
    /// Answers a request, of HTTP/2 with the slot of its call.
    #[inline]
    pub(crate) fn answer(
        &self,
        mut request: Request<Incoming>,
        slot: Option<&Arc<Slot>>,
    ) -> ResponseFuture {
        let other;
        let known = match &self.app.callers {
            None => self,
            Some(callers) => match callers.resolve(&mut request, &self.peer) {
                Ok(None) => self,
                Ok(Some(peer)) => {
                    other = Self { peer, ..self.clone() };
                    &other
                }
                Err(error) => return self.refuse_head(request, slot, &error),
            },
        };
        if let Err(error) = known.app.hosts.check(request.headers(), request.uri()) {
            return known.refuse_head(request, slot, &error);
        }
        if request.extensions().get::<OnUpgrade>().is_some()
            && let Some((response, taken)) =
                upgrade(known.app.cors.as_deref(), &mut request, &known.peer)
        {
            *known.taken.lock() = taken;
            return ResponseFuture::ready(response);
        }
        let granted = match &known.app.cors {
            None => None,
            Some(policy) => match policy.preflight(&request) {
                Some(response) => return ResponseFuture::ready(response),
                None => Some((policy, policy.granted(request.headers()))),
            },
        };
        let mut response = if !known.app.watches() {
            known.pass(request, slot)
        } else {
            known.watched(request, slot)
        };
        if known.app.faults {
            response = ResponseFuture::Late(Box::pin(faults::play(
                response,
                known.goes_away.clone(),
                ResponseBody::faulty,
            )));
        }
        match granted {
            None => response,
            Some((policy, granted)) => {
                let policy = Arc::clone(policy);
                ResponseFuture::Marked(Box::new(CorsFuture { response, policy, granted }))
            }
        }
    }
}

impl Dispatcher {
    /// Refuses a request that is for nobody here.
    #[cold]
    pub(crate) fn refuse_head(
        &self,
        request: Request<Incoming>,
        slot: Option<&Arc<Slot>>,
        error: &Error,
    ) -> ResponseFuture {
        let (mut parts, body) = request.into_parts();
        let body = self.raw_body(&mut parts, body, slot);
        let response = error_response(error).map(ResponseBody::plain);
        self.after_body(parts.version, parts.headers.get(CONTENT_LENGTH), body, response)
    }
}
