//! The bytes of a request or a reply: none, all at once, or a stream of frames.
//!
//! | call | one item is |
//! |---|---|
//! | RPC, unary side | the encoded message, without envelope or compression |
//! | RPC, streaming side | one encoded message a frame, then trailers if there are any |
//! | plain HTTP | a chunk of the body, then trailers if there are any |
//!
//! A whole body costs nothing beyond its `Bytes`; only a stream is boxed. [`Body`] is also an
//! [`http_body::Body`], so it fits hyper, tower and axum as it is.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::{Bytes, BytesMut};
use http::StatusCode;

use crate::messages::OneByOne;
use crate::{Error, Frames, ThinHeaders};

/// The bytes of a request or a reply.
///
/// ```
/// # use tidewire_service as tidewire;
/// use tidewire::{Body, Code};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> tidewire::Result<()> {
/// let body = Body::from("hello");
/// assert_eq!(body.len(), Some(5));
/// assert_eq!(body.collect(1024).await?, "hello");
///
/// let error = Body::from("hello").limit(3).unwrap_err();
/// assert_eq!(error.code(), Code::ResourceExhausted);
/// # Ok(())
/// # }
/// ```
#[derive(Default)]
pub enum Body {
    /// Nothing.
    #[default]
    Empty,
    /// Everything at once.
    Full(Bytes),
    /// Frames as they come.
    Stream(Pin<Box<dyn Frames>>),
}

/// One item of a streamed body.
///
/// Exhaustive on purpose: another kind of frame is a decision for every protocol.
///
/// A plain HTTP handler that sends its body as it is made:
///
/// ```
/// # mod tidewire { pub use tidewire_service::*; pub mod service { pub use tidewire_service::*; } }
/// use tidewire::Body;
/// use tidewire::service::{Frame, ThinHeaders};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> tidewire::Result<()> {
/// let mut trailers = ThinHeaders::default();
/// trailers.insert("rows", http::HeaderValue::from(2));
/// let frames = [Frame::Data("ada\n".into()), Frame::Data("bob\n".into()), Frame::Trailers(trailers)];
/// let body = Body::frames(futures_util::stream::iter(frames.map(Ok)));
/// assert_eq!(body.collect(1024).await?, "ada\nbob\n");
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub enum Frame {
    /// A message, or a chunk of a plain HTTP body.
    Data(Bytes),
    /// Trailers: at most once, and last.
    Trailers(ThinHeaders),
}

impl Body {
    /// A body of frames as they come.
    pub fn frames(
        frames: impl futures_core::Stream<Item = Result<Frame, Error>> + Send + 'static,
    ) -> Self {
        Self::batches(OneByOne { frames })
    }

    /// A body of frames as they come, several messages at a time where who reads it takes them so.
    pub fn batches(frames: impl Frames + 'static) -> Self {
        Self::Stream(Box::pin(frames))
    }

    /// Its frames: one for a body that is there at once, none for an empty one.
    pub fn into_frames(self) -> Pin<Box<dyn Frames>> {
        let whole = match self {
            Self::Stream(frames) => return frames,
            Self::Full(bytes) => Some(Ok(Frame::Data(bytes))),
            Self::Empty => None,
        };
        Box::pin(OneByOne { frames: futures_util::stream::iter(whole) })
    }

    /// A body of messages or chunks as they come, without trailers.
    pub fn stream(
        items: impl futures_core::Stream<Item = Result<Bytes, Error>> + Send + 'static,
    ) -> Self {
        Self::frames(futures_util::TryStreamExt::map_ok(items, Frame::Data))
    }

    /// A body that fails with this error.
    pub(crate) fn failed(error: Error) -> Self {
        Self::stream(futures_util::stream::iter([Err(error)]))
    }

    /// Wraps any [`http_body::Body`], such as hyper's or axum's.
    pub fn wrap<B>(body: B) -> Self
    where
        B: http_body::Body<Data = Bytes> + Send + 'static,
        B::Error: std::error::Error + Send + Sync + 'static,
    {
        Self::wrap_with(body, |cause| {
            Error::canceled("the body ended before it was complete").with_cause(cause)
        })
    }

    /// [`wrap`](Self::wrap) with a say in what an error of the wrapped body becomes.
    pub fn wrap_with<B>(
        body: B,
        on_error: impl Fn(B::Error) -> Error + Send + Sync + Unpin + 'static,
    ) -> Self
    where
        B: http_body::Body<Data = Bytes> + Send + 'static,
    {
        if body.is_end_stream() {
            return Self::Empty;
        }
        Self::frames(HttpBodyFrames { body: Box::pin(body), on_error })
    }

    /// The same body, ending in an error once more than `bytes_max` bytes came.
    ///
    /// # Errors
    /// At once when the length is known and over the limit.
    #[inline]
    pub fn limit(self, bytes_max: usize) -> Result<Self, Error> {
        let frames = match self {
            Self::Full(bytes) if bytes.len() > bytes_max => return Err(too_large(bytes_max)),
            Self::Stream(frames) => frames,
            whole => return Ok(whole),
        };
        // Nothing is left once it was too much.
        let mut left = Some(bytes_max);
        let bounded = futures_util::StreamExt::map(frames, move |frame| {
            let frame = frame?;
            if let Frame::Data(data) = &frame {
                left = left.and_then(|left| left.checked_sub(data.len()));
                left.ok_or_else(|| too_large(bytes_max))?;
            }
            Ok(frame)
        });
        Ok(Self::frames(bounded))
    }

    /// Reads the whole body into memory; trailers are dropped.
    ///
    /// # Errors
    /// [`Code::ResourceExhausted`](crate::Code::ResourceExhausted) over `bytes_max`; any error of
    /// the stream itself.
    ///
    /// # Cancel safety
    /// Not cancel safe: what was read is lost with the future.
    pub async fn collect(self, bytes_max: usize) -> Result<Bytes, Error> {
        let mut frames = match self {
            Self::Empty => return Ok(Bytes::new()),
            Self::Full(bytes) if bytes.len() > bytes_max => return Err(too_large(bytes_max)),
            Self::Full(bytes) => return Ok(bytes),
            Self::Stream(frames) => frames,
        };
        let mut first = Bytes::new();
        let mut rest = BytesMut::new();
        while let Some(frame) = futures_util::StreamExt::next(&mut frames).await {
            let Frame::Data(data) = frame? else { continue };
            if first.len() + rest.len() + data.len() > bytes_max {
                return Err(too_large(bytes_max));
            }
            if first.is_empty() {
                first = data;
            } else {
                rest.extend_from_slice(&data);
            }
        }
        if rest.is_empty() {
            return Ok(first);
        }
        let mut whole = BytesMut::with_capacity(first.len() + rest.len());
        whole.extend_from_slice(&first);
        whole.extend_from_slice(&rest);
        Ok(whole.freeze())
    }

    /// The number of bytes, when it is known without reading.
    #[inline]
    pub fn len(&self) -> Option<usize> {
        match self {
            Self::Empty => Some(0),
            Self::Full(bytes) => Some(bytes.len()),
            Self::Stream(_) => None,
        }
    }

    /// Whether it is known to be empty.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == Some(0)
    }
}

/// The error for a body that is over a limit: `resource_exhausted`, 413 over HTTP.
fn too_large(bytes_max: usize) -> Error {
    Error::resource_exhausted(format!(
        "body is over limits.body_bytes_max = {bytes_max} bytes; send less or raise the limit"
    ))
    .with_http_status(StatusCode::PAYLOAD_TOO_LARGE)
}

impl From<Bytes> for Body {
    fn from(bytes: Bytes) -> Self {
        Self::Full(bytes)
    }
}

impl From<Vec<u8>> for Body {
    fn from(bytes: Vec<u8>) -> Self {
        Self::Full(bytes.into())
    }
}

impl From<String> for Body {
    fn from(text: String) -> Self {
        Self::Full(text.into())
    }
}

impl From<&'static str> for Body {
    fn from(text: &'static str) -> Self {
        Self::Full(Bytes::from_static(text.as_bytes()))
    }
}

impl fmt::Debug for Body {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("Empty"),
            Self::Full(bytes) => write!(f, "Full({} bytes)", bytes.len()),
            Self::Stream(_) => f.write_str("Stream"),
        }
    }
}

impl http_body::Body for Body {
    type Data = Bytes;
    type Error = Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<http_body::Frame<Bytes>, Error>>> {
        match &mut *self {
            Self::Empty => Poll::Ready(None),
            Self::Full(bytes) => {
                let bytes = std::mem::take(bytes);
                *self = Self::Empty;
                Poll::Ready(Some(Ok(http_body::Frame::data(bytes))))
            }
            Self::Stream(frames) => frames.as_mut().poll_next(cx).map_ok(|frame| match frame {
                Frame::Data(data) => http_body::Frame::data(data),
                Frame::Trailers(trailers) => http_body::Frame::trailers(trailers.into()),
            }),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.is_empty()
    }

    fn size_hint(&self) -> http_body::SizeHint {
        self.len().map_or_else(http_body::SizeHint::default, |len| {
            http_body::SizeHint::with_exact(len as u64)
        })
    }
}

/// An [`http_body::Body`] read as frames.
struct HttpBodyFrames<B, F> {
    body: Pin<Box<B>>,
    on_error: F,
}

impl<B, F> futures_core::Stream for HttpBodyFrames<B, F>
where
    B: http_body::Body<Data = Bytes>,
    F: Fn(B::Error) -> Error + Unpin,
{
    type Item = Result<Frame, Error>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = &mut *self;
        this.body.as_mut().poll_frame(cx).map(|frame| {
            frame.map(|frame| {
                let frame = frame.map_err(&this.on_error)?;
                Ok(match frame.into_data() {
                    Ok(data) => Frame::Data(data),
                    Err(other) => Frame::Trailers(other.into_trailers().unwrap_or_default().into()),
                })
            })
        })
    }
}
