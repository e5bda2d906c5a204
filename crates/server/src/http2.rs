//! HTTP/2: one slot a call, and an end for streams that their client does not read.
//!
//! The HTTP library runs the reply of every stream as its own future, which it gives to an
//! executor. That one looks whose turn it is: when the client took none of the pieces of a reply
//! for `limits.reply_progress_timeout`, the future is dropped, and the stream is reset. Its
//! neighbours on the connection go on.
//!
//! Browsers send each cookie as its own field, which are one before anybody else sees them (RFC
//! 9113, section 8.2.3): who reads HTTP/1.1's `Cookie` knows of one line only.

use parking_lot::Mutex;
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use http::header::COOKIE;
use http::{HeaderMap, HeaderValue, Method, Request, Response};
use hyper::body::Incoming;
use tokio::time::Sleep;

use crate::activity::{Activity, Slot};
use crate::authority;
use crate::connection::Connection;
use crate::live::Takeover;
use crate::plain;
use crate::reply_body::ReplyBody;
use crate::response::ResponseFuture;

/// The hyper service of one HTTP/2 connection.
pub(crate) struct Calls {
    connection: Connection,
    vigil: Arc<Activity>,
    begun: LastCall,
}

/// Runs the streams of one connection.
#[derive(Clone)]
pub(crate) struct Streams {
    begun: LastCall,
    reply_progress_timeout: Duration,
}

/// The slot of the call that began last, until its stream is run: the library does both in a row.
type LastCall = Arc<Mutex<Option<Arc<Slot>>>>;

/// The service and the executor of one connection.
pub(crate) fn calls(connection: Connection, vigil: Arc<Activity>) -> (Calls, Streams) {
    let begun = LastCall::default();
    let reply_progress_timeout = connection.app.limits.reply_progress_timeout;
    let streams = Streams { begun: Arc::clone(&begun), reply_progress_timeout };
    (Calls { connection, vigil, begun }, streams)
}

impl hyper::service::Service<Request<Incoming>> for Calls {
    type Response = Response<ReplyBody>;
    type Error = Infallible;
    type Future = CountedResponse;

    fn call(&self, mut request: Request<Incoming>) -> CountedResponse {
        join_cookies(request.headers_mut());
        let slot = Slot::begin(&self.vigil);
        *self.begun.lock() = Some(Arc::clone(&slot));
        let may_be_taken = request.method() == Method::CONNECT;
        let host = authority::check(request.version(), request.headers(), request.uri());
        let response = match host {
            Ok(()) => self.connection.answer(request),
            Err(error) => ResponseFuture::ready(plain::error_response(&error)),
        };
        if may_be_taken && let Some(taken) = self.connection.taken() {
            self.go_on(taken);
        }
        CountedResponse { response, slot: Some(slot) }
    }
}

impl Calls {
    /// Goes on with a stream as a live connection, which for its neighbours is a call that runs.
    fn go_on(&self, taken: Takeover) {
        let (app, peer) = (Arc::clone(&self.connection.app), Arc::clone(&self.connection.peer));
        let (stop, slot) = (app.stop.clone(), Slot::begin(&self.vigil));
        self.connection.app.tasks.spawn(async move {
            Box::pin(app.live_websocket(taken, peer, stop)).await;
            drop(slot);
        });
    }
}

/// Makes one field of the cookies that came in several.
fn join_cookies(headers: &mut HeaderMap) {
    // Most requests have no name twice, and looking cookies up costs more than this.
    if headers.len() == headers.keys_len() || headers.get_all(COOKIE).iter().count() < 2 {
        return;
    }
    let crumbs: Vec<_> = headers.get_all(COOKIE).iter().map(HeaderValue::as_bytes).collect();
    if let Ok(cookie) = HeaderValue::from_bytes(&crumbs.join(&b"; "[..])) {
        headers.insert(COOKIE, cookie);
    }
}

/// A response that is counted once it is there.
pub(crate) struct CountedResponse {
    response: ResponseFuture,
    /// Until the response is there.
    slot: Option<Arc<Slot>>,
}

impl Future for CountedResponse {
    type Output = Result<Response<ReplyBody>, Infallible>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let response = ready!(Pin::new(&mut self.response).poll(cx));
        let slot = self.slot.take().expect("a response is polled until it is ready, once");
        Poll::Ready(response.map(|response| ReplyBody::counted(response, slot)))
    }
}

impl<F> hyper::rt::Executor<F> for Streams
where
    F: Future<Output = ()> + Send + 'static,
{
    fn execute(&self, stream: F) {
        let slot = self.begun.lock().take();
        let timeout = self.reply_progress_timeout;
        tokio::spawn(WatchedStream { stream, slot, timeout, patience: StallLimit::default() });
    }
}

pin_project_lite::pin_project! {
    /// A stream, until it is over or its client takes nothing of it. Not an async block, which
    /// would hold the stream twice.
    struct WatchedStream<F> {
        #[pin]
        stream: F,
        slot: Option<Arc<Slot>>,
        timeout: Duration,
        patience: StallLimit,
    }
}

impl<F: Future<Output = ()>> Future for WatchedStream<F> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = self.project();
        if this.stream.poll(cx).is_ready() {
            this.slot.iter().for_each(|slot| slot.leave());
            return Poll::Ready(());
        }
        match this.slot.as_ref().and_then(|slot| slot.awaits()) {
            Some(taken) => this.patience.poll_over(taken, *this.timeout, cx),
            None => Poll::Pending,
        }
    }
}

/// How long a client may take no piece of a reply.
#[derive(Default)]
struct StallLimit {
    taken: usize,
    sleep: Option<Pin<Box<Sleep>>>,
}

impl StallLimit {
    fn poll_over(&mut self, taken: usize, timeout: Duration, cx: &mut Context<'_>) -> Poll<()> {
        if self.taken != taken {
            self.taken = taken;
            self.sleep = None;
        }
        let sleep = self.sleep.get_or_insert_with(|| Box::pin(tokio::time::sleep(timeout)));
        ready!(sleep.as_mut().poll(cx));
        tracing::debug!("a stream is reset after limits.reply_progress_timeout = {timeout:?}");
        Poll::Ready(())
    }
}
