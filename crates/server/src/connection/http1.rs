//! HTTP/1.1: what a head has to be beside what the HTTP library checks.
//!
//! | head | answer |
//! |---|---|
//! | a host that `gate/authority.rs` refuses | 400 |
//! | `chunked` twice, or not last (RFC 9112, section 6.1) | 400 |
//! | another transfer coding than `chunked` (RFC 9112, section 6.1) | 501 |
//!
//! The connection is closed after such an answer: what follows cannot be told apart from a body.
//! After any answer it is closed if nobody reads the body of its request to the end. Whoever knows
//! that before is told (`Connection: close`; RFC 9112, section 9.6).

use std::cell::RefCell;
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use http::header::{CONNECTION, DATE, HeaderValue, TRANSFER_ENCODING};
use http::{HeaderMap, Request, Response, StatusCode};
use hyper::body::{Body, Incoming};
use hyper::upgrade::OnUpgrade;
use tidewire_service::{Error, Result};

use crate::dispatch::dispatcher::Dispatcher;
use crate::dispatch::response_future::ResponseFuture;
use crate::gate::authority;
use crate::response::body::ResponseBody;
use crate::response::counted::CountedBody;
use crate::response::error::error_response;
use crate::socket::activity::Activity;
use crate::socket::gather::GatherHandle;
use crate::socket::prepared::CachedHit;

/// The hyper service of one HTTP/1.1 connection.
pub(crate) struct Calls {
    /// Borrowed by one request at a time: one task polls the connection.
    pub(crate) dispatcher: RefCell<Dispatcher>,
    pub(crate) activity: Arc<Activity>,
}

impl hyper::service::Service<Request<Incoming>> for Calls {
    type Response = Response<ResponseBody>;
    type Error = Infallible;
    type Future = CountedResponse;

    fn call(&self, request: Request<Incoming>) -> CountedResponse {
        let mut dispatcher = self.dispatcher.borrow_mut();
        let dispatcher = dispatcher.up_to_date();
        dispatcher.gathering.owes();
        dispatcher.gathering.begin_body(!request.body().is_end_stream());
        self.activity.requests.begin(request.body().size_hint().exact());
        if request.extensions().get::<OnUpgrade>().is_some() {
            // Whoever takes the connection over may wait for the client, and it for the answer; and
            // the library lets go of it after an answer that closes it, without shutting it down.
            dispatcher.gathering.end();
        }
        let response = match check(&request) {
            Ok(()) => dispatcher.answer(request, None),
            Err(error) => ResponseFuture::ready(refusal(&error)),
        };
        let gathering = dispatcher.gathering.clone();
        let activity = Arc::clone(&self.activity);
        CountedResponse { response, activity, gathering, waiting: None }
    }
}

/// A response that is counted if it is large, and comes after its interim responses.
pub(crate) struct CountedResponse {
    response: ResponseFuture,
    activity: Arc<Activity>,
    gathering: GatherHandle,
    /// It waits until those are written.
    waiting: Option<Box<Response<ResponseBody>>>,
}

impl Future for CountedResponse {
    type Output = Result<Response<ResponseBody>, Infallible>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut response = match self.waiting.take() {
            Some(response) => *response,
            None => match Pin::new(&mut self.response).poll(cx) {
                Poll::Ready(Ok(response)) => response,
                Poll::Ready(Err(never)) => match never {},
                Poll::Pending => {
                    if self.gathering.interim().is_open() {
                        self.gathering.interim().watch(cx);
                    }
                    // The library flushes now, which writes what came before this.
                    return Poll::Pending;
                }
            },
        };
        if self.gathering.interim().is_open() {
            if self.gathering.interim().has_some() {
                self.waiting = Some(Box::new(response));
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
            self.gathering.interim().close();
        }
        let is_upgrade = response.status() == StatusCode::SWITCHING_PROTOCOLS;
        if self.gathering.is_body_abandoned() && !is_upgrade {
            response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        }
        if let Some(hit) = response.extensions_mut().remove::<CachedHit>()
            // Whoever says a date of his own means it.
            && !response.headers().contains_key(DATE)
        {
            self.activity.requests.set_hit(hit);
        }
        if CountedBody::is_large(&response) {
            response = CountedBody::counted_alone(response, &self.activity);
        }
        Poll::Ready(Ok(response))
    }
}

/// Checks what the HTTP library does not.
fn check(request: &Request<Incoming>) -> Result<()> {
    authority::check(request.version(), request.headers(), request.uri())?;
    if request.body().is_end_stream() {
        return Ok(());
    }
    check_coding(request.headers())
}

fn check_coding(headers: &HeaderMap) -> Result<()> {
    let values = headers.get_all(TRANSFER_ENCODING).iter();
    let codings: Vec<_> = values
        .flat_map(|value| value.as_bytes().split(|byte| *byte == b','))
        .map(<[u8]>::trim_ascii)
        .filter(|coding| !coding.is_empty())
        .collect();
    let is_chunked = |coding: &&[u8]| coding.eq_ignore_ascii_case(b"chunked");
    if let Some(other) = codings.iter().find(|coding| !is_chunked(coding)) {
        let text = format!(
            "no transfer coding {}; send the body as it is, or chunked",
            other.escape_ascii()
        );
        return Err(Error::unimplemented(text).with_http_status(StatusCode::NOT_IMPLEMENTED));
    }
    if codings.len() > 1 {
        return Err(Error::invalid_argument("the request body is chunked twice; do so once"));
    }
    Ok(())
}

fn refusal(error: &Error) -> Response<tidewire_service::Body> {
    let mut response = error_response(error);
    response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    response
}
