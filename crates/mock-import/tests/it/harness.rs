//! A shop whose stubs are imported, and calls of its mock.

use std::pin::Pin;
use std::sync::LazyLock;
use std::time::Instant;

use futures_util::StreamExt;
use serde_json::Value as Json;
use tidewire_mock::{Mock, RuleFiles};
use tidewire_mock_import::{ImportReport, Program, StubFile, import};
use tidewire_schema::Schema;
use tidewire_service::{Body, Call, Clock, Codec, Context, Error, Frame, Service};

const SHOP: &str = r#"
syntax = "proto3";
package shop.v1;
import "google/api/annotations.proto";
import "google/protobuf/timestamp.proto";

service Cart {
  rpc GetPrice(PriceRequest) returns (PriceReply) {
    option (google.api.http) = {
      get: "/v1/prices/{sku}"
      additional_bindings { post: "/v1/prices" body: "*" }
      additional_bindings { put: "/v1/shops/{shop.name}/prices/{sku}" body: "shop" }
    };
  }
  rpc ListPrices(PriceRequest) returns (PriceReply) { option (google.api.http) = {get: "/v1/prices"}; }
  rpc Watch(PriceRequest) returns (stream PriceReply);
  rpc Sum(stream PriceRequest) returns (PriceReply);
  rpc Chat(stream PriceRequest) returns (stream PriceReply);
}
message PriceRequest {
  string sku = 1;
  int32 quantity = 2;
  repeated string tags = 3;
  Shop shop = 4;
  bool active = 5;
  Size size = 6;
  map<string, string> labels = 7;
  repeated Shop others = 8;
  optional int32 rank = 9;
  int64 user_id = 10;
  double weight = 11;
  google.protobuf.Timestamp at = 12;
}
message Shop { string name = 1; int32 floor = 2; repeated string tags = 3; }
enum Size { SIZE_UNSET = 0; SIZE_SMALL = 1; SIZE_LARGE = 2; }
message PriceReply {
  string note = 1;
  int64 price = 2;
  repeated string tags = 3;
  Shop shop = 4;
}
"#;

#[derive(Debug, Clone, Copy)]
struct TestClock;

impl Clock for TestClock {
    fn now(&self) -> Instant {
        tokio::time::Instant::now().into_std()
    }

    fn sleep_until(&self, at: Instant) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        // tidy: allow-sleep it is the clock that the mock is given, and tests pause it
        Box::pin(tokio::time::sleep_until(at.into()))
    }
}

pub(crate) fn schema() -> &'static Schema {
    static SCHEMA: LazyLock<Schema> = LazyLock::new(|| {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("shop.proto"), SHOP).unwrap();
        Schema::from_folder(folder.path()).unwrap()
    });
    &SCHEMA
}

/// What comes of one stub file.
pub(crate) fn imported(program: Program, name: &str, text: &str) -> ImportReport {
    let file = StubFile { name: name.to_owned(), text: text.to_owned() };
    import(program, &[file], schema())
}

/// The findings as they are printed.
pub(crate) fn told(imported: &ImportReport) -> Vec<String> {
    imported.findings.iter().map(ToString::to_string).collect()
}

/// A mock of rules that were imported.
pub(crate) struct Answers {
    mock: Mock,
    pub(crate) imported: ImportReport,
}

impl Answers {
    /// Of stubs of which everything can be carried over.
    #[track_caller]
    pub(crate) fn of_all(program: Program, name: &str, text: &str) -> Self {
        let answers = Self::of(imported(program, name, text));
        assert_eq!(told(&answers.imported), Vec::<String>::new(), "{}", answers.rules());
        answers
    }

    #[track_caller]
    pub(crate) fn of(imported: ImportReport) -> Self {
        let mut files = RuleFiles::new();
        for file in &imported.files {
            files.add(&file.name, file.text.as_str());
        }
        let (mock, findings) = Mock::builder(schema().clone(), TestClock)
            .now_millis(1_700_000_000_000)
            .rules(files)
            .build();
        let shown: Vec<_> = findings.iter().map(ToString::to_string).collect();
        let shown: Vec<_> = shown.iter().filter(|one| !one.contains("never answers")).collect();
        assert!(shown.is_empty(), "{shown:?}");
        Self { mock, imported }
    }

    pub(crate) fn rules(&self) -> String {
        self.imported.files.iter().map(|file| file.text.as_str()).collect()
    }

    /// The replies to requests, as JSON; an error as `code: message`.
    pub(crate) async fn call_with(
        &self,
        name: &str,
        requests: &[Json],
        headers: &[(&'static str, &'static str)],
    ) -> Vec<String> {
        let interface = self.mock.schema().interface("shop.v1.Cart").unwrap().unwrap();
        let method =
            interface.methods().iter().find(|method| method.method == name).unwrap().clone();
        let mut context = Context::default();
        for (name, value) in headers {
            context.set_header(*name, *value).unwrap();
        }
        let bytes: Vec<_> = requests.iter().map(|one| one.to_string().into_bytes()).collect();
        let body = match method.kind.client_streams() {
            true => Body::stream(futures_util::stream::iter(
                bytes.into_iter().map(|bytes| Ok(bytes.into())),
            )),
            false => Body::Full(bytes.into_iter().next().unwrap_or_else(|| b"{}".to_vec()).into()),
        };
        let shown = |error: Error| format!("{}: {}", error.code().as_str(), error.message());
        let reply = match self.mock.call(Call::method(method, context, Codec::Json, body)).await {
            Ok(reply) => reply,
            Err(error) => return vec![shown(error)],
        };
        match reply.body {
            Body::Full(bytes) => vec![String::from_utf8(bytes.to_vec()).unwrap()],
            Body::Stream(mut frames) => {
                let mut all = Vec::new();
                while let Some(frame) = frames.next().await {
                    match frame {
                        Ok(Frame::Data(bytes)) => {
                            all.push(String::from_utf8(bytes.to_vec()).unwrap())
                        }
                        Ok(_) => {}
                        Err(error) => {
                            all.push(shown(error));
                            break;
                        }
                    }
                }
                all
            }
            _ => panic!("a body"),
        }
    }

    pub(crate) async fn call(&self, name: &str, request: Json) -> String {
        self.call_with(name, &[request], &[]).await.join(" ")
    }

    /// The note of each reply, or the error.
    pub(crate) async fn note(&self, name: &str, request: Json) -> String {
        let said = self.call(name, request).await;
        let json: Option<Json> = serde_json::from_str(&said).ok();
        json.map_or(said, |json| json["note"].as_str().unwrap_or_default().to_owned())
    }
}

/// What a call is told that no stub fits.
pub(crate) const NONE: &str = "not_found: no stub fits";
