//! A stream that somebody else writes to: a task, a thread, a callback.

use std::fmt;

use tokio::sync::mpsc;

use super::Stream;
use crate::{Error, Result};

/// The writing end of a stream; see [`Stream::channel`]. The stream ends when all of its senders
/// are dropped, or with the first error that is sent.
///
/// A task that goes on sending what it hears until the reader goes away:
///
/// ```
/// # use tidewire_service as tidewire;
/// use tidewire::Stream;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> tidewire::Result<()> {
/// let (sender, mut ticks) = Stream::channel(1);
/// let task = tokio::spawn(async move {
///     let mut number = 0_u64;
///     while sender.send(number).await.is_ok() {
///         number += 1;
///     }
/// });
/// assert_eq!(ticks.next().await?, Some(0));
/// drop(ticks);
/// assert!(task.await.is_ok(), "the task ended, since nobody reads");
/// # Ok(())
/// # }
/// ```
pub struct Sender<T>(mpsc::Sender<Result<T>>);

impl<T: Send + 'static> Stream<T> {
    /// A stream of what its senders send. `capacity` messages, at least 1, wait for the reader;
    /// then senders wait.
    ///
    /// ```
    /// # use tidewire_service as tidewire;
    /// use futures_util::FutureExt;
    /// use tidewire::Stream;
    /// let (sender, mut numbers) = Stream::channel(8);
    /// let sending = async move {
    ///     sender.send(1).await?;
    ///     sender.send(2).await
    /// };
    /// // A service would spawn it.
    /// sending.now_or_never().expect("there is room for both")?;
    /// let next = numbers.next().now_or_never().expect("there is a message")?;
    /// assert_eq!(next, Some(1));
    /// # Ok::<(), tidewire::Error>(())
    /// ```
    pub fn channel(capacity: usize) -> (Sender<T>, Self) {
        let (sender, receiver) = mpsc::channel(capacity.max(1));
        let messages = futures_util::stream::unfold(receiver, |mut receiver| async move {
            let message = receiver.recv().await?;
            Some((message, receiver))
        });
        (Sender(sender), Self::new(messages))
    }
}

impl<T> Sender<T> {
    /// Sends a message; waits while the reader is behind.
    ///
    /// # Errors
    /// `canceled` when nobody reads any more.
    ///
    /// # Cancel safety
    /// Dropping the future before it is ready sends nothing.
    pub async fn send(&self, message: T) -> Result<()> {
        self.0.send(Ok(message)).await.map_err(|_| reader_gone())
    }

    /// Ends the stream with an error; waits while the reader is behind.
    ///
    /// # Errors
    /// As [`send`](Self::send).
    pub async fn fail(self, error: Error) -> Result<()> {
        self.0.send(Err(error)).await.map_err(|_| reader_gone())
    }

    /// Waits until nobody reads any more.
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub async fn closed(&self) {
        self.0.closed().await;
    }
}

fn reader_gone() -> Error {
    Error::new(crate::Code::Canceled, "the reader of the stream is gone")
}

impl<T> Clone for Sender<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T> fmt::Debug for Sender<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Sender")
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;
    use crate::Code;

    #[test]
    fn a_stream_ends_with_its_senders_or_with_an_error_and_senders_learn_of_a_reader_that_left() {
        let (sender, mut stream) = Stream::channel(0);
        let other = sender.clone();
        assert!(matches!(sender.send(1).now_or_never(), Some(Ok(()))));
        assert!(other.send(2).now_or_never().is_none(), "one message waits, no more");
        assert!(matches!(stream.next().now_or_never(), Some(Ok(Some(1)))));
        drop(other);
        assert!(stream.next().now_or_never().is_none(), "a sender is left");
        assert!(matches!(sender.fail(Error::internal("broken")).now_or_never(), Some(Ok(()))));
        let end = stream.next().now_or_never().unwrap();
        assert_eq!(end.unwrap_err().message(), "broken");

        let (sender, mut stream) = Stream::<u8>::channel(1);
        drop(sender);
        assert!(matches!(stream.next().now_or_never(), Some(Ok(None))));

        let (sender, stream) = Stream::channel(1);
        drop(stream);
        let refused = sender.send(1).now_or_never().unwrap().unwrap_err();
        assert_eq!(refused.code(), Code::Canceled);
    }
}
