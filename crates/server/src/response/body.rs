//! Responses as the HTTP library takes them: a future that is small, since the library moves it
//! about, and one body for all protocols.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::Response;
use http_body::{Frame, SizeHint};
use tidewire_service::{Body, Error, Reply};

use crate::gate::cors::CorsFuture;
use crate::protocols::rpc::{FullBody, Replies, RpcCall};
use crate::request::observe::{Watch, WatchedResponse};
use crate::request::run_call::PendingCall;
use crate::response::counted::ReplyBody;
use crate::response::faults::Faulty;
use crate::response::plain;

/// The future of a response.
pub(crate) enum ResponseFuture {
    /// It is there.
    Ready(Option<Box<Response<ResponseBody>>>),
    /// The reply of a plain HTTP service is there.
    Answered(Option<Box<Reply>>),
    /// A plain HTTP service runs.
    Plain(PendingCall),
    /// REST.
    Rest(BoxedResponse<Body>),
    /// An RPC protocol.
    Rpc(Box<RpcCall>),
    /// Everything else.
    Late(BoxedResponse<ResponseBody>),
    /// Told to whoever observes.
    Watched(Box<WatchedResponse>),
    /// Says who may read it.
    Marked(Box<CorsFuture<Self>>),
}

/// A boxed future of a response.
pub(crate) type BoxedResponse<B> = Pin<Box<dyn Future<Output = Response<B>> + Send>>;

impl ResponseFuture {
    /// A response that is there.
    pub(crate) fn ready(response: Response<Body>) -> Self {
        Self::Ready(Some(Box::new(response.map(ResponseBody::plain))))
    }

    /// The same response, told to whoever observes.
    pub(crate) fn watched(self, watch: Option<Watch>) -> Self {
        Self::Watched(Box::new(WatchedResponse { response: self, watch }))
    }
}

const TAKEN: &str = "a response is polled until it is ready, once";

impl Future for ResponseFuture {
    type Output = Result<Response<ResponseBody>, Infallible>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match &mut *self {
            Self::Ready(response) => Poll::Ready(Ok(*response.take().expect(TAKEN))),
            Self::Answered(reply) => {
                let reply = reply.take().expect(TAKEN);
                Poll::Ready(Ok(plain::page(*reply, ResponseBody::plain)))
            }
            Self::Plain(answer) => Pin::new(answer).poll(cx).map(|outcome| {
                Ok(match outcome {
                    Ok(reply) => plain::page(reply, ResponseBody::plain),
                    Err(error) => plain::error_response(&error).map(ResponseBody::plain),
                })
            }),
            Self::Rest(response) => {
                response.as_mut().poll(cx).map(|response| Ok(response.map(ResponseBody::plain)))
            }
            Self::Rpc(call) => Pin::new(&mut **call).poll(cx).map(Ok),
            Self::Late(response) => response.as_mut().poll(cx).map(Ok),
            Self::Watched(response) => Pin::new(&mut **response).poll(cx),
            Self::Marked(response) => Pin::new(&mut **response).poll(cx),
        }
    }
}

/// The body of a response, and who is told of it.
pub(crate) struct ResponseBody {
    kind: Kind,
    pub(crate) watch: Option<Watch>,
}

/// What a body consists of. What is seldom or large is boxed, since every response is moved about.
pub(crate) enum Kind {
    /// Of plain HTTP, REST, or one piece.
    Plain(Body),
    /// Of an RPC protocol, in pieces that are there.
    Whole(Box<FullBody>),
    /// Of an RPC protocol, messages as they come.
    Replies(Box<Replies>),
    /// Wrong on purpose.
    Faulty(Box<Faulty<ResponseBody>>),
    /// Large, and counted until it has left.
    Counted(Box<ReplyBody>),
}

impl ResponseBody {
    #[inline]
    pub(crate) const fn plain(body: Body) -> Self {
        Self::of(Kind::Plain(body))
    }

    #[inline]
    pub(crate) const fn of(kind: Kind) -> Self {
        Self { kind, watch: None }
    }

    /// How many bytes are there and wait to be sent.
    pub(crate) fn waiting_bytes(&self) -> usize {
        match &self.kind {
            Kind::Plain(Body::Full(bytes)) => bytes.len(),
            Kind::Plain(_) | Kind::Counted(_) => 0,
            Kind::Whole(body) => body.waiting_bytes(),
            Kind::Replies(body) => body.waiting_bytes(),
            Kind::Faulty(body) => body.inner().waiting_bytes(),
        }
    }
}

impl http_body::Body for ResponseBody {
    type Data = Bytes;
    type Error = Error;

    #[inline]
    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let polled = match &mut self.kind {
            Kind::Plain(body) => Pin::new(body).poll_frame(cx),
            Kind::Whole(body) => Poll::Ready(body.next().map(Ok)),
            Kind::Replies(body) => body.poll_frame(cx).map(|frame| frame.map(Ok)),
            Kind::Faulty(body) => Pin::new(&mut **body).poll_frame(cx),
            Kind::Counted(body) => Pin::new(&mut **body).poll_frame(cx),
        };
        if let Some(watch) = &self.watch
            && let Poll::Ready(frame) = &polled
        {
            watch.frame(frame.as_ref(), self.is_end_stream());
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        match &self.kind {
            Kind::Plain(body) => body.is_end_stream(),
            Kind::Whole(body) => body.is_over(),
            Kind::Replies(body) => body.is_over(),
            Kind::Faulty(body) => body.is_end_stream(),
            Kind::Counted(body) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.kind {
            Kind::Plain(body) => body.size_hint(),
            Kind::Whole(body) => body.size_hint(),
            Kind::Replies(_) => SizeHint::default(),
            Kind::Faulty(body) => body.size_hint(),
            Kind::Counted(body) => body.size_hint(),
        }
    }
}
