//! A panic of a handler is one failed call, wherever it comes: while it answers, within its stream,
//! and as what it made is dropped because its caller went away. Its text is on standard error, as
//! of every panic.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use futures_util::Stream;
use tidewire_service::{
    Body, Call, Error, Frame, Frames, Messages, PendingAnswer, Reply, Result, Service,
};

/// What a handler made, until it is over.
struct IsolatedHandler<T>(Option<T>);

/// The answer of a service, and the stream that it may have.
pub(super) async fn answer(service: impl Service, call: Call) -> Result<Reply> {
    let made: PendingAnswer = Box::pin(async move { service.call(call).await });
    let mut reply = IsolatedHandler(Some(made)).await?;
    if let Body::Stream(frames) = reply.body {
        reply.body = Body::batches(IsolatedHandler(Some(frames)));
    }
    Ok(reply)
}

impl<T> IsolatedHandler<T> {
    /// What there is to say of it; nothing once it is over.
    fn poll_by<R>(&mut self, poll: impl FnOnce(&mut T) -> Poll<R>) -> Poll<Option<Result<R>>> {
        let Some(made) = &mut self.0 else { return Poll::Ready(None) };
        match catch_unwind(AssertUnwindSafe(|| poll(made))) {
            Ok(polled) => polled.map(|said| Some(Ok(said))),
            Err(_) => {
                self.end();
                Poll::Ready(Some(Err(Error::internal(PANICKED))))
            }
        }
    }

    /// It may panic as it is dropped, and what panicked may do so again.
    fn end(&mut self) {
        let made = self.0.take();
        let _ = catch_unwind(AssertUnwindSafe(|| drop(made)));
    }
}

impl Future for IsolatedHandler<PendingAnswer> {
    type Output = Result<Reply>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let said = ready!(self.poll_by(|made| made.as_mut().poll(cx)));
        Poll::Ready(said.expect("an answer is polled until it is ready, once").flatten())
    }
}

impl Stream for IsolatedHandler<Pin<Box<dyn Frames>>> {
    type Item = Result<Frame>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.poll_by(|frames| frames.as_mut().poll_next(cx)).map(next)
    }
}

impl Frames for IsolatedHandler<Pin<Box<dyn Frames>>> {
    fn poll_messages(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        messages: &mut Messages,
    ) -> Poll<Option<Result<Frame>>> {
        self.poll_by(|frames| frames.as_mut().poll_messages(cx, messages)).map(next)
    }
}

/// The next of a stream, whose panic is its last.
fn next<T>(said: Option<Result<Option<Result<T>>>>) -> Option<Result<T>> {
    said.and_then(|said| said.unwrap_or_else(|panicked| Some(Err(panicked))))
}

impl<T> Drop for IsolatedHandler<T> {
    fn drop(&mut self) {
        self.end();
    }
}

const PANICKED: &str = "the handler failed; its log says why";
