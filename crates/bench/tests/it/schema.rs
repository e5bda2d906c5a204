//! Bodies written as JSON, sent as protobuf by the schema of the target.

use std::path::PathBuf;

use crate::harness::{Manner, Peer, answer, bench, measured, scratch};

const PROTO: &str = r#"
    syntax = "proto3";
    package hello.v1;
    message SayHelloRequest { string name = 1; int32 times = 2; }
    message SayHelloReply { string text = 1; }
    service Greeter { rpc SayHello(SayHelloRequest) returns (SayHelloReply); }
"#;

fn protos() -> PathBuf {
    let folder = scratch("protos");
    std::fs::create_dir_all(folder.join("hello/v1")).unwrap();
    std::fs::write(folder.join("hello/v1/hello.proto"), PROTO).unwrap();
    folder
}

/// A server that wants `name` to be Ada and `times` to be 7, in protobuf.
fn strict() -> Peer {
    Peer::start(|seen| {
        let is_proto = seen.head.contains("content-type: application/proto\r\n");
        let fits = seen.body.as_bytes() == b"\x0a\x03Ada\x10\x07";
        Manner::Answer(answer(if is_proto && fits { 200 } else { 400 }, ""))
    })
}

#[test]
fn json_becomes_protobuf_by_the_schema_of_the_method() {
    let (peer, protos) = (strict(), protos());
    let url = format!("{}hello.v1.Greeter/SayHello", peer.url());
    let call = ["--protocol", "connect", "--codec", "proto", "--proto", protos.to_str().unwrap()];
    let run = |body| measured(&[&[url.as_str(), "-n", "50", "--body", body], &call[..]].concat());
    let (_, result, text) = run(r#"{"name": "Ada", "times": 7}"#);
    assert_eq!(result.requests.ok, 50, "{text}");
    let (_, result, text) = run(r#"{"name": "Ada", "times": {{random 7..7}}}"#);
    assert_eq!(result.requests.ok, 50, "{text}");
}

#[test]
fn what_does_not_fit_the_schema_is_named() {
    let (peer, protos) = (strict(), protos());
    let error = |path: &str, extra: &[&str]| {
        let url = format!("{}{path}", peer.url());
        let base = ["run", &url, "-n", "9", "--protocol", "connect", "--proto"];
        bench(&[&base[..], &[protos.to_str().unwrap()], extra].concat()).error()
    };
    let method = "hello.v1.Greeter/SayHello";
    let proto = ["--codec", "proto", "--body"];
    let misfit = error(method, &[&proto[..], &[r#"{"times": "many"}"#]].concat());
    assert!(misfit.contains("SayHelloRequest") && misfit.contains("times"), "{misfit}");
    let misspelt = error(method, &[&proto[..], &[r#"{"nmae": "Ada"}"#]].concat());
    assert!(misspelt.contains("SayHelloRequest") && misspelt.contains("nmae"), "{misspelt}");
    let later = error(method, &[&proto[..], &[r#"{"times": "x{{seq}}"}"#]].concat());
    assert!(later.contains("SayHelloRequest") && later.contains("times"), "{later}");
    let service = error("hello.v1.Nobody/SayHello", &[&proto[..], &["{}"]].concat());
    assert!(service.contains("there are: hello.v1.Greeter"), "{service}");
    let unknown = error("hello.v1.Greeter/SayBye", &[&proto[..], &["{}"]].concat());
    assert!(unknown.contains("no method \"SayBye\""), "{unknown}");
    let json = error(method, &["--body", "{}"]);
    assert!(json.contains("--codec proto"), "{json}");
}
