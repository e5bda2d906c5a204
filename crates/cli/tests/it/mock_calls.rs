//! `tidewire mocks list-calls`: how calls of a running mock ended.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use serde_json::{Value as Json, json};

use crate::mocked::{FILE, RunningMock};
use crate::program::{run, until};

const STRICT: (&str, &str) = (
    "protos/strict.proto",
    r#"syntax = "proto3";
package strict.v1;
import "buf/validate/validate.proto";
service Names { rpc Add(Name) returns (Name); }
message Name { string name = 1 [(buf.validate.field).string.min_len = 3]; }
"#,
);

/// Answers after an hour.
const SLOW: (&str, &str) = (FILE, "responses: [{delay: 3600s, body: {price: 4}}]");

const SLOW_STREAM: (&str, &str) = (
    "rules/shop.v1.cart.watch.yaml",
    "responses: [{stream_items: [{price: 1}], stream_delay_ms: 3600000, stream_loop: true}]",
);

/// Sends a request of Connect, whose body may be a message of a stream.
fn send(mock: &RunningMock, method: &str, more: &str, body: &[u8]) -> TcpStream {
    let mut stream = TcpStream::connect(&mock.address).unwrap();
    let length = body.len();
    let head = format!(
        "POST /shop.v1.Cart/{method} HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\n\
         {more}content-length: {length}\r\n\r\n"
    );
    stream.write_all(&[head.as_bytes(), body].concat()).unwrap();
    stream
}

const UNARY: &str = "content-type: application/json\r\n";
const STREAM: &str = "content-type: application/connect+json\r\n";

/// The calls that are listed.
fn calls(mock: &RunningMock) -> Vec<Json> {
    let (_, listed) = mock.http("GET /v1/mocks/calls", &Json::Null);
    listed["calls"].as_array().cloned().unwrap_or_default()
}

fn code(call: &Json) -> &str {
    call["code"].as_str().unwrap()
}

/// Waits until the only call has this outcome, which the figures of the method have then, too.
fn until_outcome(mock: &RunningMock, outcome: &str) {
    until(|| calls(mock).iter().any(|call| code(call) == outcome));
    let outcomes = || {
        let (_, told) = mock.http("GET /v1/calls/methods", &Json::Null);
        let mine = |one: &&Json| one["method"].as_str().unwrap().contains("shop.v1");
        let methods = told["methods"].as_array().unwrap().iter().filter(mine);
        methods.map(|one| one["outcomes"].clone()).collect::<Vec<_>>()
    };
    until(|| outcomes() == [json!([{"code": outcome, "count": 1}])]);
    assert_eq!(calls(mock).len(), 1);
}

#[test]
fn a_call_that_validation_refuses_is_listed_and_counted_with_the_reason() {
    let mock = RunningMock::start(&[STRICT], &["--validate"]);
    let words = ["call", &mock.address, "Names/Add", r#"{"name":"x"}"#, "-H", "x-mock-session: t1"];
    for protocol in ["connect", "grpc", "grpc-web"] {
        let words = [&words[..], &["--protocol", protocol]].concat();
        run(mock.path(), &words).check(67, &["name: must be at least 3 characters"]);
    }
    let listed = mock.mocks_ran(&["list-calls", "--session", "t1", "--bodies"]);
    let first = "1 strict.v1.Names/Add invalid_argument no rule t1\n  \
                 name: must be at least 3 characters\n  {\"name\":\"x\"}\n";
    assert!(listed.check(0, &[]).stdout.starts_with(first), "{}", listed.stdout);
    mock.mocks_ran(&["verify", "Add", "--with", r#"{"name":"x"}"#, "--exactly", "3"]).check(0, &[]);
    let (_, near) = mock.http("GET /v1/mocks/nearMisses", &Json::Null);
    assert_eq!(near["misses"], json!([]), "no rule was asked");
}

#[test]
fn a_call_runs_until_its_caller_leaves_and_is_canceled_then() {
    let mock = RunningMock::start(&[SLOW], &[]);
    let caller = send(&mock, "Price", UNARY, b"{}");
    until(|| calls(&mock).len() == 1);
    assert_eq!(code(&calls(&mock)[0]), "running");
    drop(caller);
    until_outcome(&mock, "canceled");
    let reason = &calls(&mock)[0]["reason"];
    assert_eq!(reason, "the caller left before the answer was complete");
}

#[test]
fn a_stream_whose_caller_leaves_is_canceled() {
    let mock = RunningMock::start(&[SLOW_STREAM], &[]);
    let mut caller = send(&mock, "Watch", STREAM, b"\0\0\0\0\x02{}");
    // Its answer has begun.
    caller.read_exact(&mut [0; 16]).unwrap();
    assert_eq!(code(&calls(&mock)[0]), "running");
    drop(caller);
    until_outcome(&mock, "canceled");
}

#[test]
fn a_call_whose_deadline_passes_is_listed_as_such() {
    for (method, form, body) in [("Price", UNARY, &b"{}"[..]), ("Watch", STREAM, b"\0\0\0\0\x02{}")]
    {
        let mock = RunningMock::start(&[SLOW, SLOW_STREAM], &[]);
        let headers = format!("{form}connect-timeout-ms: 50\r\n");
        let mut caller = send(&mock, method, &headers, body);
        let mut answer = String::new();
        caller.read_to_string(&mut answer).unwrap();
        assert!(answer.contains("deadline_exceeded"), "{answer}");
        until_outcome(&mock, "deadline_exceeded");
    }
}
