//! Plain HTTP: a call of a path goes out as it is, and its response comes back as it is.
//!
//! Only the headers of a connection stay behind (RFC 9110, section 7.6.1), in both directions.

use http::header::CONTENT_LENGTH;
use http::uri::PathAndQuery;
use tidewire_service::{Body, Context, HttpTarget, Reply, Result};
use tidewire_wire::headers::end_to_end;

use crate::exchange::{Outbound, Received};
use crate::outgoing::Outgoing;
use crate::trace::{Step, Trace, tell};

pub(crate) fn request(
    target: HttpTarget,
    context: Context,
    body: Body,
    trace: Option<&Trace>,
) -> Result<Outbound> {
    let mut headers = end_to_end(context.into_headers());
    let path = target.uri.path_and_query().cloned();
    let path = path.unwrap_or_else(|| PathAndQuery::from_static("/"));
    let (body, cancel) = match body {
        Body::Empty => (Outgoing::empty(trace.cloned()), None),
        Body::Full(bytes) => {
            headers.remove(CONTENT_LENGTH);
            (Outgoing::whole(bytes::Bytes::new(), bytes, trace.cloned()), None)
        }
        stream => {
            let (body, cancel) = Outgoing::stream(stream, trace.cloned());
            (body, Some(cancel))
        }
    };
    Ok(Outbound { method: target.method, path, headers, body, cancel })
}

pub(crate) fn reply(received: Received) -> Reply {
    let Received { head, mut body } = received;
    let mut reply = Reply::new(Body::Empty).with_status(head.status);
    reply.headers = end_to_end(head.headers).into();
    let length = body.declared_length();
    reply.body = Body::frames(futures_util::stream::poll_fn(move |cx| {
        let frame = std::task::ready!(body.poll_frame(cx));
        if let Some(Ok(tidewire_service::Frame::Data(data))) = &frame {
            let wire_bytes = data.len();
            tell(body.trace(), || Step::MessageReceived { wire_bytes });
        }
        std::task::Poll::Ready(frame)
    }));
    if length == Some(0) {
        reply.body = Body::Empty;
    }
    reply
}
