//! From bytes to a typed handler and back: what generated servers call.
//!
//! One function a stream kind. Each decodes the request, runs the handler and encodes the reply,
//! all with the codec of the call; a request that does not decode never reaches the handler. What
//! follows a handler is a `map` of its future and not an async block, which would hold that future
//! twice.

use std::future::Future;
use std::sync::Arc;

use buffa::{Message, MessageName};
use bytes::Bytes;
use futures_util::FutureExt;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::call::one_message;
use crate::typed_stream::{decode_all, encode_all};
use crate::{Answer, Body, Call, Codec, Context, Error, Reply, Result, Stream};

/// A message that generated code may send and receive.
pub trait Wire: Message + MessageName + Serialize + DeserializeOwned + 'static {}

impl<M: Message + MessageName + Serialize + DeserializeOwned + 'static> Wire for M {}

/// What the caller sees of an error that an implementation got from an upstream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Errors {
    /// The implementation calls others on its own behalf: [`Error::seen_by_caller`].
    Own,
    /// The implementation is a client: what it gets goes to the caller as it is.
    PassedOn,
}

impl Errors {
    pub(crate) fn for_caller(self, error: Error) -> Error {
        match self {
            Self::Own => error.seen_by_caller(),
            Self::PassedOn => error,
        }
    }
}

/// One request, one reply.
pub fn unary<T, Req, Res, F, Fut>(
    service: &Arc<T>,
    call: Call,
    errors: Errors,
    handler: F,
) -> Answer
where
    T: Send + Sync + 'static,
    Req: Wire,
    Res: Wire,
    F: FnOnce(Arc<T>, Context, Req) -> Fut + Send + 'static,
    Fut: Future<Output = Result<Reply<Res>>> + Send + 'static,
{
    let Call { context, codec, accept, body, .. } = call;
    let service = Arc::clone(service);
    match body {
        Body::Stream(_) => Answer::pending(async move {
            let request = codec.decode_request(&one_message(body).await?)?;
            reply(accept, errors, handler(service, context, request).await)
        }),
        whole => match codec.decode_request(&bytes_of(whole)) {
            Err(error) => Answer::ready(Err(error)),
            Ok(request) => {
                let answer = handler(service, context, request);
                Answer::pending(answer.map(move |outcome| reply(accept, errors, outcome)))
            }
        },
    }
}

/// One request, many replies.
pub fn server_stream<T, Req, Res, F, Fut>(
    service: &Arc<T>,
    call: Call,
    errors: Errors,
    handler: F,
) -> Answer
where
    T: Send + Sync + 'static,
    Req: Wire,
    Res: Wire,
    F: FnOnce(Arc<T>, Context, Req) -> Fut + Send + 'static,
    Fut: Future<Output = Result<Reply<Stream<Res>>>> + Send + 'static,
{
    let Call { context, codec, accept, body, .. } = call;
    let service = Arc::clone(service);
    Answer::pending(async move {
        let request = codec.decode_request(&one_message(body).await?)?;
        replies(accept, errors, handler(service, context, request).await)
    })
}

/// Many requests, one reply.
pub fn client_stream<T, Req, Res, F, Fut>(
    service: &Arc<T>,
    call: Call,
    errors: Errors,
    handler: F,
) -> Answer
where
    T: Send + Sync + 'static,
    Req: Wire,
    Res: Wire,
    F: FnOnce(Arc<T>, Context, Stream<Req>) -> Fut + Send + 'static,
    Fut: Future<Output = Result<Reply<Res>>> + Send + 'static,
{
    let Call { context, codec, accept, body, .. } = call;
    let answer = handler(Arc::clone(service), context, requests(codec, body));
    Answer::pending(answer.map(move |outcome| reply(accept, errors, outcome)))
}

/// Many requests, many replies.
pub fn bidi_stream<T, Req, Res, F, Fut>(
    service: &Arc<T>,
    call: Call,
    errors: Errors,
    handler: F,
) -> Answer
where
    T: Send + Sync + 'static,
    Req: Wire,
    Res: Wire,
    F: FnOnce(Arc<T>, Context, Stream<Req>) -> Fut + Send + 'static,
    Fut: Future<Output = Result<Reply<Stream<Res>>>> + Send + 'static,
{
    let Call { context, codec, accept, body, .. } = call;
    let answer = handler(Arc::clone(service), context, requests(codec, body));
    Answer::pending(answer.map(move |outcome| replies(accept, errors, outcome)))
}

/// The answer to a call of a method that the service does not have.
pub fn unimplemented(call: &Call) -> Answer {
    Answer::ready(Err(Error::unimplemented(format!("no method {}", call.describe()))))
}

/// The error of a method that an implementation leaves out.
pub fn left_out<T>(method: &str) -> Result<T> {
    Err(Error::unimplemented(format!("{method} is not implemented")))
}

/// Decodes each message of a request as it comes.
fn requests<M: Wire>(codec: Codec, body: Body) -> Stream<M> {
    decode_all(body, move |bytes| codec.decode_request(bytes), |error| error)
}

fn reply<M: Wire>(accept: Codec, errors: Errors, outcome: Result<Reply<M>>) -> Result<Reply> {
    let reply = outcome.map_err(|error| errors.for_caller(error))?;
    reply.try_map(|message| accept.encode(&message).map(Body::Full))
}

fn replies<M: Wire>(
    accept: Codec,
    errors: Errors,
    outcome: Result<Reply<Stream<M>>>,
) -> Result<Reply> {
    let reply = outcome.map_err(|error| errors.for_caller(error))?;
    Ok(reply.map(|items| encode_all(accept, items, errors)))
}

fn bytes_of(body: Body) -> Bytes {
    match body {
        Body::Full(bytes) => bytes,
        Body::Empty | Body::Stream(_) => Bytes::new(),
    }
}
