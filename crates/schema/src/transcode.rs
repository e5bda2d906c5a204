//! Calls in a codec that who answers does not speak: messages are translated on the way, both ways.
//!
//! Headers, errors and trailers pass as they are. Protobuf passes untouched where both sides speak it. JSON
//! has many texts for one message: one that already is as it would be printed passes, and any other is
//! read and printed, so that who answers sees one text of a value, and nobody what is not of the schema.

use std::future::ready;

use bytes::Bytes;
use futures_util::StreamExt;
use tidewire_json::is_canonical;
use tidewire_service::{Answer, Body, Call, Code, Codec, Error, Frame, Result, Service, Target};

use crate::Schema;

impl Schema {
    /// Makes a call of `service`, which speaks `codec` only.
    pub fn transcode(&self, codec: Codec, service: &dyn Service, mut call: Call) -> Answer {
        let Target::Method(method) = &call.target else { return service.call(call) };
        let (sent, wanted) = (call.codec, call.accept);
        let (input, output, kind) = (method.input.clone(), method.output.clone(), method.kind);
        (call.codec, call.accept) = (codec, codec);
        if (sent, codec) != (Codec::Proto, Codec::Proto) {
            let schema = self.clone();
            let one = !kind.client_streams();
            let body = each(std::mem::take(&mut call.body), one, move |message| {
                schema.translated(&input, (sent, codec), message)
            });
            match body {
                Ok(body) => call.body = body,
                Err(error) => return Answer::ready(Err(error)),
            }
        }
        let answer = service.call(call);
        if (codec, wanted) == (Codec::Proto, Codec::Proto) {
            return answer;
        }
        let schema = self.clone();
        Answer::pending(async move {
            answer.await?.try_map(|body| {
                each(body, !kind.server_streams(), move |message| {
                    schema.translated(&output, (codec, wanted), message).map_err(wrong)
                })
            })
        })
    }

    /// A message in another codec, or in JSON as it is printed.
    fn translated(&self, name: &str, way: (Codec, Codec), message: &Bytes) -> Result<Bytes> {
        if way == (Codec::Json, Codec::Json) && is_canonical(&self.pool, self.index(name)?, message)
        {
            return Ok(message.clone());
        }
        self.decode(name, way.0, message)?.encode(way.1)
    }
}

/// What the service answered is none of its caller's fault.
fn wrong(error: Error) -> Error {
    if error.code() != Code::InvalidArgument {
        return error;
    }
    let text = format!("the service's answer is not of its schema: {}", error.message());
    Error::internal(text)
}

/// Changes each message of a body, which is nothing less than `one`, if it is that.
fn each(
    body: Body,
    one: bool,
    change: impl Fn(&Bytes) -> Result<Bytes> + Send + 'static,
) -> Result<Body> {
    Ok(match body {
        Body::Empty if one => Body::Full(change(&Bytes::new())?),
        Body::Empty => Body::Empty,
        Body::Full(message) => Body::Full(change(&message)?),
        Body::Stream(frames) => Body::frames(frames.then(move |frame| {
            ready(match frame {
                Ok(Frame::Data(message)) => change(&message).map(Frame::Data),
                other => other,
            })
        })),
    })
}
