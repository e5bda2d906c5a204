//! The body of a response: one type for all protocols, as the HTTP library takes it.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::Response;
use http_body::{Frame, SizeHint};
use tidewire_service::{Body, Error};

use crate::request::observe::{Watch, WatchedBody};
use crate::response::counted::{CountableBody, CountedBody};
use crate::response::faults::Faulty;
use crate::response::full::FullBody;
use crate::response::replies::Replies;
use crate::socket::activity::Piece;

/// A boxed future of a response.
pub(crate) type BoxedResponse<B> = Pin<Box<dyn Future<Output = Response<B>> + Send>>;

/// The body of a response, and who is told of it.
pub(crate) struct ResponseBody {
    kind: Kind,
    watch: Option<Watch>,
}

/// What a body consists of. What is seldom or large is boxed, since every response is moved about.
pub(crate) enum Kind {
    /// Of plain HTTP, REST, or one piece.
    Plain(Body),
    /// Of an RPC protocol, in pieces that are there.
    Whole(FullBody),
    /// Of an RPC protocol, messages as they come.
    Replies(Box<Replies>),
    /// Wrong on purpose.
    Faulty(Box<Faulty<ResponseBody>>),
    /// Large, and counted until it has left.
    Counted(Box<CountedBody<ResponseBody>>),
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

    /// A body that is wrong on purpose.
    pub(crate) fn faulty(body: Faulty<Self>) -> Self {
        Self::of(Kind::Faulty(Box::new(body)))
    }
}

impl CountableBody for ResponseBody {
    fn plain(body: Body) -> Self {
        Self::plain(body)
    }

    fn counted(body: CountedBody<Self>) -> Self {
        Self::of(Kind::Counted(Box::new(body)))
    }

    fn waiting_bytes(&self) -> usize {
        match &self.kind {
            Kind::Plain(Body::Full(bytes)) => bytes.len(),
            Kind::Plain(_) | Kind::Counted(_) => 0,
            Kind::Whole(body) => body.waiting_bytes(),
            Kind::Replies(body) => body.waiting_bytes(),
            Kind::Faulty(body) => body.inner().waiting_bytes(),
        }
    }
}

impl WatchedBody for ResponseBody {
    fn watch(&mut self, watch: Watch) {
        self.watch = Some(watch);
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
            Kind::Counted(body) => {
                let polled = Pin::new(&mut **body).poll_frame(cx);
                polled.map(|frame| frame.map(|frame| Ok(frame?.map_data(Piece::into_bytes))))
            }
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
