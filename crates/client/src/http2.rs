//! An HTTP/2 connection: its task, and the handle that sends requests on it.
//!
//! The `h2` library is used as it is, without hyper's client above it: a request is in the
//! connection's state when [`Http2::send`] returns, so that none is lost between a caller and a
//! connection that ends; calls that a `GOAWAY` covers are served to their end; and what a server
//! says about a call that it did not process is seen.
//!
//! | what happens | consequence |
//! |---|---|
//! | `GOAWAY` | no new calls; those that it covers go on, then the connection ends |
//! | the server has not said yet how many streams it allows | one call; others wait |
//! | the server allows more streams | those who wait are served |
//! | [`CANCELED_MAX`] calls were dropped | no new calls, as with `GOAWAY` |
//! | nothing was received for `keep_alive_interval` while calls run | a PING; without a sign of life the connection ends |
//! | no calls for `idle_timeout` | the connection ends |

use parking_lot::Mutex;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use futures_util::task::AtomicWaker;
use h2::client::{Connection, ResponseFuture, SendRequest};
use http::Request;
use tokio::time::Sleep;

use crate::dial::Socket;
use crate::early_answer::EarlyAnswer;
use crate::keep_alive::KeepAlive;
use crate::limits::ClientLimits;
use crate::outgoing::{Piece, RequestBody};
use crate::pump::{Pumps, pump};
use crate::socket::{CountedSocket, Driver};
use crate::trace::now;

/// How many calls may be dropped on a connection before it takes no more.
///
/// The library remembers each of them as long as the connection lives, some 500 bytes: frames for
/// it may still be on their way, and for a stream that is forgotten they count as faults of the
/// server, over a thousand of which end a connection with all calls on it.
const CANCELED_MAX: usize = 4096;

/// How many calls are sent before the server said how many it allows. It may allow one, and refuse
/// the others or close the connection.
const UNSETTLED_STREAMS_MAX: usize = 1;

/// An HTTP/2 connection that many calls share.
pub(crate) struct Http2 {
    sender: SendRequest<Piece>,
    pumps: Arc<Pumps>,
    pub(crate) state: Arc<State>,
}

/// A request that the connection does not take.
pub(crate) struct RequestRefusal {
    pub(crate) error: h2::Error,
    /// Its body, of which nothing was read.
    pub(crate) body: Box<RequestBody>,
}

impl Http2 {
    /// Sends a request. Dropping what is returned cancels it.
    pub(crate) fn send(
        &self,
        request: Request<()>,
        mut body: RequestBody,
    ) -> Result<ResponseFuture, RequestRefusal> {
        let is_end = http_body::Body::is_end_stream(&body);
        let mut sender = self.sender.clone();
        let (response, mut stream) = match sender.send_request(request, is_end) {
            Ok(sent) => sent,
            Err(error) => return Err(RequestRefusal { error, body: Box::new(body) }),
        };
        if is_end {
            return Ok(response);
        }
        match body.take_whole() {
            // The library keeps what the window does not take yet. A server may have answered the
            // head already and taken no body; what became of the call is what the response says.
            Some(piece) => drop(stream.send_data(piece, true)),
            None => self.pumps.push(Box::pin(pump(stream, body))),
        }
        Ok(response)
    }
}

/// What the calls on a connection, its task and its pool know of each other.
pub(crate) struct State {
    /// Calls that run now.
    calls: AtomicUsize,
    /// How many may run at once.
    streams_max: AtomicUsize,
    /// The server said something: how many it allows comes first.
    is_settled: AtomicBool,
    canceled: AtomicUsize,
    is_closed: AtomicBool,
    idle_since: Mutex<Instant>,
    driver: AtomicWaker,
}

impl State {
    fn new() -> Self {
        Self {
            calls: AtomicUsize::new(0),
            streams_max: AtomicUsize::new(UNSETTLED_STREAMS_MAX),
            is_settled: AtomicBool::new(false),
            canceled: AtomicUsize::new(0),
            is_closed: AtomicBool::new(false),
            idle_since: Mutex::new(now()),
            driver: AtomicWaker::new(),
        }
    }

    /// Counts a call in, if there is room for it.
    pub(crate) fn enter(&self) -> bool {
        if self.is_closed() {
            return false;
        }
        let max = self.streams_max.load(Ordering::Relaxed);
        let entered = self.calls.fetch_update(Ordering::AcqRel, Ordering::Acquire, |calls| {
            (calls < max).then_some(calls + 1)
        });
        entered.is_ok()
    }

    /// Counts a call out.
    pub(crate) fn leave(&self, is_complete: bool) {
        if !is_complete && self.canceled.fetch_add(1, Ordering::Relaxed) + 1 >= CANCELED_MAX {
            self.close();
        }
        if self.calls.fetch_sub(1, Ordering::AcqRel) == 1 {
            *self.idle_since.lock() = now();
            if self.is_closed() {
                self.driver.wake();
            }
        }
    }

    /// Takes no further calls.
    pub(crate) fn close(&self) {
        self.is_closed.store(true, Ordering::Release);
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::Acquire)
    }

    /// Whether it is known how many calls the server allows; until then only one is sent.
    pub(crate) fn is_settled(&self) -> bool {
        self.is_settled.load(Ordering::Acquire)
    }

    fn is_unused(&self) -> bool {
        self.calls.load(Ordering::Acquire) == 0
    }

    /// How long nothing has been going on; `None` while there are calls.
    fn idle_for(&self) -> Option<Duration> {
        if !self.is_unused() {
            return None;
        }
        let since = *self.idle_since.lock();
        Some(now().saturating_duration_since(since))
    }
}

/// Starts HTTP/2 on a socket. `changed` is called when there is room for more calls, and when there
/// is gone for good.
pub(crate) async fn http2(
    socket: Socket,
    limits: &ClientLimits,
    changed: Arc<dyn Fn() + Send + Sync>,
) -> Result<(Arc<Http2>, Driver), h2::Error> {
    let window = |bytes: u32| bytes.min(i32::MAX.unsigned_abs());
    let (socket, heard) = CountedSocket::new(EarlyAnswer::http2(socket));
    let (sender, mut connection) = h2::client::Builder::new()
        .initial_window_size(window(limits.stream_window_bytes))
        .initial_connection_window_size(window(limits.connection_window_bytes))
        .initial_max_send_streams(UNSETTLED_STREAMS_MAX)
        .max_concurrent_reset_streams(2 * CANCELED_MAX)
        .reset_stream_duration(Duration::MAX)
        .max_header_list_size(64 << 10)
        .enable_push(false)
        .handshake(socket)
        .await?;
    let streams_max = limits.streams_of_a_connection();
    let state = Arc::new(State::new());
    let pumps = Arc::new(Pumps::default());
    let drive = Drive {
        heard: Arc::clone(&heard),
        keep_alive: KeepAlive::new(connection.ping_pong(), heard, limits),
        connection,
        sender: sender.clone(),
        pumps: Arc::clone(&pumps),
        running: FuturesUnordered::new(),
        state: Arc::clone(&state),
        streams_max,
        idle_timeout: limits.idle_timeout,
        idle: Box::pin(tokio::time::sleep(limits.idle_timeout)),
        changed: Arc::clone(&changed),
    };
    let closed = Arc::clone(&state);
    let driver = Box::pin(async move {
        drive.await;
        closed.close();
        changed();
    });
    Ok((Arc::new(Http2 { sender, pumps, state }), driver))
}

/// The task of a connection. It does everything on it, the sending of streamed requests too, so
/// that ending this one task ends everything.
struct Drive {
    connection: Connection<CountedSocket<EarlyAnswer<Socket>>, Piece>,
    /// Knows whether new calls are taken.
    sender: SendRequest<Piece>,
    pumps: Arc<Pumps>,
    running: FuturesUnordered<Pin<Box<dyn Future<Output = ()> + Send>>>,
    state: Arc<State>,
    streams_max: usize,
    /// How often something was received.
    heard: Arc<AtomicUsize>,
    keep_alive: KeepAlive,
    idle_timeout: Duration,
    idle: Pin<Box<Sleep>>,
    changed: Arc<dyn Fn() + Send + Sync>,
}

impl Drive {
    fn poll_end(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.pumps.take(&mut self.running, cx);
        while let Poll::Ready(Some(())) = self.running.poll_next_unpin(cx) {}
        if let Poll::Ready(outcome) = Pin::new(&mut self.connection).poll(cx) {
            if let Err(error) = outcome {
                tracing::debug!(%error, "an HTTP/2 connection ended");
            }
            return Poll::Ready(());
        }
        if self.keep_alive.poll_lost(cx, self.state.is_unused()).is_ready() {
            tracing::debug!("an HTTP/2 connection ended: the server did not answer a ping");
            return Poll::Ready(());
        }
        self.see_changes(cx);
        self.state.driver.register(cx.waker());
        if self.state.is_closed() && self.state.is_unused() {
            return Poll::Ready(());
        }
        self.poll_idle(cx)
    }

    /// Learns from the connection how many calls it takes.
    fn see_changes(&mut self, cx: &mut Context<'_>) {
        if self.state.is_closed() {
            return;
        }
        let allowed = self.connection.max_concurrent_send_streams().min(self.streams_max);
        let before = self.state.streams_max.swap(allowed, Ordering::Relaxed);
        let settles = self.heard.load(Ordering::Relaxed) > 0
            && !self.state.is_settled.swap(true, Ordering::AcqRel);
        let has_goaway = matches!(self.sender.poll_ready(cx), Poll::Ready(Err(_)));
        if has_goaway {
            self.state.close();
        }
        if has_goaway || settles || allowed > before {
            (self.changed)();
        }
    }

    fn poll_idle(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        while self.idle.as_mut().poll(cx).is_ready() {
            let idle_for = self.state.idle_for().unwrap_or_default();
            if idle_for >= self.idle_timeout {
                self.state.close();
                // A call may have come in between; it is let run.
                if self.state.is_unused() {
                    return Poll::Ready(());
                }
            }
            let left = self.idle_timeout.saturating_sub(idle_for).max(Duration::from_millis(1));
            self.idle.as_mut().reset(tokio::time::Instant::now() + left);
        }
        Poll::Pending
    }
}

impl Future for Drive {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        self.poll_end(cx)
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};

    use bytes::Bytes;
    use tidewire_service::{Body, Error, Frame};
    use tokio::net::UnixStream;

    use super::*;
    use crate::failure::ConnectionFailure;
    use crate::incoming::HttpBody;
    use crate::outgoing::Cancel;

    /// A frame of one byte of flags, on stream 1 if it is of a call.
    fn frame(kind: u8, flags: u8, stream: u8, payload: &[u8]) -> Vec<u8> {
        let length = u8::try_from(payload.len()).unwrap();
        [&[0, 0, length, kind, flags, 0, 0, 0, stream], payload].concat()
    }

    const DATA: u8 = 0;
    const HEADERS: u8 = 1;
    const RST_STREAM: u8 = 3;
    const SETTINGS: u8 = 4;
    const END_STREAM: u8 = 1;
    const END_HEADERS: u8 = 4;

    /// The head of a response with status 200.
    fn head(flags: u8, headers: &[(&str, &str)]) -> Vec<u8> {
        let mut block = vec![0x88];
        headers.iter().for_each(|(name, value)| block.extend(header(name, value)));
        frame(HEADERS, END_HEADERS | flags, 1, &block)
    }

    /// A header that no table has.
    fn header(name: &str, value: &str) -> Vec<u8> {
        let length = |text: &str| u8::try_from(text.len()).unwrap();
        [&[0, length(name)], name.as_bytes(), &[length(value)], value.as_bytes()].concat()
    }

    /// A connection, and a server that says what a test writes.
    async fn connection() -> (Arc<Http2>, std::os::unix::net::UnixStream) {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let mut server = theirs.into_std().unwrap();
        server.write_all(&frame(SETTINGS, 0, 0, &[])).unwrap();
        let limits = ClientLimits::default();
        let http2 = http2(Socket::Unix(ours), &limits, Arc::new(|| ())).await;
        let (connection, driver) = http2.unwrap();
        tokio::spawn(driver);
        (connection, server)
    }

    /// Sends a request whose body comes by the sender.
    fn send(connection: &Http2) -> (ResponseFuture, Messages, Cancel) {
        let (requests, messages) = tokio::sync::mpsc::unbounded_channel();
        let messages = futures_util::stream::unfold(messages, |mut messages| async {
            Some((messages.recv().await?, messages))
        });
        let (body, cancel) = RequestBody::stream(Body::frames(messages), None, None);
        let request = Request::post("http://a/b.C/D").body(()).unwrap();
        let response = connection.send(request, body).unwrap_or_else(|_| panic!("refused"));
        (response, requests, cancel)
    }

    type Messages = tokio::sync::mpsc::UnboundedSender<Result<Frame, Error>>;

    type NextFrame = Option<Result<http_body::Frame<Bytes>, ConnectionFailure>>;

    async fn next(body: &mut HttpBody) -> NextFrame {
        std::future::poll_fn(|cx| body.poll_frame(cx)).await
    }

    #[tokio::test]
    async fn what_a_server_said_before_it_left_is_read_although_it_takes_no_more() {
        let (connection, mut server) = connection().await;
        let (response, requests, _cancel) = send(&connection);
        server.write_all(&head(0, &[])).unwrap();
        server.write_all(&frame(DATA, 0, 1, b"one")).unwrap();
        let (_, mut body) = HttpBody::of_http2(response.await.unwrap());
        assert_eq!(next(&mut body).await.unwrap().unwrap().into_data().unwrap(), "one");

        // Both happen before the connection's task has its turn, which writes first.
        requests.send(Ok(Frame::Data(Bytes::from_static(b"two")))).unwrap();
        let trailers = header("grpc-status", "0");
        server.write_all(&frame(HEADERS, END_HEADERS | END_STREAM, 1, &trailers)).unwrap();
        while server.read(&mut [0; 4096]).is_ok_and(|read| read > 0) {}
        drop(server);

        let trailers = next(&mut body).await.unwrap().unwrap().into_trailers().unwrap();
        assert_eq!(trailers.get("grpc-status").unwrap(), "0");
    }

    #[tokio::test]
    async fn a_server_that_wants_no_more_of_a_request_has_answered_all_that_it_declared() {
        for (sent, is_whole) in [("whole", true), ("who", false)] {
            let (connection, mut server) = connection().await;
            let (response, _requests, _cancel) = send(&connection);
            server.write_all(&head(0, &[("content-length", "5")])).unwrap();
            let (_, mut body) = HttpBody::of_http2(response.await.unwrap());
            server.write_all(&frame(DATA, 0, 1, sent.as_bytes())).unwrap();
            server.write_all(&frame(RST_STREAM, 0, 1, &[0; 4])).unwrap();
            assert_eq!(next(&mut body).await.unwrap().unwrap().into_data().unwrap(), sent);
            match next(&mut body).await {
                None => assert!(is_whole, "a part is taken for the whole"),
                Some(end) => assert!(end.is_err() && !is_whole, "{end:?}"),
            }
        }
    }
}
