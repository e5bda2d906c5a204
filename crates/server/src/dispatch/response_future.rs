//! The future of a response, whatever its protocol. It is small, since the HTTP library moves it
//! about.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use http::Response;
use tidewire_service::{Body, Reply};

use crate::gate::cors::CorsFuture;
use crate::protocols::plain::page_of;
use crate::protocols::rpc::RpcCall;
use crate::request::observe::{Watch, WatchedResponse};
use crate::request::run_call::PendingCall;
use crate::response::body::{BoxedResponse, ResponseBody};
use crate::response::page::page;

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
    Watched(Box<WatchedResponse<Self>>),
    /// Says who may read it.
    Marked(Box<CorsFuture<Self>>),
}

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
                Poll::Ready(Ok(page(*reply, ResponseBody::plain)))
            }
            Self::Plain(call) => Pin::new(call).poll(cx).map(|outcome| Ok(page_of(outcome))),
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
