//! Whose turn it is while a request is on its way: `request_timeout` counts what the process takes.
//!
//! | call | the process has `request_timeout` |
//! |---|---|
//! | a request that is there | from the moment it has it |
//! | a body, or messages, that come one after another | whenever it is its turn: while it reads nothing, and from the last piece |
//! | a method that answers with a stream | for ever: its first message may be long in coming |
//! | gRPC that passes unread | for ever: any of it may be such a method; the deadline of its caller counts |
//!
//! A caller who sends slowly, or opens a stream and says nothing, takes nobody's time but its own;
//! what ends it are the limits of the server. Who is answered before its request was there is told
//! that its connection ends with the answer (RFC 9112, section 9.6), which over HTTP/1.1 it does.

use parking_lot::{Mutex, MutexGuard};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::Stream;
use http::header::CONTENT_LENGTH;
use tidewire_service::{Body, Call, Frame, Frames, Messages, Result, StreamKind, Target};
use tokio::time::Instant;

use crate::grpc_caller::is_grpc;

/// Whose turn it is.
#[derive(Debug, Clone)]
pub struct Turn(Arc<Mutex<TurnState>>);

#[derive(Debug)]
struct TurnState {
    /// Since when it has been the process's turn; none while it is the caller's.
    since: Option<Instant>,
    /// What is left of the body, in bytes; none where that is not known.
    left: Option<u64>,
}

/// What the process takes too long for.
#[derive(Debug)]
pub enum ResponseTimer {
    /// The request is there.
    Runs,
    /// The caller has its turns too.
    Stands(Turn),
    /// The same, and an answer may begin whenever it does.
    Endless(Turn),
    /// An answer may begin whenever it does.
    None,
}

/// Whether the request is there, and its answer comes in a piece: it is the process's turn from
/// then on.
pub fn is_whole(call: &Call) -> bool {
    let is_answered_by_stream = call.spec().is_some_and(|method| method.kind.server_streams());
    !is_answered_by_stream && !matches!(call.body, Body::Stream(_))
}

impl ResponseTimer {
    /// The clock of a call, whose body is looked at on its way from now on.
    pub fn of(call: &mut Call) -> Self {
        let kind = match &call.target {
            Target::Method(method) => Some(method.kind),
            _ => None,
        };
        if matches!(kind, Some(StreamKind::Server | StreamKind::Bidi)) {
            return Self::None;
        }
        let is_endless = kind.is_none() && is_grpc(call.context.headers());
        if !matches!(call.body, Body::Stream(_)) {
            return if is_endless { Self::None } else { Self::Runs };
        }
        let length = call.context.header(CONTENT_LENGTH.as_str());
        let left = length.and_then(|length| length.to_str().ok()?.parse().ok());
        let turn = Turn(Arc::new(Mutex::new(TurnState { since: Some(Instant::now()), left })));
        if let Body::Stream(frames) = std::mem::take(&mut call.body) {
            call.body = Body::batches(WatchedBody { frames, turn: turn.clone() });
        }
        if is_endless { Self::Endless(turn) } else { Self::Stands(turn) }
    }

    /// Whether all of the request has come, of one whose answer does not stream.
    pub fn has_all(&self) -> bool {
        match self {
            Self::Stands(turn) | Self::Endless(turn) => turn.looks().left == Some(0),
            Self::Runs | Self::None => true,
        }
    }

    /// Waits until the process has taken `timeout`.
    pub async fn is_over(&self, timeout: Duration) {
        let mut at = Instant::now() + timeout;
        loop {
            tokio::time::sleep_until(at).await;
            at = match self {
                Self::Runs => return,
                Self::None | Self::Endless(_) => return std::future::pending().await,
                Self::Stands(turn) => match turn.since() {
                    Some(since) if since + timeout <= Instant::now() => return,
                    Some(since) => since + timeout,
                    None => Instant::now() + timeout,
                },
            };
        }
    }
}

impl Turn {
    fn since(&self) -> Option<Instant> {
        self.looks().since
    }

    fn is_processes(&self, yes: bool) {
        self.looks().since = yes.then(Instant::now);
    }

    /// Takes note of what came of the body.
    fn came(&self, frame: Option<&Result<Frame>>) {
        let mut looks = self.looks();
        looks.left = match frame {
            None => Some(0),
            Some(Ok(Frame::Data(data))) => {
                looks.left.map(|left| left.saturating_sub(data.len() as u64))
            }
            Some(_) => looks.left,
        };
    }

    fn looks(&self) -> MutexGuard<'_, TurnState> {
        self.0.lock()
    }
}

/// A body that tells whose turn it is.
struct WatchedBody<F> {
    frames: F,
    turn: Turn,
}

impl<F: Frames + Unpin> Stream for WatchedBody<F> {
    type Item = Result<Frame>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let polled = Pin::new(&mut self.frames).poll_next(cx);
        self.turn.is_processes(polled.is_ready());
        if let Poll::Ready(frame) = &polled {
            self.turn.came(frame.as_ref());
        }
        polled
    }
}

impl<F: Frames + Unpin> Frames for WatchedBody<F> {
    fn poll_messages(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        messages: &mut Messages,
    ) -> Poll<Option<Result<Frame>>> {
        let polled = Pin::new(&mut self.frames).poll_messages(cx, messages);
        // What is ready may have come before the end that is not.
        let is_pending = polled.is_pending() && messages.is_empty();
        self.turn.is_processes(!is_pending);
        if let Poll::Ready(frame) = &polled {
            self.turn.came(frame.as_ref());
        }
        polled
    }
}

impl<F> Drop for WatchedBody<F> {
    fn drop(&mut self) {
        if self.turn.since().is_none() {
            self.turn.is_processes(true);
        }
    }
}

#[cfg(test)]
mod tests {
    use http::header::CONTENT_TYPE;
    use http::{HeaderValue, Method};
    use tidewire_service::{Context, Headers};

    use super::*;

    /// Whether a call of this content type may take an hour.
    async fn is_endless(content_type: &'static str, body: Body) -> bool {
        let value = HeaderValue::from_static(content_type);
        let context = Context::new(Headers::from_iter([(CONTENT_TYPE, value)]));
        let mut call = Call::http(Method::POST, "/a.B/C".parse().unwrap(), context, body);
        let timer = ResponseTimer::of(&mut call);
        if let Body::Stream(frames) = call.body {
            // It is read to its end.
            let _ = Body::Stream(frames).collect(1 << 10).await;
        }
        let hour = Duration::from_secs(3600);
        tokio::time::timeout(hour, timer.is_over(Duration::from_secs(1))).await.is_err()
    }

    #[tokio::test(start_paused = true)]
    async fn grpc_that_passes_unread_may_stream_and_is_not_bounded() {
        let whole = || Body::from("hi");
        let stream = || {
            let frame: Result<Frame> = Ok(Frame::Data("hi".into()));
            Body::frames(futures_util::stream::iter([frame]))
        };
        for body in [whole(), stream()] {
            assert!(is_endless("application/grpc+proto", body).await);
        }
        for body in [whole(), stream()] {
            assert!(!is_endless("application/json", body).await);
        }
    }
}
