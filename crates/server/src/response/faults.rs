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
use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http::Response;
use http::header::CONTENT_TYPE;
use http_body::{Body, Frame, SizeHint};
use tidewire_service::{Error, Fault, Script, Signal};
use tokio::time::Sleep;

use self::messages::{MessageCutter, Piece};

/// Whether the end of a response is left out.
pub(crate) fn loses_trailers(script: Option<&Script>) -> bool {
    script.is_some_and(|script| script.faults().contains(&Fault::LoseTrailers))
}

/// The response as its script wants it: with what `wrap` makes of a body that misbehaves.
pub(crate) async fn play<B>(
    response: impl Future<Output = Result<Response<B>, Infallible>>,
    goes_away: Signal,
    wrap: impl FnOnce(Faulty<B>) -> B,
) -> Response<B> {
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
    response.map(|body| wrap(Faulty::new(body, plan, cutter, goes_away)))
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
    begins_message: bool,
    ends_message: bool,
}

impl QueuedFrame {
    fn data(bytes: Bytes, begins_message: bool, ends_message: bool) -> Self {
        Self { frame: Frame::data(bytes), begins_message, ends_message }
    }

    fn trailers(frame: Frame<Bytes>) -> Self {
        Self { frame, begins_message: false, ends_message: false }
    }
}

impl<B> Faulty<B> {
    /// Nothing of the body was sent yet.
    fn new(body: B, plan: Plan, cutter: MessageCutter, goes_away: Signal) -> Self {
        Self {
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
        }
    }
}

/// The shortest time that is not over when the connection is polled once more.
const FLUSH_TIME: Duration = Duration::from_millis(2);

impl<B> Faulty<B> {
    /// Waits once before an end that comes too early: over HTTP/1.1 what was sent before is held
    /// back (`socket/gather.rs`) until the body has no more for now.
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
            Err(frame) => return self.queue.push_back(QueuedFrame::trailers(frame)),
        };
        let size = self.plan.dribble.map_or(usize::MAX, |(bytes, _)| bytes);
        for Piece { mut bytes, mut begins_message, ends_message } in self.cutter.cut(data) {
            while bytes.len() > size {
                let first = bytes.split_to(size);
                self.queue.push_back(QueuedFrame::data(first, begins_message, false));
                begins_message = false;
            }
            self.queue.push_back(QueuedFrame::data(bytes, begins_message, ends_message));
        }
    }

    /// The pause before the next frame that waits: one between pieces, and one before a message.
    fn next_pause(&self) -> Option<Duration> {
        let next = self.queue.front().filter(|next| next.frame.is_data())?;
        let dribble = self.plan.dribble.filter(|_| self.frames > 0).map(|(_, every)| every);
        let message = self.plan.frame_delay.filter(|_| next.begins_message);
        match (dribble, message) {
            (Some(piece), Some(message)) => Some(piece.saturating_add(message)),
            (one, other) => one.or(other),
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
        let Some(QueuedFrame { frame, ends_message, .. }) = this.queue.pop_front() else {
            return Poll::Ready(None);
        };
        this.frames += 1;
        this.messages += usize::from(ends_message);
        // The pause before a frame of the body begins once that frame is there.
        let pause = this.next_pause();
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

#[cfg(test)]
mod tests {
    use futures_util::stream;
    use http::HeaderMap;
    use http_body_util::{BodyExt as _, StreamBody};
    use tokio::time::Instant;

    use super::*;

    const PAUSE: Duration = Duration::from_secs(60);

    /// How many pauses a body has whose frames are there, over time that is not real.
    async fn pauses(content_type: &'static str, faults: &[Fault], frames: &[&'static [u8]]) -> u32 {
        let data = frames.iter().map(|bytes| Frame::data(Bytes::from_static(bytes)));
        let mut frames: Vec<Result<_, Error>> = data.map(Ok).collect();
        frames.push(Ok(Frame::trailers(HeaderMap::new())));
        let content_type = http::HeaderValue::from_static(content_type);
        let mut plan = Plan { truncate_after: u64::MAX, ..Plan::default() };
        faults.iter().for_each(|fault| plan.add(fault));
        let cutter = MessageCutter::of(Some(&content_type));
        let body = StreamBody::new(stream::iter(frames));
        let faulty = Faulty::new(body, plan, cutter, Signal::new());
        let began = Instant::now();
        faulty.collect().await.unwrap();
        let passed = began.elapsed();
        u32::try_from(passed.as_secs() / PAUSE.as_secs()).unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn a_slow_reply_pauses_once_before_each_message_and_not_before_its_end() {
        let slow = [Fault::FrameDelay(PAUSE)];
        for (content_type, frames, messages) in [
            ("application/grpc", &[b"\0\0\0\0\x01a" as &[u8]][..], 1),
            ("application/grpc", &[b"\0\0\0\0\x01", b"a"], 1),
            ("application/grpc", &[b"\0\0\0\0\x01a\0\0\0\0\x01b"], 2),
            ("application/grpc-web", &[b"\0\0\0\0\x01a", b"\x80\0\0\0\0"], 1),
            ("application/connect+json", &[b"\0\0\0\0\x02{}\x02\0\0\0\x02{}"], 1),
            ("application/proto", &[b"a", b"b"], 1),
            ("application/json", &[b"{\"a\":", b"[1]}"], 1),
            ("application/json", &[b"[{}", b",{}", b"]"], 2),
            ("application/json", &[b"[{},{}", b"\n]"], 2),
            ("application/x-ndjson", &[b"{}\n{", b"}\n"], 2),
        ] {
            let paused = pauses(content_type, &slow, frames).await;
            assert_eq!(paused, messages, "{content_type} {frames:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_reply_in_pieces_pauses_between_them_and_where_it_is_slow_before_messages_too() {
        let dribble = Fault::Dribble { bytes: 3, every: PAUSE };
        let message: &[&'static [u8]] = &[b"\0\0\0\0\x01a"];
        assert_eq!(pauses("application/grpc", std::slice::from_ref(&dribble), message).await, 1);
        let both = [dribble, Fault::FrameDelay(PAUSE)];
        assert_eq!(pauses("application/grpc", &both, message).await, 2);
    }
}
