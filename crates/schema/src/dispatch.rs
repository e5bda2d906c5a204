//! A service made of functions from messages to messages, for all four kinds of methods.
//!
//! | kind | function | takes | gives |
//! |---|---|---|---|
//! | unary | [`unary`](Implementation::unary) | a message | a message |
//! | server stream | [`server_stream`](Implementation::server_stream) | a message | a stream |
//! | client stream | [`client_stream`](Implementation::client_stream) | a stream | a message |
//! | bidirectional | [`bidi_stream`](Implementation::bidi_stream) | a stream | a stream |
//!
//! Requests are decoded by the codec of the call before a function sees them, and replies encoded
//! after it; a reply of another type than the method's is an error of the service.

use std::fmt;
use std::future::Future;
use std::sync::Arc;

use futures_util::StreamExt;
use tidewire_service::{
    Answer, Body, Call, Codec, Context, Error, Frame, Method, Reply, Result, Service, Stream,
    StreamKind,
};

use crate::schema_service::SchemaService;
use crate::{Message, Schema, SchemaError};

/// An implementation of services that are known only at run time.
///
/// A function that is left out answers `unimplemented`.
///
/// ```
/// use tidewire_schema::{Implementation, Message, Schema};
/// use tidewire_service::{Context, Method, Reply, Result};
///
/// /// Answers with what it was sent.
/// struct Mirror;
///
/// impl Implementation for Mirror {
///     async fn unary(&self, _: &Method, _: Context, request: Message) -> Result<Reply<Message>> {
///         Ok(Reply::new(request))
///     }
/// }
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let folder = std::env::temp_dir().join("tidewire-dispatch-doctest");
/// # std::fs::create_dir_all(&folder)?;
/// # std::fs::write(folder.join("shop.proto"), r#"syntax = "proto3"; package shop.v1;
/// # message Item { string name = 1; } service Items { rpc Put(Item) returns (Item); }"#)?;
/// let service = Schema::from_folder(&folder)?.implement("shop.v1.Items", Mirror)?;
/// # Ok(())
/// # }
/// ```
pub trait Implementation: Send + Sync + 'static {
    /// One request, one reply.
    fn unary(
        &self,
        method: &Method,
        context: Context,
        request: Message,
    ) -> impl Future<Output = Result<Reply<Message>>> + Send {
        let _ = (context, request);
        std::future::ready(missing(method))
    }

    /// One request, many replies.
    fn server_stream(
        &self,
        method: &Method,
        context: Context,
        request: Message,
    ) -> impl Future<Output = Result<Reply<Stream<Message>>>> + Send {
        let _ = (context, request);
        std::future::ready(missing(method))
    }

    /// Many requests, one reply.
    fn client_stream(
        &self,
        method: &Method,
        context: Context,
        requests: Stream<Message>,
    ) -> impl Future<Output = Result<Reply<Message>>> + Send {
        let _ = (context, requests);
        std::future::ready(missing(method))
    }

    /// Many requests, many replies.
    fn bidi_stream(
        &self,
        method: &Method,
        context: Context,
        requests: Stream<Message>,
    ) -> impl Future<Output = Result<Reply<Stream<Message>>>> + Send {
        let _ = (context, requests);
        std::future::ready(missing(method))
    }
}

fn missing<T>(method: &Method) -> Result<T> {
    Err(Error::unimplemented(format!("{} is not implemented", method.path)))
}

impl Schema {
    /// Makes a service of functions from messages to messages.
    ///
    /// # Errors
    /// When the schema has no such service, or an option of a method makes no sense.
    pub fn implement<T: Implementation>(
        &self,
        service: &str,
        implementation: T,
    ) -> Result<SchemaService<Dispatch<T>>, SchemaError> {
        let implementation = Arc::new(implementation);
        self.serve(service, Dispatch { schema: self.clone(), implementation })
    }
}

/// From bytes to an [`Implementation`] and back; see [`Schema::implement`].
pub struct Dispatch<T> {
    schema: Schema,
    implementation: Arc<T>,
}

impl<T: Implementation> Service for Dispatch<T> {
    fn call(&self, call: Call) -> Answer {
        let Some(method) = call.spec().cloned() else {
            return Answer::ready(Err(Error::unimplemented("there are methods only")));
        };
        let implementation = Arc::clone(&self.implementation);
        let codec = call.codec;
        let accept = call.accept;
        let wire = Wire { schema: self.schema.clone(), codec, accept, method: method.clone() };
        Answer::pending(async move {
            let outcome = wire.answer(&*implementation, &method, call).await;
            outcome.map_err(Error::seen_by_caller)
        })
    }
}

impl<T> fmt::Debug for Dispatch<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Dispatch").field("schema", &self.schema).finish_non_exhaustive()
    }
}

/// The messages of one call as bytes.
#[derive(Clone)]
struct Wire {
    schema: Schema,
    codec: Codec,
    accept: Codec,
    method: Method,
}

impl Wire {
    async fn answer<T: Implementation>(
        &self,
        service: &T,
        method: &Method,
        mut call: Call,
    ) -> Result<Reply> {
        match method.kind {
            StreamKind::Unary => {
                let request = self.decode(&call.message().await?)?;
                self.reply(service.unary(method, call.context, request).await?)
            }
            StreamKind::Client => {
                let requests = self.many(call.body);
                self.reply(service.client_stream(method, call.context, requests).await?)
            }
            StreamKind::Server => {
                let request = self.decode(&call.message().await?)?;
                Ok(self.replies(service.server_stream(method, call.context, request).await?))
            }
            StreamKind::Bidi => {
                let requests = self.many(call.body);
                Ok(self.replies(service.bidi_stream(method, call.context, requests).await?))
            }
        }
    }

    fn decode(&self, bytes: &[u8]) -> Result<Message> {
        self.schema.decode(&self.method.input, self.codec, bytes)
    }

    fn encode(&self, message: &Message) -> Result<bytes::Bytes> {
        if message.type_name() != self.method.output {
            return Err(Error::internal(format!(
                "{} answers with {}, not with {}",
                self.method.path,
                self.method.output,
                message.type_name()
            )));
        }
        message.encode(self.accept)
    }

    /// The messages of a body as they come.
    fn many(&self, body: Body) -> Stream<Message> {
        let wire = self.clone();
        let frames = match body {
            Body::Empty => return Stream::from_values([]),
            Body::Full(bytes) => return Stream::from_results([wire.decode(&bytes)]),
            Body::Stream(frames) => frames,
        };
        Stream::new(frames.filter_map(move |frame| {
            std::future::ready(match frame {
                Ok(Frame::Data(data)) => Some(wire.decode(&data)),
                Ok(Frame::Trailers(_)) => None,
                Err(error) => Some(Err(error)),
            })
        }))
    }

    fn reply(&self, reply: Reply<Message>) -> Result<Reply> {
        reply.try_map(|message| self.encode(&message).map(Body::Full))
    }

    fn replies(&self, reply: Reply<Stream<Message>>) -> Reply {
        let wire = self.clone();
        reply.map(|messages| wire.body(messages))
    }

    /// Encodes each message as it comes, then the trailers; an error ends the body.
    fn body(self, messages: Stream<Message>) -> Body {
        Body::frames(futures_util::stream::unfold(Some(messages), move |messages| {
            let wire = self.clone();
            async move {
                let mut messages = messages?;
                match messages.next().await {
                    Ok(Some(message)) => match wire.encode(&message) {
                        Ok(bytes) => Some((Ok(Frame::Data(bytes)), Some(messages))),
                        Err(error) => Some((Err(error), None)),
                    },
                    Ok(None) => {
                        let trailers = messages.trailers().clone();
                        (!trailers.is_empty())
                            .then_some((Ok(Frame::Trailers(trailers.into())), None))
                    }
                    Err(error) => Some((Err(error), None)),
                }
            }
        }))
    }
}
