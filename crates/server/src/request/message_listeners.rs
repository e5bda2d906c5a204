//! Messages as they go by, told to observers that want them.
//!
//! One place for every protocol, since `run_call.rs` runs every call: messages have neither
//! envelopes nor compression there. Observers that want none cost one check.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use futures_core::Stream;
use tidewire_service::{Body, Call, Codec, Frame, Observation, Result, Side, Target};

/// Who is told the messages of a call.
#[derive(Clone)]
pub(crate) struct MessageListeners {
    observation: Arc<dyn Observation>,
    codec: Codec,
}

impl MessageListeners {
    /// Who wants to hear this call; what is not a call of a method has no messages.
    #[inline]
    pub(crate) fn of(call: &Call) -> Option<Box<Self>> {
        let observation = call.context.hears_messages()?;
        let is_method = matches!(call.target, Target::Method(_));
        is_method
            .then(|| Box::new(Self { observation: Arc::clone(observation), codec: call.codec }))
    }

    /// The same body, whose messages are told.
    pub(crate) fn follow(&self, side: Side, body: Body) -> Body {
        match body {
            Body::Empty => Body::Empty,
            Body::Full(message) => {
                self.observation.message(side, self.codec, &message);
                Body::Full(message)
            }
            Body::Stream(frames) => {
                Body::frames(ListenedStream { frames, side, heard: self.clone() })
            }
        }
    }
}

/// A stream of messages that are told.
struct ListenedStream {
    frames: Pin<Box<dyn Stream<Item = Result<Frame>> + Send>>,
    side: Side,
    heard: MessageListeners,
}

impl Stream for ListenedStream {
    type Item = Result<Frame>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let frame = ready!(self.frames.as_mut().poll_next(cx));
        if let Some(Ok(Frame::Data(message))) = &frame {
            self.heard.observation.message(self.side, self.heard.codec, message);
        }
        Poll::Ready(frame)
    }
}
