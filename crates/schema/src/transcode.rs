//! Calls in a codec that who answers does not speak: messages are translated on the way, both ways.
//!
//! Headers, errors and trailers pass as they are. A call in the right codec passes untouched, and nothing
//! of it is decoded.

use std::future::ready;

use bytes::Bytes;
use futures_util::StreamExt;
use tidewire_service::{Answer, Body, Call, Codec, Error, Frame, Result, Service, Target};

use crate::Schema;

impl Schema {
    /// Makes a call of `service`, which speaks `codec` only.
    pub fn transcode(&self, codec: Codec, service: &dyn Service, mut call: Call) -> Answer {
        let Target::Method(method) = &call.target else { return service.call(call) };
        let (sent, wanted) = (call.codec, call.accept);
        let (input, output) =
            (method.input.clone().into_owned(), method.output.clone().into_owned());
        (call.codec, call.accept) = (codec, codec);
        if sent != codec {
            let schema = self.clone();
            let body = each(std::mem::take(&mut call.body), move |message| {
                schema.decode(&input, sent, message)?.encode(codec)
            });
            match body {
                Ok(body) => call.body = body,
                Err(error) => return Answer::ready(Err(error)),
            }
        }
        let answer = service.call(call);
        if wanted == codec {
            return answer;
        }
        let schema = self.clone();
        Answer::pending(async move {
            answer.await?.try_map(|body| {
                each(body, move |message| {
                    let answer = schema.decode(&output, codec, message).map_err(|e| wrong(&e))?;
                    answer.encode(wanted)
                })
            })
        })
    }
}

/// What the service answered is none of its caller's fault.
fn wrong(error: &Error) -> Error {
    let text = format!("the service's answer is not of its schema: {}", error.message());
    Error::internal(text)
}

/// Changes each message of a body.
fn each(body: Body, change: impl Fn(&Bytes) -> Result<Bytes> + Send + 'static) -> Result<Body> {
    Ok(match body {
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
