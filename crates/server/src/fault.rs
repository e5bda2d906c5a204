//! Replies that misbehave on purpose, as their script says, where the server was built to allow it.
//!
//! | fault | HTTP/1.1 | HTTP/2 |
//! |---|---|---|
//! | delays, dribble, content type | as said | as said |
//! | reset | the connection is closed | `RST_STREAM` with `INTERNAL_ERROR` |
//! | truncation | the connection is closed where a length was said | the stream ends |
//! | lost trailers | none, or the last envelope is missing | none, or the last envelope is missing |
//! | going away | the connection is closed after the response | `GOAWAY` |
//!
//! Resets and going away count messages, not the frames that carry them: several messages that are
//! ready together leave in one frame. `messages` says where one ends.
//!
//! The script travels in the extensions of the response. A server without faults never looks there.

mod messages;

use std::collections::VecDeque;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http_body::{Body, Frame, SizeHint};
use tidewire_service::{Error, Fault, Script, Signal};
use tokio::time::Sleep;

use self::messages::{MessageCutter, Piece};
use crate::response::{BoxedResponse, Kind, ResponseBody, ResponseFuture};

/// Whether the end of a response is left out.
pub(crate) fn loses_trailers(script: Option<&Script>) -> bool {
    script.is_some_and(|script| script.faults().contains(&Fault::LoseTrailers))
}

/// The response as its script wants it.
pub(crate) fn play(response: ResponseFuture, goes_away: Signal) -> BoxedResponse<ResponseBody> {
    Box::pin(async move {
        let mut response = response.await.unwrap_or_else(|never| match never {});
        let Some(script) = response.extensions_mut().remove::<Script>() else { return response };
        let cutter = MessageCutter::of(response.headers().get(CONTENT_TYPE));
        let mut plan = Plan { truncate_after: u64::MAX, ..Plan::default() };
        for fault in script.faults() {
            match fault {
                Fault::HeadDelay(delay) => tokio::time::sleep(*delay).await,
                Fault::ContentType(value) => {
                    response.headers_mut().insert(CONTENT_TYPE, value.clone());
                }
                other => plan.add(other),
            }
        }
        response.map(|body| {
            let faulty = Faulty {
                body,
                plan,
                cutter,
                goes_away,
                frames: 0,
                messages: 0,
                sent: 0,
                queue: VecDeque::new(),
                pause: None,
                flush: None,
            };
            ResponseBody::of(Kind::Faulty(Box::new(faulty)))
        })
    })
}

/// What goes wrong with a body.
#[derive(Default)]
struct Plan {
    frame_delay: Option<Duration>,
    reset_after: Option<usize>,
    go_away_after: Option<usize>,
    truncate_after: u64,
    dribble: Option<(usize, Duration)>,
    loses_trailers: bool,
}

impl Plan {
    fn add(&mut self, fault: &Fault) {
        match fault {
            Fault::FrameDelay(delay) => self.frame_delay = Some(*delay),
            Fault::ResetAfter(messages) => self.reset_after = Some(*messages),
            Fault::GoAwayAfter(messages) => self.go_away_after = Some(*messages),
            Fault::TruncateAfter(bytes) => self.truncate_after = *bytes,
            Fault::Dribble { bytes, every } => self.dribble = Some(((*bytes).max(1), *every)),
            Fault::LoseTrailers => self.loses_trailers = true,
            // Those of the head are played already.
            _ => {}
        }
    }
}

/// A body that misbehaves.
pub(crate) struct Faulty<B> {
    body: B,
    plan: Plan,
    cutter: MessageCutter,
    goes_away: Signal,
    /// Frames, messages and bytes that were sent.
    frames: usize,
    messages: usize,
    sent: u64,
    /// What waits for its time.
    queue: VecDeque<QueuedFrame>,
    pause: Option<Pin<Box<Sleep>>>,
    /// Until what was sent before the end is on its way.
    flush: Option<Pin<Box<Sleep>>>,
}

/// A frame that waits for its time.
struct QueuedFrame {
    frame: Frame<Bytes>,
    ends_message: bool,
}

/// The shortest time that is not over when the connection is polled once more.
const FLUSH_TIME: Duration = Duration::from_millis(2);

impl<B> Faulty<B> {
    /// Waits once before an end that comes too early: over HTTP/1.1 what was sent before is held
    /// back (`gather.rs`) until the body has no more for now.
    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let pause = self.flush.get_or_insert_with(|| Box::pin(tokio::time::sleep(FLUSH_TIME)));
        pause.as_mut().poll(cx)
    }

    /// The body that it was.
    pub(crate) fn inner(&self) -> &B {
        &self.body
    }
}

impl<B: Body<Data = Bytes, Error = Error> + Unpin> Faulty<B> {
    /// Cuts a frame to what a script lets through, in pieces.
    fn enqueue(&mut self, frame: Frame<Bytes>) {
        let data = match frame.into_data() {
            Ok(data) => data,
            Err(_) if self.plan.loses_trailers => return,
            Err(frame) => return self.queue.push_back(QueuedFrame { frame, ends_message: false }),
        };
        let size = self.plan.dribble.map_or(usize::MAX, |(bytes, _)| bytes);
        for Piece { mut bytes, ends_message } in self.cutter.cut(data) {
            while bytes.len() > size {
                let frame = Frame::data(bytes.split_to(size));
                self.queue.push_back(QueuedFrame { frame, ends_message: false });
            }
            self.queue.push_back(QueuedFrame { frame: Frame::data(bytes), ends_message });
        }
    }

    /// The pause before the next frame, if there is one.
    fn next_pause(&self) -> Option<Duration> {
        match self.plan.dribble {
            Some((_, every)) if self.frames > 0 => Some(every),
            _ => self.plan.frame_delay,
        }
    }
}

impl<B: Body<Data = Bytes, Error = Error> + Unpin> Body for Faulty<B> {
    type Data = Bytes;
    type Error = Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Error>>> {
        let this = &mut *self;
        if this.plan.go_away_after == Some(this.messages) {
            this.plan.go_away_after = None;
            this.goes_away.fire();
        }
        let is_reset = this.plan.reset_after == Some(this.messages);
        if is_reset || this.sent >= this.plan.truncate_after {
            ready!(this.poll_flush(cx));
        }
        if is_reset {
            return Poll::Ready(Some(Err(Error::internal("reset by the reply's script"))));
        }
        if this.sent >= this.plan.truncate_after {
            return Poll::Ready(None);
        }
        while this.queue.is_empty() {
            match ready!(Pin::new(&mut this.body).poll_frame(cx)) {
                None if this.messages == 0 && this.cutter.ends_with_body() => {
                    this.messages = 1;
                    return self.poll_frame(cx);
                }
                None => return Poll::Ready(None),
                Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                Some(Ok(frame)) => this.enqueue(frame),
            }
            let pause = this.next_pause();
            this.pause = pause.map(|pause| Box::pin(tokio::time::sleep(pause)));
        }
        if let Some(pause) = &mut this.pause {
            ready!(pause.as_mut().poll(cx));
        }
        let Some(QueuedFrame { frame, ends_message }) = this.queue.pop_front() else {
            return Poll::Ready(None);
        };
        this.frames += 1;
        this.messages += usize::from(ends_message);
        // The pause before a frame of the body begins once that frame is there.
        let pause = if this.queue.is_empty() { None } else { this.next_pause() };
        this.pause = pause.map(|pause| Box::pin(tokio::time::sleep(pause)));
        let left = this.plan.truncate_after - this.sent;
        let frame = match frame.into_data() {
            Ok(mut data) => {
                data.truncate(usize::try_from(left).unwrap_or(usize::MAX));
                this.sent += data.len() as u64;
                Frame::data(data)
            }
            Err(trailers) => trailers,
        };
        Poll::Ready(Some(Ok(frame)))
    }

    fn size_hint(&self) -> SizeHint {
        // What was said of the length stays said.
        self.body.size_hint()
    }
}
