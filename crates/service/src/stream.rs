//! A stream of messages, as handlers and clients see it.
//!
//! What a stream is made of is not asked again once it ended or failed, so that nothing follows an
//! error within a process either, and asking once more at the end is not a mistake.

mod sender;

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use futures_util::StreamExt;

use crate::{Error, Headers, Result, ThinHeaders};

pub use self::sender::Sender;

/// Messages as they come, then trailers if there are any; an error ends the stream.
///
/// ```
/// # use tidewire_service as tidewire;
/// use tidewire::Stream;
/// let squares = Stream::from_values((1..4).map(|n| n * n));
/// ```
pub struct Stream<T> {
    parts: Parts<T>,
    trailers: ThinHeaders,
}

/// What a stream is made of; gone once it ended or failed.
struct Parts<T>(Option<BoxedParts<T>>);

type BoxedParts<T> = Pin<Box<dyn futures_core::Stream<Item = Result<Part<T>>> + Send>>;

/// One part of a stream, as a [`Frame`](crate::Frame) is of a body.
pub(crate) enum Part<T> {
    Message(T),
    /// At most once, and last.
    Trailers(ThinHeaders),
}

impl<T: 'static> Stream<T> {
    /// Wraps any stream of results: whatever implements `Stream` of the crate `futures-core`. The
    /// other constructors need no such crate.
    pub fn new(messages: impl futures_core::Stream<Item = Result<T>> + Send + 'static) -> Self {
        Self::from_parts(StreamExt::map(messages, |message| message.map(Part::Message)))
    }

    pub(crate) fn from_parts(
        parts: impl futures_core::Stream<Item = Result<Part<T>>> + Send + 'static,
    ) -> Self {
        Self { parts: Parts(Some(Box::pin(parts))), trailers: ThinHeaders::default() }
    }

    pub(crate) fn into_parts(
        self,
    ) -> impl futures_core::Stream<Item = Result<Part<T>>> + Send + use<T> {
        self.parts
    }

    /// A stream of values that are there already, none of which is an error.
    pub fn from_values<I>(values: I) -> Self
    where
        I: IntoIterator<Item = T>,
        I::IntoIter: Send + 'static,
        T: Send,
    {
        let parts = values.into_iter().map(|value| Ok(Part::Message(value)));
        Self::from_parts(futures_util::stream::iter(parts))
    }

    /// A stream of results that are there already.
    pub fn from_results<I>(results: I) -> Self
    where
        I: IntoIterator<Item = Result<T>>,
        I::IntoIter: Send + 'static,
        T: Send,
    {
        let parts = results.into_iter().map(|result| result.map(Part::Message));
        Self::from_parts(futures_util::stream::iter(parts))
    }

    /// A stream of what `f` makes of each message or error of this one. Trailers stay.
    #[must_use]
    pub fn map<U>(self, mut f: impl FnMut(Result<T>) -> Result<U> + Send + 'static) -> Stream<U>
    where
        U: 'static,
    {
        Stream::from_parts(StreamExt::map(self.parts, move |part| match part {
            Ok(Part::Message(message)) => f(Ok(message)).map(Part::Message),
            Ok(Part::Trailers(trailers)) => Ok(Part::Trailers(trailers)),
            Err(error) => f(Err(error)).map(Part::Message),
        }))
    }

    /// A stream of what an async function makes of a state, until it makes nothing.
    ///
    /// ```
    /// # use tidewire_service as tidewire;
    /// use tidewire::Stream;
    /// let countdown = Stream::unfold(3, async |n| (n > 0).then(|| (Ok(n), n - 1)));
    /// ```
    pub fn unfold<S, F, Fut>(state: S, f: F) -> Self
    where
        S: Send + 'static,
        F: FnMut(S) -> Fut + Send + 'static,
        Fut: Future<Output = Option<(Result<T>, S)>> + Send + 'static,
    {
        Self::new(futures_util::stream::unfold(state, f))
    }

    /// A stream of what an async function makes of each message or error of this one, one after the
    /// other. Trailers stay.
    #[must_use]
    pub fn then<U, F, Fut>(self, f: F) -> Stream<U>
    where
        T: Send,
        U: Send + 'static,
        F: FnMut(Result<T>) -> Fut + Send + 'static,
        Fut: Future<Output = Result<U>> + Send + 'static,
    {
        let state = (self.parts, f);
        Stream::from_parts(futures_util::stream::unfold(state, |(mut parts, mut f)| async move {
            let part = match StreamExt::next(&mut parts).await? {
                Ok(Part::Message(message)) => f(Ok(message)).await.map(Part::Message),
                Ok(Part::Trailers(trailers)) => Ok(Part::Trailers(trailers)),
                Err(error) => f(Err(error)).await.map(Part::Message),
            };
            Some((part, (parts, f)))
        }))
    }

    /// The same stream, with trailers that are asked for once the last message was taken: a count,
    /// a checksum. They take the place of those that it had, and are not sent after an error, which
    /// has its own trailers.
    ///
    /// Trailers that are known before belong to [`Reply::trailers`](crate::Reply::trailers).
    #[must_use]
    pub fn with_trailers<H: Into<ThinHeaders> + 'static>(
        self,
        trailers: impl FnOnce() -> H + Send + 'static,
    ) -> Self
    where
        T: Send,
    {
        let end = futures_util::stream::once(async move { Ok(Part::Trailers(trailers().into())) });
        let messages =
            self.parts.filter(|part| std::future::ready(!matches!(part, Ok(Part::Trailers(_)))));
        let parts = messages.chain(end);
        Self::from_parts(parts)
    }
}

impl<T> Stream<T> {
    /// The next message: `None` at the end.
    ///
    /// ```
    /// # use tidewire_service as tidewire;
    /// use tidewire::{Error, Stream};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> tidewire::Result<()> {
    /// let mut numbers = Stream::from_results([Ok(1), Err(Error::aborted("enough")), Ok(3)]);
    /// assert_eq!(numbers.next().await?, Some(1));
    /// assert!(numbers.next().await.is_err());
    /// assert_eq!(numbers.next().await?, None, "an error ends a stream");
    /// # Ok(())
    /// # }
    /// ```
    /// # Errors
    /// The error that ended the stream; nothing follows it.
    ///
    /// # Cancel safety
    /// Cancel safe: a message is not lost when this future is dropped.
    pub async fn next(&mut self) -> Result<Option<T>, Error> {
        StreamExt::next(self).await.transpose()
    }

    /// The trailers that came after the last message; empty before the end.
    pub fn trailers(&self) -> &Headers {
        &self.trailers
    }
}

impl<T> futures_core::Stream for Stream<T> {
    type Item = Result<T>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            match ready!(self.parts.poll_next_unpin(cx)) {
                Some(Ok(Part::Message(message))) => return Poll::Ready(Some(Ok(message))),
                Some(Ok(Part::Trailers(trailers))) => self.trailers = trailers,
                Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                None => return Poll::Ready(None),
            }
        }
    }
}

impl<T> futures_core::Stream for Parts<T> {
    type Item = Result<Part<T>>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let Some(parts) = &mut self.0 else { return Poll::Ready(None) };
        let part = ready!(parts.as_mut().poll_next(cx));
        if !matches!(part, Some(Ok(_))) {
            self.0 = None;
        }
        Poll::Ready(part)
    }
}

impl<T> fmt::Debug for Stream<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Stream")
    }
}
