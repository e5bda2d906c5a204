//! Callers behind one HTTP cache: none gets the reply of another.

use std::net::SocketAddr;

use tidewire::config::Config;
use tidewire::{
    Context, Head, Implementation, Message, Method, Principal, Reply, Result, RunningServer, Schema,
};
use tidewire_tests::program::{root, run};

use crate::auth::{Signer, file, sha256};

const PROTO: &str = r#"
syntax = "proto3";
package test.v1;
import "google/api/annotations.proto";
import "google/protobuf/duration.proto";
import "tidewire/v1/options.proto";

service Leak {
  rpc Young(Ask) returns (Told) {
    option idempotency_level = NO_SIDE_EFFECTS;
    option (google.api.http) = { get: "/young/{n}" };
    option (tidewire.v1.method) = { cache: CALLER ttl: { seconds: 60 } max_age: { seconds: 60 } };
  }
  rpc Fixed(Ask) returns (Told) {
    option idempotency_level = NO_SIDE_EFFECTS;
    option (google.api.http) = { get: "/fixed/{n}" };
    option (tidewire.v1.method) = { cache: CALLER immutable: true };
  }
}
message Ask { int32 n = 1; }
message Told { string who = 1; }
"#;

/// Says who calls.
struct Leak(Schema);

impl Implementation for Leak {
    async fn unary(&self, method: &Method, context: Context, _: Message) -> Result<Reply<Message>> {
        let mut told = self.0.message(&method.output).expect("a known message");
        let who = context.principal().map_or("nobody", Principal::subject);
        told.set("who", who).expect("a field");
        Ok(Reply::new(told))
    }
}

/// Knows a caller by a cookie.
fn by_cookie(head: &mut Head) -> Result<()> {
    let cookie = head.context.headers().get("cookie").and_then(|value| value.to_str().ok());
    if let Some(name) = cookie.and_then(|cookie| cookie.strip_prefix("session=")) {
        let principal = Principal::new("sessions", name);
        head.context.set_principal(principal);
    }
    Ok(())
}

async fn leak(keys: &str) -> (RunningServer, SocketAddr) {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("leak.proto"), PROTO).unwrap();
    let schema = Schema::from_folder(folder.path()).unwrap();
    let keys_of_apis: String = ["ada", "bob"]
        .map(|name| {
            let hash = sha256(&format!("{name}key"));
            format!("[[auth.api_key]]\nsubject = \"{name}\"\nsha256 = \"{hash}\"\n")
        })
        .concat();
    let text = format!(
        "[server]\nlisten = \"127.0.0.1:0\"\n\
         [auth.jwt]\nissuer = \"https://id.example\"\naudience = \"shop\"\nkeys = \"{keys}\"\n\
         {keys_of_apis}"
    );
    let config = Config::parse(&text, "t.toml").unwrap();
    let service = schema.implement("test.v1.Leak", Leak(schema.clone())).unwrap();
    let builder = config.server().unwrap().service(service).gate(by_cookie);
    let running = builder.start().await.unwrap();
    let tidewire::Address::Tcp(address) = running.addresses()[0] else { panic!("no TCP address") };
    (running, address)
}

#[tokio::test(flavor = "multi_thread")]
async fn no_caller_gets_the_reply_of_another_from_a_cache_between() {
    let signer = Signer::new("one");
    let (_folder, keys) = file(&[signer.jwk()]);
    let (_running, address) = leak(&keys).await;
    let token =
        |name: &str| format!("{name}|authorization|Bearer {}", signer.token_of(name, "", 600));
    let callers = [
        "ada|x-api-key|adakey".to_owned(),
        "bob|x-api-key|bobkey".to_owned(),
        token("carol"),
        token("dave"),
        "erin|cookie|session=erin".to_owned(),
        "frank|cookie|session=frank".to_owned(),
        "nobody||".to_owned(),
    ];
    let paths = [
        "/young/1",
        "/fixed/1",
        "/test.v1.Leak/Young?connect=v1&encoding=json&message=%7B%22n%22:1%7D",
        "/test.v1.Leak/Fixed?connect=v1&encoding=json&message=%7B%22n%22:1%7D",
    ];
    let program = root().join("tests/foreign/python/http_cache_leak.py");
    let python = root().join(".tools/http-cache/bin/python");
    assert!(python.exists(), "CacheControl is not installed; run `make setup` once");
    let (program, address) = (program.display().to_string(), address.to_string());
    let mut arguments = vec![&*program, &*address];
    arguments.extend(callers.iter().map(String::as_str));
    arguments.push("--");
    arguments.extend(paths);
    let output = run(python, &arguments).await;
    let (stdout, stderr) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{stderr}");
    let failed: Vec<_> = stdout.lines().filter(|line| !line.starts_with("ok ")).collect();
    assert!(failed.is_empty(), "{failed:#?}");
    assert_eq!(stdout.lines().count(), paths.len() * (callers.len() * 4 + 1), "{stdout}");
}
