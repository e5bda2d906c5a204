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
  rpc Open(Ask) returns (Told) {
    option idempotency_level = NO_SIDE_EFFECTS;
    option (google.api.http) = { get: "/open/{n}" };
    option (tidewire.v1.method) = { access: ANONYMOUS cache: PUBLIC ttl: { seconds: 60 } max_age: { seconds: 60 } };
  }
  rpc Guarded(Ask) returns (Told) {
    option idempotency_level = NO_SIDE_EFFECTS;
    option (google.api.http) = { get: "/guarded/{n}" };
    option (tidewire.v1.method) = {
      cache: VARY vary: "authorization" ttl: { seconds: 60 } max_age: { seconds: 60 }
    };
  }
  rpc Tenant(Ask) returns (Told) {
    option idempotency_level = NO_SIDE_EFFECTS;
    option (google.api.http) = { get: "/tenant/{n}" };
    option (tidewire.v1.method) = {
      access: ANONYMOUS cache: VARY vary: "x-tenant" ttl: { seconds: 60 } max_age: { seconds: 60 }
    };
  }
}
message Ask { int32 n = 1; }
message Told { string who = 1; }
"#;

/// Says who calls, where it is for the caller, or for which tenant.
struct Leak(Schema);

impl Implementation for Leak {
    async fn unary(&self, method: &Method, context: Context, _: Message) -> Result<Reply<Message>> {
        let mut told = self.0.message(&method.output).expect("a known message");
        let who = match &*method.method {
            "Open" | "Guarded" => "everybody",
            "Tenant" => context.header("x-tenant").map_or("none", |value| value.to_str().unwrap()),
            _ => context.principal().map_or("nobody", Principal::subject),
        };
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

async fn leak(settings: &str) -> (RunningServer, SocketAddr) {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("leak.proto"), PROTO).unwrap();
    let schema = Schema::from_folder(folder.path()).unwrap();
    let text = format!("[server]\nlisten = \"127.0.0.1:0\"\n{settings}");
    let config = Config::parse(&text, "t.toml").unwrap();
    let service = schema.implement("test.v1.Leak", Leak(schema.clone())).unwrap();
    let builder = config.server().unwrap().service(service).gate(by_cookie);
    let running = builder.start().await.unwrap();
    let tidewire::Address::Tcp(address) = running.addresses()[0] else { panic!("no TCP address") };
    (running, address)
}

/// Callers with API keys, tokens and cookies, and one without any.
struct Callers {
    settings: String,
    callers: Vec<String>,
    _keys: tempfile::TempDir,
}

impl Callers {
    fn new() -> Self {
        let signer = Signer::new("one");
        let (folder, keys) = file(&[signer.jwk()]);
        let api_keys: String = ["ada", "bob"]
            .map(|name| {
                let hash = sha256(&format!("{name}key"));
                format!("[[auth.api_key]]\nsubject = \"{name}\"\nsha256 = \"{hash}\"\n")
            })
            .concat();
        let settings = format!(
            "[auth.jwt]\nissuer = \"https://id.example\"\naudience = \"shop\"\nkeys = \"{keys}\"\n\
             {api_keys}"
        );
        let token = |name: &str, scopes: &str| {
            format!("{name}|authorization|Bearer {}", signer.token_of(name, scopes, 600))
        };
        let callers = vec![
            "ada|x-api-key|adakey".to_owned(),
            "bob|x-api-key|bobkey".to_owned(),
            token("carol", ""),
            token("dave", "items.read"),
            "erin|cookie|session=erin".to_owned(),
            "frank|cookie|session=frank".to_owned(),
            "nobody||".to_owned(),
        ];
        Self { settings, callers, _keys: folder }
    }
}

const FOR_CALLERS: [&str; 5] = [
    "known:/guarded/1",
    "caller:/young/1",
    "caller:/fixed/1",
    "caller:/test.v1.Leak/Young?connect=v1&encoding=json&message=%7B%22n%22:1%7D",
    "caller:/test.v1.Leak/Fixed?connect=v1&encoding=json&message=%7B%22n%22:1%7D",
];

/// Asks as all `callers` for all `paths` through `cache`, and checks each answer.
async fn check(cache: &str, url: &str, callers: &[String], paths: &[&str]) {
    let python = root().join(".tools/http-cache/bin/python");
    assert!(python.exists(), "CacheControl is not installed; run `make setup` once");
    let program = root().join("tests/foreign/python/http_cache_leak.py").display().to_string();
    let authority = format!("AUTHORITY={}", tls("authority.pem"));
    let python = python.display().to_string();
    let mut arguments = vec![&*authority, &*python, &*program, cache, url];
    arguments.extend(callers.iter().map(String::as_str));
    arguments.push("--");
    arguments.extend(paths);
    let output = run("env", &arguments).await;
    let (stdout, stderr) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{stderr}");
    let failed: Vec<_> = stdout.lines().filter(|line| !line.starts_with("ok ")).collect();
    assert!(failed.is_empty(), "{failed:#?}");
    assert_eq!(stdout.lines().count(), paths.len() * (callers.len() * 4 + 1), "{stdout}");
}

fn tls(file: &str) -> String {
    root().join("tests/fixtures/tls").join(file).display().to_string()
}

#[tokio::test(flavor = "multi_thread")]
async fn no_caller_gets_the_reply_of_another_from_a_cache_of_its_own() {
    let callers = Callers::new();
    let (_running, address) = leak(&callers.settings).await;
    check("cachecontrol", &format!("http://{address}"), &callers.callers, &FOR_CALLERS).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_caller_gets_the_reply_of_another_from_nginx_which_holds_what_is_for_all() {
    let mut callers = Callers::new();
    callers.callers.extend(["grace|x-tenant|grace", "heidi|x-tenant|heidi"].map(str::to_owned));
    let (_running, address) = leak(&callers.settings).await;
    let (for_callers, others) = callers.callers.split_at(7);
    let nginx = root().join(".tools/bin/nginx");
    assert!(nginx.exists(), "nginx is not installed; run `make setup` once");
    let (nginx, url) = (nginx.display().to_string(), format!("http://{address}"));
    check(&nginx, &url, for_callers, &FOR_CALLERS).await;
    let mut mixed = others.to_vec();
    mixed.extend_from_slice(for_callers);
    check(&nginx, &url, &mixed, &["tenant:/tenant/1", "public:/open/1"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_certificate_gets_the_reply_of_another() {
    let (certificate, key, authority) =
        (tls("server.pem"), tls("server.key"), tls("authority.pem"));
    let settings = format!(
        "[server.tls]\ncertificate = \"{certificate}\"\nkey = \"{key}\"\n\
         client_authorities = \"{authority}\"\nclients_optional = true\n[auth]\ncertificates = true\n"
    );
    let (_running, address) = leak(&settings).await;
    let certificate = |name: &str| {
        let (pem, key) = (tls(&format!("{name}.pem")), tls(&format!("{name}.key")));
        format!("{name}.example|certificate|{pem},{key}")
    };
    let callers = [certificate("client"), certificate("other"), "nobody||".to_owned()];
    let url = format!("https://127.0.0.1:{}", address.port());
    check("cachecontrol", &url, &callers, &FOR_CALLERS).await;
}
