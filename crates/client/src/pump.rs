//! Sends the body of a streamed request on an HTTP/2 connection, as fast as the server takes it.
//!
//! The task of the connection polls these, so a body goes on whether its caller reads the reply or
//! not, and ends with the connection.

use parking_lot::Mutex;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::{Buf as _, Bytes};
use futures_util::stream::FuturesUnordered;
use futures_util::task::AtomicWaker;
use h2::{Reason, SendStream};
use http_body::{Body as _, Frame};

use crate::outgoing::{Piece, RequestBody, SendStopped};

/// Bodies that the task of a connection has not taken yet.
#[derive(Default)]
pub(crate) struct Pumps {
    new: Mutex<Vec<Pump>>,
    driver: AtomicWaker,
}

type Pump = Pin<Box<dyn Future<Output = ()> + Send>>;

impl Pumps {
    pub(crate) fn push(&self, pump: Pump) {
        self.new.lock().push(pump);
        self.driver.wake();
    }

    /// Moves what is new to what runs; `cx` is woken when there is more.
    pub(crate) fn take(&self, running: &mut FuturesUnordered<Pump>, cx: &Context<'_>) {
        self.driver.register(cx.waker());
        let new = std::mem::take(&mut *self.new.lock());
        running.extend(new);
    }
}

/// What became of the wait for the next frame.
enum NextFrame {
    Frame(Option<Frame<Bytes>>),
    /// The caller is gone, or its own stream failed.
    Stopped,
    /// The server takes no more, or the connection is gone: whoever reads the reply knows why.
    Over,
}

/// Sends a body to its end.
pub(crate) async fn pump(mut stream: SendStream<Piece>, mut body: RequestBody) {
    loop {
        match poll_fn(|cx| poll_next(&mut stream, &mut body, cx)).await {
            NextFrame::Frame(Some(frame)) => {
                let is_end = body.is_end_stream();
                let sent = match frame.into_data() {
                    Ok(data) => stream.send_data(data.chain(Bytes::new()), is_end).map(|()| is_end),
                    Err(frame) => {
                        let trailers = frame.into_trailers().unwrap_or_default();
                        stream.send_trailers(trailers).map(|()| true)
                    }
                };
                if !matches!(sent, Ok(false)) {
                    return;
                }
            }
            NextFrame::Frame(None) => {
                // If it fails the stream is over already.
                drop(stream.send_data(Bytes::new().chain(Bytes::new()), true));
                return;
            }
            NextFrame::Stopped => return stream.send_reset(Reason::CANCEL),
            NextFrame::Over => return,
        }
    }
}

/// The next frame, once the server takes one: what it does not take is not asked for.
fn poll_next(
    stream: &mut SendStream<Piece>,
    body: &mut RequestBody,
    cx: &mut Context<'_>,
) -> Poll<NextFrame> {
    if stream.poll_reset(cx).is_ready() {
        return Poll::Ready(NextFrame::Over);
    }
    if body.poll_stopped(cx).is_ready() {
        return Poll::Ready(NextFrame::Stopped);
    }
    stream.reserve_capacity(1);
    while stream.capacity() == 0 {
        match stream.poll_capacity(cx) {
            Poll::Ready(Some(Ok(_))) => {}
            Poll::Ready(_) => return Poll::Ready(NextFrame::Over),
            Poll::Pending => return Poll::Pending,
        }
    }
    Pin::new(body).poll_frame(cx).map(|frame| match frame {
        Some(Ok(frame)) => NextFrame::Frame(Some(frame)),
        Some(Err(SendStopped)) => NextFrame::Stopped,
        None => NextFrame::Frame(None),
    })
}
