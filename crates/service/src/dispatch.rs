//! From bytes to a typed handler and back: what generated servers call.
//!
//! One function a stream kind. Each decodes the request, runs the handler and encodes the reply, all
//! with the codec of the call; a request that does not decode never reaches the handler.

use std::future::Future;
use std::sync::Arc;

use buffa::{Message, MessageName};
use bytes::Bytes;
use futures_util::StreamExt;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::stream::Part;
use crate::{Answer, Body, Call, Codec, Context, Error, Frame, Reply, Result, Stream};

/// A message that generated code may send and receive.
pub trait Wire: Message + MessageName + Serialize + DeserializeOwned + 'static {}

impl<M: Message + MessageName + Serialize + DeserializeOwned + 'static> Wire for M {}

/// One request, one reply.
pub fn unary<T, Req, Res, F, Fut>(service: &Arc<T>, call: Call, handler: F) -> Answer
where
    T: Send + Sync + 'static,
    Req: Wire,
    Res: Wire,
    F: FnOnce(Arc<T>, Context, Req) -> Fut + Send + 'static,
    Fut: Future<Output = Result<Reply<Res>>> + Send + 'static,
{
    let Call { context, codec, body, .. } = call;
    let service = Arc::clone(service);
    match body {
        Body::Stream(_) => Answer::pending(async move {
            let request = one_message(codec, body).await?;
            reply(codec, handler(service, context, request).await?)
        }),
        whole => match codec.decode::<Req>(&bytes_of(whole)) {
            Err(error) => Answer::ready(Err(error)),
            Ok(request) => {
                let answer = handler(service, context, request);
                Answer::pending(async move { reply(codec, answer.await?) })
            }
        },
    }
}

/// One request, many replies.
pub fn server_stream<T, Req, Res, F, Fut>(service: &Arc<T>, call: Call, handler: F) -> Answer
where
    T: Send + Sync + 'static,
    Req: Wire,
    Res: Wire,
    F: FnOnce(Arc<T>, Context, Req) -> Fut + Send + 'static,
    Fut: Future<Output = Result<Reply<Stream<Res>>>> + Send + 'static,
{
    let Call { context, codec, body, .. } = call;
    let service = Arc::clone(service);
    Answer::pending(async move {
        let request = one_message(codec, body).await?;
        Ok(handler(service, context, request).await?.map(|items| encode_all(codec, items)))
    })
}

/// Many requests, one reply.
pub fn client_stream<T, Req, Res, F, Fut>(service: &Arc<T>, call: Call, handler: F) -> Answer
where
    T: Send + Sync + 'static,
    Req: Wire,
    Res: Wire,
    F: FnOnce(Arc<T>, Context, Stream<Req>) -> Fut + Send + 'static,
    Fut: Future<Output = Result<Reply<Res>>> + Send + 'static,
{
    let Call { context, codec, body, .. } = call;
    let answer = handler(Arc::clone(service), context, decode_all(codec, body));
    Answer::pending(async move { reply(codec, answer.await?) })
}

/// Many requests, many replies.
pub fn bidi_stream<T, Req, Res, F, Fut>(service: &Arc<T>, call: Call, handler: F) -> Answer
where
    T: Send + Sync + 'static,
    Req: Wire,
    Res: Wire,
    F: FnOnce(Arc<T>, Context, Stream<Req>) -> Fut + Send + 'static,
    Fut: Future<Output = Result<Reply<Stream<Res>>>> + Send + 'static,
{
    let Call { context, codec, body, .. } = call;
    let answer = handler(Arc::clone(service), context, decode_all(codec, body));
    Answer::pending(async move { Ok(answer.await?.map(|items| encode_all(codec, items))) })
}

/// The answer to a call of a method that the service does not have.
pub fn unimplemented(call: &Call) -> Answer {
    Answer::ready(Err(Error::unimplemented(format!("no method {}", call.describe()))))
}

/// Decodes a body of one message; also used by clients for replies.
pub(crate) async fn one_message<M: Wire>(codec: Codec, body: Body) -> Result<M> {
    let Body::Stream(mut frames) = body else {
        return codec.decode(&bytes_of(body));
    };
    let mut message = None;
    while let Some(frame) = frames.next().await {
        match frame? {
            Frame::Data(_) if message.is_some() => {
                return Err(Error::unimplemented("more than one message where one is expected"));
            }
            Frame::Data(data) => message = Some(codec.decode(&data)?),
            Frame::Trailers(_) => {}
        }
    }
    message.ok_or_else(|| Error::unimplemented("no message where one is expected"))
}

/// Decodes each message of a body as it comes.
pub(crate) fn decode_all<M: Wire>(codec: Codec, body: Body) -> Stream<M> {
    match body {
        Body::Empty => Stream::from_values([]),
        Body::Full(bytes) => {
            Stream::new(futures_util::stream::once(async move { codec.decode(&bytes) }))
        }
        Body::Stream(frames) => Stream::from_parts(frames.map(move |frame| match frame? {
            Frame::Data(data) => codec.decode(&data).map(Part::Message),
            Frame::Trailers(trailers) => Ok(Part::Trailers(trailers)),
        })),
    }
}

/// Encodes each message as it comes.
pub(crate) fn encode_all<M: Wire>(codec: Codec, items: Stream<M>) -> Body {
    Body::frames(items.into_parts().map(move |part| match part? {
        Part::Message(message) => codec.encode(&message).map(Frame::Data),
        Part::Trailers(trailers) => Ok(Frame::Trailers(trailers)),
    }))
}

fn reply<M: Wire>(codec: Codec, reply: Reply<M>) -> Result<Reply> {
    reply.try_map(|message| codec.encode(&message).map(Body::Full))
}

fn bytes_of(body: Body) -> Bytes {
    match body {
        Body::Full(bytes) => bytes,
        Body::Empty | Body::Stream(_) => Bytes::new(),
    }
}
