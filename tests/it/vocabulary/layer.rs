//! A layer that answers from a run-time schema by fields; and layers that handle bodies badly.

use std::sync::Arc;

use tidewire::service::Answer;
use tidewire::{Body, Call, Codec, Error, Layer, Reply, RpcService, Schema, Service};

use super::{EVERY_WAY, Things, Way, ask, schema, things};
use crate::harness::{send, start};

/// Answers for things whose name begins with `cached-`, by the fields of their messages.
struct Shortcut(Schema);

struct Short {
    schema: Schema,
    inner: Arc<dyn Service>,
}

impl Layer for Shortcut {
    fn layer(&self, inner: Arc<dyn Service>) -> Arc<dyn Service> {
        Arc::new(Short { schema: self.0.clone(), inner })
    }
}

impl Service for Short {
    fn call(&self, mut call: Call) -> Answer {
        let (schema, inner) = (self.schema.clone(), Arc::clone(&self.inner));
        let Some(method) = call.spec().cloned() else { return inner.call(call) };
        Answer::pending(async move {
            let message = call.message().await?;
            let request = schema.decode(&method.input, call.codec, &message)?;
            let name = request.get("name").unwrap().and_then(|value| value.as_str());
            let Some(name) = name.filter(|name| name.starts_with("cached-")) else {
                return inner.call(call).await;
            };
            let mut reply = schema.message(&method.output).unwrap();
            reply.set("name", name).unwrap();
            reply.set("size", -1).unwrap();
            Ok(Reply::new(Body::Full(reply.encode(call.accept)?)))
        })
    }
}

#[tokio::test]
async fn a_layer_answers_by_fields_and_passes_on_what_it_has_read() {
    let (_running, address) = start(things().layer(Shortcut(schema()))).await;
    for way in EVERY_WAY {
        if matches!(way, Way::Plain | Way::LivePlain) {
            continue; // No message, no fields.
        }
        ask(way, address, "cached-x", "").await.check(200, &["\"size\":-1"]);
        ask(way, address, "other", "").await.check(200, &["\"size\":5"]);
    }
}

#[tokio::test]
async fn a_layer_of_one_service_is_no_layer_of_another() {
    let service = schema().implement("test.v1.Things", Things(schema())).unwrap();
    let refuse = |_: Arc<dyn Service>| -> Arc<dyn Service> {
        Arc::new(async |_: Call| Err::<Reply, _>(Error::permission_denied("not through here")))
    };
    let builder = tidewire::Server::builder().service(service.layer(refuse)).route(
        tidewire::http::Method::GET,
        "/plain/{name}",
        super::plain,
    );
    let (_running, address) = start(builder).await;
    ask(Way::Rest, address, "a", "").await.check(403, &["not through here"]);
    ask(Way::Connect, address, "a", "").await.check(403, &["not through here"]);
    ask(Way::Plain, address, "a", "").await.check(200, &["\"size\":1"]);
}

#[tokio::test]
async fn a_body_asked_for_twice_is_there_twice_and_one_half_read_says_so() {
    let twice = |inner: Arc<dyn Service>| -> Arc<dyn Service> {
        Arc::new(move |mut call: Call| {
            let inner = Arc::clone(&inner);
            async move {
                let (first, second) = (call.message().await?, call.message().await?);
                assert_eq!(first, second);
                inner.call(call).await
            }
        })
    };
    let half = |inner: Arc<dyn Service>| -> Arc<dyn Service> {
        Arc::new(move |mut call: Call| {
            let inner = Arc::clone(&inner);
            async move {
                // Asked, and dropped before it was there.
                let mut asked = Box::pin(call.message());
                let _ = futures_util::poll!(&mut asked);
                drop(asked);
                inner.call(call).await
            }
        })
    };
    let (_running, address) = start(things().layer(twice)).await;
    send(address, "POST /sink", &[b'x'; 100_000]).await.check(200, &["100000"]);
    ask(Way::Connect, address, "abc", "").await.check(200, &["\"size\":3"]);
    let (_running, address) = start(things().layer(half)).await;
    let answer = send(address, "POST /sink", &[b'x'; 1_000_000]).await;
    answer.check(500, &["asked for and not read to its end"]);
    // The server goes on.
    ask(Way::Connect, address, "abc", "").await.check(200, &["\"size\":3"]);
}

#[tokio::test]
async fn the_reply_comes_in_the_codec_that_is_wanted() {
    let service = schema().implement("test.v1.Things", Things(schema())).unwrap();
    let method = service.interface().methods()[0].clone();
    let request = &br#"{"name":"abc"}"#[..];
    let call = Call::method(method, Default::default(), Codec::Json, bytes(request))
        .with_codecs(Codec::Json, Codec::Proto);
    let reply = service.call(call).await.unwrap().body.collect(1 << 10).await.unwrap();
    assert_eq!(&reply[..], b"\x0a\x03abc\x10\x03");
}

fn bytes(bytes: &[u8]) -> Body {
    bytes.to_vec().into()
}
