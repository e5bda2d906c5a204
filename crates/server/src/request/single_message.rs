//! The one message of a reply that came as a stream.

use bytes::Bytes;
use http::HeaderMap;
use tidewire_service::{Body, Error, Frame, Reply, Result};

/// The same reply, with that message whole.
///
/// # Errors
/// As those of [`message_of`].
pub(crate) async fn whole_reply(mut reply: Reply) -> Result<Reply> {
    let (message, late) = message_of(std::mem::take(&mut reply.body)).await?;
    reply.body = Body::Full(message);
    if !late.is_empty() {
        reply.trailers = late.into();
    }
    Ok(reply)
}

/// A single message whose reply came as a stream, and its trailers.
///
/// # Errors
/// Those of the stream; and one that has no message, or several, is a fault of the service.
pub(crate) async fn message_of(body: Body) -> Result<(Bytes, HeaderMap)> {
    let Body::Stream(mut frames) = body else { return Ok(Default::default()) };
    let mut message = None;
    let mut trailers = HeaderMap::new();
    while let Some(frame) = futures_util::StreamExt::next(&mut frames).await {
        match frame? {
            Frame::Trailers(late) => trailers = late.into(),
            Frame::Data(data) if message.is_none() => message = Some(data),
            Frame::Data(_) => {
                return Err(Error::internal("the service sent several messages for one"));
            }
        }
    }
    let message = message.ok_or_else(|| Error::internal("the service sent no message"))?;
    Ok((message, trailers))
}
