//! The layer that refuses requests with broken rules.
//!
//! What comes in a method of a service with rules is checked before the service sees it: the request
//! of a unary call, and each message of a stream. Protobuf requests are checked as they are; a JSON
//! request is decoded once for it, so that its error names fields as JSON does. Methods without
//! rules, and plain HTTP, pass as they are.

use std::sync::Arc;

use bytes::Bytes;
use futures_util::StreamExt;
use tidewire_service::{Answer, Body, Call, Codec, Frame, Interface, Layer, Result, Service};

use super::Validator;
use crate::{Schema, SchemaError};

/// Refuses requests that break rules of their schema, with
/// [`Code::InvalidArgument`](tidewire_service::Code::InvalidArgument) and the violations as details.
#[derive(Debug, Clone)]
pub struct Validate(Arc<Rules>);

#[derive(Debug)]
struct Rules {
    schema: Schema,
    validator: Validator,
}

impl Validate {
    /// The rules for requests of all methods of a service; `None` when there are none.
    ///
    /// # Errors
    /// When a rule does not compile; see [`Validator::new`].
    pub fn of(interface: &Interface) -> Result<Option<Self>, SchemaError> {
        let schema = Schema::from_descriptors(Bytes::copy_from_slice(interface.descriptors()))?;
        let inputs: Vec<&str> = interface.methods().iter().map(|method| &*method.input).collect();
        let validator = Validator::of(&schema, inputs.iter().copied())?;
        let any = inputs.iter().any(|input| validator.has_rules(input));
        Ok(any.then(|| Self(Arc::new(Rules { schema, validator }))))
    }
}

impl Layer for Validate {
    fn layer(&self, inner: Arc<dyn Service>) -> Arc<dyn Service> {
        Arc::new(Validated { rules: Arc::clone(&self.0), inner })
    }
}

struct Validated {
    rules: Arc<Rules>,
    inner: Arc<dyn Service>,
}

impl Service for Validated {
    fn call(&self, mut call: Call) -> Answer {
        let Some(spec) = call.spec() else { return self.inner.call(call) };
        let codec = call.codec;
        if !self.rules.validator.has_rules(&spec.input) {
            return self.inner.call(call);
        }
        let type_name = spec.input.clone();
        let whole: &[u8] = match &call.body {
            Body::Full(bytes) => bytes,
            Body::Empty => &[],
            Body::Stream(_) => {
                let Body::Stream(frames) = std::mem::take(&mut call.body) else {
                    return self.inner.call(call);
                };
                let rules = Arc::clone(&self.rules);
                call.body = Body::frames(frames.map(move |frame| {
                    let frame = frame?;
                    if let Frame::Data(message) = &frame {
                        rules.check(&type_name, codec, message)?;
                    }
                    Ok(frame)
                }));
                return self.inner.call(call);
            }
        };
        match self.rules.check(&type_name, codec, whole) {
            Ok(()) => self.inner.call(call),
            Err(error) => Answer::ready(Err(error)),
        }
    }
}

impl Rules {
    fn check(&self, type_name: &str, codec: Codec, message: &[u8]) -> Result<()> {
        match codec {
            Codec::Proto => self.validator.check(type_name, message),
            // What JSON cannot be read is the service's to refuse, in its own words.
            Codec::Json => {
                let decoded = self.schema.decode(type_name, codec, message)?;
                let encoded = decoded.encode(Codec::Proto)?;
                self.validator.check_named(type_name, &encoded, codec)
            }
        }
    }
}
