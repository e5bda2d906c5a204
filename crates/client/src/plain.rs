//! Plain HTTP: the response to a call of a path comes back as it is.
//!
//! Only the headers of a connection stay behind (RFC 9110, section 7.6.1), in both directions: those of
//! requests in [`Order`](crate::order::Order).

use tidewire_service::{Body, Reply};
use tidewire_wire::headers::end_to_end;

use crate::exchange::Received;
use crate::trace::{Step, tell};

pub(crate) fn reply(received: Received) -> Reply {
    let Received { head, mut body } = received;
    let mut reply = Reply::new(Body::Empty).with_status(head.status);
    reply.headers = end_to_end(head.headers).into();
    if body.declared_length() == Some(0) {
        if body.is_end() {
            body.finish();
        }
        return reply;
    }
    reply.body = Body::frames(futures_util::stream::poll_fn(move |cx| {
        let frame = std::task::ready!(body.poll_frame(cx));
        if let Some(Ok(tidewire_service::Frame::Data(data))) = &frame {
            let wire_bytes = data.len();
            tell(body.trace(), || Step::MessageReceived { wire_bytes });
            // Whoever knows the length asks for no more than that, and drops what there is.
            if body.is_end() {
                body.finish();
            }
        }
        std::task::Poll::Ready(frame)
    }));
    reply
}
