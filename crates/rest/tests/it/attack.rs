//! What was found by attack from outside.

use http::HeaderValue;
use tidewire_rest::{RestOptions, check_rest};

use crate::api::{Api, compiled, table};

const PROTO: &str = r#"
service T {
  rpc Wrapped(google.protobuf.Int64Value) returns (google.protobuf.Int64Value) {
    option (google.api.http) = { get: "/wi" additional_bindings { get: "/wi/{value}" }
                                 additional_bindings { post: "/wi" body: "*" } };
  }
  rpc Echo(Any) returns (Any) {
    option (google.api.http) = { get: "/echo" additional_bindings { post: "/echo" body: "*" }
                                 additional_bindings { put: "/y/{y.s}" body: "*" }
                                 additional_bindings { put: "/one/{oa}" body: "*" }
                                 additional_bindings { patch: "/y/{y.s}" body: "y" } };
  }
  rpc Raw(google.api.HttpBody) returns (google.api.HttpBody) {
    option (google.api.http) = { get: "/raw" additional_bindings { post: "/raw" body: "*" } };
  }
}
enum Color { NONE = 0; RED = 1; }
message Any {
  Color color = 1;
  google.protobuf.NullValue nothing = 2;
  google.protobuf.Timestamp at = 3;
  double number = 4;
  int64 big = 5;
  Y y = 6;
  oneof choice { int32 oa = 7; int32 ob = 8; Y oy = 9; google.protobuf.NullValue on = 10; }
  repeated string tags = 11;
}
message Y { string s = 1; int32 n = 2; }
"#;

#[test]
fn a_request_that_is_a_wrapper_can_be_given_in_path_query_and_body() {
    let api = Api::new(PROTO);
    for (verb, target, body, expected) in [
        ("GET", "/wi/7", "", "\"7\""),
        ("GET", "/wi?value=-8", "", "\"-8\""),
        ("GET", "/wi", "", "\"0\""),
        ("POST", "/wi", "\"9\"", "\"9\""),
    ] {
        assert_eq!(api.asked(verb, target, body.as_bytes()).unwrap(), expected, "{target}");
    }
    api.check_refused(
        "GET",
        "/wi/x",
        "",
        r#"path part value: "x" is not an int64 (GET /wi/{value})"#,
    );
}

#[test]
fn an_error_names_the_parameter_and_the_route_and_places_in_what_was_sent() {
    let api = Api::new(PROTO);
    for (verb, target, body, why) in [
        (
            "GET",
            "/echo?oa=1&ob=2",
            "",
            "query parameter ob: oa is given too, and choice takes one of them (GET /echo)",
        ),
        (
            "GET",
            "/echo?oy.s=x&oy.n=1&oa=1",
            "",
            "query parameter oy.s: oa is given too, and choice takes one of them (GET /echo)",
        ),
        (
            "GET",
            "/echo?at=tomorrow",
            "",
            "query parameter at: \"tomorrow\" is not a time such as 2026-01-31T12:00:00Z (GET /echo)",
        ),
        (
            "PUT",
            "/y/x",
            r#"{"big":"z"}"#,
            r#"field big: invalid value: string "z", expected an i64 as a quoted decimal string, integer, float, or null at line 1 column 10 (PUT /y/{y.s})"#,
        ),
        (
            "PATCH",
            "/y/x?big=7",
            "{\n\"n\":true}",
            "field y.n: invalid type: boolean `true`, expected an i32 as integer, string, float, or null at line 2 column 8 (PATCH /y/{y.s})",
        ),
        (
            "POST",
            "/echo",
            r#"{"oa":1,"ob":2}"#,
            "two members of oneof choice are set at line 1 column 15 (POST /echo)",
        ),
    ] {
        let error = api.asked(verb, target, body.as_bytes()).expect_err(target);
        assert_eq!((error.http_status().as_u16(), error.message()), (400, why), "{target}");
    }
}

#[test]
fn a_field_of_a_message_in_the_path_needs_that_message_in_the_body() {
    let api = Api::new(PROTO);
    let error = api.asked("PUT", "/y/x", br#"{"y":5}"#).unwrap_err();
    assert_eq!(error.http_status(), 400);
    assert!(error.message().starts_with("field y: invalid type: integer `5`"), "{error}");
    let both = api.asked("PUT", "/y/x", br#"{"y":{"s":"lost","n":3}}"#).unwrap();
    assert_eq!(both, r#"{"y":{"s":"x","n":3}}"#);
    let path_wins = api.asked("PUT", "/one/0", br#"{"ob":5}"#).unwrap();
    assert_eq!(path_wins, r#"{"oa":0}"#);
}

#[test]
fn templates_that_can_never_match_are_refused_and_those_of_firestore_are_served() {
    let with = |template: &str| {
        let proto = format!(
            "service T {{ rpc A(N) returns (N) {{ option (google.api.http) = {{ get: \"{template}\" }}; }} }} message N {{ string name = 1; string id = 2; }}"
        );
        compiled(&proto)
    };
    for (template, why) in [
        ("/%zz", "a % is not followed by two hexadecimal digits"),
        ("/a%4/b", "a % is not followed by two hexadecimal digits"),
        ("/%ff", "it is not UTF-8 after percent-decoding"),
        ("/{name=**}/{id=**}", "`**` can be there once"),
    ] {
        let schema = with(template);
        let error = table(&schema, RestOptions::default()).unwrap_err().to_string();
        assert!(error.contains(why), "{template}: {error}");
        let interface = schema.interface("t.T").unwrap().unwrap();
        let findings = check_rest(&[interface]).unwrap();
        assert!(findings.iter().any(|finding| finding.is_fault), "check says what serve says");
    }
    let proto = r#"
        service T { rpc A(N) returns (N) { option (google.api.http) = {
            get: "/v1/{name=projects/*/databases/*/documents/**}/{id}"
            additional_bindings { get: "/{name=**}/x" } }; } }
        message N { string name = 1; string id = 2; }"#;
    let api = Api::new(proto);
    assert_eq!(
        api.asked("GET", "/v1/projects/p/databases/d/documents/rooms/7/messages", b"").unwrap(),
        r#"{"name":"projects/p/databases/d/documents/rooms/7","id":"messages"}"#
    );
    assert_eq!(api.asked("GET", "/a/b/x", b"").unwrap(), r#"{"name":"a/b"}"#);
    assert_eq!(api.asked("GET", "/x?id=1", b"").unwrap(), r#"{"id":"1"}"#);
}

#[test]
fn an_echo_is_proto_json_whatever_was_sent() {
    let api = Api::new(PROTO);
    for (verb, target, body, expected) in [
        ("GET", "/echo?color=1", "", r#"{"color":"RED"}"#),
        ("GET", "/echo?color=RED&big=7", "", r#"{"color":"RED","big":7}"#),
        ("GET", "/echo?on=NULL_VALUE", "", r#"{"on":null}"#),
        ("GET", "/echo?at=2026-01-02T03:04:05%2B01:00", "", r#"{"at":"2026-01-02T02:04:05Z"}"#),
        ("POST", "/echo", r#"{"color":1,"on":null}"#, r#"{"color":"RED","on":null}"#),
        ("POST", "/echo", r#"{"on":"NULL_VALUE"}"#, r#"{"on":null}"#),
        (
            "POST",
            "/echo",
            r#"{"at":"2026-01-02T03:04:05+01:00"}"#,
            r#"{"at":"2026-01-02T02:04:05Z"}"#,
        ),
        ("POST", "/echo", r#"{"number":"Infinity","zz":{"a":[1]}}"#, r#"{"number":"Infinity"}"#),
        (
            "POST",
            "/echo",
            r#"{"number":"1.5","big":"9007199254740993"}"#,
            r#"{"number":1.5,"big":"9007199254740993"}"#,
        ),
    ] {
        assert_eq!(api.echoed(verb, target, body.as_bytes()).unwrap(), expected, "{target} {body}");
    }
    // Decoders of generated code take `inf`, so every protocol does; what comes back is JSON's own.
    let infinite = api.echoed("POST", "/echo", br#"{"number":"inf"}"#).unwrap();
    assert_eq!(infinite, r#"{"number":"Infinity"}"#);
    assert_eq!(api.asked("POST", "/echo", br#"{"color":"PINK"}"#).unwrap_err().http_status(), 400);
    assert_eq!(api.asked("GET", "/echo?number=inf", b"").unwrap_err().http_status(), 400);
}

#[test]
fn deep_nesting_is_no_fault_of_the_server() {
    let api = Api::new(PROTO);
    for depth in [130, 100_000] {
        for (open, close) in [("[", "]"), (r#"{"a":"#, "}")] {
            let body = format!(r#"{{"zz":{}1{}}}"#, open.repeat(depth), close.repeat(depth));
            match api.echoed("POST", "/echo", body.as_bytes()) {
                Ok(text) => assert_eq!(text, "{}"),
                Err(error) => assert_eq!(error.http_status(), 400, "{error}"),
            }
        }
    }
}

#[test]
fn a_content_type_that_no_header_can_hold_is_not_sent() {
    let api = Api::new(PROTO);
    let raw = api.binding("GET", "/raw");
    let message = crate::api::read(&raw, "/raw?content_type=a%0d%0ax&data=aGk", b"").unwrap();
    let printed = raw.print(message).unwrap();
    let octets = HeaderValue::from_static("application/octet-stream");
    assert_eq!((printed.content_type, &printed.body[..]), (Some(octets), &b"hi"[..]));
}

#[test]
fn raw_bytes_are_taken_from_the_message_where_they_lie() {
    let api = Api::new(PROTO);
    let raw = api.binding("POST", "/raw");
    let body = vec![0xff; 100_000];
    let message = crate::api::read(&raw, "/raw", &body).unwrap();
    assert!(message.len() < body.len() + 64, "bytes are bytes: {}", message.len());
    let printed = raw.print(message.clone()).unwrap();
    assert_eq!(printed.body, body);
    let inside = message.as_ptr_range();
    assert!(inside.contains(&printed.body.as_ptr()), "the body is a part of the message");
}
