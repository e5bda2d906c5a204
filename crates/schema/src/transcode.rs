//! Calls in a codec that who answers does not speak: messages are translated on the way, both ways.
//!
//! Headers, errors and trailers pass as they are. Protobuf passes untouched where both sides speak
//! it. JSON has many texts for one message: one that already is as it would be printed passes, and
//! any other is read and printed, so that who answers sees one text of a value, and nobody what is
//! not of the schema.

use std::future::ready;

use buffa_descriptor::MessageIndex;
use bytes::Bytes;
use futures_util::StreamExt;
use tidewire_json::is_canonical;
use tidewire_service::{
    Answer, Body, Call, Code, Codec, Error, Frame, Reply, Result, Service, Target,
};

use crate::Schema;
use crate::json::{self, UnknownMembers};
use crate::message::Message;

/// What is left to do of a call that was translated.
#[derive(Debug)]
pub struct Back(Direction);

/// How the messages of a body are translated.
#[derive(Debug)]
struct Direction {
    schema: Schema,
    index: MessageIndex,
    codecs: (Codec, Codec),
    /// The body is one message, nothing being one without any field.
    is_one: bool,
    /// What becomes of members of JSON that the schema does not know: a caller may be newer than
    /// it, and who answers has made a mistake.
    unknown: UnknownMembers,
    explain: fn(Error) -> Error,
}

impl Schema {
    /// Makes a call of `service`, which speaks `codec` only.
    pub fn transcode(&self, codec: Codec, service: &dyn Service, mut call: Call) -> Answer {
        match self.translate(codec, &mut call) {
            Ok(None) => service.call(call),
            Ok(Some(back)) => {
                let answer = service.call(call);
                Answer::pending(async move {
                    let mut reply = answer.await?;
                    back.translate(&mut reply).map(|()| reply)
                })
            }
            Err(error) => Answer::ready(Err(error)),
        }
    }

    /// Translates a call for whoever speaks `codec` only; what is returned translates the reply, if
    /// need be.
    ///
    /// # Errors
    /// As [`decode`](Self::decode).
    pub fn translate(&self, codec: Codec, call: &mut Call) -> Result<Option<Back>> {
        let Target::Method(method) = &call.target else { return Ok(None) };
        let way = |name: &str, codecs, streams: bool, unknown, explain| {
            let schema = self.clone();
            let index = self.index(name)?;
            Ok(Direction { schema, index, codecs, is_one: !streams, unknown, explain })
        };
        let kind = method.kind;
        if (call.codec, codec) != UNTOUCHED {
            let codecs = (call.codec, codec);
            let streams = kind.client_streams();
            let asked =
                way(&method.input, codecs, streams, UnknownMembers::Ignored, |error| error)?;
            call.body = asked.body(std::mem::take(&mut call.body))?;
        }
        let codecs = (codec, call.accept);
        (call.codec, call.accept) = (codec, codec);
        let streams = kind.server_streams();
        let back =
            || way(&method.output, codecs, streams, UnknownMembers::Refused, wrong).map(Back);
        (codecs != UNTOUCHED).then(back).transpose()
    }
}

impl Back {
    /// Translates the reply for whoever asked.
    ///
    /// # Errors
    /// [`Code::Internal`] when a message of it is none of its type.
    pub fn translate(self, reply: &mut Reply) -> Result<()> {
        reply.body = self.0.body(std::mem::take(&mut reply.body))?;
        Ok(())
    }
}

impl Direction {
    fn body(self, body: Body) -> Result<Body> {
        Ok(match body {
            Body::Empty if self.is_one => Body::Full(self.message(Bytes::new())?),
            Body::Empty => Body::Empty,
            Body::Full(message) => Body::Full(self.message(message)?),
            Body::Stream(frames) => Body::frames(frames.then(move |frame| {
                ready(match frame {
                    Ok(Frame::Data(message)) => self.message(message).map(Frame::Data),
                    other => other,
                })
            })),
        })
    }

    /// A message in another codec, or in JSON as it is printed.
    fn message(&self, message: Bytes) -> Result<Bytes> {
        let (from, to) = self.codecs;
        let pool = &self.schema.pool;
        if (from, to) == (Codec::Json, Codec::Json) && is_canonical(pool, self.index, &message) {
            return Ok(message);
        }
        let decoded = match from {
            Codec::Json => json::read(pool, self.index, &message, self.unknown).map(Message),
            Codec::Proto => self.schema.decode_at(self.index, from, &message),
        };
        decoded.and_then(|message| message.encode(to)).map_err(self.explain)
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

/// What passes as it is.
const UNTOUCHED: (Codec, Codec) = (Codec::Proto, Codec::Proto);
