//! A service of a few lines of `.proto`, asked without a server.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderValue, Method, Uri};
use tidewire_rest::{Binding, JsonOptions, Request, Rest, RestError, RestMatch, RestOptions};
use tidewire_schema::Schema;
use tidewire_service::{Codec, Error, Headers, Result};

/// The bindings of the service `t.T`.
pub(crate) struct Api {
    pub(crate) schema: Schema,
    pub(crate) rest: Rest,
}

impl Api {
    /// Of a `.proto` whose head is given.
    pub(crate) fn new(proto: &str) -> Self {
        let schema = compiled(proto);
        let rest = table(&schema, RestOptions::default()).expect("the annotations are right");
        Self { schema, rest }
    }

    /// The binding of a request.
    pub(crate) fn binding(&self, verb: &str, target: &str) -> Arc<Binding> {
        let uri: Uri = target.parse().expect("it is a target");
        match self.rest.find(&verb.parse().expect("it is a verb"), uri.path()) {
            RestMatch::Binding(binding) => Arc::clone(binding),
            other => panic!("{verb} {target} is {other:?}"),
        }
    }

    /// What a request becomes, in canonical JSON.
    pub(crate) fn asked(&self, verb: &str, target: &str, body: &[u8]) -> Result<String> {
        let binding = self.binding(verb, target);
        let message = read(&binding, target, body)?;
        let message = self.schema.decode(&binding.method().input, Codec::Proto, &message);
        let json = message.and_then(|message| message.encode(Codec::Json)).expect("a message");
        Ok(String::from_utf8(json.to_vec()).expect("JSON is text"))
    }

    /// What an echo answers to a request.
    pub(crate) fn echoed(&self, verb: &str, target: &str, body: &[u8]) -> Result<String> {
        let binding = self.binding(verb, target);
        let message = read(&binding, target, body)?;
        let printed = binding.print(message)?;
        Ok(String::from_utf8(printed.body.to_vec()).expect("JSON is text"))
    }

    /// Checks why a request is refused: 400, and this text.
    pub(crate) fn check_refused(&self, verb: &str, target: &str, body: &str, why: &str) {
        let error = self.asked(verb, target, body.as_bytes()).expect_err(target);
        assert_eq!((error.http_status().as_u16(), error.message()), (400, why), "{target} {body}");
    }
}

/// The message of a request.
pub(crate) fn read(binding: &Arc<Binding>, target: &str, body: &[u8]) -> Result<Bytes, Error> {
    let uri: Uri = target.parse().expect("it is a target");
    let mut headers = Headers::new();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    Request::new(binding, &uri, &headers, !body.is_empty())?.message(body)
}

pub(crate) fn compiled(proto: &str) -> Schema {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let folder = std::env::temp_dir().join(format!("tidewire-rest-{}-{count}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let text = format!("{HEAD}{proto}");
    std::fs::write(folder.join("t.proto"), text).unwrap();
    let schema = Schema::from_folder(&folder);
    std::fs::remove_dir_all(&folder).unwrap();
    schema.unwrap()
}

pub(crate) fn table(schema: &Schema, mut options: RestOptions) -> Result<Rest, RestError> {
    options.openapi = Some(true);
    options.json = JsonOptions { defaults: tidewire_rest::Defaults::Omitted, ..options.json };
    let interface = schema.interface("t.T").unwrap().expect("the service is called t.T");
    let plain: [(Option<&Method>, &str); 0] = [];
    Rest::new([&interface].into_iter(), plain.into_iter(), options)
}

const HEAD: &str = r#"syntax = "proto3";
package t;
import "google/api/annotations.proto";
import "google/api/httpbody.proto";
import "google/protobuf/struct.proto";
import "google/protobuf/timestamp.proto";
import "google/protobuf/wrappers.proto";
"#;
