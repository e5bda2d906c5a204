//! What a caller wants to be sent: made into a request for each attempt.
//!
//! | what is sent | may be sent again |
//! |---|---|
//! | a call of one message | always: the message is there |
//! | a call of a stream of messages | never |
//! | plain HTTP, a body that is there | always |
//! | plain HTTP, a body that comes, of which at most 64 KiB were read by then | with what is to come |
//! | plain HTTP, one of which more was read | never |
//!
//! Whether it is sent again is decided elsewhere ([`retry`](crate::retry),
//! [`client`](crate::client)). What an attempt did not begin to send comes back and goes with the
//! next one, whatever it is.

use std::pin::Pin;
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::StreamExt;
use http::header::CONTENT_LENGTH;
use http::uri::PathAndQuery;
use http::{HeaderMap, Method as Verb, Request as HttpRequest};
use tidewire_service::{
    Body, BodyAgain, Call, Codec, Context, Error, Frame, Frames, HttpTarget, InterimSender, Method,
    Result, Target, end_to_end,
};
use tidewire_wire::unread::GRPC_TIMEOUT;
use tidewire_wire::{Caller, Dialect, Request};

use crate::exchange::UnboundRequest;
use crate::outgoing::{Cancel, RequestBody};
use crate::retry::is_repeatable;
use crate::rpc::{ReplyContext, sealed};
use crate::trace::Trace;

/// A call to be sent.
pub(crate) struct Order {
    what: OrderTarget,
    headers: HeaderMap,
    body: Source,
    /// Takes interim responses on to the caller, of plain HTTP.
    interim: Option<InterimSender>,
}

enum OrderTarget {
    Method(Method, Codec),
    Http(Verb, PathAndQuery),
}

/// Where the body comes from.
enum Source {
    /// It is there.
    Whole(Bytes),
    /// One message that comes, and is there before it is sent.
    Coming(Pin<Box<dyn Frames>>),
    /// It comes as it is sent, and may be kept meanwhile.
    Stream(Body, Option<BodyAgain>),
    /// It was taken by an attempt, and may have been kept.
    Sent(Option<BodyAgain>),
    /// It was taken by an attempt that did not begin to send it.
    Back(RequestBody, Option<Cancel>, Option<BodyAgain>),
}

impl Source {
    /// A body that can be taken back.
    fn lend(frames: Pin<Box<dyn Frames>>) -> Self {
        let (body, again) = BodyAgain::lend(frames);
        Self::Stream(body, Some(again))
    }
}

/// How a response is read.
pub(crate) enum ReadMode {
    Method(ReplyContext),
    Plain,
}

impl Order {
    /// The order of a call.
    ///
    /// # Errors
    /// It is neither a call of a method nor plain HTTP.
    pub(crate) fn of(call: Call) -> Result<Self> {
        let Call { target, context, codec, body, .. } = call;
        let interim = context.interim().cloned();
        let headers = HeaderMap::from(context.into_headers());
        match target {
            Target::Method(method) => {
                let body = match body {
                    Body::Full(message) => Source::Whole(message),
                    body if method.kind.client_streams() => Source::Stream(body, None),
                    Body::Empty => Source::Whole(Bytes::new()),
                    Body::Stream(frames) => Source::Coming(frames),
                };
                let what = OrderTarget::Method(method, codec);
                Ok(Self { what, headers, body, interim: None })
            }
            Target::Http(HttpTarget { method, uri, .. }) => {
                // Of `Host` the connection says whether it is passed on.
                let mut headers = HeaderMap::from(end_to_end(headers.into()));
                // Of `http://host#x` it is shown as `/`, and has nothing to be sent.
                let path = uri.path_and_query().filter(|path| *path != "/").cloned();
                let path = path.unwrap_or_else(|| PathAndQuery::from_static("/"));
                let body = match body {
                    Body::Empty => Source::Whole(Bytes::new()),
                    Body::Full(bytes) => {
                        headers.remove(CONTENT_LENGTH);
                        Source::Whole(bytes)
                    }
                    Body::Stream(frames) => Source::lend(frames),
                };
                let what = OrderTarget::Http(method, path);
                Ok(Self { what, headers, body, interim })
            }
            other => {
                let what = other.describe();
                Err(Error::unimplemented(format!("{what} is nothing that can be sent")))
            }
        }
    }

    /// Whether something has to be there before it is sent, which is waited for.
    pub(crate) fn is_coming(&self) -> bool {
        matches!(self.body, Source::Coming(_))
    }

    /// Waits for what has to be there before anything is sent.
    ///
    /// # Errors
    /// Other than one message came.
    pub(crate) async fn gather(&mut self) -> Result<()> {
        if let Source::Coming(frames) = &mut self.body {
            self.body = Source::Whole(one_message(frames).await?);
        }
        Ok(())
    }

    /// Whether a server that closed the connection may be sent it again at once: a safe request
    /// without a body.
    pub(crate) fn is_safe_and_bare(&self) -> bool {
        let is_safe = matches!(&self.what, OrderTarget::Http(verb, _) if verb.is_safe());
        is_safe && matches!(&self.body, Source::Whole(bytes) if bytes.is_empty())
    }

    /// Whether to make the call twice does no more than to make it once.
    pub(crate) fn is_repeatable(&self) -> bool {
        match &self.what {
            OrderTarget::Method(method, _) => is_repeatable(method),
            OrderTarget::Http(verb, _) => verb.is_safe(),
        }
    }

    pub(crate) fn read(&self) -> ReadMode {
        match &self.what {
            OrderTarget::Method(method, codec) => {
                ReadMode::Method(ReplyContext { kind: method.kind, codec: *codec })
            }
            OrderTarget::Http(..) => ReadMode::Plain,
        }
    }

    /// Takes back what an attempt did not begin to send.
    pub(crate) fn give_back(&mut self, (body, cancel): (RequestBody, Option<Cancel>)) {
        match std::mem::replace(&mut self.body, Source::Sent(None)) {
            Source::Sent(kept) => self.body = Source::Back(body, cancel, kept),
            whole => self.body = whole,
        }
    }

    /// Whether it can be sent (again).
    pub(crate) fn is_there(&mut self) -> bool {
        if let Source::Sent(again) = &mut self.body
            && let Some(body) = again.take().and_then(BodyAgain::take)
        {
            self.body = Source::lend(body.into_frames());
        }
        !matches!(self.body, Source::Sent(_))
    }

    /// The call from its beginning; `None` if its body is not there any more.
    pub(crate) fn into_call(mut self, at: Option<Instant>, trace: Option<Trace>) -> Option<Call> {
        let OrderTarget::Http(verb, path) = self.what else { return None };
        let body = match self.body {
            Source::Whole(bytes) if bytes.is_empty() => Body::Empty,
            Source::Whole(bytes) => Body::Full(bytes),
            Source::Stream(body, _) => body,
            Source::Sent(kept) => kept.and_then(BodyAgain::take)?,
            Source::Coming(_) | Source::Back(..) => return None,
        };
        let mut context = Context::new(std::mem::take(&mut self.headers)).with_deadline(at);
        if let Some(trace) = trace {
            context.extensions_mut().insert(trace);
        }
        if let Some(interim) = self.interim {
            context.set_interim(interim);
        }
        Some(Call::http(verb, path.into(), context, body))
    }

    /// The request for the next attempt; `left` is the time that the server has.
    ///
    /// # Errors
    /// A path or a message that cannot be sent.
    pub(crate) fn outbound(
        &mut self,
        caller: &Caller,
        left: Option<Duration>,
        trace: Option<&Trace>,
    ) -> Result<UnboundRequest> {
        let headers = self.headers.clone();
        match &self.what {
            OrderTarget::Method(method, codec) => {
                let one = match &self.body {
                    Source::Whole(message) => Some(message.clone()),
                    _ => None,
                };
                let request = caller.request(method, *codec, headers, one)?;
                let Request { verb, path, mut headers, body: [head, message] } = request;
                if let Some(left) = left {
                    let (name, value) = caller.timeout(left);
                    headers.insert(name, value);
                }
                let (body, cancel) = match self.body {
                    Source::Whole(_) => (RequestBody::whole(head, message, trace.cloned()), None),
                    _ => self.take(|messages| sealed(caller, messages), None, trace)?,
                };
                let request = unbound(verb, path, headers, body);
                Ok(UnboundRequest { request, interim: None, cancel })
            }
            OrderTarget::Http(verb, path) => {
                let verb = verb.clone();
                let path = path.clone();
                let (body, cancel) = match &self.body {
                    Source::Whole(bytes) => {
                        (RequestBody::whole(Bytes::new(), bytes.clone(), trace.cloned()), None)
                    }
                    _ => self.take(|body| body, content_length(&headers), trace)?,
                };
                let mut request = unbound(verb, path, headers, body);
                let headers = request.headers_mut();
                if let Some(left) = left.filter(|_| headers.contains_key(GRPC_TIMEOUT)) {
                    // What the caller said was so when it said it.
                    let (_, mut value) = Dialect::Grpc.timeout(left);
                    // Each is another: HPACK's table keeps none of them.
                    value.set_sensitive(true);
                    headers.insert(GRPC_TIMEOUT, value);
                }
                let interim = self.interim.clone();
                Ok(UnboundRequest { request, interim, cancel })
            }
        }
    }

    /// The body, which can be taken once.
    fn take(
        &mut self,
        change: impl FnOnce(Body) -> Body,
        length: Option<u64>,
        trace: Option<&Trace>,
    ) -> Result<(RequestBody, Option<Cancel>)> {
        match std::mem::replace(&mut self.body, Source::Sent(None)) {
            Source::Stream(body, kept) => {
                self.body = Source::Sent(kept);
                let (body, cancel) = RequestBody::stream(change(body), length, trace.cloned());
                Ok((body, Some(cancel)))
            }
            Source::Back(body, cancel, kept) => {
                self.body = Source::Sent(kept);
                Ok((body, cancel))
            }
            Source::Coming(_) | Source::Whole(_) | Source::Sent(_) => {
                Err(Error::internal("the body was not retained, so it cannot be sent again"))
            }
        }
    }
}

fn unbound(
    verb: Verb,
    path: PathAndQuery,
    headers: HeaderMap,
    body: RequestBody,
) -> HttpRequest<RequestBody> {
    let mut request = HttpRequest::new(body);
    *request.method_mut() = verb;
    *request.uri_mut() = path.into();
    *request.headers_mut() = headers;
    request
}

/// The length that a head says.
fn content_length(headers: &HeaderMap) -> Option<u64> {
    headers.get(CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

/// The one message of a stream.
async fn one_message(
    mut frames: impl futures_core::Stream<Item = Result<Frame>> + Unpin,
) -> Result<Bytes> {
    let mut message = None;
    while let Some(frame) = frames.next().await {
        let Frame::Data(data) = frame? else { continue };
        if message.replace(data).is_some() {
            return Err(Error::invalid_argument("more than one message where one is expected"));
        }
    }
    message.ok_or_else(|| Error::invalid_argument("no message where one is expected"))
}
