//! Connect, gRPC and gRPC-Web: our services behind the connectrpc library.
//!
//! The library does envelopes, compression, negotiation, deadlines and error mapping; here its raw
//! bytes become a [`Call`] and a [`Reply`] becomes its raw bytes. Nothing is decoded. The library takes
//! the trailers of a success before the first message; those that a reply stream only knows at its
//! end go through [`LateTrailers`].

mod compression;
mod convert;
mod late_trailers;
mod unknown;

use std::sync::Arc;

use connectrpc::dispatcher::{RequestStream, StreamingResult, UnaryResult};
use connectrpc::{
    CodecFormat, ConnectError, ConnectRpcBody, Dispatcher, EncodedBody, MethodDescriptor, Payload,
    RequestContext, Response as RpcResponse,
};
use foldhash::{HashMap, HashMapExt};
use futures_util::StreamExt;
use http::{HeaderMap, Response};
use tidewire_service::{
    Body, Call, Codec, Error, Frame, Interface, Method, Peer, Reply, Result, Service, Signal,
    StreamKind,
};

pub(crate) use self::compression::unsupported_compression;
pub(crate) use self::late_trailers::{Completed, LateTrailers};
pub(crate) use self::unknown::unknown_method;
use crate::command::Commands;
use crate::isolate::{Isolated, IsolatedStream};
use crate::plain::log;

/// The methods of all services of a server, by path.
pub(crate) struct Methods {
    by_path: HashMap<String, Entry>,
}

/// What is known of a method before it is called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Known {
    /// It has one reply, or none of its replies' trailers come late.
    One,
    /// It has a stream of replies.
    Streams,
}

struct Entry {
    method: Method,
    descriptor: MethodDescriptor,
    service: Arc<dyn Service>,
}

impl Methods {
    /// No methods.
    pub(crate) fn new() -> Self {
        Self { by_path: HashMap::new() }
    }

    /// Adds the methods of a service; says which path is taken already.
    pub(crate) fn add(
        &mut self,
        interface: &Interface,
        service: &Arc<dyn Service>,
    ) -> std::result::Result<(), String> {
        for method in interface.methods() {
            let path = method.path.trim_start_matches('/').to_owned();
            let entry = Entry {
                method: method.clone(),
                descriptor: descriptor(method),
                service: Arc::clone(service),
            };
            if self.by_path.insert(path, entry).is_some() {
                return Err(method.path.to_string());
            }
        }
        Ok(())
    }

    /// Which method is at a path, with its leading slash.
    pub(crate) fn find(&self, path: &str) -> Option<Known> {
        let entry = self.by_path.get(path.strip_prefix('/').unwrap_or(path))?;
        Some(if entry.method.kind.server_streams() { Known::Streams } else { Known::One })
    }

    /// The method at a path, with its leading slash.
    pub(crate) fn method(&self, path: &str) -> Option<Method> {
        let entry = self.by_path.get(path.strip_prefix('/').unwrap_or(path))?;
        Some(entry.method.clone())
    }

    /// The paths of all methods, for suggestions.
    pub(crate) fn paths(&self) -> impl Iterator<Item = &str> {
        self.by_path.values().map(|entry| &*entry.method.path)
    }
}

fn descriptor(method: &Method) -> MethodDescriptor {
    match method.kind {
        StreamKind::Unary => MethodDescriptor::unary(method.is_query()),
        StreamKind::Client => MethodDescriptor::client_streaming(),
        StreamKind::Server => MethodDescriptor::server_streaming(),
        StreamKind::Bidi => MethodDescriptor::bidi_streaming(),
    }
}

/// The methods as one connection calls them.
pub(crate) struct Dispatch {
    pub(crate) methods: Arc<Methods>,
    pub(crate) commands: Commands,
    pub(crate) peer: Arc<Peer>,
    pub(crate) stopping: Signal,
}

impl Dispatch {
    fn entry(&self, path: &str) -> Option<&Entry> {
        self.methods.by_path.get(path)
    }

    fn start(
        &self,
        entry: &Entry,
        ctx: RequestContext,
        format: CodecFormat,
        body: Body,
    ) -> Isolated {
        let context = convert::context(ctx)
            .with_peer(Arc::clone(&self.peer))
            .with_stopping(self.stopping.clone());
        let call = Call::method(entry.method.clone(), context, codec(format), body);
        Isolated::call(&*entry.service, call)
    }

    /// One reply: of a unary or a client-streaming call.
    fn one(&self, entry: &Entry, answer: Isolated) -> UnaryResult {
        let to_completion = entry.method.kind == StreamKind::Unary && !entry.method.is_query();
        let commands = to_completion.then(|| self.commands.clone());
        let method = entry.method.clone();
        Box::pin(async move {
            let outcome = match commands {
                Some(commands) => commands.run(answer).await,
                None => answer.await,
            };
            let reply = outcome.map_err(|error| failed(&method, error))?;
            whole(reply).await.map_err(|error| failed(&method, error))
        })
    }

    /// Many replies: of a server-streaming or a bidirectional call.
    fn many(entry: &Entry, answer: Isolated, late: Option<LateTrailers>) -> StreamingResult {
        let method = entry.method.clone();
        Box::pin(async move {
            let reply = answer.await.map_err(|error| failed(&method, error))?;
            let Reply { headers, body, trailers, .. } = reply;
            let mut response = RpcResponse::new(messages(method, body, late));
            (response.headers, response.trailers) = (headers.into_map(), trailers.into_map());
            Ok(response)
        })
    }
}

/// The response that refuses a request by its head, in the protocol that its headers speak.
pub(crate) fn refused(error: &Error, headers: &HeaderMap) -> Response<ConnectRpcBody> {
    log(error, "gate");
    convert::error_out(error.clone()).into_http_response(headers)
}

fn failed(method: &Method, error: Error) -> ConnectError {
    log(&error, &method.path);
    convert::error_out(error)
}

async fn whole(reply: Reply) -> Result<RpcResponse<EncodedBody>> {
    let Reply { headers, body, trailers, .. } = reply;
    let bytes = match body {
        Body::Full(bytes) => bytes,
        other => other.collect(usize::MAX).await?,
    };
    let mut response = RpcResponse::new(EncodedBody::Contiguous(bytes));
    (response.headers, response.trailers) = (headers.into_map(), trailers.into_map());
    Ok(response)
}

/// Where the trailers that come late go.
fn late(ctx: &RequestContext) -> Option<LateTrailers> {
    ctx.extensions().get().cloned()
}

fn messages(method: Method, body: Body, late: Option<LateTrailers>) -> connectrpc::EncodedStream {
    let frames = match body {
        Body::Empty => return Box::pin(futures_util::stream::empty()),
        Body::Full(bytes) => {
            let one = futures_util::stream::iter([Ok(EncodedBody::Contiguous(bytes))]);
            return Box::pin(one);
        }
        Body::Stream(frames) => frames,
    };
    Box::pin(IsolatedStream(Some(frames)).filter_map(move |frame| {
        std::future::ready(match frame {
            Ok(Frame::Data(data)) => Some(Ok(EncodedBody::Contiguous(data))),
            Ok(Frame::Trailers(trailers)) => {
                if let Some(late) = &late {
                    late.put(trailers.into_map());
                }
                None
            }
            Err(error) => Some(Err(failed(&method, error))),
        })
    }))
}

fn requests(stream: RequestStream) -> Body {
    Body::stream(stream.map(|item| item.map_err(convert::error_in)))
}

/// The library looks a method up before it calls it, so that nobody sees this.
fn not_there(path: &str) -> ConnectError {
    ConnectError::unimplemented(format!("no method {path}"))
}

const fn codec(format: CodecFormat) -> Codec {
    match format {
        CodecFormat::Json => Codec::Json,
        _ => Codec::Proto,
    }
}

impl Dispatcher for Dispatch {
    fn lookup(&self, path: &str) -> Option<MethodDescriptor> {
        self.entry(path).map(|entry| entry.descriptor)
    }

    fn call_unary(
        &self,
        path: &str,
        ctx: RequestContext,
        request: Payload,
        format: CodecFormat,
    ) -> UnaryResult {
        let Some(entry) = self.entry(path) else {
            return Box::pin(std::future::ready(Err(not_there(path))));
        };
        match request.encoded() {
            Ok(bytes) => self.one(entry, self.start(entry, ctx, format, Body::Full(bytes))),
            Err(error) => Box::pin(std::future::ready(Err(error))),
        }
    }

    fn call_server_streaming(
        &self,
        path: &str,
        ctx: RequestContext,
        request: bytes::Bytes,
        format: CodecFormat,
    ) -> StreamingResult {
        let Some(entry) = self.entry(path) else {
            return Box::pin(std::future::ready(Err(not_there(path))));
        };
        let late = late(&ctx);
        Self::many(entry, self.start(entry, ctx, format, Body::Full(request)), late)
    }

    fn call_client_streaming(
        &self,
        path: &str,
        ctx: RequestContext,
        stream: RequestStream,
        format: CodecFormat,
    ) -> UnaryResult {
        let Some(entry) = self.entry(path) else {
            return Box::pin(std::future::ready(Err(not_there(path))));
        };
        self.one(entry, self.start(entry, ctx, format, requests(stream)))
    }

    fn call_bidi_streaming(
        &self,
        path: &str,
        ctx: RequestContext,
        stream: RequestStream,
        format: CodecFormat,
    ) -> StreamingResult {
        let Some(entry) = self.entry(path) else {
            return Box::pin(std::future::ready(Err(not_there(path))));
        };
        let late = late(&ctx);
        Self::many(entry, self.start(entry, ctx, format, requests(stream)), late)
    }
}
