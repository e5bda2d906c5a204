//! A plan in time: what is sent when.
//!
//! The time comes from a [`Clock`]; this crate has no clock. A stream is made as it is read, so one
//! without end costs nothing once its reader has left.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tidewire_service::{Body, Clock, Error, Frame, Headers, Reply, Result, ThinHeaders};

use crate::random::Random;
use crate::select::plan::{Frames, Outcome, Plan};

/// Waits for a while; not at all where there is nothing to wait for.
pub(crate) async fn wait(timer: &dyn Clock, delay: Duration) {
    if !delay.is_zero() {
        timer.sleep_until(timer.now() + delay).await;
    }
}

/// What who asks for the real service is told where there is none.
const NO_UPSTREAM: &str =
    "the rule asks the upstream, and there is none; name one by --upstream URL";

/// The reply of a plan whose delay is over, to a method that answers with a stream or not.
pub(crate) fn reply(plan: Plan, streams: bool, timer: &Arc<dyn Clock>) -> Result<Reply> {
    let Plan { headers, trailers, outcome, script, .. } = plan;
    let is_faulty = !script.faults().is_empty();
    let scripted = |reply: Reply| if is_faulty { reply.with_script(script) } else { reply };
    match outcome {
        Outcome::Message(bytes) => {
            let reply = Reply::new(Body::Full(bytes)).with_headers(headers);
            Ok(scripted(reply.with_trailers(trailers)))
        }
        Outcome::Stream(frames) => {
            let body = stream(frames, Arc::clone(timer), trailers);
            Ok(scripted(Reply::new(body).with_headers(headers)))
        }
        // An error that is the end of a stream can have faults; one that is all there is cannot.
        Outcome::Error(error) if streams && is_faulty => {
            let error = with_metadata(error, &Headers::new(), &trailers);
            let body = Body::frames(futures_util::stream::iter([Err(error)]));
            Ok(scripted(Reply::new(body).with_headers(headers)))
        }
        Outcome::Error(error) => Err(with_metadata(error, &headers, &trailers)),
        Outcome::Upstream => Err(Error::unimplemented(NO_UPSTREAM)),
    }
}

/// An error with the headers and trailers that go with it.
pub(crate) fn with_metadata(mut error: Error, headers: &Headers, trailers: &Headers) -> Error {
    for (name, value) in headers {
        error.headers_mut().append(name.clone(), value.clone());
    }
    for (name, value) in trailers {
        error.trailers_mut().append(name.clone(), value.clone());
    }
    error
}

struct PlayedStream {
    list: Vec<(Duration, Result<Bytes>)>,
    order: Vec<usize>,
    /// The next message in this round.
    next: usize,
    rounds_left: Option<u64>,
    shuffle: Option<Random>,
    error: Option<Error>,
    first_delay: Duration,
    error_delay: Duration,
    trailers: Headers,
    timer: Arc<dyn Clock>,
    /// Whether anything was sent: the first message has no pause before it, unless it has its own.
    has_begun: bool,
}

fn stream(frames: Frames, timer: Arc<dyn Clock>, trailers: Headers) -> Body {
    let order = (0..frames.list.len()).collect();
    let mut playing = PlayedStream {
        list: frames.list,
        order,
        next: 0,
        rounds_left: frames.rounds,
        shuffle: frames.shuffle,
        error: frames.error,
        first_delay: frames.first_delay,
        error_delay: frames.error_delay,
        trailers,
        timer,
        has_begun: false,
    };
    playing.begin_round();
    Body::frames(futures_util::stream::unfold(Some(playing), |playing| async move {
        let mut playing = playing?;
        match playing.step().await {
            Some(Ok(bytes)) => Some((Ok(Frame::Data(bytes)), Some(playing))),
            Some(Err(error)) => {
                let error = with_metadata(error, &Headers::new(), &playing.trailers);
                Some((Err(error), None))
            }
            None => {
                let trailers = ThinHeaders::from(std::mem::take(&mut playing.trailers));
                (!trailers.is_empty()).then_some((Ok(Frame::Trailers(trailers)), None))
            }
        }
    }))
}

impl PlayedStream {
    fn begin_round(&mut self) {
        self.next = 0;
        if let Some(random) = &mut self.shuffle {
            random.shuffle(&mut self.order);
        }
    }

    /// The next message, the error at the end, or nothing.
    async fn step(&mut self) -> Option<Result<Bytes>> {
        if self.next == self.order.len() {
            self.rounds_left = self.rounds_left.map(|left| left.saturating_sub(1));
            self.begin_round();
        }
        if self.rounds_left == Some(0) || self.order.is_empty() {
            let error = self.error.take()?;
            wait(&*self.timer, self.error_delay).await;
            return Some(Err(error));
        }
        let (pause, message) = self.list.get(self.order[self.next])?;
        let message = message.clone();
        let pause = if self.has_begun { *pause } else { self.first_delay };
        wait(&*self.timer, pause).await;
        // An endless stream without pauses lets others run.
        if self.has_begun && self.rounds_left.is_none() && pause.is_zero() {
            yielded().await;
        }
        (self.has_begun, self.next) = (true, self.next + 1);
        Some(message)
    }
}

/// Lets other tasks run.
async fn yielded() {
    let mut has_yielded = false;
    std::future::poll_fn(|cx| {
        if std::mem::replace(&mut has_yielded, true) {
            return std::task::Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        std::task::Poll::Pending
    })
    .await;
}
