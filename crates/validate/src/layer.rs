//! The layer that refuses requests with broken rules.
//!
//! What comes in a method of a service with rules is checked before the service sees it: the
//! request of a unary call, and each message of a stream. Protobuf requests are checked as they
//! are; a JSON request is decoded once for it. Errors name fields as the caller does: a request
//! over REST is protobuf here, and was JSON. Methods without rules, and plain HTTP, pass as they
//! are.

use std::sync::Arc;

use futures_util::StreamExt;
use tidewire_service::{
    Answer, Body, Call, Codec, Context, Frame, Interface, Layer, Protocol, Result, Service,
};

use super::RuleSet;
use tidewire_schema::{Schema, SchemaError};

/// Refuses requests that break rules of their schema, with
/// [`Code::InvalidArgument`](tidewire_service::Code::InvalidArgument) and the violations as
/// details.
#[derive(Debug, Clone)]
pub struct Validate(Arc<Requests>);

/// The rules for the requests of a service.
#[derive(Debug)]
struct Requests {
    schema: Schema,
    validator: RuleSet,
    /// The types of requests that have rules, and where these are. There are few of them.
    types: Vec<(String, u32)>,
}

impl Validate {
    /// The rules for requests of all methods of a service, which is of this schema; `None` when
    /// there are none.
    ///
    /// # Errors
    /// When a rule does not compile; see [`RuleSet::new`].
    pub fn of(interface: &Interface, schema: &Schema) -> Result<Option<Self>, SchemaError> {
        let mut inputs: Vec<&str> =
            interface.methods().iter().map(|method| &*method.input).collect();
        inputs.sort_unstable();
        inputs.dedup();
        let validator = RuleSet::of(schema, inputs.iter().copied())?;
        let places =
            inputs.iter().map(|input| Some(((*input).to_owned(), validator.place(input)?)));
        let types: Vec<_> = places.flatten().collect();
        let any = !types.is_empty();
        Ok(any.then(|| Self(Arc::new(Requests { schema: schema.clone(), validator, types }))))
    }
}

impl Layer for Validate {
    fn layer(&self, inner: Arc<dyn Service>) -> Arc<dyn Service> {
        Arc::new(ValidatedService { requests: Arc::clone(&self.0), inner })
    }
}

struct ValidatedService {
    requests: Arc<Requests>,
    inner: Arc<dyn Service>,
}

impl Service for ValidatedService {
    fn call(&self, mut call: Call) -> Answer {
        let of_type = call.spec().and_then(|spec| self.requests.position(&spec.input));
        let Some(position) = of_type else { return self.inner.call(call) };
        let codec = call.codec;
        let whole: &[u8] = match std::mem::take(&mut call.body) {
            Body::Stream(frames) => {
                let requests = Arc::clone(&self.requests);
                let names = names(codec, &call.context);
                call.body = Body::frames(frames.map(move |frame| {
                    let frame = frame?;
                    if let Frame::Data(message) = &frame {
                        requests.check(position, codec, message, || names)?;
                    }
                    Ok(frame)
                }));
                return self.inner.call(call);
            }
            whole => {
                call.body = whole;
                match &call.body {
                    Body::Full(bytes) => bytes,
                    _ => &[],
                }
            }
        };
        // Only a broken rule asks: what reads the protocol is not shared with other protocols.
        match self.requests.check(position, codec, whole, || names(codec, &call.context)) {
            Ok(()) => self.inner.call(call),
            Err(error) => Answer::ready(Err(error)),
        }
    }
}

/// How the caller names fields.
fn names(codec: Codec, context: &Context) -> Codec {
    match context.protocol() {
        Some(Protocol::Rest) => Codec::Json,
        _ => codec,
    }
}

impl Requests {
    fn position(&self, type_name: &str) -> Option<usize> {
        self.types.iter().position(|(known, _)| known == type_name)
    }

    fn check(
        &self,
        position: usize,
        codec: Codec,
        message: &[u8],
        names: impl FnOnce() -> Codec,
    ) -> Result<()> {
        let (type_name, at) = &self.types[position];
        let Some(rules) = self.validator.rules_at(*at) else { return Ok(()) };
        let broken = match codec {
            Codec::Proto => rules.violations(message)?,
            Codec::Json => {
                let decoded = self.schema.decode(type_name, codec, message)?;
                rules.violations(&decoded.encode(Codec::Proto)?)?
            }
        };
        broken.map_or(Ok(()), |broken| Err(broken.into_error(names())))
    }
}
