//! A shop that is mocked, and calls of it.

use std::pin::Pin;
use std::sync::LazyLock;
use std::time::{Duration, Instant};

use futures_util::StreamExt;
use serde_json::{Value as Json, json};
use tidewire_mock::{Finding, Mock, MockBuilder, RuleFiles};
use tidewire_schema::Schema;
use tidewire_service::{
    Body, Call, Clock, Codec, Context, Error, Frame, Headers, Method, Reply, Service,
};

pub(crate) const SHOP: &str = r#"
syntax = "proto3";
package shop.v1;
import "google/protobuf/duration.proto";
import "google/protobuf/field_mask.proto";
import "google/protobuf/struct.proto";
import "google/protobuf/timestamp.proto";
import "google/protobuf/wrappers.proto";
import "buf/validate/validate.proto";

service Cart {
  rpc Price(PriceRequest) returns (PriceReply) { option idempotency_level = NO_SIDE_EFFECTS; }
  rpc Watch(PriceRequest) returns (stream PriceReply);
  rpc Sum(stream PriceRequest) returns (PriceReply);
  rpc Chat(stream PriceRequest) returns (stream PriceReply);
  rpc Customer(PriceRequest) returns (CustomerReply);
  rpc Paint(PaintRequest) returns (PaintReply);
}
message PaintRequest {
  Kind kind = 1; google.protobuf.Timestamp at = 2; google.protobuf.Duration took = 3;
  google.protobuf.Int64Value left = 4; google.protobuf.FieldMask mask = 5; google.protobuf.StringValue name = 6;
  repeated google.protobuf.Timestamp days = 7; Nested nested = 8;
  google.protobuf.Struct facts = 9; google.protobuf.Value fact = 10; google.protobuf.ListValue list = 11;
  google.protobuf.BoolValue ready = 12; google.protobuf.BytesValue raw = 13; repeated google.protobuf.StringValue names = 14;
  repeated Nested parts = 15; google.protobuf.DoubleValue share = 16;
}
message PaintReply { Kind kind = 1; string note = 2; }
message PriceRequest { string sku = 1; int32 quantity = 2; repeated string tags = 3; }
message PriceReply { string note = 1; int64 price = 2; repeated string tags = 3; Nested nested = 4; }
message Nested { string name = 1; int32 size = 2; }
message CustomerReply {
  string email = 1;
  string login = 2 [(buf.validate.field).string = {pattern: "^[a-z]{3,8}-[0-9]{2}$"}];
  string contact = 3 [(buf.validate.field).string.email = true];
  int32 age = 4 [(buf.validate.field).int32 = {gt: 200, lt: 210}];
  repeated string names = 5 [(buf.validate.field).repeated = {min_items: 5, items: {string: {min_len: 30}}}];
  google.protobuf.Timestamp created_at = 6;
  string next_page_token = 7;
  Kind kind = 8 [(buf.validate.field).enum = {in: [2]}];
  oneof way { string street = 9; double latitude = 10; }
  CustomerReply parent = 11;
  map<string, int32> counts = 12 [(buf.validate.field).map = {min_pairs: 2, values: {int32: {gte: 7, lte: 9}}}];
  string id = 13 [(buf.validate.field).string.uuid = true];
}
enum Kind { KIND_UNSET = 0; KIND_A = 1; KIND_B = 2; }
"#;

/// The time of tokio, which tests pause.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TestClock;

impl Clock for TestClock {
    fn now(&self) -> Instant {
        tokio::time::Instant::now().into_std()
    }

    fn sleep_until(&self, at: Instant) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        // tidy: allow-sleep it is the clock that the mock is given, and tests pause it
        Box::pin(tokio::time::sleep_until(at.into()))
    }
}

pub(crate) fn schema() -> Schema {
    static SCHEMA: LazyLock<Schema> = LazyLock::new(|| {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("shop.proto"), SHOP).unwrap();
        Schema::from_folder(folder.path()).unwrap()
    });
    SCHEMA.clone()
}

pub(crate) fn shop() -> MockBuilder {
    Mock::builder(schema(), TestClock).now_millis(1_700_000_000_000)
}

/// A mock of one rule file.
pub(crate) fn with_rules(name: &str, text: &str) -> Mock {
    let (mock, findings) = shop().rules(RuleFiles::new().with(name, text)).build();
    let errors: Vec<&Finding> = findings.iter().filter(|finding| finding.is_error).collect();
    assert!(errors.is_empty(), "{errors:?}");
    mock
}

pub(crate) fn method(mock: &Mock, name: &str) -> Method {
    let interface = mock.schema().interface("shop.v1.Cart").unwrap().unwrap();
    interface.methods().iter().find(|method| method.method == name).unwrap().clone()
}

pub(crate) fn session(name: &'static str) -> Context {
    Context::default().with_header("x-mock-session", name).unwrap()
}

/// Calls a method with JSON.
pub(crate) async fn call_in(
    mock: &Mock,
    context: Context,
    name: &str,
    requests: &[Json],
) -> Result<Reply, Error> {
    let method = method(mock, name);
    let bytes: Vec<_> = requests.iter().map(|one| one.to_string().into_bytes()).collect();
    let body = match method.kind.client_streams() {
        true => Body::stream(futures_util::stream::iter(
            bytes.into_iter().map(|bytes| Ok(bytes.into())),
        )),
        false => Body::Full(bytes.into_iter().next().unwrap_or_else(|| b"{}".to_vec()).into()),
    };
    mock.call(Call::method(method, context, Codec::Json, body)).await
}

pub(crate) async fn call(mock: &Mock, name: &str, requests: &[Json]) -> Result<Reply, Error> {
    call_in(mock, Context::default(), name, requests).await
}

/// The message that answers.
pub(crate) async fn message(mock: &Mock, name: &str, request: Json) -> Json {
    json_of(call(mock, name, &[request]).await.unwrap())
}

pub(crate) fn json_of(reply: Reply) -> Json {
    let Body::Full(bytes) = reply.body else { panic!("{reply:?} is one message") };
    serde_json::from_slice(&bytes).unwrap()
}

/// The messages of a stream with the time at which each came, its trailers and its error.
#[derive(Debug, Default)]
pub(crate) struct Streamed {
    pub(crate) messages: Vec<(u128, Json)>,
    pub(crate) trailers: Headers,
    pub(crate) error: Option<Error>,
}

impl Streamed {
    pub(crate) fn notes(&self) -> Vec<String> {
        self.messages.iter().map(|(_, one)| one["note"].as_str().unwrap_or("").to_owned()).collect()
    }

    pub(crate) fn times(&self) -> Vec<u128> {
        self.messages.iter().map(|(at, _)| *at).collect()
    }
}

/// Reads a stream to its end, or so many messages.
pub(crate) async fn stream(mock: &Mock, name: &str, requests: &[Json], most: usize) -> Streamed {
    let begun = tokio::time::Instant::now();
    let reply = match call(mock, name, requests).await {
        Ok(reply) => reply,
        Err(error) => return Streamed { error: Some(error), ..Streamed::default() },
    };
    let mut streamed = Streamed::default();
    let Body::Stream(mut frames) = reply.body else { panic!("{reply:?} is a stream") };
    while streamed.messages.len() < most {
        match frames.next().await {
            Some(Ok(Frame::Data(bytes))) => {
                let at = begun.elapsed().as_millis();
                streamed.messages.push((at, serde_json::from_slice(&bytes).unwrap()));
            }
            Some(Ok(Frame::Trailers(trailers))) => streamed.trailers = trailers.into(),
            Some(Err(error)) => streamed.error = Some(error),
            None => break,
        }
    }
    streamed
}

pub(crate) fn sku(sku: &str) -> Json {
    json!({"sku": sku})
}

pub(crate) const PRICE: &str = "shop.v1.cart.price.yaml";

/// How long an answer takes, in virtual time.
pub(crate) async fn elapsed<T>(future: impl Future<Output = T>) -> (Duration, T) {
    let begun = tokio::time::Instant::now();
    let done = future.await;
    (begun.elapsed(), done)
}
