//! A panic in a handler is one failed call.
//!
//! The handler's future is polled inside `catch_unwind`; its panic becomes an `internal` error
//! whose message says nothing of the cause, which is logged. What a handler keeps is dropped like
//! that too, when its caller goes away or its time is over. A program built with `panic = "abort"`
//! has no such isolation.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::{Context, Poll};

use crate::request::failure::EndCause;
use tidewire_service::LogLimit;
use tidewire_service::{
    Answer, Call, Error, Frame, Frames, Messages, OneLine, PendingAnswer, Progress, Reply, Result,
    Service,
};

/// The answer of a service, with panics turned into errors.
pub(crate) struct IsolatedAnswer(Answer);

impl IsolatedAnswer {
    /// Calls the service.
    #[inline]
    pub(crate) fn call(service: &dyn Service, call: Call) -> Self {
        // By reference, since whatever a caught closure holds is moved about three times.
        let mut call = Some(call);
        let called = catch_unwind(AssertUnwindSafe(|| call.take().map(|call| service.call(call))));
        let called = called.map_err(|panic| Answer::ready(Err(panicked(&*panic))));
        Self(called.map(|answer| answer.expect("it was there")).unwrap_or_else(|failed| failed))
    }

    /// The outcome when it is there already, otherwise its future.
    #[inline]
    pub(crate) fn into_progress(self) -> IsolatedProgress {
        match self.0.into_progress() {
            Progress::Ready(outcome) => IsolatedProgress::Ready(outcome),
            Progress::Pending(pending) => IsolatedProgress::Pending(IsolatedPending(Some(pending))),
        }
    }
}

/// What an answer is before it is polled.
pub(crate) enum IsolatedProgress {
    Ready(Result<Box<Reply>>),
    Pending(IsolatedPending),
}

/// The boxed future of a reply, with panics turned into errors; the default was polled to its end.
#[derive(Default)]
pub(crate) struct IsolatedPending(Option<PendingAnswer>);

impl Future for IsolatedPending {
    type Output = Result<Reply>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let pending = self.0.as_mut().expect("an answer is polled until it is ready, once");
        let outcome = catch_unwind(AssertUnwindSafe(|| pending.as_mut().poll(cx)));
        outcome.unwrap_or_else(|panic| Poll::Ready(Err(panicked(&*panic))))
    }
}

impl Drop for IsolatedPending {
    fn drop(&mut self) {
        dropped(self.0.take());
    }
}

/// A stream with panics turned into an error that ends it.
pub(crate) struct IsolatedStream<S>(pub(crate) Option<S>);

impl<S> IsolatedStream<S> {
    /// Asks it for no more.
    pub(crate) fn end(&mut self) {
        dropped(self.0.take());
    }
}

impl<S: Unpin> IsolatedStream<S> {
    /// What `poll` has to say of the stream, as long as there is one.
    fn poll_by<T>(
        &mut self,
        poll: impl FnOnce(Pin<&mut S>) -> Poll<Option<Result<T>>>,
    ) -> Poll<Option<Result<T>>> {
        let Some(stream) = &mut self.0 else { return Poll::Ready(None) };
        catch_unwind(AssertUnwindSafe(|| poll(Pin::new(stream)))).unwrap_or_else(|panic| {
            self.end();
            Poll::Ready(Some(Err(panicked(&*panic))))
        })
    }
}

impl<S, T> futures_core::Stream for IsolatedStream<S>
where
    S: futures_core::Stream<Item = Result<T>> + Unpin,
{
    type Item = Result<T>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.poll_by(|stream| stream.poll_next(cx))
    }
}

impl<S: Frames + Unpin> Frames for IsolatedStream<S> {
    fn poll_messages(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        messages: &mut Messages,
    ) -> Poll<Option<Result<Frame>>> {
        self.poll_by(|stream| stream.poll_messages(cx, messages))
    }
}

impl<S> Drop for IsolatedStream<S> {
    fn drop(&mut self) {
        self.end();
    }
}

/// Drops what a handler made: it may panic then too, and what panicked may do so again.
fn dropped<T>(made: Option<T>) {
    if made.is_some()
        && let Err(panic) = catch_unwind(AssertUnwindSafe(|| drop(made)))
    {
        panicked(&*panic);
    }
}

pub(crate) fn panicked(panic: &(dyn Any + Send)) -> Error {
    let message = panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("a value that is not text");
    if let Some(left_out) = PANICKED.line(std::time::Instant::now()) {
        let text = "a handler panicked; the call failed, the server goes on";
        tracing::error!(panic = %OneLine(message), left_out, "{text}");
    }
    Error::internal("the handler panicked; the server's log has the cause")
        .with_cause(EndCause::Panicked)
}

/// Handlers that panicked.
static PANICKED: LogLimit = LogLimit::ten_a_second();

#[cfg(test)]
mod tests {
    use tidewire_service::{Body, Code};

    use super::*;

    #[test]
    fn a_panic_amid_many_messages_comes_behind_those_before_it_and_ends_the_stream() {
        let frames = (0..).map(|n: u8| {
            assert!(n < 3, "it panics");
            Ok(Frame::Data(vec![n].into()))
        });
        let many = Many(Body::frames(futures_util::stream::iter(frames)).into_frames());
        let (mut stream, mut messages) = (IsolatedStream(Some(many)), Messages::default());
        messages.allow(64);
        let mut cx = Context::from_waker(std::task::Waker::noop());
        let mut poll = || Pin::new(&mut stream).poll_messages(&mut cx, &mut messages);
        let first = poll();
        assert!(matches!(first, Poll::Ready(Some(Err(error))) if error.code() == Code::Internal));
        assert!(matches!(poll(), Poll::Ready(None)));
        let taken = std::iter::from_fn(|| messages.take().map(<[u8]>::to_vec));
        assert_eq!(taken.collect::<Vec<_>>(), [[0], [1], [2]]);
    }

    /// Frames that are given many at a time.
    struct Many(Pin<Box<dyn Frames>>);

    impl futures_core::Stream for Many {
        type Item = Result<Frame>;

        fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
            self.0.as_mut().poll_next(cx)
        }
    }

    impl Frames for Many {
        fn poll_messages(
            mut self: Pin<&mut Self>,
            cx: &mut Context<'_>,
            messages: &mut Messages,
        ) -> Poll<Option<Result<Frame>>> {
            loop {
                match std::task::ready!(self.0.as_mut().poll_next(cx)) {
                    Some(Ok(Frame::Data(data))) if messages.add(&data) => {}
                    other => return Poll::Ready(other),
                }
            }
        }
    }
}
