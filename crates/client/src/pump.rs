//! Sends the body of a streamed request on an HTTP/2 connection, as fast as the server takes it.
//!
//! The task of the connection polls these, so a body goes on whether its caller reads the reply or not,
//! and ends with the connection.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::{Mutex, PoisonError};
use std::task::{Context, Poll};

use bytes::{Buf as _, Bytes};
use futures_util::stream::FuturesUnordered;
use futures_util::task::AtomicWaker;
use h2::{Reason, SendStream};
use http_body::{Body as _, Frame};

use crate::outgoing::{Outgoing, Piece, Stopped};

/// Bodies that the task of a connection has not taken yet.
#[derive(Default)]
pub(crate) struct Pumps {
    new: Mutex<Vec<Pump>>,
    driver: AtomicWaker,
}

type Pump = Pin<Box<dyn Future<Output = ()> + Send>>;

impl Pumps {
    pub(crate) fn push(&self, pump: Pump) {
        self.new.lock().unwrap_or_else(PoisonError::into_inner).push(pump);
        self.driver.wake();
    }

    /// Moves what is new to what runs; `cx` is woken when there is more.
    pub(crate) fn take(&self, running: &mut FuturesUnordered<Pump>, cx: &Context<'_>) {
        self.driver.register(cx.waker());
        let new = std::mem::take(&mut *self.new.lock().unwrap_or_else(PoisonError::into_inner));
        running.extend(new);
    }
}

/// What became of the wait for the next frame.
enum Next {
    Frame(Option<Frame<Bytes>>),
    /// The caller is gone, or its own stream failed.
    Stopped,
    /// The server takes no more, or the connection is gone: whoever reads the reply knows why.
    Over,
}

/// Sends a body to its end.
pub(crate) async fn pump(mut stream: SendStream<Piece>, mut body: Outgoing) {
    loop {
        match poll_fn(|cx| poll_next(&mut stream, &mut body, cx)).await {
            Next::Frame(Some(frame)) => {
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
            Next::Frame(None) => {
                // If it fails the stream is over already.
                drop(stream.send_data(Bytes::new().chain(Bytes::new()), true));
                return;
            }
            Next::Stopped => return stream.send_reset(Reason::CANCEL),
            Next::Over => return,
        }
    }
}

/// The next frame, once the server takes one: what it does not take is not asked for.
fn poll_next(
    stream: &mut SendStream<Piece>,
    body: &mut Outgoing,
    cx: &mut Context<'_>,
) -> Poll<Next> {
    if stream.poll_reset(cx).is_ready() {
        return Poll::Ready(Next::Over);
    }
    if body.poll_stopped(cx).is_ready() {
        return Poll::Ready(Next::Stopped);
    }
    stream.reserve_capacity(1);
    while stream.capacity() == 0 {
        match stream.poll_capacity(cx) {
            Poll::Ready(Some(Ok(_))) => {}
            Poll::Ready(_) => return Poll::Ready(Next::Over),
            Poll::Pending => return Poll::Pending,
        }
    }
    Pin::new(body).poll_frame(cx).map(|frame| match frame {
        Some(Ok(frame)) => Next::Frame(Some(frame)),
        Some(Err(Stopped)) => Next::Stopped,
        None => Next::Frame(None),
    })
}
