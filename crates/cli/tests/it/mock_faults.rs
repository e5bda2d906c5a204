//! Answers of a mock that go wrong on purpose: by a rule, and for all while it runs.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use crate::mocked::{FILE, RunningMock};
use crate::program::run;

/// What a client of HTTP/1.1 that keeps its connection reads until that is closed.
fn answer(mock: &RunningMock, sku: &str) -> (String, String) {
    let mut stream = TcpStream::connect(&mock.address).unwrap();
    let body = format!("{{\"sku\":\"{sku}\"}}");
    write!(
        stream,
        "POST /shop.v1.Cart/Price HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\n\
         content-length: {}\r\n\r\n{body}",
        body.len()
    )
    .unwrap();
    let mut answer = Vec::new();
    // A connection that is reset may have said something before.
    let _ = stream.read_to_end(&mut answer);
    let answer = String::from_utf8(answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
    (head.to_lowercase(), body.to_owned())
}

const FAULTS: &str = "responses:
  - {when: {request.sku: reset}, body: {note: long}, fault: {kind: reset}}
  - {when: {request.sku: cut}, body: {note: long}, fault: {kind: truncate, after: 4}}
  - {when: {request.sku: away}, body: {note: long}, fault: {kind: goaway}}
  - {when: {request.sku: page}, body: {note: long}, fault: [{kind: content_type, value: text/html}, {kind: goaway}]}
  - {when: {request.sku: slow}, body: {note: long}, fault: [{kind: dribble, bytes: 2, every: 1ms}, {kind: slow, every: {dist: uniform, min: 1ms, max: 2ms}}, {kind: goaway}]}
  - {when: {request.sku: lost}, body: {note: long}, fault: {kind: drop_trailers}}
  - {when: {request.sku: never}, body: {note: long}, fault: {kind: reset, p: 0}}
  - {body: {note: well}}
";

#[test]
fn a_rule_says_what_goes_wrong_with_its_answer() {
    let mock = RunningMock::start(&[(FILE, FAULTS)], &[]);
    let whole = r#"{"note":"long"}"#;
    assert_eq!(answer(&mock, "reset").1, "", "the connection is closed");
    let (head, body) = answer(&mock, "cut");
    assert!(head.contains("content-length: 15"), "{head}");
    assert_eq!(body, &whole[..4]);
    assert_eq!(answer(&mock, "away").1, whole);
    let (head, body) = answer(&mock, "page");
    assert!(head.contains("content-type: text/html"), "{head}");
    assert_eq!(body, whole);
    assert_eq!(answer(&mock, "slow").1, whole);
    let call = |sku: &str, protocol: &str| {
        let request = format!("{{\"sku\":\"{sku}\"}}");
        run(mock.path(), &["call", &mock.address, "Price", &request, "--protocol", protocol])
    };
    for protocol in ["grpc", "grpc-web"] {
        assert_ne!(call("lost", protocol).code, 0, "{protocol}: there is no status");
        assert_ne!(call("reset", protocol).code, 0, "{protocol}: the stream was reset");
        call("never", protocol).check(0, &["long"]);
    }
}

#[test]
fn all_answers_go_wrong_while_that_is_wanted() {
    let mock = RunningMock::start(&[(FILE, "responses: [{body: {note: long}}]")], &[]);
    let price = || run(mock.path(), &["call", &mock.address, "Price", "{}", "--protocol", "grpc"]);
    price().check(0, &["long"]);
    let set = mock.mocks(&["set-faults", "{delay: 1ms, fault: {kind: reset}}"]);
    assert_eq!(set["faults"][0]["text"], "{delay: 1ms, fault: {kind: reset}}");
    assert_ne!(price().code, 0);
    let told = mock.mocks(&["preview", "Price"]);
    assert_eq!((&told["faults"][0], &told["delayUs"]), (&"ResetAfter(0)".into(), &"1000".into()));
    // Of one method only.
    mock.mocks(&["set-faults", ""]);
    mock.mocks(&["set-faults", "{fault: {kind: reset}}", "--method", "Watch"]);
    price().check(0, &["long"]);
    let watch = || run(mock.path(), &["call", &mock.address, "Cart/Watch", "{}"]);
    assert_ne!(watch().code, 0);
    mock.mocks(&["set-faults", "", "--method", "Watch"]);
    watch().check(0, &[]);
    mock.mocks(&["set-faults", "{fault: {kind: reset}}", "--method", "Watch"]);
    assert_eq!(mock.mocks(&["get-faults"])["faults"][0]["method"], "shop.v1.Cart/Watch");
    for (text, said) in [
        ("{fault: {kind: rest}}", "write reset"),
        ("{fault: {kind: reset, p: 2}}", "p is a probability"),
        ("{fualt: {kind: reset}}", "write fault"),
        ("{delay: soon}", "soon is not a duration"),
        ("7", "this is a number"),
        ("{", "invalid_argument"),
    ] {
        mock.mocks_ran(&["set-faults", text]).check(1, &["invalid_argument", said]);
    }
}
