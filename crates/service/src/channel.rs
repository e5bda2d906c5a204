//! A service seen from the calling side: what generated clients speak to.
//!
//! Any [`Service`] is a channel: one in this process, a remote one over Connect, gRPC or live (rooms
//! `client` and `live`), a mock. So a remote dependency and a local one look the same.

use std::fmt;
use std::sync::Arc;

use crate::dispatch::{Wire, decode_all, encode_all, one_message};
use crate::{Body, Call, Codec, Context, Reply, Result, Service, Spec, Stream};

/// Where a client sends its calls; cheap to clone.
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
        Ok(self.send(method, context, body).await?.map(|body| decode_all(self.codec, body)))
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
        let body = encode_all(self.codec, requests);
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
        let body = encode_all(self.codec, requests);
        Ok(self.send(method, context, body).await?.map(|body| decode_all(self.codec, body)))
    }

    async fn send(&self, method: &'static Spec, context: Context, body: Body) -> Result<Reply> {
        self.service.call(Call::method(method, context, self.codec, body)).await
    }

    async fn one<Res: Wire>(&self, reply: Reply) -> Result<Reply<Res>> {
        let Reply { status, headers, body, trailers, freshness } = reply;
        let body = one_message(self.codec, body).await?;
        Ok(Reply { status, headers, body, trailers, freshness })
    }
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
