//! What hands write that know grpcurl, curl and other programs, and pipes that close early.

use std::process::Stdio;

use crate::program::{Ran, command, folder, ran, run};
use crate::server::{Background, behaviour, hello};

const ECHO: &str = "tidewire.test.v1.BehaviourService/Echo";

/// Runs the program in an empty folder.
fn words(words: &[&str]) -> Ran {
    run(folder(&[]).path(), words)
}

#[test]
fn a_line_for_grpcurl_works_as_it_is() {
    let server = Background::start(behaviour());
    let at = server.address.as_str();
    let reply = "{\"text\":\"a\"}\n";
    let call = |rest: &[&str]| words(&[&["call"], rest].concat());
    call(&["-plaintext", "-d", r#"{"text":"a"}"#, at, ECHO]).check(0, &[reply]);
    call(&["-plaintext", "-max-time", "5", "-d", r#"{"text":"a"}"#, at, ECHO]).check(0, &[reply]);
    let dotted = ECHO.replace('/', ".");
    call(&["--data", r#"{"text":"a"}"#, "-rpc-header=a: b", at, &dotted]).check(0, &[reply]);
    words(&["list", "-plaintext", at]).check(0, &["tidewire.test.v1.BehaviourService\n"]);
    words(&["describe", "-plaintext", at, ".tidewire.test.v1.EchoRequest"])
        .check(0, &["message EchoRequest {"]);
    call(&["-plaintext", &format!("https://{at}"), ECHO])
        .check(2, &["https:// and --plaintext exclude each other"]);
    let twice = [at, ECHO, "{}", "-d", "{}"];
    call(&twice).check(2, &["the request occurs twice; remove -d {}"]);
}

#[test]
fn a_line_for_curl_works_as_it_is() {
    let server = Background::start(hello());
    let url = format!("{}/hello", server.address);
    let call = |rest: &[&str]| words(&[&["call", &url], rest].concat());
    call(&["-d", "a b"]).check(0, &["POST a b\n"]);
    call(&["--request", "POST", "--data-raw", "x"]).check(0, &["POST x\n"]);
    call(&["-m", "2.5"]).check(0, &["GET \n"]);
    call(&["--timeout", "2s", "-k"]).check(0, &["GET \n"]);
    let shown = call(&["-i"]);
    shown.check(0, &["200 OK\n", "content-type: text/plain", "\n\nGET \n"]);
    assert!(shown.stdout.starts_with("HTTP/"), "{}", shown.stdout);
    let folder = folder(&[]);
    let written = run(folder.path(), &["call", &url, "-o", "out.txt"]);
    assert_eq!((written.code, &*written.stdout), (0, ""));
    assert_eq!(std::fs::read_to_string(folder.path().join("out.txt")).unwrap(), "GET ");
}

#[test]
fn a_flag_of_another_program_is_answered_with_ours() {
    for (flag, text) in [
        ("-u", "authorization"),
        ("-L", "redirects are not followed"),
        ("-servername=x", "write --server-name"),
        ("-import-path=x", "--proto FOLDER"),
        ("-connect-timeout=5", "--deadline"),
    ] {
        words(&["call", flag, "127.0.0.1:1"]).check(2, &[text]);
    }
    words(&["call", "--deadline", "soon", "127.0.0.1:1"]).check(2, &["write 500ms, 10s or 1m 30s"]);
}

#[test]
fn a_url_without_a_scheme_is_one_everywhere() {
    let server = Background::start(behaviour());
    let at = server.address.as_str();
    let proto =
        "syntax = \"proto3\"; package a.v1; service S { rpc M(A) returns (A); } message A {}";
    let toml = format!(
        "[server]\nlisten = \"127.0.0.1:0\"\n[[service]]\nproto = \"a.proto\"\nbackend = \
         \"upstream\"\nurl = \"{at}\"\n"
    );
    let folder = folder(&[("a.proto", proto), ("tidewire.toml", &toml)]);
    run(folder.path(), &["check"]).check(0, &["nothing wrong"]);
    let plain = Background::start(hello());
    let url = format!("{}/hello", plain.address);
    let load = ["bench", "run", &url, "--requests", "3", "--connections", "1"];
    run(folder.path(), &load).check(0, &["3 answered"]);
}

#[test]
fn a_pipe_that_closes_early_ends_nothing_in_a_panic() {
    let server = Background::start(behaviour());
    let at = server.address.as_str();
    let folder = folder(&[]);
    let closed = |words: &[&str], code: i32| {
        let (reader, writer) = std::io::pipe().unwrap();
        let mut command = command(folder.path(), words);
        command.stdout(writer.try_clone().unwrap()).stderr(writer).stdin(Stdio::null());
        drop(reader);
        let child = command.spawn().unwrap();
        drop(command);
        assert_eq!(ran(child.wait_with_output().unwrap()).code, code, "{words:?}");
    };
    closed(&["call", at, "-v", "Echo"], 0);
    closed(&["call", at, "Count", r#"{"n":100}"#], 0);
    closed(&["call", at, "Nothing"], 2);
    closed(&["list", at], 0);
    closed(&["describe", at], 0);
    closed(&["--help"], 0);
    closed(&["completions", "powershell"], 0);
}

#[test]
fn powershell_has_a_script_that_asks_the_program_and_closes_what_it_opens() {
    let script = words(&["completions", "powershell"]);
    script.check(0, &["Register-ArgumentCompleter -Native -CommandName tidewire", "complete --"]);
    let mut open = Vec::new();
    for letter in script.stdout.chars() {
        match letter {
            '\'' if open.last() == Some(&'\'') => drop(open.pop()),
            _ if open.last() == Some(&'\'') => {}
            '\'' | '{' | '(' | '[' => open.push(letter),
            '}' => assert_eq!(open.pop(), Some('{'), "{}", script.stdout),
            ')' => assert_eq!(open.pop(), Some('('), "{}", script.stdout),
            ']' => assert_eq!(open.pop(), Some('['), "{}", script.stdout),
            _ => {}
        }
    }
    assert_eq!(open, [], "{}", script.stdout);
    assert!(!script.stdout.contains(['"', '`']), "quotes that this test does not know");
}

#[test]
fn a_body_of_json_is_sent_as_protobuf_by_the_servers_own_schema() {
    let server = Background::start(behaviour());
    let url = format!("http://{}/{ECHO}", server.address);
    let bench = |body: &str, more: &[&str]| {
        let run = ["bench", "run", &url, "-n", "20", "--protocol", "grpc", "-d", body];
        words(&[&run[..], more].concat())
    };
    bench(r#"{"text":"a"}"#, &[]).check(0, &["20 answered", "0 failed"]);
    bench(r#"{"text":"{{seq}}"}"#, &[]).check(0, &["20 answered", "0 failed"]);
    bench(r#"{"txet":"a"}"#, &[]).check(2, &["EchoRequest", "txet"]);
    let connect = ["--protocol", "connect", "--codec", "proto"];
    let run = ["bench", "run", &url, "-n", "20", "-d", r#"{"text":"a"}"#];
    words(&[&run[..], &connect].concat()).check(0, &["20 answered", "0 failed"]);
    let plain = Background::start(hello());
    let url = format!("http://{}/{ECHO}", plain.address);
    let run = ["bench", "run", &url, "-n", "20", "--protocol", "grpc", "-d", "{}"];
    words(&run).check(2, &["it has no service", "there are: "]);
}
