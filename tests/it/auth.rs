//! Who calls and what they may, set by `tidewire.toml` and `.proto`, over every protocol and real
//! sockets.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair};
use serde_json::{Value, json};
use tidewire::client::Protocol;
use tidewire::config::Config;
use tidewire::http::Method;
use tidewire::service::{Spec, StreamKind};
use tidewire::{
    Call, Client, Code, Codec, Context, Error, Implementation, Message, Method as RpcMethod, Reply,
    Result, RunningServer, Schema, Server, Service,
};

use crate::harness::{send, start};

const PROTOCOLS: [Protocol; 4] =
    [Protocol::Connect, Protocol::Grpc, Protocol::GrpcWeb, Protocol::Live];

const PROTO: &str = r#"
syntax = "proto3";
package test.v1;
import "google/api/annotations.proto";
import "google/protobuf/duration.proto";
import "tidewire/v1/options.proto";

service Shop {
  rpc Open(Ask) returns (Told) { option (tidewire.v1.method) = { access: ANONYMOUS }; }
  rpc Known(Ask) returns (Told) {
    option idempotency_level = NO_SIDE_EFFECTS;
    option (google.api.http) = { get: "/known" };
    option (tidewire.v1.method) = { cache: CALLER ttl: { seconds: 60 } };
  }
  rpc Plain(Ask) returns (Told) {
    option idempotency_level = NO_SIDE_EFFECTS;
    option (google.api.http) = { get: "/plain" };
  }
  rpc Writers(Ask) returns (Told) {
    option idempotency_level = NO_SIDE_EFFECTS;
    option (tidewire.v1.method) = { scopes: ["write"] cache: CALLER ttl: { seconds: 3600 } };
  }
  rpc Write(Ask) returns (Told) { option (tidewire.v1.method) = { scopes: ["write"] }; }
  rpc Admin(Ask) returns (Told);
}
message Ask {}
message Told { string who = 1; }
"#;

struct Shop(Schema, Arc<AtomicUsize>);

impl Implementation for Shop {
    async fn unary(
        &self,
        method: &RpcMethod,
        context: Context,
        _: Message,
    ) -> Result<Reply<Message>> {
        self.1.fetch_add(1, Ordering::SeqCst);
        let mut told = self.0.message(&method.output).expect("a known message");
        // Known is the same for everybody who may call it.
        if method.method != "Known" {
            let who = context.principal().map_or("nobody", |principal| principal.subject());
            told.set("who", who).expect("a field");
        }
        Ok(Reply::new(told))
    }
}

/// A key pair of an issuer.
pub(crate) struct Signer(EcdsaKeyPair, &'static str);

fn base64(bytes: impl AsRef<[u8]>) -> String {
    tidewire::client::binary_value(bytes.as_ref())
        .to_str()
        .unwrap()
        .trim_end_matches('=')
        .replace('+', "-")
        .replace('/', "_")
}

impl Signer {
    pub(crate) fn new(id: &'static str) -> Self {
        let (random, scheme) = (SystemRandom::new(), &ECDSA_P256_SHA256_FIXED_SIGNING);
        let key = EcdsaKeyPair::generate_pkcs8(scheme, &random).unwrap();
        Self(EcdsaKeyPair::from_pkcs8(scheme, key.as_ref(), &random).unwrap(), id)
    }

    pub(crate) fn jwk(&self) -> Value {
        let point = self.0.public_key().as_ref();
        let (x, y) = (base64(&point[1..33]), base64(&point[33..]));
        json!({"kty": "EC", "crv": "P-256", "x": x, "y": y, "kid": self.1})
    }

    /// A token of ada's that is good for so many seconds from now on.
    pub(crate) fn token(&self, scope: &str, seconds: i64) -> String {
        self.token_of("ada", scope, seconds)
    }

    /// A token of somebody's that is good for so many seconds from now on.
    pub(crate) fn token_of(&self, subject: &str, scope: &str, seconds: i64) -> String {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
        let head = json!({"alg": "ES256", "kid": self.1});
        let claims = json!({
            "iss": "https://id.example", "aud": "shop", "sub": subject, "scope": scope,
            "exp": now.saturating_add_signed(seconds),
        });
        let text = format!("{}.{}", base64(head.to_string()), base64(claims.to_string()));
        let signature = self.0.sign(&SystemRandom::new(), text.as_bytes()).unwrap();
        format!("{text}.{}", base64(signature))
    }
}

/// An API key.
pub(crate) const KEY: &str = "opensesame";

/// A server whose keys of tokens are at `keys`, and how often its service ran.
pub(crate) async fn shop(keys: &str) -> (RunningServer, SocketAddr, Arc<AtomicUsize>) {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("shop.proto"), PROTO).unwrap();
    let schema = Schema::from_folder(folder.path()).unwrap();
    let ran = Arc::new(AtomicUsize::new(0));
    let hash = sha256(KEY);
    let text = format!(
        "[server]\nlisten = \"127.0.0.1:0\"\nreflection = true\n\
         [auth.jwt]\nissuer = \"https://id.example\"\naudience = \"shop\"\nkeys = \"{keys}\"\n\
         [[auth.api_key]]\nsubject = \"ci\"\nsha256 = \"{hash}\"\nscopes = [\"write\"]\n\
         [auth.methods.\"test.v1.Shop/Admin\"]\nscopes = [\"admin\"]\n\
         [auth.paths.\"/assets/*\"]\naccess = \"anonymous\"\n"
    );
    let config = Config::parse(&text, "t.toml").unwrap();
    let shop = Shop(schema.clone(), Arc::clone(&ran));
    let builder = config.server().unwrap();
    let builder = builder
        .service(schema.implement("test.v1.Shop", shop).unwrap())
        .route(Method::GET, "/assets/{name}", async |_: Call| Ok("an asset"))
        .route(Method::GET, "/page", async |_: Call| Ok("a page"));
    let running = builder.start().await.unwrap();
    let tidewire::Address::Tcp(address) = running.addresses()[0] else { panic!("no TCP address") };
    (running, address, ran)
}

pub(crate) fn sha256(text: &str) -> String {
    let digest = ring::digest::digest(&ring::digest::SHA256, text.as_bytes());
    digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

pub(crate) fn file(keys: &[Value]) -> (tempfile::TempDir, String) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("jwks.json");
    std::fs::write(&path, json!({ "keys": keys }).to_string()).unwrap();
    (folder, path.display().to_string())
}

async fn call(
    address: SocketAddr,
    protocol: Protocol,
    method: &str,
    header: Option<(&'static str, &str)>,
) -> Result<String> {
    let client = Client::builder(format!("http://{address}")).protocol(protocol).build().unwrap();
    let mut spec = Spec::dynamic("test.v1.Shop", method, StreamKind::Unary, ["", ""]);
    if method == "Known" {
        spec = spec.idempotency(tidewire::service::Idempotency::NoSideEffects);
    }
    let mut context = Context::default();
    if let Some((name, value)) = header {
        context.set_header(name, value).unwrap();
    }
    let call = Call::method(Arc::new(spec), context, Codec::Json, "{}");
    let reply = client.call(call).await?;
    let told: Value = serde_json::from_slice(&reply.body.collect(1 << 20).await?).unwrap();
    Ok(told["who"].as_str().unwrap_or_default().to_owned())
}

fn code(outcome: Result<String>) -> Option<Code> {
    outcome.err().map(|error: Error| error.code())
}

#[tokio::test]
async fn every_protocol_asks_who_calls_and_what_they_may() {
    let signer = Signer::new("a");
    let (_folder, keys) = file(&[signer.jwk()]);
    let (_running, address, _) = shop(&keys).await;
    let bearer = |scope: &str, seconds| format!("Bearer {}", signer.token(scope, seconds));
    let (reader, writer) = (bearer("read", 600), bearer("read write", 600));
    let (expired, other) =
        (bearer("write", -60), format!("Bearer {}", Signer::new("a").token("write", 600)));
    let (denied, unknown) = (Some(Code::PermissionDenied), Some(Code::Unauthenticated));
    for protocol in PROTOCOLS {
        let ask = |method, header| call(address, protocol, method, header);
        let token = |value| Some(("authorization", value));
        assert_eq!(ask("Open", None).await.unwrap(), "nobody", "{protocol:?}");
        assert_eq!(ask("Open", token(&*reader)).await.unwrap(), "ada", "{protocol:?}");
        assert_eq!(code(ask("Open", token(&expired)).await), unknown, "{protocol:?}");
        assert_eq!(code(ask("Write", None).await), unknown, "{protocol:?}");
        assert_eq!(code(ask("Write", token(&reader)).await), denied, "{protocol:?}");
        assert_eq!(code(ask("Write", token(&expired)).await), unknown, "{protocol:?}");
        assert_eq!(code(ask("Write", token(&other)).await), unknown, "{protocol:?}");
        assert_eq!(code(ask("Write", token("Bearer x")).await), unknown, "{protocol:?}");
        assert_eq!(ask("Write", token(&writer)).await.unwrap(), "ada", "{protocol:?}");
        assert_eq!(ask("Write", Some(("x-api-key", KEY))).await.unwrap(), "ci", "{protocol:?}");
        let wrong = ask("Write", Some(("x-api-key", "wrong"))).await;
        assert_eq!(code(wrong), unknown, "{protocol:?}");
        assert_eq!(code(ask("Admin", token(&writer)).await), denied, "{protocol:?}");
        assert_eq!(code(ask("Nothing", None).await), unknown, "{protocol:?}");
    }
}

#[tokio::test]
async fn an_answer_that_is_kept_for_everybody_is_still_only_for_who_is_known() {
    let signer = Signer::new("a");
    let (_folder, keys) = file(&[signer.jwk()]);
    let (_running, address, ran) = shop(&keys).await;
    let bearer = format!("Bearer {}", signer.token("", 600));
    for protocol in PROTOCOLS {
        let known = call(address, protocol, "Known", Some(("authorization", &bearer)));
        known.await.unwrap();
        let refused = call(address, protocol, "Known", None).await;
        assert_eq!(code(refused), Some(Code::Unauthenticated), "{protocol:?}");
    }
    let refused = send(address, "GET /known", b"").await;
    refused.check(401, &["unauthenticated"]);
    send(address, &format!("GET /known\nauthorization: {bearer}"), b"").await.check(200, &[]);
    assert!(ran.load(Ordering::SeqCst) <= 2, "one answer a codec is kept");
}

/// A cache on the way that goes by its own time where nothing is said would give it to others.
#[tokio::test]
async fn what_no_method_asked_to_cache_says_so_to_caches_on_the_way() {
    let signer = Signer::new("a");
    let (_folder, keys) = file(&[signer.jwk()]);
    let (_running, address, _) = shop(&keys).await;
    let key = format!("x-api-key: {KEY}");
    let bearer = format!("authorization: Bearer {}", signer.token("", 600));
    let get = "GET /test.v1.Shop/Plain?connect=v1&encoding=json&message=%7B%7D";
    for (head, status, expected) in [
        (format!("GET /plain\n{key}"), 200, Some("private, no-cache")),
        (format!("HEAD /plain\n{key}"), 200, Some("private, no-cache")),
        (format!("GET /plain?nothing=1\n{key}"), 400, Some("private, no-cache")),
        (format!("{get}\n{key}"), 200, Some("private, no-cache")),
        (format!("{get}x\n{key}"), 400, Some("private, no-cache")),
        (format!("GET /known\n{bearer}"), 200, Some("private, no-cache")),
        (format!("GET /page\n{key}"), 200, Some("private")),
        (format!("GET /page\n{bearer}"), 200, Some("private")),
        ("GET /assets/a".to_owned(), 200, None),
        ("GET /plain\nx-api-key: wrong".to_owned(), 401, Some("private, no-cache")),
        ("GET /page".to_owned(), 401, Some("private, no-cache")),
    ] {
        let reply = send(address, &head, b"").await;
        reply.check(status, &[]);
        let said = reply.head.lines().find_map(|line| line.strip_prefix("cache-control: "));
        assert_eq!(said, expected, "{head}: {}", reply.head);
    }
}

#[tokio::test]
async fn paths_of_plain_http_health_and_what_is_not_there_have_rules_too() {
    let signer = Signer::new("a");
    let (_folder, keys) = file(&[signer.jwk()]);
    let (_running, address, _) = shop(&keys).await;
    send(address, "GET /assets/a", b"").await.check(200, &["an asset"]);
    let refused = send(address, "GET /page", b"").await;
    refused.check(401, &["unauthenticated"]);
    assert!(refused.head.contains("www-authenticate: bearer"), "{}", refused.head);
    let wrong = send(address, "GET /page\nauthorization: Bearer a.b.c", b"").await;
    assert!(wrong.head.contains("invalid_token"), "{}", wrong.head);
    send(address, "GET /openapi.json", b"").await.check(401, &[]);
    send(address, "GET /nowhere", b"").await.check(401, &[]);
    let health = "POST /grpc.health.v1.Health/Check\ncontent-type: application/json";
    send(address, health, b"{}").await.check(200, &["SERVING"]);
    let bearer = format!("authorization: Bearer {}", signer.token("", 600));
    send(address, &format!("GET /page\n{bearer}"), b"").await.check(200, &["a page"]);
    send(address, &format!("GET /page\n{bearer}\n{bearer}"), b"").await.check(401, &["twice"]);
    send(address, &format!("GET /nowhere\n{bearer}"), b"").await.check(404, &[]);
}

#[tokio::test]
async fn keys_come_over_http_and_rotate_under_load_without_a_refused_caller() {
    let (old, new) = (Signer::new("old"), Signer::new("new"));
    let (before, after) = (json!({"keys": [old.jwk()]}), json!({"keys": [new.jwk()]}));
    let rotated = Arc::new(AtomicUsize::new(0));
    let published = Arc::clone(&rotated);
    let keys = Server::builder().route(Method::GET, "/jwks", move |_: Call| {
        let keys = if published.load(Ordering::SeqCst) == 0 { &before } else { &after };
        std::future::ready(Reply::json(keys))
    });
    let (_keys, of_keys) = start(keys).await;
    let (_running, address, _) = shop(&format!("http://{of_keys}/jwks")).await;
    let token = |signer: &Signer| format!("Bearer {}", signer.token("write", 600));
    let write = move |token: String| async move {
        call(address, Protocol::Grpc, "Write", Some(("authorization", &token))).await
    };
    let (of_old, of_new) = (token(&old), token(&new));
    write(of_old.clone()).await.unwrap();
    rotated.store(1, Ordering::SeqCst);
    let callers = (0..8).map(|_| {
        let tokens = [of_new.clone(), of_old.clone()];
        tokio::spawn(async move {
            for round in 0..20 {
                let of_new = write(tokens[0].clone()).await;
                assert_eq!(of_new.unwrap(), "ada", "round {round}");
                let of_old = write(tokens[1].clone()).await;
                assert_eq!(code(of_old), Some(Code::Unauthenticated), "round {round}");
            }
        })
    });
    for caller in callers.collect::<Vec<_>>() {
        caller.await.unwrap();
    }
}

#[tokio::test]
async fn a_rule_for_what_is_not_served_is_said_at_start() {
    let text = "[auth.methods.\"test.v1.Shop/Buy\"]\naccess = \"anonymous\"\n";
    let config = Config::parse(text, "t.toml").unwrap();
    let error = config.server().unwrap().check().unwrap_err().to_string();
    assert!(
        error.starts_with("auth.methods has \"test.v1.Shop/Buy\", which is not served"),
        "{error}"
    );
}

#[tokio::test]
async fn a_rule_for_a_path_that_only_seems_to_protect_a_method_is_refused_at_start() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("shop.proto"), PATHS).unwrap();
    let schema = Schema::from_folder(folder.path()).unwrap();
    let check = |rules: &str| {
        let shop = Shop(schema.clone(), Arc::default());
        let service = schema.implement("test.v1.Stock", shop).unwrap();
        let config = Config::parse(rules, "t.toml").unwrap();
        config.server().unwrap().service(service).check().map_err(|error| error.to_string())
    };
    let known = "access = \"authenticated\"\n";
    for (path, shown) in [
        ("/items/*", "/items/{id}"),
        ("/items/1", "/items/{id}"),
        ("/*", "/items/{id}"),
        ("/test.v1.Stock/*", "/test.v1.Stock/Get"),
    ] {
        let rule = format!("[auth.paths.\"{path}\"]\n{known}");
        let expected = format!(
            "auth.paths has {path:?}, which asks nothing of test.v1.Stock/Get at {shown}: paths \
             are of plain HTTP. Write a rule for it in auth.methods, or auth.otherwise"
        );
        assert_eq!(check(&rule).unwrap_err(), expected);
        let declared = format!("{rule}[auth.methods.\"test.v1.Stock/Get\"]\n{known}");
        check(&declared).unwrap();
    }
    check(&format!("[auth.paths.\"/assets/*\"]\n{known}")).unwrap();
    check(&format!("[auth]\notherwise = \"authenticated\"\n[auth.paths.\"/*\"]\n{known}")).unwrap();
}

const PATHS: &str = r#"syntax = "proto3";
package test.v1;
import "google/api/annotations.proto";
service Stock {
  rpc Get(Item) returns (Item) {
    option idempotency_level = NO_SIDE_EFFECTS;
    option (google.api.http) = { get: "/items/{id}" };
  }
}
message Item { string id = 1; }
"#;
