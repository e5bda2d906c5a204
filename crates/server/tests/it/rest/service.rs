//! The service under test: it answers with what it was sent, so a reply shows the request message.

use std::path::Path;

use bytes::Bytes;
use futures_util::StreamExt;
use http::header::LOCATION;
use serde_json::Value;
use tidewire_proto::Sources;
use tidewire_rest::{Defaults, Int64, JsonOptions, RestOptions};
use tidewire_schema::Schema;
use tidewire_server::{Address, Builder, RunningServer, Server};
use tidewire_service::{Body, Call, Code, Codec, Error, Frame, Protocol, Reply, Result, Service};

/// The schema with comments and lines.
pub(crate) fn schema() -> Schema {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/rest/proto");
    let descriptors = Sources::new().folder(folder).compile().unwrap();
    Schema::from_descriptors(descriptors.bytes()).unwrap()
}

/// A server of the service on a free port, with replies as proto JSON has them by itself.
pub(crate) async fn start() -> RunningServer {
    let mut options = RestOptions::default();
    options.json = CANONICAL;
    builder(options).start().await.unwrap()
}

/// Replies as services give them.
pub(crate) const CANONICAL: JsonOptions = JsonOptions {
    defaults: Defaults::Omitted,
    int64: Int64::Text,
    names: tidewire_rest::FieldNames::Json,
};

pub(crate) fn builder(options: RestOptions) -> Builder {
    let service = schema().serve("rest.v1.Echo", in_json(answer)).unwrap();
    let any: Address = "127.0.0.1:0".parse().unwrap();
    Server::builder().listen(any).rest(options).service(service)
}

/// A backend that knows JSON only, behind the protobuf in which REST calls.
pub(crate) fn in_json<F, Answer>(backend: F) -> impl Service
where
    F: Fn(Call) -> Answer + Send + Sync + 'static,
    Answer: Future<Output = Result<Reply>> + Send + 'static,
{
    let schema = schema();
    move |mut call: Call| {
        assert_eq!((call.codec, call.accept), (Codec::Proto, Codec::Proto));
        assert_eq!(call.context.protocol(), Some(Protocol::Rest));
        let method = call.spec().unwrap().clone();
        let request = schema.clone();
        call.body = each(call.body, move |message| {
            request.decode(&method.input, Codec::Proto, &message)?.encode(Codec::Json)
        });
        let method = call.spec().unwrap().clone();
        let (answer, reply) = (backend(call), schema.clone());
        async move {
            Ok(answer.await?.map(|body| {
                each(body, move |json| match &json[..] {
                    b"" => Ok(json),
                    json => reply.decode(&method.output, Codec::Json, json)?.encode(Codec::Proto),
                })
            }))
        }
    }
}

/// Changes each message of a body.
fn each(body: Body, change: impl Fn(Bytes) -> Result<Bytes> + Send + 'static) -> Body {
    match body {
        Body::Empty => whole(change(Bytes::new())),
        Body::Full(message) => whole(change(message)),
        Body::Stream(frames) => Body::frames(frames.map(move |frame| match frame? {
            Frame::Data(message) => change(message).map(Frame::Data),
            trailers => Ok(trailers),
        })),
    }
}

fn whole(message: Result<Bytes>) -> Body {
    match message {
        Ok(message) => Body::Full(message),
        Err(error) => Body::stream(futures_util::stream::iter([Err(error)])),
    }
}

async fn answer(call: Call) -> Result<Reply> {
    let method = call.spec().unwrap().clone();
    let mut requests = Requests::new(call.body);
    match &*method.method {
        "Sum" => sum(requests).await,
        "Chat" => {
            let echoes = futures_util::stream::unfold(requests, async |mut requests| {
                Some((requests.next().await.transpose()?, requests))
            });
            Ok(Reply::new(Body::stream(echoes)))
        }
        "UploadAll" => {
            let mut chunks = Vec::new();
            while let Some(chunk) = requests.next().await? {
                chunks.push(field(&chunk, "data") + "|");
            }
            Ok(Reply::new(format!(r#"{{"text":"{}"}}"#, chunks.concat()).into()))
        }
        name => one(name, &requests.next().await?.expect("a request")),
    }
}

fn one(name: &str, request: &Bytes) -> Result<Reply> {
    let i32 = || serde_json::from_slice::<Value>(request).unwrap()["i32"].as_i64().unwrap_or(0);
    match name {
        "Create" => {
            let place = "http://test/items/7";
            Reply::new(Body::Full(request.clone())).with_header(LOCATION, place)
        }
        "Delete" => Ok(Reply::new(Body::from("{}"))),
        "Panic" => panic!("asked for"),
        "Fail" => {
            let code = Code::from_number(u32::try_from(i32()).unwrap()).unwrap();
            Err(Error::new(code, field(request, "text")))
        }
        "Count" => Ok(Reply::new(count(i32(), field(request, "text")))),
        "Upload" => Ok(Reply::new(
            format!(r#"{{"text":{}}}"#, Value::from(str::from_utf8(request).unwrap())).into(),
        )),
        "Download" => Ok(Reply::new(http_body(&field(request, "text")).into())),
        "DownloadAll" => {
            let parts: Vec<_> = (0..i32()).map(|n| Ok(http_body(&n.to_string()).into())).collect();
            Ok(Reply::new(Body::stream(futures_util::stream::iter(parts))))
        }
        _ => Ok(Reply::new(Body::Full(request.clone()))),
    }
}

fn http_body(text: &str) -> String {
    // Letters in base64, by way of a message of the same shape.
    let data = schema().message("google.api.HttpBody").and_then(|mut body| {
        body.set("contentType", "text/x-test").expect("it is text");
        body.set("data", text.as_bytes()).expect("they are bytes");
        body.encode(Codec::Json)
    });
    String::from_utf8(data.unwrap().to_vec()).unwrap()
}

fn count(n: i64, fail: String) -> Body {
    let messages = (1..=n).map(|n| Ok(Bytes::from(format!(r#"{{"text":"{n}","i32":{n}}}"#))));
    let error = (!fail.is_empty()).then(|| Err(Error::aborted(fail)));
    Body::stream(futures_util::stream::iter(messages.chain(error)))
}

async fn sum(mut requests: Requests) -> Result<Reply> {
    let (mut total, mut texts) = (0, String::new());
    while let Some(request) = requests.next().await? {
        let request: Value = serde_json::from_slice(&request).unwrap();
        total += request["i32"].as_i64().unwrap_or(0);
        texts += request["text"].as_str().unwrap_or_default();
        texts += request["nested"]["text"].as_str().unwrap_or_default();
    }
    Ok(Reply::new(format!(r#"{{"text":"{texts}","i32":{total}}}"#).into()))
}

fn field(message: &Bytes, name: &str) -> String {
    let message: Value = serde_json::from_slice(message).unwrap();
    message[name].as_str().unwrap_or_default().to_owned()
}

/// The messages of a request.
struct Requests(futures_util::stream::BoxStream<'static, Result<Frame>>);

impl Requests {
    fn new(body: Body) -> Self {
        Self(match body {
            Body::Empty => futures_util::stream::empty().boxed(),
            Body::Full(bytes) => futures_util::stream::iter([Ok(Frame::Data(bytes))]).boxed(),
            Body::Stream(frames) => frames,
        })
    }

    async fn next(&mut self) -> Result<Option<Bytes>> {
        while let Some(frame) = self.0.next().await.transpose()? {
            if let Frame::Data(data) = frame {
                return Ok(Some(data));
            }
        }
        Ok(None)
    }
}
