//! A call: what is called, in which context, with which bytes.
//!
//! The body of a call may still be on its way. Whoever needs the message asks for it
//! ([`Call::message`]), at no cost when it came with the head; what a handler of plain HTTP wants
//! of a request (`param`, `query`, `json`) is in `request.rs`.

use bytes::Bytes;
use futures_util::StreamExt;
use http::Uri;

use crate::{
    Body, Codec, Context, Error, Frame, Head, HeadParts, HttpTarget, Method, Permits, Result,
    Target,
};

/// A request on its way to a [`Service`](crate::Service).
///
/// It is not `Clone`, since its body may be a stream: [`Call::buffered`] gives a [`Query`], which
/// is.
///
/// A handler is tested by calling it; no server is needed:
///
/// ```
/// # mod tidewire { pub use http; pub use tidewire_service::*; }
/// use tidewire::http;
/// use tidewire::{Body, Call, Context, Result, Service};
///
/// #[derive(serde::Deserialize)]
/// struct Parameters { name: String }
///
/// async fn greet(call: Call) -> Result<String> {
///     let Parameters { name } = call.query()?;
///     Ok(format!("Hello, {name}!"))
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> tidewire::Result<()> {
/// let uri = http::Uri::from_static("/greet?name=Ada");
/// let call = Call::http(http::Method::GET, uri, Context::default(), Body::Empty);
/// let reply = greet.call(call).await?;
/// assert_eq!(reply.body.collect(1024).await?, "Hello, Ada!");
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub struct Call {
    /// What is called.
    pub target: Target,
    /// Headers, deadline, peer and whatever gates and layers attached.
    pub context: Context,
    /// How messages in `body` are encoded; of no meaning for plain HTTP.
    pub codec: Codec,
    /// How messages of the reply are to be encoded.
    pub accept: Codec,
    /// The request's bytes.
    pub body: Body,
}

/// A call whose message is complete, so that it can be made again.
///
/// A layer that asks once more when the service was not there:
///
/// ```
/// # mod tidewire { pub use http; pub use tidewire_service::*; }
/// use std::sync::Arc;
/// use tidewire::http;
/// use tidewire::{Body, Call, Code, Context, Error, Service};
///
/// fn retry(inner: Arc<dyn Service>) -> Arc<dyn Service> {
///     Arc::new(move |call: Call| {
///         let inner = inner.clone();
///         async move {
///             let query = call.buffered().await?;
///             match inner.call(query.clone().into_call()).await {
///                 Err(error) if error.code() == Code::Unavailable => {
///                     inner.call(query.into_call()).await
///                 }
///                 outcome => outcome,
///             }
///         }
///     })
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> tidewire::Result<()> {
/// let calls = Arc::new(std::sync::atomic::AtomicU32::new(0));
/// let flaky = move |_: Call| {
///     let is_first = calls.fetch_add(1, std::sync::atomic::Ordering::Relaxed) == 0;
///     async move { if is_first { Err(Error::unavailable("later")) } else { Ok("hello") } }
/// };
/// let uri = http::Uri::from_static("/");
/// let call = Call::http(http::Method::GET, uri, Context::default(), Body::Empty);
/// assert!(retry(Arc::new(flaky)).call(call).await.is_ok());
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct Query {
    target: Target,
    context: Context,
    codec: Codec,
    accept: Codec,
    message: Bytes,
}

impl Call {
    /// A call of a method with an encoded request message, or a stream of them; the reply is wanted
    /// in the same codec.
    pub fn method(
        method: impl Into<Method>,
        context: Context,
        codec: Codec,
        body: impl Into<Body>,
    ) -> Self {
        let target = Target::Method(method.into());
        Self { target, context, codec, accept: codec, body: body.into() }
    }

    /// A plain HTTP request.
    pub fn http(method: http::Method, uri: Uri, context: Context, body: impl Into<Body>) -> Self {
        Self::of_target(Target::Http(HttpTarget::new(method, uri)), context, body)
    }

    /// A call of anything. Messages are protobuf unless said otherwise.
    #[inline]
    pub fn of_target(target: Target, context: Context, body: impl Into<Body>) -> Self {
        let codec = Codec::default();
        let accept = Codec::default();
        Self { target, context, codec, accept, body: body.into() }
    }

    /// The call of a head that was let pass, and what the gates left. Messages are protobuf unless
    /// said otherwise.
    pub fn from_head(head: Head, body: impl Into<Body>) -> (Self, Permits) {
        let HeadParts { target, context, permits } = head.into_parts();
        (Self::of_target(target, context, body), permits)
    }

    /// Sets how messages of the request and of the reply are encoded.
    #[must_use]
    #[inline]
    pub fn with_codecs(mut self, codec: Codec, accept: Codec) -> Self {
        (self.codec, self.accept) = (codec, accept);
        self
    }

    /// The called method, or `None` for plain HTTP.
    pub fn spec(&self) -> Option<&Method> {
        match &self.target {
            Target::Method(method) => Some(method),
            Target::Http(_) | Target::Unknown(_) => None,
        }
    }

    /// The plain HTTP target, or `None` for a method.
    pub fn http_target(&self) -> Option<&HttpTarget> {
        match &self.target {
            Target::Http(target) => Some(target),
            Target::Method(_) | Target::Unknown(_) => None,
        }
    }

    /// What the call is for, as a log line names it.
    pub fn describe(&self) -> String {
        self.target.describe()
    }

    /// The request's one message, or the whole body of plain HTTP. It stays in the call, so it may
    /// be asked for again, and passed on.
    ///
    /// # Errors
    /// [`Code::Unimplemented`](crate::Code::Unimplemented) for a method when there is no message or
    /// more than one; any error of the body, which every later question gets too. Bounds are those
    /// of whoever received the call.
    ///
    /// # Cancel safety
    /// Not cancel safe: what was read is lost with the future, and later questions say so.
    pub async fn message(&mut self) -> Result<Bytes> {
        match &self.body {
            Body::Full(bytes) => return Ok(bytes.clone()),
            Body::Empty => return Ok(Bytes::new()),
            Body::Stream(_) => {}
        }
        let gone = Error::internal("the body of the request was asked for and not read to its end");
        let body = std::mem::replace(&mut self.body, Body::failed(gone));
        let read = match &self.target {
            Target::Method(_) => one_message(body).await,
            Target::Http(_) | Target::Unknown(_) => body.collect(usize::MAX).await,
        };
        match &read {
            Ok(bytes) => self.body = Body::Full(bytes.clone()),
            Err(error) => self.body = Body::failed(error.clone()),
        }
        read
    }

    /// The call with its message complete, so that it can be made again.
    ///
    /// # Errors
    /// As [`message`](Self::message).
    ///
    /// # Cancel safety
    /// Not cancel safe.
    pub async fn buffered(mut self) -> Result<Query> {
        let message = self.message().await?;
        let Self { target, context, codec, accept, .. } = self;
        Ok(Query { target, context, codec, accept, message })
    }
}

impl Query {
    /// The call itself, to be made once.
    pub fn into_call(self) -> Call {
        let Self { target, context, codec, accept, message } = self;
        let is_empty = message.is_empty() && matches!(target, Target::Http(_));
        let body = if is_empty { Body::Empty } else { Body::Full(message) };
        Call { target, context, codec, accept, body }
    }

    /// What is called.
    pub fn target(&self) -> &Target {
        &self.target
    }

    /// What surrounds the call.
    pub fn context(&self) -> &Context {
        &self.context
    }

    /// What surrounds the call, to be changed for the next time that it is made.
    pub fn context_mut(&mut self) -> &mut Context {
        &mut self.context
    }

    /// How the message is encoded.
    pub fn codec(&self) -> Codec {
        self.codec
    }

    /// How the reply is to be encoded.
    pub fn accept(&self) -> Codec {
        self.accept
    }

    /// The encoded message, or the body of plain HTTP.
    pub fn message(&self) -> &Bytes {
        &self.message
    }
}

/// Reads a body of one message; also used by clients for replies.
pub(crate) async fn one_message(body: Body) -> Result<Bytes> {
    let mut frames = match body {
        Body::Empty => return Ok(Bytes::new()),
        Body::Full(bytes) => return Ok(bytes),
        Body::Stream(frames) => frames,
    };
    let mut message = None;
    while let Some(frame) = frames.next().await {
        match frame? {
            Frame::Data(_) if message.is_some() => {
                return Err(Error::unimplemented("more than one message where one is expected"));
            }
            Frame::Data(data) => message = Some(data),
            Frame::Trailers(_) => {}
        }
    }
    message.ok_or_else(|| Error::unimplemented("no message where one is expected"))
}
