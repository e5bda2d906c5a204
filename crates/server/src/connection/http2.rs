//! HTTP/2: one slot a call, and an end for streams that their client does not read.
//!
//! The HTTP library runs the reply of every stream as its own future, which it gives to an
//! executor. That one looks whose turn it is: when the client took none of the pieces of a reply
//! for `limits.reply_progress_timeout`, the future is dropped, and the stream is reset. Its
//! neighbours on the connection go on.
//!
//! A reply may be over before its request: a refusal is, mostly. A stream that is then forgotten is
//! reset (`NO_ERROR`: RFC 9113, section 8.1), and clients such as curl 7.88 lose the reply to that.
//! So the future goes on with what the client still sends, up to `limits.unread_body_bytes_max` and
//! for `limits.unread_body_timeout`; who sends more is reset.
//!
//! Browsers send each cookie as its own field, which are one before anybody else sees them (RFC
//! 9113, section 8.2.3): who reads HTTP/1.1's `Cookie` knows of one line only.

use parking_lot::Mutex;
use std::cell::RefCell;
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http::header::COOKIE;
use http::{HeaderMap, HeaderValue, Method, Request, Response};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use tokio::time::Sleep;

use crate::dispatch::dispatcher::Dispatcher;
use crate::dispatch::response_future::ResponseFuture;
use crate::gate::authority;
use crate::protocols::live::upgrade::Takeover;
use crate::response::body::ResponseBody;
use crate::response::counted::CountedBody;
use crate::socket::activity::{Activity, Slot};

/// The hyper service of one HTTP/2 connection.
pub(crate) struct Calls {
    /// Borrowed by one request at a time: one task polls the connection.
    dispatcher: RefCell<Dispatcher>,
    activity: Arc<Activity>,
    begun: LastCall,
}

/// Runs the streams of one connection.
#[derive(Clone)]
pub(crate) struct Streams {
    begun: LastCall,
    reply_progress_timeout: Duration,
    unread_body_bytes_max: usize,
    unread_body_timeout: Duration,
}

/// The slot of the call that began last, until its stream is run: the library does both in a row.
type LastCall = Arc<Mutex<Option<Arc<Slot>>>>;

/// The service and the executor of one connection.
pub(crate) fn calls(dispatcher: Dispatcher, activity: Arc<Activity>) -> (Calls, Streams) {
    let begun = LastCall::default();
    let limits = &dispatcher.app.limits;
    let streams = Streams {
        begun: Arc::clone(&begun),
        reply_progress_timeout: limits.reply_progress_timeout,
        unread_body_bytes_max: limits.unread_body_bytes_max,
        unread_body_timeout: limits.unread_body_timeout,
    };
    (Calls { dispatcher: RefCell::new(dispatcher), activity, begun }, streams)
}

impl hyper::service::Service<Request<Incoming>> for Calls {
    type Response = Response<CountedBody<ResponseBody>>;
    type Error = Infallible;
    type Future = CountedResponse;

    fn call(&self, mut request: Request<Incoming>) -> CountedResponse {
        join_cookies(request.headers_mut());
        let slot = Slot::begin(&self.activity);
        *self.begun.lock() = Some(Arc::clone(&slot));
        let mut dispatcher = self.dispatcher.borrow_mut();
        let dispatcher = dispatcher.up_to_date();
        let may_be_taken = request.method() == Method::CONNECT;
        let host = authority::check(request.version(), request.headers(), request.uri());
        let response = match host {
            Ok(()) => dispatcher.answer(request, Some(&slot)),
            Err(error) => dispatcher.refuse_head(request, Some(&slot), &error),
        };
        if may_be_taken && let Some(taken) = dispatcher.take_over() {
            self.go_on(dispatcher, taken);
        }
        CountedResponse { response, slot: Some(slot) }
    }
}

impl Calls {
    /// Goes on with a stream as a live connection, which for its neighbours is a call that runs.
    fn go_on(&self, dispatcher: &Dispatcher, taken: Takeover) {
        let app = Arc::clone(&dispatcher.app);
        let stop = app.stop.clone();
        let slot = Slot::begin(&self.activity);
        // The calls on it find the server through this.
        let server = Arc::clone(&dispatcher.server);
        dispatcher.app.tasks.spawn(async move {
            Box::pin(server.live.serve_websocket(&app, taken, stop)).await;
            drop(server);
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
    type Output = Result<Response<CountedBody<ResponseBody>>, Infallible>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let response = ready!(Pin::new(&mut self.response).poll(cx));
        let slot = self.slot.take().expect("a response is polled until it is ready, once");
        Poll::Ready(response.map(|response| CountedBody::counted(response, slot)))
    }
}

impl<F> hyper::rt::Executor<F> for Streams
where
    F: Future<Output = ()> + Send + 'static,
{
    fn execute(&self, stream: F) {
        let slot = self.begun.lock().take();
        let limits = self.clone();
        tokio::spawn(WatchedStream {
            stream: Some(stream),
            slot,
            limits,
            patience: StallLimit::default(),
            rest: None,
        });
    }
}

pin_project_lite::pin_project! {
    /// A stream, until it is over or its client takes nothing of it. Not an async block, which
    /// would hold the stream twice.
    struct WatchedStream<F> {
        // Gone once the reply is over, with what it holds of the call.
        #[pin]
        stream: Option<F>,
        slot: Option<Arc<Slot>>,
        limits: Streams,
        patience: StallLimit,
        // What is still read of the request, once the reply is over.
        rest: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
    }
}

impl<F: Future<Output = ()>> Future for WatchedStream<F> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let mut this = self.project();
        if let Some(rest) = this.rest {
            return rest.as_mut().poll(cx);
        }
        let is_over =
            this.stream.as_mut().as_pin_mut().is_none_or(|stream| stream.poll(cx).is_ready());
        if is_over {
            this.stream.set(None);
            let Some(slot) = this.slot else { return Poll::Ready(()) };
            slot.leave();
            if !slot.has_unread() {
                return Poll::Ready(());
            }
            let rest = take_in(Arc::clone(slot), this.limits.clone());
            return this.rest.insert(Box::pin(rest)).as_mut().poll(cx);
        }
        match this.slot.as_ref().and_then(|slot| slot.awaits()) {
            Some(taken) => this.patience.poll_over(taken, this.limits.reply_progress_timeout, cx),
            None => Poll::Pending,
        }
    }
}

/// Reads what a client still sends after its reply, within the bounds for that. Whoever has the
/// body at that time goes on reading it; a program may have answered before it read all.
async fn take_in(slot: Arc<Slot>, limits: Streams) {
    let to_its_end = async {
        let Some(mut body) = std::future::poll_fn(|cx| slot.poll_unread(cx)).await else { return };
        let mut left = limits.unread_body_bytes_max;
        while let Some(Ok(frame)) = body.frame().await {
            let bytes = frame.data_ref().map_or(0, Bytes::len);
            match left.checked_sub(bytes) {
                Some(fewer) => left = fewer,
                None => {
                    return tracing::debug!("a stream is reset after limits.unread_body_bytes_max");
                }
            }
        }
    };
    let timeout = limits.unread_body_timeout;
    if tokio::time::timeout(timeout, to_its_end).await.is_err() {
        slot.close();
        tracing::debug!("a stream is reset after limits.unread_body_timeout = {timeout:?}");
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
