//! Run-time schemas beside generated code, and rules: the same JSON and the same bytes over a
//! socket get the same answer, whoever decodes them.

use tidewire::{Builder, Code, Echo, RpcService, Schema, Server};
use tidewire_tests::program::root;

use super::stage;
use crate::harness::{Response, SERVICE, post_json, send, start};

fn run_time() -> Builder {
    let schema = Schema::from_folder(root().join("tests/proto")).unwrap();
    let name = "tidewire.test.v1.BehaviourService";
    Server::builder().service(schema.implement(name, Echo::new(&schema)).unwrap())
}

/// What makes two answers the same: the body, or that both refuse.
fn outcome(response: &Response) -> Result<Vec<u8>, u16> {
    match response.status {
        200 => Ok(response.body.clone()),
        status => Err(status),
    }
}

fn nested(depth: usize) -> String {
    let inner = r#"{"children":["#.repeat(depth);
    format!(r#"{{"nested":{inner}{}}}"#, "]}".repeat(depth))
}

const ODD_JSON: [&str; 97] = [
    "",
    " ",
    "null",
    "[]",
    "{}",
    "{} ",
    "{}x",
    "{",
    "\u{feff}{}",
    "{\"text\":null}",
    r#"{"number":9223372036854775807}"#,
    r#"{"number":9223372036854775808}"#,
    r#"{"number":"9223372036854775808"}"#,
    r#"{"number":"-9223372036854775808"}"#,
    r#"{"number":1.0}"#,
    r#"{"number":"1.0"}"#,
    r#"{"number":1e3}"#,
    r#"{"number":"1e3"}"#,
    r#"{"number":1.5}"#,
    r#"{"number":-0}"#,
    r#"{"number":-0.0}"#,
    r#"{"number":1e400}"#,
    r#"{"number":" 1"}"#,
    r#"{"number":"+1"}"#,
    r#"{"number":"01"}"#,
    r#"{"number":01}"#,
    r#"{"number":""}"#,
    r#"{"number":"0x10"}"#,
    r#"{"number":true}"#,
    r#"{"number":[1]}"#,
    r#"{"number":9007199254740993}"#,
    r#"{"number":9223372036854775807.0}"#,
    r#"{"ratio":"NaN"}"#,
    r#"{"ratio":"Infinity"}"#,
    r#"{"ratio":"-Infinity"}"#,
    r#"{"ratio":"nan"}"#,
    r#"{"ratio":"inf"}"#,
    r#"{"ratio":NaN}"#,
    r#"{"ratio":1e400}"#,
    r#"{"ratio":"1.5"}"#,
    r#"{"ratio":"1e400"}"#,
    r#"{"ratio":""}"#,
    r#"{"ratio":-0.0}"#,
    r#"{"ratio":5e-324}"#,
    r#"{"ratio":"-0"}"#,
    r#"{"data":"YWI="}"#,
    r#"{"data":"YWI"}"#,
    r#"{"data":"-_8="}"#,
    r#"{"data":"+/8"}"#,
    r#"{"data":"YW I="}"#,
    r#"{"data":"Y"}"#,
    r#"{"data":"YWJ="}"#,
    r#"{"data":[1]}"#,
    r#"{"text":"a","text":"b"}"#,
    r#"{"counts":{"a":1,"a":2}}"#,
    r#"{"counts":{"a":null}}"#,
    r#"{"counts":{"":1}}"#,
    r#"{"counts":null}"#,
    r#"{"counts":[]}"#,
    r#"{"counts":{"a":1.5}}"#,
    r#"{"tags":null}"#,
    r#"{"tags":[null]}"#,
    r#"{"tags":"a"}"#,
    r#"{"tags":[["a"]]}"#,
    r#"{"tags":["a"],"tags":["b"]}"#,
    r#"{"nested":null}"#,
    r#"{"nested":{"name":"a"},"nested":{"children":[{}]}}"#,
    r#"{"nested":{"children":[null]}}"#,
    r#"{"text":"\ud800"}"#,
    r#"{"text":"\ud83d\ude00"}"#,
    r#"{"text":"\u0000"}"#,
    "{\"text\":\"a\nb\"}",
    r#"{"text":7}"#,
    r#"{"text":{}}"#,
    r#"{"Text":"a"}"#,
    r#"{"unknown":{"deep":[1,{"a":null}]}}"#,
    r#"{"unknown":1e999}"#,
    r#"{"unknown":"\ud800"}"#,
    r#"{"at":"1970-01-01T00:00:00Z"}"#,
    r#"{"at":"1970-01-01t00:00:00z"}"#,
    r#"{"at":"1970-01-01 00:00:00Z"}"#,
    r#"{"at":"0000-12-31T23:59:59Z"}"#,
    r#"{"at":"9999-12-31T23:59:59.999999999Z"}"#,
    r#"{"at":"10000-01-01T00:00:00Z"}"#,
    r#"{"at":"2016-12-31T23:59:60Z"}"#,
    r#"{"at":"2023-02-29T00:00:00Z"}"#,
    r#"{"at":"2024-02-29T00:00:00+14:00"}"#,
    r#"{"at":"2024-02-29T00:00:00-00:00"}"#,
    r#"{"at":"0001-01-01T00:00:00+01:00"}"#,
    r#"{"at":"2024-01-01T24:00:00Z"}"#,
    r#"{"at":"2024-01-01T00:00:00.1234567890Z"}"#,
    r#"{"at":"2024-01-01T00:00:00.Z"}"#,
    r#"{"at":"2024-01-01T00:00:00"}"#,
    r#"{"at":{"seconds":1}}"#,
    r#"{"at":null}"#,
    r#"{"at":"2024-01-01T00:00:00+24:00"}"#,
    r#"{"at":"2024-01-01T00:00:00.000001Z"}"#,
];

#[tokio::test]
async fn odd_json_gets_the_same_answer_from_generated_code_and_from_a_run_time_schema() {
    let (_generated, typed) = start(stage()).await;
    let (_run_time, dynamic) = start(run_time()).await;
    let mut texts: Vec<String> = ODD_JSON.map(str::to_owned).into();
    texts.extend([98, 99, 100, 101, 127, 128, 5000].map(nested));
    texts.push(format!(r#"{{"unknown":{}{}}}"#, "[".repeat(90), "]".repeat(90)));
    texts.push(format!(r#"{{"unknown":{}{}}}"#, "[".repeat(5000), "]".repeat(5000)));
    let mut differences = Vec::new();
    for text in texts {
        let one = post_json(typed, "Echo", &text).await;
        let two = post_json(dynamic, "Echo", &text).await;
        if outcome(&one) != outcome(&two) {
            let text: String = text.chars().take(80).collect();
            let (one, two) = (one.text(), two.text());
            differences.push(format!("{text}\n  typed   {one}\n  dynamic {two}"));
        }
    }
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}

const ODD_PROTOBUF: [&[u8]; 29] = [
    b"",
    b"\x0a\x01a\x0a\x01b",                                 // twice: the last
    b"\x0a\x02\xff\xff",                                   // no UTF-8
    b"\x20\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",       // -1
    b"\x20\xff\xff\xff\xff\xff\xff\xff\xff\xff\x7f",       // beyond 64 bits
    b"\x20\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01",   // too long
    b"\x20\x81\x00",                                       // overlong
    b"\x00\x01",                                           // number 0
    b"\xa8\x06\x01",                                       // an unknown field
    b"\xab\x06\xac\x06",                                   // an unknown group
    b"\xab\x06",                                           // one that does not end
    b"\xac\x06",                                           // one that did not begin
    b"\xab\x06\xb4\x06",                                   // one that ends as another
    b"\x0f",                                               // wire type 7
    b"\x1a\x03\x0a\x01a\x1a\x05\x12\x03\x0a\x01b",         // a message twice: merged
    b"\x3a\x05\x0a\x01a\x10\x01\x3a\x05\x0a\x01a\x10\x02", // a key twice
    b"\x3a\x00",                                           // an entry of nothing
    b"\x3a\x02\x10\x07",                                   // an entry without a key
    b"\x3a\x05\x10\x01\x0a\x01a",                          // the value before the key
    b"\x3a\x09\x0a\x01a\x10\x01\x10\x02\x18\x01",          // more in an entry
    b"\x42\x02\x08\x01",                                   // a time
    b"\x42\x0b\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
    b"\x31\0\0\0\0\0\0\xf8\x7f", // not a number
    b"\x31\0\0\0\0\0\0",         // cut
    b"\x0a\x05a",                // cut
    b"\x0a\xff\xff\xff\xff\x07", // a length of 2 GiB
    b"\x0a",
    b"\xf8\xff\xff\xff\x0f\x01", // the largest number of a field
    b"\xf8\xff\xff\xff\x1f\x01", // one beyond
];

#[tokio::test]
async fn odd_protobuf_gets_the_same_answer_from_generated_code_and_from_a_run_time_schema() {
    let (_generated, typed) = start(stage()).await;
    let (_run_time, dynamic) = start(run_time()).await;
    let deep = |depth: usize| {
        let mut bytes: Vec<u8> = Vec::new();
        for level in 0..depth {
            let number = if level + 1 == depth { 3 } else { 2 };
            let mut outer = vec![number << 3 | 2];
            let mut length = bytes.len();
            while length > 0x7f {
                outer.push(length as u8 | 0x80);
                length >>= 7;
            }
            outer.push(length as u8);
            outer.extend(&bytes);
            bytes = outer;
        }
        bytes
    };
    let mut all: Vec<Vec<u8>> = ODD_PROTOBUF.map(<[u8]>::to_vec).into();
    all.extend([98, 99, 102, 150].map(deep));
    let mut differences = Vec::new();
    for bytes in all {
        let head = format!("POST {SERVICE}/Echo\ncontent-type: application/proto");
        let one = send(typed, &head, &bytes).await;
        let two = send(dynamic, &head, &bytes).await;
        if outcome(&one) != outcome(&two) {
            let (one, two) = (one.body.escape_ascii(), two.body.escape_ascii());
            differences.push(format!("{}\n  typed   {one}\n  dynamic {two}", bytes.escape_ascii()));
        }
    }
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}

fn ruled(fields: &str) -> Schema {
    let proto = format!(
        r#"syntax = "proto3"; package rule.v1;
        import "buf/validate/validate.proto";
        import "google/api/annotations.proto";
        service Ruled {{ rpc Put(Item) returns (Item) {{
            option (google.api.http) = {{ post: "/put" body: "*" }};
        }} }}
        message Item {{ {fields} }}"#
    );
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("rule.proto"), proto).unwrap();
    Schema::from_folder(folder.path()).unwrap()
}

async fn ruled_server(
    fields: &str,
) -> Result<(tidewire::RunningServer, std::net::SocketAddr), String> {
    let schema = ruled(fields);
    let service = schema.implement("rule.v1.Ruled", Echo::new(&schema)).unwrap();
    let local = std::net::SocketAddr::from(([127, 0, 0, 1], 0));
    let builder = Server::builder().service(service).listen(local);
    let running = builder.start().await.map_err(|error| error.to_string())?;
    let address = running.url().trim_start_matches("http://").parse().unwrap();
    Ok((running, address))
}

#[tokio::test]
async fn rules_that_do_not_compile_end_the_start_with_their_place() {
    for (fields, part) in [
        (r#"string a = 1 [(buf.validate.field).string.pattern = "("];"#, "pattern"),
        (
            r#"int32 a = 1 [(buf.validate.field).cel = {id: "x", expression: "this +"}];"#,
            "rule.v1.Item",
        ),
        (
            r#"int32 a = 1 [(buf.validate.field).cel = {id: "x", expression: "this == 'a'"}];"#,
            "rule.v1.Item",
        ),
        (r#"int32 a = 1 [(buf.validate.field).string.min_len = 1];"#, "rule.v1.Item"),
        (r#"string a = 1 [(buf.validate.field).string.pattern = "(?=a)b"];"#, "pattern"),
    ] {
        let error = ruled_server(fields).await.err().unwrap_or_else(|| panic!("{fields}"));
        assert!(error.contains(part) && error.contains("rule.proto:7:"), "{fields}: {error}");
    }
}

#[tokio::test]
async fn rules_that_cost_too_much_or_have_no_value_refuse_the_request_by_their_name() {
    let fields = r#"
        repeated int32 a = 1 [(buf.validate.field).cel = {
            id: "all.pairs", message: "x",
            expression: "this.all(x, this.all(y, this.all(z, x + y + z >= 0)))" }];
        int32 b = 2 [(buf.validate.field).cel = {
            id: "no.value", message: "x", expression: "10 / this == 5" },
            (buf.validate.field).ignore = IGNORE_UNSPECIFIED];
        string c = 3 [(buf.validate.field).string.pattern = "^(a+)+$"];"#;
    let (_running, address) = ruled_server(fields).await.unwrap();
    let post = async |body: &str| {
        send(address, "POST /put\ncontent-type: application/json", body.as_bytes()).await
    };
    post(r#"{"a":[1,2,3],"b":2,"c":"a"}"#).await.check(200, &[]);
    let many = format!(r#"{{"a":[{}],"b":2,"c":"a"}}"#, vec!["1"; 2000].join(","));
    post(&many).await.check(400, &["all.pairs"]);
    post(r#"{"b":0,"c":"a"}"#).await.check(400, &["no.value"]);
    let long = format!(r#"{{"b":2,"c":"{}!"}}"#, "a".repeat(100_000));
    post(&long).await.check(400, &["c: "]);
}

#[tokio::test]
async fn a_request_is_checked_after_the_layers_of_the_server_and_before_those_of_the_service() {
    let schema = ruled(r#"string a = 1 [(buf.validate.field).string.max_len = 3];"#);
    let service = || schema.implement("rule.v1.Ruled", Echo::new(&schema)).unwrap();
    let change = |text: &'static str| {
        super::answering(
            async |mut call: tidewire::Call, inner: std::sync::Arc<dyn tidewire::Service>| {
                call.body = text.into();
                inner.call(call).await
            },
        )
    };
    let head = "POST /rule.v1.Ruled/Put\ncontent-type: application/json";
    for (own, ok) in [(true, true), (false, false)] {
        let layer = change(r#"{"a":"too long"}"#);
        let builder = match own {
            true => Server::builder().service(service().layer(layer)),
            false => Server::builder().service(service()).inner_layer(layer),
        };
        let (_running, address) = start(builder).await;
        let answer = send(address, head, br#"{"a":"ok"}"#).await;
        assert_eq!(answer.status == 200, ok, "{}", answer.text());
    }
}

#[test]
fn a_violation_of_one_says_one() {
    let schema = ruled(
        r#"string a = 1 [(buf.validate.field).string.min_len = 1];
           repeated string b = 2 [(buf.validate.field).repeated.min_items = 1];
           bytes c = 3 [(buf.validate.field).bytes.min_len = 1];
           map<string, string> d = 4 [(buf.validate.field).map.min_pairs = 1];
           string e = 5 [(buf.validate.field).string.min_len = 2];
           string f = 6 [(buf.validate.field).string.min_bytes = 1];"#,
    );
    let rules = tidewire::validate::RuleSet::new(&schema).unwrap();
    let rules = rules.rules("rule.v1.Item").unwrap();
    let broken = rules.violations(b"").unwrap().unwrap();
    let messages: Vec<_> = broken.iter().map(|one| one.message().to_owned()).collect();
    assert_eq!(messages.len(), 6);
    for (message, end) in messages.iter().zip([
        "1 character",
        "1 item",
        "1 byte",
        "1 entry",
        "2 characters",
        "1 byte",
    ]) {
        assert!(message.ends_with(end), "{messages:?}");
    }
    assert_eq!(rules.check(b"").unwrap_err().code(), Code::InvalidArgument);
}
