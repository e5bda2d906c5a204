//! Programs that speak the live protocol, one in each language, behind a real gateway.
//!
//! The programs (`sdk/*/tests`) do the same; what each has to show is one list of cases, in
//! `cases.rs` for what they answer, in `trouble.rs` for how they fail. `stops.rs` has how they
//! begin and end.

mod cases;
mod json;
mod principal;
mod stops;
mod trouble;

use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tidewire_cache::ReplyCache;
use tidewire_client::{Client, HttpVersion};
use tidewire_hosting::{Host, HostedService, LifeLimits, Listen, Program};
use tidewire_memo::Graph;
use tidewire_schema::{Schema, Sources};
use tidewire_server::{Address, Builder, RunningServer, Server};
use tidewire_service::{Body, Call, Codec, Context, Error, Interface, Method, Reply, Service};

const SERVICE: &str = "tidewire.hosted.v1.Hosted";

/// A gateway with one program, and a client of it.
pub(crate) struct Gateway {
    pub(crate) host: Host,
    pub(crate) hosted: HostedService,
    pub(crate) interface: Interface,
    running: RunningServer,
    client: Client,
}

impl Gateway {
    pub(crate) async fn start(command: &[String], codec: Codec, limits: LifeLimits) -> Self {
        Self::start_with(command, codec, limits, |server| server).await
    }

    /// With what else the server has.
    pub(crate) async fn start_with(
        command: &[String],
        codec: Codec,
        limits: LifeLimits,
        more: impl FnOnce(Builder) -> Builder,
    ) -> Self {
        let graph = Graph::new();
        // Nothing ends by time.
        graph.set_external_life(None);
        let host = crate::host().in_graph(&graph);
        let program = Program::new("hosted", command.iter().cloned()).listen(Listen::Native);
        let hosted = host.add(program, limits);
        let sources = Sources::new().folder(sdk("protos"));
        let schema = Schema::compile(&sources).expect("the .proto compiles");
        let typed = hosted.typed(&schema, SERVICE, codec).expect("the service is there");
        let address: Address = "127.0.0.1:0".parse().expect("an address");
        let server = Server::builder().memo(ReplyCache::new(&graph)).service(typed);
        let server = more(server.mount("/pages", hosted.clone()).listen(address));
        let running = server.start().await.expect("the server starts");
        host.answered_by(running.callee());
        let client = Client::builder(running.url()).http(HttpVersion::Http2);
        let client = client.build().expect("a client");
        let interface = schema.interface(SERVICE).unwrap().unwrap();
        Self { host, hosted, interface, running, client }
    }

    pub(crate) async fn stop(self) {
        self.running.drain().await;
        self.host.stop().await;
    }

    pub(crate) fn method(&self, name: &str) -> Method {
        let methods = self.interface.methods();
        methods.iter().find(|method| method.method == name).expect("it is in the .proto").clone()
    }

    /// The reply to a call in JSON.
    pub(crate) async fn reply(
        &self,
        name: &str,
        context: Context,
        body: impl Into<Body>,
    ) -> Result<Reply, Error> {
        let call = Call::method(self.method(name), context, Codec::Json, body);
        self.client.call(call).await
    }

    /// The answer to a plain request: its status, a header of it, its body.
    pub(crate) async fn page(
        &self,
        verb: http::Method,
        body: impl Into<Body>,
    ) -> (u16, String, String) {
        let call = crate::call(verb, "/pages/a%20b?c=d", body);
        let reply = self.client.call(call).await.expect("a page");
        let (status, headers) = (reply.status.as_u16(), reply.headers.clone());
        let text = reply.body.collect(64 << 20).await.expect("a body");
        let page = headers.get("x-page").map_or("", |value| value.to_str().unwrap());
        (status, page.to_owned(), crate::text(text))
    }

    /// Another program of the same limits, called once.
    pub(crate) async fn another(&self, command: &[String], limits: LifeLimits) -> HostedService {
        let program = Program::new("another", command.iter().cloned()).listen(Listen::Native);
        let hosted = self.host.add(program, limits);
        let echo = self.method("Echo");
        let call = Call::method(echo, Context::default(), Codec::Json, r#"{"text":"a"}"#);
        hosted.call(call).await.expect("it answers");
        hosted
    }

    /// What a method with one request and one reply answers.
    pub(crate) async fn ask(&self, name: &str, request: Value) -> Result<Value, Error> {
        let reply = self.reply(name, Context::default(), request.to_string()).await?;
        json_of(reply).await
    }

    pub(crate) async fn text(&self, name: &str, text: &str) -> Result<String, Error> {
        let answer = self.ask(name, json!({ "text": text })).await?;
        Ok(answer["text"].as_str().unwrap_or_default().to_owned())
    }

    pub(crate) async fn number(&self, name: &str, text: &str) -> i64 {
        let answer = self.ask(name, json!({ "text": text })).await;
        answer.expect("a number")["number"].as_i64().unwrap_or_default()
    }
}

pub(crate) async fn json_of(reply: Reply) -> Result<Value, Error> {
    let body = reply.body.collect(64 << 20).await?;
    Ok(serde_json::from_slice(&body).expect("it is JSON"))
}

pub(crate) fn context(timeout: Duration) -> Context {
    Context::default().with_deadline(Instant::now() + timeout)
}

/// A key that no other test has.
pub(crate) fn key() -> String {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    format!("key{}", NEXT.fetch_add(1, Ordering::Relaxed))
}

fn sdk(path: &str) -> String {
    format!("{}/../../sdk/{path}", env!("CARGO_MANIFEST_DIR"))
}

pub(crate) fn python(mode: &str) -> Vec<String> {
    let script = sdk("python/tests/service.py");
    ["python3", "-I", "-S", &script, mode].map(str::to_owned).to_vec()
}

pub(crate) fn node(mode: &str) -> Vec<String> {
    ["node", &sdk("node/tests/service.js"), mode].map(str::to_owned).to_vec()
}

/// Builds the program in Go, which its own cache makes quick.
pub(crate) fn go() -> Vec<String> {
    let program = crate::gateway().with_file_name("hosted-go");
    let mut build = Command::new("go");
    build.arg("build").arg("-o").arg(&program).arg("./tests/service").current_dir(sdk("go"));
    assert!(build.status().expect("go is installed").success(), "it compiles");
    vec![program.display().to_string()]
}

/// Builds the program in C#, where the tests of its library build it too, one after the other.
pub(crate) fn dotnet() -> Vec<String> {
    let repository = std::path::Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
    let repository = repository.canonicalize().expect("it is there");
    let (sdk, out) = (repository.join(".tools/bin/dotnet"), repository.join("target/dotnet"));
    assert!(sdk.exists(), "no .NET SDK: run make setup");
    std::fs::create_dir_all(&out).expect("target is there");
    let mut build = Command::new("flock");
    build
        .arg(out.join("lock"))
        .arg(&sdk)
        .args(["build", "-c", "Release", "-nologo", "-v", "quiet"]);
    build.arg(repository.join("sdk/dotnet/tests/service")).env("TIDEWIRE_OUT", &out);
    let built = build.output().expect("flock is there");
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stdout));
    let program = out.join("service/bin/netcoreapp3.1/service.dll");
    [sdk, program].map(|path| path.display().to_string()).to_vec()
}

/// The program in Rust, which is built with the gateway.
pub(crate) fn rust() -> Vec<String> {
    let program = crate::gateway().with_file_name("../hosted-service");
    assert!(program.is_file(), "run `{}` first", crate::BUILD);
    vec![program.display().to_string()]
}

/// Runs all cases with a program.
async fn behaves(command: Vec<String>) {
    cases::all(&command).await;
    trouble::all(&command).await;
    principal::all(&command).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_in_python_behaves() {
    behaves(python("threads")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_in_python_with_an_event_loop_behaves() {
    behaves(python("async")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_in_javascript_behaves() {
    behaves(node("fetch")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_in_javascript_with_a_listener_of_node_behaves() {
    behaves(node("http")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_in_go_behaves() {
    behaves(go()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_in_csharp_behaves() {
    behaves(dotnet()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_in_rust_behaves() {
    behaves(rust()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_program_in_rust_reads_beside_its_handlers_is_not_forgotten() {
    let gateway = Gateway::start(&rust(), Codec::Json, crate::patient_limits()).await;
    let runs = async |text: String| {
        (gateway.number("Get", &text).await, gateway.number("Get", &text).await)
    };
    let (kept, own) = (key(), key());
    assert_eq!(runs(kept.clone()).await, (1, 1), "read by the handler alone");
    for way in ["task", "asks"] {
        assert_eq!(runs(format!("{way} {own}")).await, (1, 2), "{way}: the gateway was not told");
    }
    assert_eq!(gateway.number("Get", &kept).await, 1, "that says nothing of what is kept");
    let asked = key();
    let _ = runs(format!("recalls {asked}")).await;
    assert_eq!(
        gateway.number("Bare", &asked).await,
        3,
        "no memo of its own keeps what it asked for"
    );
    assert_eq!(runs(format!("memo {own}")).await, (1, 2), "the second has it from memory");
    assert_eq!(runs(key()).await, (1, 2), "nor is it known who else has it from there");
    gateway.stop().await;
}
