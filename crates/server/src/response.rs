//! Responses as the HTTP library takes them: a future that is small, since the library moves it about,
//! and one body for all protocols.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::Response;
use http_body::{Frame, SizeHint};
use tidewire_service::{Body, Error, Reply};

use crate::cors::Marked;
use crate::fault::Faulty;
use crate::observe::{Watch, Watched, Watching};
use crate::outgoing::Outgoing;
use crate::plain;
use crate::rpc::{Replies, RpcCall, Whole};
use crate::run::Waiting;

/// The future of a response.
pub(crate) enum Responding {
    /// It is there.
    Ready(Option<Box<Response<ResponseBody>>>),
    /// The reply of a plain HTTP service is there.
    Answered(Option<Box<Reply>>),
    /// A plain HTTP service runs.
    Plain(Waiting),
    /// REST.
    Rest(Later<Body>),
    /// An RPC protocol.
    Rpc(Box<RpcCall>),
    /// Everything else.
    Late(Later<ResponseBody>),
    /// Told to who observes.
    Watched(Box<Watching>),
    /// Says who may read it.
    Marked(Box<Marked<Self>>),
}

/// A boxed future of a response.
pub(crate) type Later<B> = Pin<Box<dyn Future<Output = Response<B>> + Send>>;

impl Responding {
    /// A response that is there.
    pub(crate) fn ready(response: Response<Body>) -> Self {
        Self::Ready(Some(Box::new(response.map(ResponseBody::Plain))))
    }

    /// The same response, told to who observes.
    pub(crate) fn watched(self, watch: Watch) -> Self {
        Self::Watched(Box::new(Watching { response: self, watch: Some(watch) }))
    }
}

const TAKEN: &str = "a response is polled until it is ready, once";

impl Future for Responding {
    type Output = Result<Response<ResponseBody>, Infallible>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match &mut *self {
            Self::Ready(response) => Poll::Ready(Ok(*response.take().expect(TAKEN))),
            Self::Answered(reply) => {
                let reply = reply.take().expect(TAKEN);
                Poll::Ready(Ok(plain::response(*reply, ResponseBody::Plain)))
            }
            Self::Plain(answer) => Pin::new(answer).poll(cx).map(|outcome| {
                Ok(match outcome {
                    Ok(reply) => plain::response(reply, ResponseBody::Plain),
                    Err(error) => plain::error_response(&error).map(ResponseBody::Plain),
                })
            }),
            Self::Rest(response) => {
                response.as_mut().poll(cx).map(|response| Ok(response.map(ResponseBody::Plain)))
            }
            Self::Rpc(call) => Pin::new(&mut **call).poll(cx).map(Ok),
            Self::Late(response) => response.as_mut().poll(cx).map(Ok),
            Self::Watched(response) => Pin::new(&mut **response).poll(cx),
            Self::Marked(response) => Pin::new(&mut **response).poll(cx),
        }
    }
}

/// The body of a response. What is seldom or large is boxed, since every response is moved about.
pub(crate) enum ResponseBody {
    /// Of plain HTTP, REST, or one piece.
    Plain(Body),
    /// Of an RPC protocol, in pieces that are there.
    Whole(Box<Whole>),
    /// Of an RPC protocol, messages as they come.
    Replies(Box<Replies>),
    /// Observed.
    Watched(Box<Watched>),
    /// Wrong on purpose.
    Faulty(Box<Faulty<Self>>),
    /// Large, and counted until it has left.
    Counted(Box<Outgoing>),
}

impl ResponseBody {
    pub(crate) fn watched(body: Watched) -> Self {
        Self::Watched(Box::new(body))
    }

    /// How many bytes are there and wait to be sent.
    pub(crate) fn waiting_bytes(&self) -> usize {
        match self {
            Self::Plain(Body::Full(bytes)) => bytes.len(),
            Self::Plain(_) | Self::Counted(_) => 0,
            Self::Whole(body) => body.waiting_bytes(),
            Self::Replies(body) => body.waiting_bytes(),
            Self::Watched(body) => body.inner().waiting_bytes(),
            Self::Faulty(body) => body.inner().waiting_bytes(),
        }
    }
}

impl http_body::Body for ResponseBody {
    type Data = Bytes;
    type Error = Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        match &mut *self {
            Self::Plain(body) => Pin::new(body).poll_frame(cx),
            Self::Whole(body) => Poll::Ready(body.next().map(Ok)),
            Self::Replies(body) => body.poll_frame(cx).map(|frame| frame.map(Ok)),
            Self::Watched(body) => Pin::new(&mut **body).poll_frame(cx),
            Self::Faulty(body) => Pin::new(&mut **body).poll_frame(cx),
            Self::Counted(body) => Pin::new(&mut **body).poll_frame(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Plain(body) => body.is_end_stream(),
            Self::Whole(body) => body.is_over(),
            Self::Replies(body) => body.is_over(),
            Self::Watched(body) => body.is_end_stream(),
            Self::Faulty(body) => body.is_end_stream(),
            Self::Counted(body) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Plain(body) => body.size_hint(),
            Self::Whole(body) => body.size_hint(),
            Self::Replies(_) => SizeHint::default(),
            Self::Watched(body) => body.size_hint(),
            Self::Faulty(body) => body.size_hint(),
            Self::Counted(body) => body.size_hint(),
        }
    }
}
