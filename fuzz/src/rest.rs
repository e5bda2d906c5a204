//! REST under arbitrary input, both ways: nothing panics, a request becomes a message of its type
//! or is refused as the caller's fault, lines do not depend on how the bytes are cut, and whatever
//! is printed is JSON that is read again as the same.

use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderValue, Method, Uri};
use tidewire_rest::{Binding, Lines, Request, Rest, RestMatch, RestOptions, UnknownNames};
use tidewire_schema::{Schema, Sources};
use tidewire_service::{Codec, Headers};

const PROTO: &str = r#"
syntax = "proto3";
package f;
import "google/api/annotations.proto";
import "google/api/httpbody.proto";
import "google/protobuf/any.proto";
import "google/protobuf/duration.proto";
import "google/protobuf/field_mask.proto";
import "google/protobuf/struct.proto";
import "google/protobuf/timestamp.proto";
import "google/protobuf/wrappers.proto";
service F {
  rpc Echo(M) returns (M) {
    option (google.api.http) = {
      get: "/e" additional_bindings { get: "/e/{s}" } additional_bindings { get: "/f/{m.s=**}/x" }
      additional_bindings { post: "/e" body: "*" } additional_bindings { put: "/e/{i32}/{m.s}" body: "*" }
      additional_bindings { patch: "/e/{i64}" body: "m" } additional_bindings { put: "/l" body: "list" }
      additional_bindings { get: "/r:list" response_body: "list" }
    };
  }
  rpc Lines(stream M) returns (stream M) { option (google.api.http) = { post: "/s/{s}" body: "*" }; }
  rpc Raw(R) returns (R) { option (google.api.http) = { post: "/raw/{s}" body: "b" response_body: "b" }; }
}
enum E { ZERO = 0; ONE = 1; }
message R { string s = 1; google.api.HttpBody b = 2; }
message M {
  string s = 1; int32 i32 = 2; int64 i64 = 3; uint32 u32 = 4; uint64 u64 = 5; sint32 s32 = 6; sint64 s64 = 7;
  fixed32 f32 = 8; fixed64 f64 = 9; float flo = 10; double dou = 11; bool b = 12; bytes by = 13; E e = 14;
  M m = 15; repeated M list = 16; map<string, M> map = 17; repeated int32 ints = 18; optional string o = 19;
  oneof one { string oa = 20; M ob = 21; google.protobuf.NullValue oc = 22; }
  google.protobuf.Timestamp at = 23; google.protobuf.Duration took = 24; google.protobuf.FieldMask mask = 25;
  google.protobuf.Int64Value w = 26; google.protobuf.Struct st = 27; google.protobuf.Value va = 28;
  google.protobuf.Any any = 29;
}
"#;

const LINE_BYTES_MAX: usize = 64;

/// The head and the body of a request: a byte of choices, a target up to a NUL, then the body.
pub fn request(data: &[u8]) {
    let Some((&choice, rest)) = data.split_first() else { return };
    let mut parts = rest.splitn(2, |byte| *byte == 0);
    let target = [b"/", parts.next().unwrap_or_default()].concat();
    let body = parts.next().unwrap_or_default();
    let Ok(uri) = Uri::try_from(target) else { return };
    let (schema, rest) = api(choice & 1 != 0);
    let verb = [Method::GET, Method::POST, Method::PUT, Method::PATCH]
        [usize::from(choice >> 1) % 4]
        .clone();
    let RestMatch::Binding(binding) = rest.find(&verb, uri.path()) else { return };
    let request = match Request::new(binding, &uri, &headers(), !body.is_empty()) {
        Ok(request) => request,
        Err(error) => return assert!(error.http_status().is_client_error(), "{error}"),
    };
    if binding.method().kind.client_streams() {
        let whole = lines(&request, body, body.len().max(1));
        return assert_eq!(whole, lines(&request, body, usize::from(choice >> 3) + 1));
    }
    match request.message(body) {
        Err(error) => assert!(error.http_status().is_client_error(), "{error}"),
        Ok(message) => {
            let decoded = schema.decode(&binding.method().input, Codec::Proto, &message);
            assert!(decoded.is_ok(), "{:?}", decoded.err());
            check(schema, binding, message);
        }
    }
}

/// A reply: a byte of choices, then the message.
pub fn reply(data: &[u8]) {
    let Some((&choice, message)) = data.split_first() else { return };
    let (schema, rest) = api(false);
    let (verb, path) = [(Method::GET, "/e"), (Method::GET, "/r:list"), (Method::POST, "/raw/a")]
        [usize::from(choice) % 3]
        .clone();
    let RestMatch::Binding(binding) = rest.find(&verb, path) else { unreachable!("it is bound") };
    check(schema, binding, Bytes::copy_from_slice(message));
}

/// What is printed is JSON, and means the message that it was printed of.
fn check(schema: &Schema, binding: &Binding, message: Bytes) {
    let printed = match binding.print(message) {
        Ok(printed) => printed,
        Err(error) => return assert_eq!(error.http_status(), 500, "{error}"),
    };
    if binding.takes_raw_bytes() {
        return;
    }
    let json: serde_json::Result<serde_json::Value> = serde_json::from_slice(&printed.body);
    assert!(json.is_ok(), "{:?}", json.err());
    if binding.route() != "GET /r:list"
        && let Ok(again) = schema.decode("f.M", Codec::Json, &printed.body)
    {
        let again = again.encode(Codec::Proto).expect("it was a message before");
        let again = binding.print(again).expect("it was printed before");
        assert_eq!(again.body, printed.body);
    }
}

fn lines(request: &Request, body: &[u8], by: usize) -> Vec<Result<Bytes, String>> {
    let (mut lines, mut messages) = (Lines::new(LINE_BYTES_MAX), Vec::new());
    for piece in body.chunks(by).map(Some).chain([None]) {
        match piece {
            Some(piece) => lines.push(piece),
            None => lines.end(),
        }
        loop {
            match lines.next_line() {
                Ok(None) => break,
                Ok(Some((number, line))) => {
                    let message = request.line(number, &line);
                    messages.push(message.map_err(|error| error.message().to_owned()));
                }
                Err(error) => {
                    messages.push(Err(error.message().to_owned()));
                    return messages;
                }
            }
        }
    }
    messages
}

fn headers() -> Headers {
    let mut headers = Headers::new();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers
}

/// The service above, with unknown members ignored or refused.
fn api(strict: bool) -> &'static (Schema, Rest) {
    static APIS: OnceLock<[(Schema, Rest); 2]> = OnceLock::new();
    let apis = APIS.get_or_init(|| {
        let folder =
            std::env::temp_dir().join(format!("tidewire-fuzz-rest-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("there is a temporary folder");
        std::fs::write(folder.join("f.proto"), PROTO).expect("it can be written to");
        let schema = Schema::compile(&Sources::new().folder(&folder)).expect("the proto is right");
        std::fs::remove_dir_all(&folder).expect("it was made above");
        let interface = Arc::new(schema.interface("f.F").expect("right").expect("there"));
        [UnknownNames::Ignored, UnknownNames::Refused].map(|unknown| {
            let mut options = RestOptions::default();
            options.unknown_members = unknown;
            let rest = Rest::new([&*interface].into_iter(), std::iter::empty(), options);
            (schema.clone(), rest.expect("the annotations are right"))
        })
    });
    &apis[usize::from(strict)]
}
