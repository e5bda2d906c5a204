//! Items of the peer as the body of a call or of a reply: read when asked for, given back as credit
//! then.
//!
//! A large item comes in pieces and is put together here, as the reader asks: what nobody reads
//! stays with its sender.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::BytesMut;
use tidewire_live_proto::{CallId, KeptItems};
use tidewire_service::{Body, Error, Frame, Frames, Messages, Reply};

use crate::link::Link;
use crate::link::exchange::CallEvent;

/// The items of one direction of a call.
pub(crate) struct ItemStream {
    pub(crate) link: Link,
    pub(crate) call: CallId,
    /// Items of a frame that are not read yet.
    items: KeptItems,
    /// What came of an item that is not complete.
    partial: BytesMut,
    is_over: bool,
}

impl ItemStream {
    pub(crate) fn new(link: Link, call: CallId) -> Self {
        Self { link, call, items: KeptItems::default(), partial: BytesMut::new(), is_over: false }
    }

    /// Whether the end was read.
    pub(crate) fn is_over(&self) -> bool {
        self.is_over
    }

    /// The next item, or trailers where there are any; `None` after the end.
    pub(crate) fn poll_frame(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame, Error>>> {
        self.poll_messages(cx, &mut Messages::default())
    }

    /// [`poll_frame`](Self::poll_frame), and small items before it.
    pub(crate) fn poll_messages(
        &mut self,
        cx: &mut Context<'_>,
        messages: &mut Messages,
    ) -> Poll<Option<Result<Frame, Error>>> {
        while !self.is_over {
            self.items.add_to(messages);
            let item = self.items.next();
            let credit = self.items.take_credit();
            if credit > 0 {
                self.link.consumed(self.call, credit);
            }
            if let Some(item) = item {
                return Poll::Ready(Some(Ok(Frame::Data(item))));
            }
            match ready!(self.link.poll_heard(self.call, cx)) {
                CallEvent::Items(items) => self.items = items,
                CallEvent::Piece(piece) => {
                    let before = self.partial.len();
                    let bytes = piece.bytes.len();
                    self.partial.extend_from_slice(&piece.bytes);
                    if !piece.last {
                        self.link.took_piece(self.call, bytes);
                    } else {
                        self.link.took_last_piece(self.call, bytes, before);
                        let item = std::mem::take(&mut self.partial).freeze();
                        return Poll::Ready(Some(Ok(Frame::Data(item))));
                    }
                }
                CallEvent::End(trailers) => {
                    self.is_over = true;
                    if !trailers.is_empty() {
                        return Poll::Ready(Some(Ok(Frame::Trailers((*trailers).into()))));
                    }
                }
                CallEvent::Reply(answered) => return Poll::Ready(self.last(answered.reply)),
                CallEvent::Failed(error, _) => {
                    self.is_over = true;
                    return Poll::Ready(Some(Err(error)));
                }
            }
        }
        Poll::Ready(None)
    }

    /// A reply that ends a stream: its payload is its own item if there is one.
    fn last(&mut self, reply: Reply) -> Option<Result<Frame, Error>> {
        self.is_over = true;
        match reply.body {
            Body::Full(item) if !item.is_empty() => Some(Ok(Frame::Data(item))),
            _ => None,
        }
    }
}

impl Drop for ItemStream {
    fn drop(&mut self) {
        if !self.partial.is_empty() {
            self.link.drop_item(self.call, self.partial.len());
        }
    }
}

/// What a caller streams.
pub(crate) struct RequestBody(ItemStream);

impl RequestBody {
    pub(crate) fn new(link: Link, call: CallId) -> Self {
        Self(ItemStream::new(link, call))
    }
}

impl futures_core::Stream for RequestBody {
    type Item = Result<Frame, Error>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.0.poll_frame(cx)
    }
}

impl Frames for RequestBody {
    fn poll_messages(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        messages: &mut Messages,
    ) -> Poll<Option<Result<Frame, Error>>> {
        self.0.poll_messages(cx, messages)
    }
}

impl Drop for RequestBody {
    /// Nobody reads any more: the caller need not send.
    fn drop(&mut self) {
        if !self.0.is_over() {
            let mut state = self.0.link.lock();
            state.session.stop(self.0.call);
            state.wake();
        }
    }
}
