//! A stream of messages, as handlers and clients see it.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

use crate::{Error, Result};

/// Messages as they come; an error ends the stream.
///
/// ```
/// use tidewire_service::Stream;
/// let squares = Stream::from_values((1..4).map(|n| n * n));
/// ```
pub struct Stream<T>(Pin<Box<dyn futures_core::Stream<Item = Result<T>> + Send>>);

impl<T> Stream<T> {
    /// Wraps any stream of results.
    pub fn new(items: impl futures_core::Stream<Item = Result<T>> + Send + 'static) -> Self {
        Self(Box::pin(items))
    }

    /// A stream of values that are there already, none of which is an error.
    pub fn from_values<I>(values: I) -> Self
    where
        I: IntoIterator<Item = T>,
        I::IntoIter: Send + 'static,
        T: Send + 'static,
    {
        Self::new(futures_util::stream::iter(values.into_iter().map(Ok)))
    }

    /// A stream of results that are there already.
    pub fn from_results<I>(results: I) -> Self
    where
        I: IntoIterator<Item = Result<T>>,
        I::IntoIter: Send + 'static,
        T: Send + 'static,
    {
        Self::new(futures_util::stream::iter(results))
    }

    /// A stream of what `f` makes of each message or error of this one.
    #[must_use]
    pub fn map<U>(self, f: impl FnMut(Result<T>) -> Result<U> + Send + 'static) -> Stream<U>
    where
        T: 'static,
    {
        Stream::new(futures_util::StreamExt::map(self.0, f))
    }

    /// The next message: `None` at the end.
    ///
    /// # Errors
    /// The error that ended the stream; nothing follows it.
    ///
    /// # Cancel safety
    /// Cancel safe: a message is not lost when this future is dropped.
    pub async fn next(&mut self) -> Result<Option<T>, Error> {
        futures_util::StreamExt::next(&mut self.0).await.transpose()
    }
}

impl<T> futures_core::Stream for Stream<T> {
    type Item = Result<T>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.0.as_mut().poll_next(cx)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.0.size_hint()
    }
}

impl<T> fmt::Debug for Stream<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Stream")
    }
}
