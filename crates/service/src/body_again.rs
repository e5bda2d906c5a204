//! The body of a call that a server may turn out not to have: what was read of it is kept until the
//! answer begins, so that another can be sent it from its beginning.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use futures_util::{Stream, StreamExt, stream};
use parking_lot::Mutex;

use crate::{Body, Error, Frame, Frames, Result};

/// Takes a body back that is lent to a call, as long as no more than 64 KiB in 1,024 frames were
/// read of it. Once this is dropped nothing more is kept.
pub struct BodyAgain(Arc<Mutex<Source>>);

/// A body as a call reads it.
struct LentBody(Arc<Mutex<Source>>);

struct Source {
    /// None once it was taken back.
    frames: Option<Pin<Box<dyn Frames>>>,
    /// What was read; none where that is no longer known.
    read: Option<Vec<Frame>>,
    bytes: usize,
    is_over: bool,
}

impl BodyAgain {
    /// The same body, and what takes it back.
    pub fn lend(frames: Pin<Box<dyn Frames>>) -> (Body, Self) {
        let source =
            Source { frames: Some(frames), read: Some(Vec::new()), bytes: 0, is_over: false };
        let source = Arc::new(Mutex::new(source));
        (Body::frames(LentBody(Arc::clone(&source))), Self(source))
    }

    /// The body from its beginning; `None` if more was read of it than is kept, or if it broke off.
    /// Whoever was lent it reads no more of it.
    pub fn take(self) -> Option<Body> {
        let mut source = self.0.lock();
        let read = source.read.take()?;
        let frames = source.frames.take()?;
        let is_over = source.is_over;
        drop(source);
        let read = stream::iter(read.into_iter().map(Ok));
        Some(if is_over { Body::frames(read) } else { Body::frames(read.chain(frames)) })
    }
}

impl fmt::Debug for BodyAgain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BodyAgain").finish_non_exhaustive()
    }
}

impl Source {
    fn see(&mut self, frame: Option<&Result<Frame>>) {
        match frame {
            Some(Ok(frame)) => {
                if let Frame::Data(data) = frame {
                    self.bytes = self.bytes.saturating_add(data.len());
                }
                match &mut self.read {
                    Some(read) if self.bytes <= KEPT_BYTES_MAX && read.len() < KEPT_FRAMES_MAX => {
                        read.push(frame.clone());
                    }
                    read => *read = None,
                }
            }
            Some(Err(_)) => self.read = None,
            None => self.is_over = true,
        }
    }
}

impl Stream for LentBody {
    type Item = Result<Frame>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let mut source = self.0.lock();
        let Some(frames) = &mut source.frames else {
            return Poll::Ready(Some(Err(Error::canceled("the call is made once more"))));
        };
        let frame = ready!(frames.poll_next_unpin(cx));
        if Arc::strong_count(&self.0) == 1 {
            // The answer has begun.
            source.read = None;
        } else {
            source.see(frame.as_ref());
        }
        Poll::Ready(frame)
    }
}

/// How much of a body is kept.
const KEPT_BYTES_MAX: usize = 64 << 10;
const KEPT_FRAMES_MAX: usize = 1024;

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    fn lent(frames: Vec<Result<Frame>>) -> (Pin<Box<dyn Frames>>, BodyAgain) {
        let (body, again) = BodyAgain::lend(Body::frames(stream::iter(frames)).into_frames());
        (body.into_frames(), again)
    }

    fn data(bytes: impl Into<Bytes>) -> Result<Frame> {
        Ok(Frame::Data(bytes.into()))
    }

    async fn text(again: BodyAgain) -> Option<String> {
        let bytes = again.take()?.collect(1 << 20).await.unwrap();
        Some(String::from_utf8(bytes.to_vec()).unwrap())
    }

    #[tokio::test]
    async fn a_body_goes_from_its_beginning_whatever_was_read_of_it() {
        for count in 0..4 {
            let (mut body, again) = lent(vec![data("a"), data("b")]);
            for _ in 0..count {
                let _ = body.next().await;
            }
            assert_eq!(text(again).await.as_deref(), Some("ab"), "{count} were read");
            assert!(body.next().await.unwrap().is_err(), "it is somebody else's");
        }
    }

    #[tokio::test]
    async fn one_that_broke_off_or_is_large_is_not_sent_again() {
        let (mut body, again) = lent(vec![data("a"), Err(Error::canceled("it broke off"))]);
        while body.next().await.unwrap().is_ok() {}
        assert_eq!(text(again).await, None);
        let (mut body, again) = lent(vec![data(vec![b'a'; KEPT_BYTES_MAX]), data("b")]);
        let _ = (body.next().await, body.next().await);
        assert_eq!(text(again).await, None);
    }

    #[tokio::test]
    async fn nothing_is_kept_once_the_answer_has_begun() {
        let (mut body, again) = lent(vec![data("a"), data("b")]);
        drop(again);
        assert!(matches!(body.next().await, Some(Ok(Frame::Data(read))) if read == "a"));
        assert!(matches!(body.next().await, Some(Ok(Frame::Data(read))) if read == "b"));
        assert!(body.next().await.is_none());
    }
}
