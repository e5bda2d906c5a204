//! `tidewire call`, against our own server and one in Go.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::Stdio;

use crate::program::{command, folder, ran, run};
use crate::server::{Background, Foreign, behaviour, behaviour_protos, hello, root};

fn here() -> &'static Path {
    root()
}

/// Runs the program with this standard input.
fn run_with(input: &str, arguments: &[&str]) -> crate::program::Ran {
    let mut child = command(here(), arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    ran(child.wait_with_output().unwrap())
}

/// Every kind of call by every protocol, with these arguments about the schema.
fn check_all(address: &str, schema: &[&str], protocols: &[&str]) {
    for protocol in protocols {
        let with = |words: &[&str]| {
            let words: Vec<String> = ["call", address]
                .iter()
                .chain(words)
                .chain(schema)
                .map(ToString::to_string)
                .chain((!protocol.is_empty()).then(|| format!("--protocol={protocol}")))
                .collect();
            words
        };
        let check = |input: &str, words: &[&str], expected: &str| {
            let words = with(words);
            let words: Vec<_> = words.iter().map(String::as_str).collect();
            let ran = run_with(input, &words);
            assert_eq!((ran.code, &*ran.stdout), (0, expected), "{words:?} {}", ran.stderr);
        };
        let echo = ["BehaviourService/Echo", r#"{"text":"ü","tags":["a"],"number":"7"}"#];
        check("", &echo, "{\"text\":\"ü\",\"tags\":[\"a\"],\"number\":\"7\"}\n");
        check("", &["Echo"], "{}\n");
        check("{\"text\":\"a\"}", &["echo", "-"], "{\"text\":\"a\"}\n");
        check("", &["Count", r#"{"n":3}"#], "{\"number\":1}\n{\"number\":2}\n{\"number\":3}\n");
        let messages =
            run_with("{}{}\n{}", &with(&["Sum"]).iter().map(|w| &**w).collect::<Vec<_>>());
        messages.check(0, &["\"messages\":3"]);
        let two = "{\"text\":\"a\"}\n{\"text\":\n\"b\"}\n";
        check(two, &["Chat"], "{\"text\":\"a\"}\n{\"text\":\"b\"}\n");
        check("", &["Chat", r#"{"text":"a"}"#], "{\"text\":\"a\"}\n");
        let fail = with(&["Fail", r#"{"code":5,"message":"no such thing","withDetail":true}"#]);
        let fail: Vec<_> = fail.iter().map(String::as_str).collect();
        run(here(), &fail)
            .check(69, &["not_found: no such thing", "FailDetail: {\"reason\":\"asked for\""]);
        let fail = with(&["Fail", r#"{"code":5,"message":"\u001b[2J\u0007a\nb"}"#, "-v"]);
        let fail: Vec<_> = fail.iter().map(String::as_str).collect();
        let ran = run(here(), &fail);
        ran.check(69, &[r"not_found: \u{1b}[2J\u{7}a\nb"]);
        assert!(!ran.stderr.contains(['\u{1b}', '\u{7}']), "{:?}", ran.stderr);
        let slow = with(&["Slow", r#"{"millis":60000}"#, "--deadline", "300ms"]);
        let slow: Vec<_> = slow.iter().map(String::as_str).collect();
        run(here(), &slow).check(68, &["deadline"]);
    }
}

#[test]
fn our_own_server_is_called_by_every_protocol_without_a_flag_about_it() {
    let server = Background::start(behaviour());
    check_all(&server.address, &[], &["", "connect", "grpc", "grpc-web", "live"]);
    for scheme in ["ws", "tcp"] {
        check_all(&format!("{scheme}://{}", server.address), &[], &[""]);
    }
    run(here(), &["call", &server.address])
        .check(0, &["tidewire.test.v1.BehaviourService/Echo\n", "grpc.health.v1.Health/Check\n"]);
    run(here(), &["list", &server.address]).check(0, &["tidewire.test.v1.BehaviourService\n"]);
    run(here(), &["describe", &server.address, "Look"])
        .check(0, &["rpc Look(LookRequest) returns (LookReply) {", "string key = 1;"]);
    let url = format!("http://{}/tidewire.test.v1.BehaviourService/Look", server.address);
    run(here(), &["call", &url, r#"{"key":"a"}"#]).check(0, &["{\"value\":\"a\"}\n"]);
}

#[test]
fn a_server_in_go_is_called_by_every_protocol_with_a_schema_of_files() {
    let server = Foreign::start();
    let protos = behaviour_protos();
    check_all(&server.address, &["--proto", &protos], &["", "connect", "grpc", "grpc-web"]);
    run(here(), &["call", &server.address, "Echo"])
        .check(3, &["the server has no reflection; name its schema by --proto FOLDER"]);
}

#[test]
fn the_schema_of_a_server_in_go_comes_from_either_version_of_its_reflection() {
    for version in ["v1", "v1alpha"] {
        let server = Foreign::with_reflection(version);
        check_all(&server.address, &[], &["", "grpc"]);
        let listed = run(here(), &["list", &server.address]);
        let reflection = format!("grpc.reflection.{version}.ServerReflection\n");
        listed.check(0, &["tidewire.test.v1.BehaviourService\n", &reflection]);
        assert_eq!(listed.stdout.lines().count(), 2, "{}", listed.stdout);
        run(here(), &["call", &server.address])
            .check(0, &["tidewire.test.v1.BehaviourService/Echo\n"]);
        run(here(), &["describe", &server.address, "BehaviourService"])
            .check(0, &["rpc Chat(stream ChatRequest) returns (stream ChatReply)"]);
        // A type of an imported file, which comes along with the file that imports it.
        run(here(), &["describe", &server.address, "EchoRequest"])
            .check(0, &["google.protobuf.Timestamp at = 8;"]);
        let echo = ["call", &server.address, "Echo", r#"{"at":"2026-01-02T03:04:05Z"}"#];
        run(here(), &echo).check(0, &["{\"at\":\"2026-01-02T03:04:05Z\"}\n"]);
    }
}

#[test]
fn details_of_google_rpc_are_shown_whatever_the_schema_and_who_lacks_a_credential_is_told_how() {
    let server = Background::start(behaviour());
    for protocol in ["connect", "grpc", "grpc-web", "live"] {
        let protocol = format!("--protocol={protocol}");
        let fail = |code: u32| format!("{{\"code\":{code},\"message\":\"google.rpc\"}}");
        let call = |code| run(here(), &["call", &server.address, "Fail", &fail(code), &protocol]);
        call(8).check(
            72,
            &[
                "detail google.rpc.RetryInfo: {\"retryDelay\":\"3s\"}",
                "detail nobody.Knows: 3 bytes of a message that the schema lacks",
            ],
        );
        call(16).check(80, &["-H 'authorization: Bearer TOKEN'", "-H 'x-api-key: KEY'"]);
        assert!(!call(8).stderr.contains("authorization"), "{protocol}");
    }
}

#[test]
fn a_unix_socket_is_a_server_too() {
    let folder = folder(&[]);
    let socket = folder.path().join("a.sock");
    let _server = Background::start(behaviour().listen(tidewire::Address::Unix(socket.clone())));
    let url = format!("unix:{}", socket.display());
    run(here(), &["call", &url, "Look", r#"{"key":"a"}"#]).check(0, &["{\"value\":\"a\"}\n"]);
    run(here(), &["call", "unix:/no/such.sock", "Look"]).check(3, &["/no/such.sock"]);
}

#[test]
fn each_line_is_sent_at_once_and_each_reply_printed_as_it_comes() {
    let server = Background::start(behaviour());
    let mut child = command(here(), &["call", &server.address, "Chat"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    for text in ["a", "b", "c"] {
        writeln!(input, "{{\"text\":\"{text}\"}}").unwrap();
        let mut line = String::new();
        output.read_line(&mut line).unwrap();
        assert_eq!(line, format!("{{\"text\":\"{text}\"}}\n"));
    }
    drop(input);
    assert!(child.wait().unwrap().success());
}

#[test]
fn requests_come_from_files_and_what_is_wrong_in_them_has_a_place() {
    let server = Background::start(behaviour());
    let good = "{\"text\": \"a\"}\n{\"text\": \"b\"}\n";
    let folder = folder(&[("good.json", good), ("bad.json", "{\"text\": \"a\"}\n{\"tex\": 1}\n")]);
    let call = |words: &[&str]| run(folder.path(), &[&["call", &*server.address], words].concat());
    call(&["Chat", "@good.json"]).check(0, &["{\"text\":\"a\"}\n{\"text\":\"b\"}\n"]);
    call(&["Chat", "@bad.json"]).check(
        2,
        &["bad.json:2:6: unknown field \"tex\" on message tidewire.test.v1.ChatRequest; did you mean text?"],
    );
    call(&["Chat", "@none.json"]).check(2, &["cannot read none.json"]);
    call(&["Echo", "@good.json"]).check(2, &["2 requests were given", "takes one"]);
    call(&["Echo", "{\"text\":}"]).check(2, &["request:1:9: not valid JSON: expected value"]);
    call(&["Echo", "{\"text\":1}"]).check(2, &["request:1:", "field text"]);
    call(&["Echo", ""]).check(2, &["the request is empty"]);
    run_with("{\"text\":\"a\"}\n{]\n", &["call", &server.address, "Chat"])
        .check(2, &["standard input:2:2: not valid JSON"]);
    let protos = behaviour_protos();
    call(&["Eco", "--proto", &protos]).check(2, &["has no method Eco; did you mean Echo?"]);
    call(&["BehaviorService/Echo"])
        .check(2, &["no service BehaviorService; did you mean tidewire.test.v1.BehaviourService?"]);
}

#[test]
fn the_wire_is_shown_on_demand() {
    let server = Background::start(behaviour());
    let words = ["call", "-v", &server.address, "Echo", "{}", "-H", "x-ping: 7"];
    let ran = run(here(), &[&words[..], &["--protocol", "connect", "--deadline", "20s"]].concat());
    ran.check(
        0,
        &[
            "POST",
            "/tidewire.test.v1.BehaviourService/Echo",
            "> x-ping: 7",
            "> connect-timeout-ms: ",
            "< x-pong: 7",
            "* timing: connect ",
            "first byte ",
        ],
    );
    assert_eq!(ran.stdout, "{}\n");
    run(here(), &["call", &server.address, "Echo", "-H", "x"])
        .check(2, &["write a header as \"name: value\""]);
}

#[test]
fn any_path_is_requested_as_it_is() {
    let server = Background::start(hello());
    let url = |path: &str| format!("http://{}{path}", server.address);
    let get = run(here(), &["call", &url("/hello")]);
    assert_eq!((get.code, get.stdout.as_str()), (0, "GET \n"));
    run(here(), &["call", &url("/hello"), "{\"a\":1}"]).check(0, &["POST {\"a\":1}"]);
    run(here(), &["call", &format!("{}/hello", server.address)]).check(0, &["GET"]);
    run(here(), &["call", &url("/hello"), "-X", "PUT"]).check(4, &["405 Method Not Allowed"]);
    run(here(), &["call", &url("/none")]).check(4, &["the server answered 404 Not Found"]);
    run(here(), &["call", &url("/broken")]).check(5, &["the server answered 500"]);
}

#[test]
fn a_method_is_called_by_its_rest_binding() {
    let folder = folder(&[("protos/shop.proto", crate::schema::SHOP)]);
    let schema = tidewire::Schema::from_folder(folder.path().join("protos")).unwrap();
    let echo = tidewire::Echo::new(&schema);
    let service = schema.implement("shop.v1.Items", echo).unwrap();
    let server = Background::start(tidewire::Server::builder().service(service));
    let call = |words: &[&str]| {
        run(here(), &[&["call", "--protocol", "rest", "-v", &*server.address], words].concat())
    };
    // The reply of an echo has the fields that request and reply share, which are none here.
    call(&["Items/Get", r#"{"id":"a b/c"}"#]).check(0, &["/items/a%20b%2Fc", "\"name\":\"\""]);
    call(&["Items/Get"]).check(2, &["the path /items/{id} needs the field id"]);
    call(&["Items/Follow"]).check(2, &["a stream of requests is not sent by REST"]);
}

/// For a machine that is busy: by itself a completion waits less than a second.
const PATIENCE: &str = "1m";

#[test]
fn shells_complete_commands_flags_and_methods() {
    let server = Background::start(behaviour());
    let complete =
        |line: &str| run(here(), &["complete", "--timeout", PATIENCE, "--", line]).stdout;
    assert_eq!(complete("tidewire ca"), "call\ncalls\n");
    assert_eq!(complete("tidewire call --proto"), "--proto\n--protocol\n");
    assert_eq!(complete("tidewire call x --protocol grpc"), "grpc\ngrpc-web\n");
    let line = format!("tidewire call {} BehaviourService/L", server.address);
    assert_eq!(complete(&line), "BehaviourService/Look\n");
    let line = format!("tidewire call --proto {} x Lo", behaviour_protos());
    assert_eq!(complete(&line), "Look\n");
    let line = format!("tidewire call {} Look ", server.address);
    assert_eq!(complete(&line), "'{\"key\":\"\"}'\n");
    assert_eq!(complete("tidewire call 127.0.0.1:1 L"), "");
    assert_eq!(complete("tidewire completions "), "bash\nzsh\nfish\npowershell\n");
}
