//! A service seen from the calling side: what generated clients speak to.
//!
//! Any [`Service`] is a channel: one in this process, a remote one over Connect, gRPC or live
//! (crates `client` and `live`), a mock. So a remote dependency and a local one look the same.

use std::fmt;
use std::sync::Arc;

use crate::call::one_message;
use crate::dispatch::{Errors, Wire};
use crate::typed_stream::{decode_all, encode_all};
use crate::{Body, Call, Codec, Context, Error, Reply, Result, Service, Spec, Stream};

/// Where a client sends its calls; cheap to clone.
///
/// Generated clients speak to one. Whatever is a [`Service`] is a channel: a client of another
/// program, a server in this one, a function in a test.
///
/// ```
/// # mod tidewire {
/// #     pub use tidewire_service::*;
/// #     pub mod service { pub use tidewire_service::*; }
/// #     pub mod types { pub use tidewire_service::generated::buffa_types::google::protobuf::*; }
/// # }
/// use tidewire::service::{Channel, Spec, StreamKind};
/// use tidewire::types::{Empty, Timestamp};
/// use tidewire::{Body, Call, Codec, Context, Reply};
///
/// static NOW: Spec = Spec::new(
///     "lab.v1.Clock",
///     "Now",
///     "/lab.v1.Clock/Now",
///     StreamKind::Unary,
///     ["google.protobuf.Empty", "google.protobuf.Timestamp"],
/// );
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> tidewire::Result<()> {
/// let clock = async |call: Call| {
///     let now = Timestamp { seconds: 7, ..Default::default() };
///     Ok(Reply::new(Body::from(call.accept.encode(&now)?)))
/// };
/// let channel = Channel::new(clock).with_codec(Codec::Json);
/// // What `client.now(Empty::default())` of a generated client does:
/// let now: Reply<Timestamp> = channel.unary(&NOW, Context::default(), Empty::default()).await?;
/// assert_eq!(now.body.seconds, 7);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Channel {
    service: Arc<dyn Service>,
    codec: Codec,
}

impl Channel {
    /// A channel to `service` that sends protobuf.
    pub fn new(service: impl Service) -> Self {
        Self { service: Arc::new(service), codec: Codec::Proto }
    }

    /// Sets how messages are encoded.
    #[must_use]
    pub fn with_codec(mut self, codec: Codec) -> Self {
        self.codec = codec;
        self
    }

    /// One request, one reply.
    ///
    /// # Errors
    /// Those of the service, and a reply that does not decode.
    ///
    /// # Cancel safety
    /// Dropping the future cancels the call; a command may still run to completion.
    pub async fn unary<Req: Wire, Res: Wire>(
        &self,
        method: &'static Spec,
        context: Context,
        request: Req,
    ) -> Result<Reply<Res>> {
        let body = Body::Full(self.codec.encode(&request)?);
        self.one(self.send(method, context, body).await?).await
    }

    /// One request, many replies.
    ///
    /// # Errors
    /// Those of the service before its first message; later ones end the stream.
    pub async fn server_stream<Req: Wire, Res: Wire>(
        &self,
        method: &'static Spec,
        context: Context,
        request: Req,
    ) -> Result<Reply<Stream<Res>>> {
        let body = Body::Full(self.codec.encode(&request)?);
        Ok(self.send(method, context, body).await?.map(|body| self.many(body)))
    }

    /// Many requests, one reply.
    ///
    /// # Errors
    /// Those of the service, and a reply that does not decode.
    pub async fn client_stream<Req: Wire, Res: Wire>(
        &self,
        method: &'static Spec,
        context: Context,
        requests: Stream<Req>,
    ) -> Result<Reply<Res>> {
        let body = encode_all(self.codec, requests, Errors::PassedOn);
        self.one(self.send(method, context, body).await?).await
    }

    /// Many requests, many replies.
    ///
    /// # Errors
    /// Those of the service before its first message; later ones end the stream.
    pub async fn bidi_stream<Req: Wire, Res: Wire>(
        &self,
        method: &'static Spec,
        context: Context,
        requests: Stream<Req>,
    ) -> Result<Reply<Stream<Res>>> {
        let body = encode_all(self.codec, requests, Errors::PassedOn);
        Ok(self.send(method, context, body).await?.map(|body| self.many(body)))
    }

    async fn send(&self, method: &'static Spec, context: Context, body: Body) -> Result<Reply> {
        let call = Call::method(method, context, self.codec, body);
        self.service.call(call).await.map_err(Error::from_upstream)
    }

    async fn one<Res: Wire>(&self, reply: Reply) -> Result<Reply<Res>> {
        let mut head = reply;
        let bytes = one_message(std::mem::take(&mut head.body)).await.map_err(wrong_reply)?;
        head.try_map(|_| self.codec.decode_reply(&bytes))
    }

    fn many<Res: Wire>(&self, body: Body) -> Stream<Res> {
        let codec = self.codec;
        decode_all(body, move |bytes| codec.decode_reply(bytes), Error::from_upstream)
    }
}

/// A reply of no message, or of several, is a fault of whoever sent it.
fn wrong_reply(error: Error) -> Error {
    error.from_upstream()
}

impl<S: Service> From<S> for Channel {
    fn from(service: S) -> Self {
        Self::new(service)
    }
}

impl fmt::Debug for Channel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Channel").field("codec", &self.codec).finish_non_exhaustive()
    }
}
