//! A mock before a real service: single methods overridden, answers recorded and replayed, drift.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::path::Path;

use serde_json::Value as Json;

use crate::mocked::RunningMock;
use crate::program::{Ran, folder, run, until};

const REAL: &str = r#"syntax = "proto3";
package shop.v1;
import "google/protobuf/struct.proto";
service Cart {
  rpc Price(PriceRequest) returns (PriceReply) { option idempotency_level = NO_SIDE_EFFECTS; }
  rpc Watch(PriceRequest) returns (stream PriceReply);
  rpc Sum(stream PriceRequest) returns (PriceReply);
  rpc Chat(stream PriceRequest) returns (stream PriceReply);
  rpc Buy(PriceRequest) returns (PriceReply);
}
message PriceRequest { string sku = 1; int32 quantity = 2; string card = 3 [debug_redact = true]; string api_key = 4; }
message PriceReply {
  int64 price = 1;
  string note = 2;
  map<string, int32> counts = 3;
  string session_token = 4;
  bytes pin = 5 [debug_redact = true];
  google.protobuf.Struct more = 6;
}
"#;

/// What the real service does, which is played by another mock.
const PRICE: &str = r#"
responses:
  - when: {request.sku: none}
    headers: {x-shard: '7', set-cookie: hunter2}
    trailers: {x-hint: a b, x-auth-token: hunter2}
    error: {code: NOT_FOUND, message: 'no none; token=hunter2', details: [{'@type': google.rpc.BadRequest, field_violations: [{field: sku, description: odd}]}]}
  - when: {request.sku: secret}
    body: {price: 1, session_token: hunter2, pin: aHVudGVyMg==, more: {password: hunter2, deep: [{apiKey: hunter2}], colour: red}}
  - when: {request.sku: braces}
    body: {note: '{{cel: "{" + "{request.sku}" + "}"}}'}
  - headers: {x-shard: '8'}
    trailers: {x-took: '3'}
    body: {price: '9007199254740993', note: '{{request.sku}}', counts: {b: 2, a: 1}}
"#;
const WATCH: &str = "
responses:
  - when: {request.sku: breaks}
    stream: [{body: {note: a}}, {error: {code: UNAVAILABLE, message: later}}]
  - when: {request.sku: dies}
    stream: [{body: {note: a}}, {body: {note: b}}]
    fault: {kind: reset, after: 1}
  - trailers: {x-end: yes}
    stream: [{body: {note: a}}, {body: {note: b}}]
";
const SUM: &str = "[{body: {price: 42}}]";
const CHAT: &str = "[{on_message: [{send: [{note: 'got {{message.sku}}'}]}]}]";

fn real() -> RunningMock {
    RunningMock::start(
        &[
            ("protos/shop.proto", REAL),
            ("rules/shop.v1.cart.price.yaml", PRICE),
            ("rules/shop.v1.cart.watch.yaml", WATCH),
            ("rules/shop.v1.cart.sum.yaml", SUM),
            ("rules/shop.v1.cart.chat.yaml", CHAT),
        ],
        &[],
    )
}

fn before(real: &RunningMock, files: &[(&str, &str)], more: &[&str]) -> RunningMock {
    let url = format!("http://{}", real.address);
    let files = [&[("protos/shop.proto", REAL)], files].concat();
    RunningMock::start(&files, &[&["--upstream", &url], more].concat())
}

/// A call, with headers and trailers of the reply.
fn call(mock: &RunningMock, method: &str, request: &str, more: &[&str]) -> Ran {
    let words = ["call", &mock.address, method, request, "-v"];
    let mut ran = run(mock.path(), &[&words[..], more].concat());
    // What belongs to one response or one server.
    let is_kept = |line: &&str| {
        let lower = line.to_lowercase();
        ![
            "date:",
            "127.0.0.1",
            "x-request-id",
            "content-length",
            "took",
            " ms",
            "set-cookie",
            "token",
        ]
        .iter()
        .any(|part| lower.contains(part))
    };
    ran.stderr = ran.stderr.lines().filter(is_kept).collect::<Vec<_>>().join("\n");
    ran
}

const CALLS: [(&str, &str); 6] = [
    ("Price", r#"{"sku":"tea","quantity":2}"#),
    ("Price", r#"{"sku":"braces"}"#),
    ("Cart/Watch", r#"{"sku":"tea"}"#),
    ("Cart/Watch", r#"{"sku":"breaks"}"#),
    ("Sum", r#"{"sku":"a"} {"sku":"b"}"#),
    ("Chat", r#"{"sku":"a"} {"sku":"b"}"#),
];

#[test]
fn what_was_recorded_is_answered_again_as_it_was() {
    let real = real();
    let recorder = before(&real, &[], &["--record", "recorded"]);
    let protocols: [&[&str]; 2] = [&["--protocol", "grpc"], &[]];
    let mut answers = Vec::new();
    for (method, request) in CALLS {
        for protocol in protocols {
            let said = call(&real, method, request, protocol);
            let passed = call(&recorder, method, request, protocol);
            assert_eq!(
                (said.code, &said.stdout),
                (passed.code, &passed.stdout),
                "{method} {request}"
            );
            answers.push((method, request, protocol, passed));
        }
    }
    let missing = call(&recorder, "Price", r#"{"sku":"none"}"#, &["--protocol", "grpc"]);
    drop(real);
    let recorded = recorder.path().join("recorded");
    let checked = run(recorder.path(), &["check", "recorded", "protos", "--strict"]);
    checked.check(0, &["checked 5 files"]);
    let files: Vec<_> =
        std::fs::read_dir(&recorded).unwrap().map(|one| one.unwrap().path()).collect();
    let files: Vec<_> = files
        .iter()
        .map(|path| (format!("rules/{}", path.file_name().unwrap().to_str().unwrap()), path))
        .map(|(name, path)| (name, std::fs::read_to_string(path).unwrap()))
        .collect();
    let mut given = vec![("protos/shop.proto", REAL)];
    given.extend(files.iter().map(|(name, text)| (&**name, &**text)));
    let replay = RunningMock::start(&given, &[]);
    for (method, request, protocol, said) in answers {
        let again = call(&replay, method, request, protocol);
        // Headers have no order.
        let lines = |text: &str| {
            let mut lines: Vec<_> = text.lines().map(str::to_owned).collect();
            lines.sort_unstable();
            lines
        };
        let what = |ran: &Ran| (ran.code, ran.stdout.clone(), lines(&ran.stderr));
        assert_eq!(what(&said), what(&again), "{method} {request} {protocol:?}");
    }
    let words = ["call", &replay.address, "Price", r#"{"sku":"none"}"#, "-v", "--protocol", "grpc"];
    let again = run(replay.path(), &words);
    again.check(missing.code, &["no none; token=***", "x-hint: a b", "x-shard: 7"]);
    again.check(missing.code, &["odd"]);
}

#[test]
fn no_secret_is_in_a_recording_wherever_it_was_said() {
    let real = real();
    let recorder = before(&real, &[], &["--record", "recorded"]);
    let secret = r#"{"sku":"secret","card":"hunter2","apiKey":"hunter2","quantity":1}"#;
    let headers = ["-H", "authorization: Bearer hunter2hunter2", "-H", "cookie: a=hunter2"];
    call(&recorder, "Price", secret, &headers).check(0, &["hunter2"]);
    call(&recorder, "Price", r#"{"sku":"none"}"#, &["--protocol", "grpc"]);
    call(&recorder, "Sum", r#"{"sku":"a","card":"hunter2"} {"sku":"b"}"#, &[]).check(0, &["42"]);
    for name in ["price", "sum"] {
        let path = recorder.path().join(format!("recorded/shop.v1.cart.{name}.json"));
        let text = std::fs::read_to_string(path).unwrap();
        assert!(!text.contains("hunter2") && !text.contains("aHVudGVyMg"), "{text}");
    }
    // Whoever has another secret gets the same answer, and who asks for another thing does not.
    let path = recorder.path().join("recorded/shop.v1.cart.price.json");
    let text = std::fs::read_to_string(path).unwrap();
    let files = [("protos/shop.proto", REAL), ("rules/shop.v1.cart.price.json", &*text)];
    let replay = RunningMock::start(&files, &[]);
    let other = secret.replace("hunter2", "hunter3");
    call(&replay, "Price", &other, &[]).check(0, &["\"colour\":\"red\""]);
    let none = call(&replay, "Price", &secret.replace("\"secret\"", "\"other\""), &[]);
    assert!(!none.stdout.contains("red"), "{}", none.stdout);
}

const DEEP: &str = r#"syntax = "proto3";
package shop.v1;
import "google/protobuf/any.proto";
import "google/protobuf/struct.proto";
import "google/protobuf/wrappers.proto";
service Cart { rpc Price(PriceRequest) returns (PriceReply) { option idempotency_level = NO_SIDE_EFFECTS; } }
message Login { string user = 1; string password = 2; Login other = 3; }
message PriceRequest {
  Login login = 1;
  map<string, string> labels = 2;
  repeated Login logins = 3;
  google.protobuf.Struct more = 4;
  google.protobuf.Any any = 5;
  google.protobuf.StringValue page = 6;
  map<string, Login> by_name = 7;
  repeated string items = 8;
}
message PriceReply { int64 price = 1; Login login = 2; google.protobuf.Any any = 3; bytes pin = 4; string secret_note = 5; repeated string tokens = 6; int32 otp = 7; }
"#;

/// A request with a secret at every kind of place, and the same with another value beside it.
const BESIDE_SECRETS: [(&str, &str, &str); 12] = [
    ("login", r#"{"login":{"user":"ada","password":"hunter2"}}"#, "ada"),
    ("other", r#"{"login":{"user":"x","other":{"user":"ada","password":"hunter2"}}}"#, "ada"),
    ("map", r#"{"labels":{"api_key":"hunter2","colour":"red"}}"#, "red"),
    ("map key", r#"{"labels":{"api_key":"hunter2","a.b":"red","c\"]'d":"z"}}"#, "a.b"),
    ("list", r#"{"logins":[{"user":"a"},{"user":"ada","password":"hunter2"}]}"#, "ada"),
    ("map of messages", r#"{"byName":{"mine":{"user":"ada","password":"hunter2"}}}"#, "mine"),
    ("struct", r#"{"more":{"kind":"red","fields":[{"apiKey":"hunter2","n":1}]}}"#, "red"),
    (
        "deep struct",
        r#"{"more":{"a":{"kind":["x"],"list":[{"token":"hunter2","kind":"red"}]}}}"#,
        "red",
    ),
    (
        "any",
        r#"{"login":{"password":"hunter2"},"any":{"@type":"x/shop.v1.Login","user":"ada"}}"#,
        "ada",
    ),
    ("text", r#"{"page":"/p?a=1&access_token=hunter2&b=2"}"#, "b=2"),
    ("text in struct", r#"{"more":{"url":"/p?a=1&access_token=hunter2&b=2"}}"#, "b=2"),
    ("items", r#"{"login":{"password":"hunter2"},"items":["red","blue"]}"#, "red"),
];

#[test]
fn of_a_request_with_a_secret_all_but_the_secret_is_compared() {
    let real_rule = "[{body: {price: 1}}]";
    let files = [("protos/shop.proto", DEEP), ("rules/shop.v1.cart.price.yaml", real_rule)];
    let real = RunningMock::start(&files, &[]);
    let url = format!("http://{}", real.address);
    let deep = ("protos/shop.proto", DEEP);
    for (what, request, word) in BESIDE_SECRETS {
        let more = ["--upstream", &url, "--record", "recorded"];
        let recorder = RunningMock::start(&[deep], &more);
        let other = request.replace(word, "another");
        assert_ne!(request, other, "{what}");
        call(&recorder, "Price", request, &[]).check(0, &[]);
        call(&recorder, "Price", &request.replace("hunter2", "hunter3"), &[]).check(0, &[]);
        let path = recorder.path().join("recorded/shop.v1.cart.price.json");
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(!text.contains("hunter"), "{what}: {text}");
        let read: Json = serde_json::from_str(&text).unwrap();
        assert_eq!(read["responses"].as_array().unwrap().len(), 1, "{what}: {text}");
        run(recorder.path(), &["check", "recorded", "protos", "--strict"]).check(0, &[]);
        let replay = RunningMock::start(&[deep, ("rules/shop.v1.cart.price.json", &*text)], &[]);
        let answers = |request: &str| call(&replay, "Price", request, &[]).stdout.contains("\"1\"");
        assert!(answers(request), "{what}: {text}");
        assert!(answers(&request.replace("hunter2", "hunter4")), "{what}: {text}");
        assert!(!answers(&other), "{what}: another request is answered by {text}");
        assert!(!answers("{}"), "{what}: {text}");
        call(&recorder, "Price", &other, &[]).check(0, &[]);
        let text = std::fs::read_to_string(&path).unwrap();
        let read: Json = serde_json::from_str(&text).unwrap();
        assert_eq!(read["responses"].as_array().unwrap().len(), 2, "{what}: {text}");
    }
    // What a map, a list or a message has beyond it makes another request.
    let (_, request, _) = BESIDE_SECRETS[2];
    let recorder = RunningMock::start(&[deep], &["--upstream", &url, "--record", "recorded"]);
    call(&recorder, "Price", request, &[]).check(0, &[]);
    let text =
        std::fs::read_to_string(recorder.path().join("recorded/shop.v1.cart.price.json")).unwrap();
    let replay = RunningMock::start(&[deep, ("rules/shop.v1.cart.price.json", &*text)], &[]);
    for more in [r#"{"labels":{"x":"y","#, r#"{"items":["a"],"labels":{"#] {
        let request = request.replace(r#"{"labels":{"#, more);
        let ran = call(&replay, "Price", &request, &[]);
        assert!(!ran.stdout.contains("\"1\""), "{request}: {text}");
    }
}

const ANY: &str = r#"syntax = "proto3";
package any.v1;
import "google/protobuf/any.proto";
service Echo { rpc Say(Asked) returns (Said); }
message Asked { google.protobuf.Any any = 1; string page_token = 2; double size = 3; }
message Said { string note = 1; string next_page_token = 2; }
message Login { string user = 1; string password = 2; }
message Money { int32 units = 1; }
"#;

const ANY_RULES: &str = "
responses:
  - {when: {request.any.type_url: {endsWith: Money}}, body: {note: money}}
  - {when: {request.any.type_url: {endsWith: Login}}, body: {note: login}}
  - {when: {request.page_token: ''}, body: {note: first, next_page_token: tokB}}
  - {when: {request.page_token: tokB}, body: {note: second, next_page_token: tokC}}
  - {body: {note: last}}
";

/// A mock before one that plays the real service, which has made calls; then one of what was
/// recorded.
fn replayed(proto: &str, rules: &str, more: &[&str], calls: &[&str]) -> (Vec<String>, RunningMock) {
    let files = [("protos/any.proto", proto), ("rules/any.v1.echo.say.yaml", rules)];
    let real = RunningMock::start(&files, &[]);
    let url = format!("http://{}", real.address);
    let words = [&["--upstream", &url, "--record", "recorded"], more].concat();
    let recorder = RunningMock::start(&files[..1], &words);
    let said = calls.iter().map(|one| call(&recorder, "Echo/Say", one, &[]).stdout).collect();
    let name = "recorded/any.v1.echo.say.json";
    let text = std::fs::read_to_string(recorder.path().join(name)).unwrap_or_default();
    let files = [files[0], ("rules/any.v1.echo.say.json", &*text)];
    (said, RunningMock::start(&files, &[]))
}

#[test]
fn a_recorded_any_answers_its_own_request_whatever_the_secret_in_it() {
    let asked = |name: &str, more: &str| {
        format!(r#"{{"any":{{"@type":"type.googleapis.com/any.v1.{name}",{more}}}}}"#)
    };
    let eve = asked("Login", r#""user":"eve","password":"p1""#);
    let money = asked("Money", r#""units":5"#);
    let (said, mock) = replayed(ANY, ANY_RULES, &[], &[&eve, &money]);
    for (request, reply) in [(&eve, &said[0]), (&money, &said[1])] {
        assert_eq!(&call(&mock, "Echo/Say", request, &[]).stdout, reply, "{request}");
    }
    assert_ne!(said[0], said[1]);
    let other = asked("Login", r#""user":"eve","password":"p2""#);
    assert_eq!(call(&mock, "Echo/Say", &other, &[]).stdout, said[0]);
    for unknown in
        [asked("Login", r#""user":"bob","password":"p1""#), asked("Money", r#""units":6"#)]
    {
        assert_eq!(call(&mock, "Echo/Say", &unknown, &[]).stdout, "{}\n", "{unknown}");
    }
}

#[test]
fn pages_are_replayed_by_their_tokens() {
    let pages = ["{}", r#"{"pageToken":"tokB"}"#, r#"{"pageToken":"tokC"}"#];
    let (said, mock) = replayed(ANY, ANY_RULES, &[], &pages);
    for (page, reply) in pages.iter().zip(&said).rev() {
        assert_eq!(&call(&mock, "Echo/Say", page, &[]).stdout, reply, "{page}");
    }
    assert!(said[0].contains("tokB") && said[1].contains("tokC"), "{said:?}");
}

#[test]
fn a_limit_that_was_set_counts_for_the_real_service_and_what_is_over_it_is_not_recorded() {
    let large = format!("- {{body: {{note: {}}}}}", "x".repeat(5 << 20));
    let (said, mock) = replayed(ANY, &large, &["--set", "limits.message_bytes_max=6MiB"], &["{}"]);
    assert!(said[0].len() > 5 << 20, "{}", &said[0][..said[0].len().min(200)]);
    assert_eq!(call(&mock, "Echo/Say", "{}", &[]).stdout, said[0]);
    let (said, mock) = replayed(ANY, &large, &[], &["{}"]);
    assert_eq!(said[0], "");
    assert!(
        !mock.path().join("rules/any.v1.echo.say.json").metadata().is_ok_and(|it| it.len() > 0)
    );
}

/// A masked place is compared by whether anything is there.
#[test]
fn drift_of_a_reply_with_a_secret_is_what_is_beside_the_secret() {
    let rule = |secret: &str, user: &str, note: &str| {
        format!(
            "[{{body: {{price: 1, login: {{user: {user}, password: {secret}}}, otp: 7{}, tokens: [{secret}], \
             any: {{'@type': x/shop.v1.Login, user: {user}, password: {secret}}}, \
             pin: aHVudGVyMg==, {note}}}}}]",
            secret.len()
        )
    };
    let path = "rules/shop.v1.cart.price.yaml";
    let first = rule("hunter2", "ada", "secret_note: hunter2");
    let files = [("protos/shop.proto", DEEP), (path, &*first)];
    let real = RunningMock::start(&files, &[]);
    let url = format!("http://{}", real.address);
    let more = ["--upstream", &url, "--record", "recorded"];
    let recorder = RunningMock::start(&[("protos/shop.proto", DEEP)], &more);
    call(&recorder, "Price", r#"{"items":["a"]}"#, &[]).check(0, &["hunter2"]);
    let text = std::fs::read_to_string(recorder.path().join("recorded/shop.v1.cart.price.json"));
    let text = text.unwrap();
    assert!(!text.contains("hunter") && text.contains("\"user\": \"ada\""), "{text}");
    let check = || run(recorder.path(), &["check", "recorded", "protos", "--against", &url]);
    check().check(0, &["1 of 1 recorded calls were made again"]);
    let other = rule("hunter33", "ada", "secret_note: hunter4");
    let bob = rule("hunter33", "bob", "secret_note: hunter4");
    let without = first.replacen(", password: hunter2", "", 1);
    for (now, seen, code, told) in [
        (other, "hunter33", 0, "nothing wrong"),
        (bob, "bob", 1, "is \"bob\" now, recorded was \"ada\""),
        (
            without,
            r#""login":{"user":"ada"}"#,
            1,
            "login.password is null now, recorded was \"***\"",
        ),
    ] {
        std::fs::write(real.path().join(path), now).unwrap();
        until(|| call(&real, "Price", r#"{"items":["a"]}"#, &[]).stdout.contains(seen));
        let ran = check();
        ran.check(code, &[told]);
        assert!(!ran.stdout.contains("hunter"), "{}", ran.stdout);
    }
}

#[test]
fn a_rule_overrides_one_method_and_one_line_gives_it_back() {
    let real = real();
    let name = "rules/shop.v1.cart.price.yaml";
    let rule = "responses: [{when: {request.sku: tea}, body: {price: 1}}]";
    let mock = before(&real, &[(name, rule)], &[]);
    let price = |sku: &str| call(&mock, "Price", &format!("{{\"sku\":\"{sku}\"}}"), &[]).stdout;
    assert!(price("tea").contains(r#"{"price":"1"}"#), "{}", price("tea"));
    assert!(price("milk").contains("9007199254740993"), "no response holds: the real one answers");
    call(&mock, "Cart/Watch", "{}", &[]).check(0, &["\"note\":\"b\""]);
    std::fs::write(mock.path().join(name), rule.replace("body: {price: 1}", "upstream: true"))
        .unwrap();
    until(|| price("tea").contains("9007199254740993"));
    mock.mocks(&["verify", "Watch", "--exactly", "1"]);
}

#[test]
fn an_upstream_that_dies_in_mid_recording_leaves_whole_files_of_what_was_answered() {
    let real = real();
    let recorder = before(&real, &[], &["--record", "recorded"]);
    call(&recorder, "Cart/Watch", r#"{"sku":"tea"}"#, &[]).check(0, &["b"]);
    let path = recorder.path().join("recorded/shop.v1.cart.watch.json");
    let whole = std::fs::read_to_string(&path).unwrap();
    assert_ne!(call(&recorder, "Cart/Watch", r#"{"sku":"dies"}"#, &[]).code, 0);
    drop(real);
    assert_ne!(call(&recorder, "Cart/Watch", r#"{"sku":"tea"}"#, &[]).code, 0);
    assert_ne!(call(&recorder, "Price", r#"{"sku":"tea"}"#, &[]).code, 0);
    assert_eq!(std::fs::read_to_string(&path).unwrap(), whole);
    let read: Json = serde_json::from_str(&whole).unwrap();
    assert_eq!(read["responses"].as_array().unwrap().len(), 1);
    assert_eq!(std::fs::read_dir(recorder.path().join("recorded")).unwrap().count(), 1);
}

#[test]
fn an_upstream_that_says_half_a_head_is_an_error_and_not_recorded() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let half = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut some = [0; 64];
        let _ = stream.read(&mut some);
        let _ = stream.write_all(
            b"HTTP/1.1 200 OK\r\ncontent-type: application/proto\r\ncontent-length: 100\r\n\r\n{",
        );
    });
    let more = ["--upstream", &url, "--upstream-protocol", "connect", "--record", "recorded"];
    let mock = RunningMock::start(&[("protos/shop.proto", REAL)], &more);
    assert_ne!(call(&mock, "Price", "{}", &[]).code, 0);
    half.join().unwrap();
    assert_eq!(std::fs::read_dir(mock.path().join("recorded")).unwrap().count(), 0);
}

#[test]
fn drift_is_found_with_its_file_and_line_and_commands_are_made_only_where_that_is_wanted() {
    let real = real();
    let recorder = before(&real, &[], &["--record", "recorded"]);
    call(&recorder, "Price", r#"{"sku":"tea"}"#, &[]);
    call(&recorder, "Cart/Watch", r#"{"sku":"tea"}"#, &[]);
    let url = format!("http://{}", real.address);
    let check = |more: &[&str]| {
        run(recorder.path(), &[&["check", "recorded", "protos", "--against", &url], more].concat())
    };
    check(&[]).check(0, &["1 of 2 recorded calls were made again"]);
    check(&["--with-commands"]).check(0, &["2 of 2 recorded calls were made again"]);
    let rules = Path::new("rules/shop.v1.cart.price.yaml");
    let other = PRICE.replace("9007199254740993", "7");
    std::fs::write(real.path().join(rules), other).unwrap();
    until(|| call(&real, "Price", r#"{"sku":"tea"}"#, &[]).stdout.contains("\"7\""));
    check(&[]).check(
        1,
        &[
            "recorded/shop.v1.cart.price.json:",
            "price is \"7\" now, recorded was \"9007199254740993\"",
        ],
    );
    drop(real);
    check(&[]).check(2, &["unavailable"]);
}

#[test]
fn a_folder_that_has_rules_is_not_recorded_into() {
    let files = [("protos/shop.proto", REAL), ("recorded/a.yaml", "[]")];
    let here = folder(&files);
    let words = ["mock", "--upstream", "http://127.0.0.1:1", "--record", "recorded", "--port", "0"];
    run(here.path(), &words).check(2, &["recorded has rule files already; name another folder"]);
    std::fs::write(here.path().join("file"), "").unwrap();
    let words = words.map(|word| if word == "recorded" { "file" } else { word });
    run(here.path(), &words).check(2, &["the folder file cannot be made: File exists"]);
}

#[test]
fn a_call_that_includes_the_head_prints_status_headers_and_trailers() {
    let real = real();
    for (protocol, trailers) in [
        ("grpc", &["\nx-took: 3\n", "\ngrpc-status: 0\n"][..]),
        ("grpc-web", &["\nx-took: 3\n"]),
        ("connect", &["\ntrailer-x-took: 3\n"]),
    ] {
        let words =
            ["call", &real.address, "Price", r#"{"sku":"tea"}"#, "-i", "--protocol", protocol];
        let ran = run(real.path(), &words);
        ran.check(0, &["HTTP/", " 200 OK\n", "\nx-shard: 8\n", r#"{"price":"#]);
        ran.check(0, trailers);
    }
    let words = ["call", &real.address, "Price", r#"{"sku":"none"}"#, "-i", "--protocol", "grpc"];
    run(real.path(), &words)
        .check(69, &["HTTP/2.0 200 OK\n", "\nx-shard: 7\n", "x-hint: a b\n", "grpc-status: 5\n"]);
    let words =
        ["call", &real.address, "Cart/Watch", r#"{"sku":"tea"}"#, "-i", "--protocol", "grpc"];
    let ran = run(real.path(), &words);
    let end = ran.stdout.split_once("\"b\"").expect(&ran.stdout).1;
    assert!(end.contains("x-end: yes\n"), "trailers follow the messages: {}", ran.stdout);
}

/// Calls of every kind of stream, and errors with and without details and in mid-stream.
/// The conversation is the last one: it needs HTTP/2, which gRPC brings along.
const BEHAVIOUR: [(&str, &str); 8] = [
    (
        "Echo",
        r#"{"text":"tea","tags":["a","b"],"number":"9007199254740993","data":"AP8=","ratio":1.5,"counts":{"b":2,"a":1},"at":"2026-01-31T12:00:00.5Z"}"#,
    ),
    ("Echo", "{}"),
    ("Look", r#"{"key":"k"}"#),
    ("Count", r#"{"n":3}"#),
    ("Count", r#"{"n":5,"failAfter":2}"#),
    ("Sum", r#"{"value":"1"} {"value":"41"}"#),
    ("Fail", r#"{"code":9,"message":"not now","withDetail":true}"#),
    ("Chat", r#"{"text":"a"} {"text":"b"}"#),
];

/// What servers of other libraries say is recorded and said again, over each protocol.
#[test]
fn servers_of_grpc_go_and_connect_go_are_recorded_and_replayed() {
    let protos = crate::server::root().join("tests/proto");
    let protos = protos.to_str().unwrap();
    let grpc_go = crate::server::Foreign::with_reflection("v1");
    let connect_go = crate::server::Foreign::start();
    let url = |server: &crate::server::Foreign| format!("http://{}", server.address);
    // The schema of the first is that of its reflection.
    for (url, upstream, schema, calls) in [
        (url(&grpc_go), "grpc", url(&grpc_go), 8),
        (url(&connect_go), "grpc", protos.to_owned(), 8),
        (url(&connect_go), "connect", protos.to_owned(), 7),
        (url(&connect_go), "grpc-web", protos.to_owned(), 7),
    ] {
        let more =
            [&*schema, "--upstream", &url, "--upstream-protocol", upstream, "--record", "recorded"];
        let recorder = RunningMock::start(&[], &more);
        let said = |mock: &RunningMock| -> Vec<(i32, String)> {
            let calls = BEHAVIOUR[..calls].iter();
            let ran =
                calls.map(|(method, request)| call(mock, method, request, &["--protocol", "grpc"]));
            ran.map(|ran| (ran.code, ran.stdout)).collect()
        };
        let first = said(&recorder);
        // An error in mid-stream, and failed_precondition.
        let failures: Vec<_> =
            first.iter().enumerate().filter(|(_, (code, _))| *code != 0).collect();
        assert_eq!(failures.iter().map(|(at, _)| *at).collect::<Vec<_>>(), [4, 6], "{first:?}");
        assert!(first[4].1.contains("\"number\":2") && first[6].0 == 73, "{first:?}");
        let folder = recorder.path().join("recorded");
        let replay = [protos, "--rules", folder.to_str().unwrap()];
        until(|| said(&RunningMock::start(&[], &replay)) == first);
    }
}
