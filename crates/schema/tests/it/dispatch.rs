//! Services of functions from messages to messages: all four kinds, and what goes wrong.

use futures_util::StreamExt;
use http::HeaderValue;
use http::header::{HeaderName, VIA};
use serde_json::json;
use tidewire_schema::{Implementation, Message, Schema};
use tidewire_service::{
    Body, Call, Code, Codec, Context, Error, Frame, Headers, Method, Reply, Result, RpcService,
    Stream,
};

use crate::schema;

struct Shop(Schema);

impl Implementation for Shop {
    async fn unary(&self, method: &Method, _: Context, request: Message) -> Result<Reply<Message>> {
        if request.matches("name", &json!("missing"))? {
            return Err(Error::not_found("there is no such item"));
        }
        // A reply of another type than the method's is this service's fault.
        match &*method.method {
            "Find" => Ok(Reply::new(request)),
            _ => Reply::new(request).with_header(VIA, "shop"),
        }
    }

    async fn server_stream(
        &self,
        _: &Method,
        _: Context,
        request: Message,
    ) -> Result<Reply<Stream<Message>>> {
        let mut second = request.clone();
        second.set("count", 2)?;
        let trailers = || {
            let name = HeaderName::from_static("x-sent");
            Headers::from_iter([(name, HeaderValue::from_static("2"))])
        };
        Ok(Reply::new(Stream::from_values([request, second]).with_trailers(trailers)))
    }

    async fn client_stream(
        &self,
        method: &Method,
        _: Context,
        mut requests: Stream<Message>,
    ) -> Result<Reply<Message>> {
        let mut reply = self.0.message(&method.output)?;
        let mut count = 0;
        while let Some(request) = requests.next().await? {
            reply.set(&*format!("items[{count}]"), &request)?;
            count += 1;
        }
        Ok(Reply::new(reply))
    }

    async fn bidi_stream(
        &self,
        _: &Method,
        _: Context,
        requests: Stream<Message>,
    ) -> Result<Reply<Stream<Message>>> {
        Ok(Reply::new(requests.map(|request| {
            let mut request = request?;
            request.set("sold", true)?;
            Ok(request)
        })))
    }
}

/// Nothing is implemented.
struct Nothing;

impl Implementation for Nothing {}

/// Calls a method of the shop: the frames of its reply, as text.
async fn call(method: &str, codec: Codec, body: Body) -> Result<(Vec<String>, Headers)> {
    let schema = schema();
    let service = schema.implement("shop.v1.Items", Shop(schema.clone())).unwrap();
    ask(&service, method, codec, body).await
}

async fn ask(
    service: &impl RpcService,
    method: &str,
    codec: Codec,
    body: Body,
) -> Result<(Vec<String>, Headers)> {
    let interface = service.interface();
    let method = interface.methods().iter().find(|one| one.method == method).unwrap().clone();
    let reply = service.call(Call::method(method, Context::default(), codec, body)).await?;
    let mut frames = match reply.body {
        Body::Full(bytes) => Body::stream(futures_util::stream::iter([Ok(bytes)])),
        body => body,
    };
    let Body::Stream(frames) = &mut frames else { panic!("it is a stream") };
    let (mut texts, mut trailers) = (Vec::new(), Headers::new());
    while let Some(frame) = frames.next().await {
        match frame? {
            Frame::Data(bytes) => texts.push(String::from_utf8_lossy(&bytes).into_owned()),
            Frame::Trailers(found) => trailers = found.into(),
        }
    }
    Ok((texts, trailers))
}

fn json(text: &'static str) -> Body {
    Body::from(text)
}

fn stream(texts: &[&'static str]) -> Body {
    let texts: Vec<_> =
        texts.iter().map(|text| Ok(bytes::Bytes::from_static(text.as_bytes()))).collect();
    Body::stream(futures_util::stream::iter(texts))
}

#[tokio::test]
async fn all_four_kinds_take_and_give_messages() {
    let (one, _) = call("Put", Codec::Json, json(r#"{"first_name":"a"}"#)).await.unwrap();
    assert_eq!(one, [r#"{"firstName":"a"}"#]);
    let (one, _) = call("Put", Codec::Proto, Body::from("\n\u{1}a")).await.unwrap();
    assert_eq!(one, ["\n\u{1}a"]);
    let (many, trailers) = call("Watch", Codec::Json, json(r#"{"name":"a"}"#)).await.unwrap();
    assert_eq!(many, [r#"{"name":"a"}"#, r#"{"name":"a","count":"2"}"#]);
    assert_eq!(trailers.get("x-sent").unwrap(), "2");
    let texts = [r#"{"name":"a"}"#, r#"{"name":"b"}"#];
    let (one, _) = call("Load", Codec::Json, stream(&texts)).await.unwrap();
    assert_eq!(one, [r#"{"items":[{"name":"a"},{"name":"b"}]}"#]);
    let (many, _) = call("Talk", Codec::Json, stream(&texts)).await.unwrap();
    assert_eq!(many, [r#"{"name":"a","sold":true}"#, r#"{"name":"b","sold":true}"#]);
}

#[tokio::test]
async fn a_bad_request_is_the_callers_fault_and_a_bad_reply_the_services() {
    let refused = |method: &'static str, body| async move {
        call(method, Codec::Json, body).await.unwrap_err()
    };
    let error = refused("Put", json(r#"{"count":"x"}"#)).await;
    assert_eq!(error.code(), Code::InvalidArgument);
    assert!(error.message().contains("field count"), "{error}");
    let error = refused("Talk", stream(&[r#"{"name":"a"}"#, "{"])).await;
    assert_eq!(error.code(), Code::InvalidArgument);
    assert_eq!(refused("Put", json(r#"{"name":"missing"}"#)).await.code(), Code::NotFound);
    let error = refused("Find", json("{}")).await;
    assert_eq!(error.code(), Code::Internal);
    assert!(error.message().contains("answers with shop.v1.Found, not with shop.v1.Item"));
    assert_eq!(refused("Put", stream(&["{}", "{}"])).await.code(), Code::Unimplemented);
    assert_eq!(refused("Put", stream(&[])).await.code(), Code::Unimplemented);
}

#[tokio::test]
async fn what_is_left_out_is_unimplemented() {
    let service = schema().implement("shop.v1.Items", Nothing).unwrap();
    for method in ["Put", "Watch", "Load", "Talk"] {
        let error = ask(&service, method, Codec::Json, json("{}")).await.unwrap_err();
        assert_eq!(error.code(), Code::Unimplemented);
        assert!(error.message().contains(&format!("/shop.v1.Items/{method}")), "{error}");
    }
    assert!(schema().implement("shop.v1.Nothing", Nothing).is_err());
}

#[tokio::test]
async fn an_answer_that_is_not_of_the_schema_is_its_services_fault_and_a_request_its_callers() {
    let answers = |_: Call| async { Ok(Reply::new(Body::from(r#"{"count":"many"}"#))) };
    let service = schema().implement("shop.v1.Items", Nothing).unwrap();
    let put = service.interface().methods()[0].clone();
    let asked = Call::method(put.clone(), Context::default(), Codec::Proto, Body::from(""));
    let outcome = schema().transcode(Codec::Json, &answers, asked).await;
    assert_eq!(outcome.unwrap_err().code(), Code::Internal);
    let asked = Call::method(put, Context::default(), Codec::Proto, Body::from("\x08"));
    let outcome = schema().transcode(Codec::Json, &answers, asked).await;
    assert_eq!(outcome.unwrap_err().code(), Code::InvalidArgument);
}
