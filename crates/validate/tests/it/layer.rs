//! The layer: what reaches a service and what does not.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::{StreamExt, stream};
use tidewire_schema::Schema;
use tidewire_service::{
    Answer, Body, Call, Codec, Context, Error, Frame, Interface, Layer, Protocol, Reply, Service,
};
use tidewire_validate::Validate;

/// Reads its request to the end and counts its messages.
#[derive(Clone, Default)]
struct Counting(Arc<AtomicUsize>);

impl Service for Counting {
    fn call(&self, call: Call) -> Answer {
        let count = Arc::clone(&self.0);
        Answer::pending(async move {
            if let Body::Stream(mut frames) = call.body {
                while let Some(frame) = frames.next().await {
                    frame?;
                    count.fetch_add(1, Ordering::Relaxed);
                }
            } else {
                count.fetch_add(1, Ordering::Relaxed);
            }
            Ok(Reply::new(Body::Empty))
        })
    }
}

fn interface() -> (Schema, Interface) {
    let schema = super::schema(
        "message Name { string full_name = 1 [(buf.validate.field).string.min_len = 2]; }\n\
         message Free { string text = 1; }\n\
         service Names { rpc Set(Name) returns (Free); rpc All(stream Name) returns (Free); rpc Any(Free) returns (Free); }",
    );
    let interface = schema.interface("Names").unwrap().unwrap();
    (schema, interface)
}

fn call(method: usize, codec: Codec, body: impl Into<Body>) -> (Result<(), Error>, usize) {
    call_in(Context::default(), method, codec, body)
}

fn call_in(
    context: Context,
    method: usize,
    codec: Codec,
    body: impl Into<Body>,
) -> (Result<(), Error>, usize) {
    let (schema, interface) = interface();
    let counting = Counting::default();
    let layer = Validate::of(&interface, &schema).unwrap().unwrap();
    let service = layer.layer(Arc::new(counting.clone()));
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let method = interface.methods()[method].clone();
    let answer = service.call(Call::method(method, context, codec, body));
    let outcome = runtime.block_on(answer).map(|_| ());
    (outcome, counting.0.load(Ordering::Relaxed))
}

#[test]
fn fields_are_named_as_json_does_over_rest_though_the_message_is_protobuf() {
    for method in [0, 1] {
        let context = Context::default().with_protocol(Protocol::Rest);
        let body = Body::stream(stream::iter([Ok(b"\x0a\x01x".to_vec().into())]));
        let body = if method == 0 { Body::from(b"\x0a\x01x".to_vec()) } else { body };
        let (outcome, _) = call_in(context, method, Codec::Proto, body);
        assert_eq!(outcome.unwrap_err().message(), "fullName: must be at least 2 characters");
    }
}

#[test]
fn a_request_that_breaks_a_rule_never_reaches_the_service() {
    let (outcome, count) = call(0, Codec::Proto, b"\x0a\x01x".to_vec());
    assert_eq!(outcome.unwrap_err().message(), "full_name: must be at least 2 characters");
    assert_eq!(count, 0);
    let (outcome, count) = call(0, Codec::Json, r#"{"fullName":"x"}"#.to_owned());
    assert_eq!(outcome.unwrap_err().message(), "fullName: must be at least 2 characters");
    assert_eq!(count, 0);
    let (outcome, count) = call(0, Codec::Json, r#"{"fullName":"Ada"}"#.to_owned());
    assert!(outcome.is_ok());
    assert_eq!(count, 1);
    // Nothing at all is a message without its name.
    assert!(call(0, Codec::Proto, Body::Empty).0.is_err());
}

#[test]
fn a_stream_ends_at_the_message_that_breaks_a_rule() {
    let messages = [&b"\x0a\x02xy"[..], b"\x0a\x01x", b"\x0a\x02yz"];
    let frames = messages.map(|message| Ok(Frame::Data(message.into())));
    let (outcome, count) = call(1, Codec::Proto, Body::frames(stream::iter(frames)));
    assert_eq!(outcome.unwrap_err().message(), "full_name: must be at least 2 characters");
    assert_eq!(count, 1);
}

#[test]
fn what_has_no_rules_passes_as_it_is() {
    let (outcome, count) = call(2, Codec::Json, "not even JSON".to_owned());
    assert!(outcome.is_ok());
    assert_eq!(count, 1);
    let schema = super::schema(
        "message Free { string text = 1; }\nservice S { rpc Any(Free) returns (Free); }",
    );
    let free = schema.interface("S").unwrap().unwrap();
    assert!(Validate::of(&free, &schema).unwrap().is_none());
}
