//! What the admin listener shows of what is said in calls, of what is served, and of hits, over
//! Connect and REST.

use std::net::SocketAddr;
use std::path::Path;

use serde_json::{Value, json};
use tidewire::admin::proto::tidewire::admin::v1::{
    Call, Calls, CallsClient, CaptureBodiesRequest, DescribeRequest, ListCallsRequest,
    RecordCallsRequest, SampleRequest, Services, ServicesClient,
};
use tidewire::client::Protocol;
use tidewire::config::Config;
use tidewire::http::Method;
use tidewire::{Address, Builder, Client, Code, Context, RunningServer};
use tidewire_tests::behaviour::Behaviour;
use tidewire_tests::proto::*;

use crate::harness::{post_json, send_to_host};

/// A server with an admin listener at a Unix socket, and another of TCP for REST.
struct Watched {
    _running: RunningServer,
    data: SocketAddr,
    admin: SocketAddr,
    token: String,
}

async fn watched(folder: &Path) -> Watched {
    watched_with(folder, |builder| builder).await
}

/// The same, and what else it serves.
async fn watched_with(folder: &Path, more: impl FnOnce(Builder) -> Builder) -> Watched {
    let file = folder.join("token");
    let text = format!(
        "[server]\nlisten = \"127.0.0.1:0\"\n[admin]\nlisten = \"127.0.0.1:0\"\ntoken_file = \"{}\"\n",
        file.display()
    );
    let builder = Config::parse(&text, "t.toml").unwrap().server().unwrap();
    let builder = more(builder).service(BehaviourServiceServer::new(Behaviour::default()));
    let running = builder.start().await.unwrap();
    let Address::Tcp(data) = running.addresses()[0] else { panic!("it is TCP") };
    let Address::Tcp(admin) = running.beside().unwrap().addresses()[0] else { panic!("TCP") };
    let token = std::fs::read_to_string(file).unwrap().trim().to_owned();
    Watched { _running: running, data, admin, token }
}

impl Watched {
    async fn ask(&self, head: &str, body: &str) -> crate::harness::Response {
        let (first, more) = head.split_once('\n').unwrap_or((head, ""));
        let head = format!("{first}\nauthorization: Bearer {}\n{more}", self.token);
        send_to_host(self.admin, &self.admin.to_string(), head.trim_end(), body.as_bytes()).await
    }

    async fn rest(&self, head: &str, body: &str) -> Value {
        let answer = self.ask(head, body).await;
        answer.check(200, &[]);
        serde_json::from_slice(&answer.body).unwrap()
    }

    fn admin(&self) -> Client {
        Client::builder(format!("http://{}", self.admin)).build().unwrap()
    }

    fn context(&self) -> Context {
        let value = format!("Bearer {}", self.token);
        Context::default().with_header("authorization", value).unwrap()
    }

    /// The calls that are recorded, once there are so many.
    async fn recorded(&self, wanted: usize) -> Vec<Call> {
        let client = CallsClient::new(self.admin().channel());
        loop {
            let request = ListCallsRequest::default();
            let listed = Calls::list(&client, self.context(), request).await.unwrap();
            if listed.body.calls.len() >= wanted {
                return listed.body.calls;
            }
            tokio::task::yield_now().await;
        }
    }
}

#[tokio::test]
async fn what_is_said_is_captured_on_every_protocol_while_that_is_wanted_and_not_before_or_after() {
    let folder = tempfile::tempdir().unwrap();
    let watched = watched(folder.path()).await;
    let calls = CallsClient::new(watched.admin().channel());
    let seconds = |seconds| CaptureBodiesRequest { seconds, ..Default::default() };
    let record = RecordCallsRequest { seconds: 60, ..Default::default() };
    Calls::record(&calls, watched.context(), record).await.unwrap();
    post_json(watched.data, "Echo", r#"{"text":"before"}"#).await.check(200, &[]);
    watched.recorded(1).await;
    let long = Calls::capture_bodies(&calls, watched.context(), seconds(100_000)).await.unwrap();
    assert_eq!(long.body.seconds, 600);
    for protocol in [Protocol::Connect, Protocol::Grpc, Protocol::GrpcWeb, Protocol::Live] {
        let url = format!("http://{}", watched.data);
        let client = Client::builder(url).protocol(protocol).build().unwrap();
        let client = BehaviourServiceClient::new(client.channel());
        client.echo(EchoRequest { text: "said".into(), ..Default::default() }).await.unwrap();
        let request = CountRequest { n: 3, ..Default::default() };
        let mut counted = client.count(request).await.unwrap().body;
        while counted.next().await.unwrap().is_some() {}
    }
    let captured = watched.recorded(9).await;
    assert!(captured[0].request.is_empty(), "{:?}", captured[0]);
    for call in &captured[1..] {
        let said: Vec<Value> =
            call.request.iter().map(|text| serde_json::from_str(text).unwrap()).collect();
        let replies = call.reply.len();
        match call.method.ends_with("Echo") {
            true => assert_eq!((said, replies), (vec![json!({"text": "said"})], 1), "{call:?}"),
            false => assert_eq!((said, replies), (vec![json!({"n": 3})], 3), "{call:?}"),
        }
    }
    Calls::capture_bodies(&calls, watched.context(), seconds(0)).await.unwrap();
    post_json(watched.data, "Echo", r#"{"text":"after"}"#).await.check(200, &[]);
    let last = watched.recorded(10).await.pop().unwrap();
    assert!(last.request.is_empty() && last.reply.is_empty(), "{last:?}");
}

#[tokio::test]
async fn what_is_captured_is_bounded_and_told_by_rest_too() {
    let folder = tempfile::tempdir().unwrap();
    let watched = watched(folder.path()).await;
    let head = "POST /v1/calls:captureBodies\ncontent-type: application/json";
    assert_eq!(watched.rest(head, r#"{"seconds":60}"#).await, json!({"seconds": 60}));
    let secret = "mail postgres://ada:hunter2@db/shop";
    let body = json!({ "text": format!("{secret}{}", "x".repeat(30_000)) }).to_string();
    post_json(watched.data, "Echo", &body).await.check(200, &["hunter2"]);
    let huge = json!({ "text": "x".repeat(300_000) }).to_string();
    post_json(watched.data, "Echo", &huge).await.check(200, &[]);
    post_json(watched.data, "Echo", "{\"text\":1}").await.check(400, &[]);
    watched.recorded(3).await;
    let listed = watched.rest("GET /v1/calls", "").await;
    assert_eq!(listed["capturing"], true);
    let told = listed.to_string();
    assert!(
        !told.contains("hunter2") && told.contains("postgres://***@db/shop"),
        "{} bytes",
        told.len()
    );
    assert!(told.len() < 20_000, "{}", told.len());
    let first = watched.rest("GET /v1/calls/1", "").await;
    assert_eq!(first["cut"], 2, "of both sides");
    let large = watched.rest("GET /v1/calls/2", "").await;
    assert!(large["request"][0].as_str().unwrap().starts_with("(not shown: 3000"), "{large}");
    let wrong = watched.rest("GET /v1/calls/3", "").await;
    assert!(
        wrong["request"][0].as_str().unwrap().contains("that do not decode as tidewire.test"),
        "{wrong}"
    );
    // A forgotten call is forgotten with what was said in it.
    let head = "POST /v1/calls:clear\ncontent-type: application/json";
    watched.rest(head, "{}").await;
    watched.ask("GET /v1/calls/1", "").await.check(404, &[]);
    // Whoever has no token captures nothing.
    let head = "POST /v1/calls:captureBodies\ncontent-type: application/json";
    let host = watched.admin.to_string();
    send_to_host(watched.admin, &host, head, b"{\"seconds\":60}").await.check(401, &[]);
    watched.ask("GET /v1/calls:captureBodies", "").await.check(405, &[]);
}

#[tokio::test]
async fn what_is_served_is_described_and_has_a_request_to_fill_in() {
    let folder = tempfile::tempdir().unwrap();
    let watched = watched(folder.path()).await;
    let services = ServicesClient::new(watched.admin().channel());
    let describe = async |name: &str| {
        let request = DescribeRequest { name: name.to_owned(), ..Default::default() };
        Services::describe(&services, watched.context(), request).await.map(|reply| reply.body.text)
    };
    let service = "tidewire.test.v1.BehaviourService";
    for (name, shown) in [
        (service.to_owned(), "rpc Count(CountRequest) returns (stream CountReply)"),
        (format!("{service}/Look"), "NO_SIDE_EFFECTS"),
        (format!("{service}/Look"), "message LookReply"),
        ("tidewire.test.v1.EchoRequest".to_owned(), "string text = 1;"),
    ] {
        let text = describe(&name).await.unwrap();
        assert!(text.contains(shown), "{name}: {text}");
    }
    for name in ["", "/", "nowhere.v1.Nothing", "tidewire.test.v1.BehaviourService/Nothing", "../x"]
    {
        assert_eq!(describe(name).await.unwrap_err().code(), Code::NotFound, "{name}");
    }
    let method = format!("{service}/Echo");
    let request = SampleRequest { method: method.clone(), ..Default::default() };
    let sample = Services::sample(&services, watched.context(), request).await.unwrap().body.json;
    post_json(watched.data, "Echo", &sample).await.check(200, &[]);
    let by_rest = watched.rest(&format!("GET /v1/services:sample?method={method}"), "").await;
    assert_eq!(by_rest["json"], sample);
    let by_rest = watched.rest(&format!("GET /v1/services:describe?name={service}"), "").await;
    assert!(by_rest["text"].as_str().unwrap().contains("service BehaviourService"), "{by_rest}");
    let missing = watched.ask("GET /v1/services:sample?method=a.B/C", "").await;
    missing.check(404, &["list the services"]);
}

#[tokio::test]
async fn hits_within_the_program_are_counted_for_a_stated_time() {
    let _alone = COUNTS.lock().await;
    let folder = tempfile::tempdir().unwrap();
    let watched = watched(folder.path()).await;
    let memo = tidewire::memo::Memo::infallible("admin_capture.row", |id: u32| async move { id });
    memo.get(7).await.unwrap();
    let served = async || {
        let listed = watched.rest("GET /v1/memo/memos", "").await;
        let memos = listed["memos"].as_array().unwrap().clone();
        let own = memos.into_iter().find(|memo| memo["name"] == "admin_capture.row").unwrap();
        (own["served"].as_u64().unwrap_or_default(), listed["counting"] == true)
    };
    memo.get(7).await.unwrap();
    assert_eq!(served().await, (0, false));
    let count = "POST /v1/memo:countHits\ncontent-type: application/json";
    let reply = watched.rest(count, r#"{"seconds":3600}"#).await;
    assert_eq!(reply, json!({"seconds": 60}), "no longer than a minute");
    for _ in 0..20 {
        memo.get(7).await.unwrap();
    }
    assert_eq!(served().await, (20, true));
    watched.rest(count, r#"{"seconds":0}"#).await;
    memo.get(7).await.unwrap();
    assert_eq!(served().await, (20, false));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn not_one_hit_of_calls_is_missed_while_they_are_observed_and_counted() {
    let _alone = COUNTS.lock().await;
    let folder = tempfile::tempdir().unwrap();
    let row = tidewire::memo::Memo::infallible("admin_capture.hit", |id: u32| async move { id });
    row.get(7).await.unwrap();
    let watched = watched_with(folder.path(), |builder| {
        builder.route(Method::POST, "/row", move |_: tidewire::Call| {
            async move {
                // By each way of reading; a GET would be answered by one that is kept.
                row.get(7).await.unwrap();
                row.with(&7, |_| ()).unwrap();
                Ok(row.copied(&7).unwrap().to_string())
            }
        })
    })
    .await;
    for command in ["observe", "countHits"] {
        let head = format!("POST /v1/memo:{command}\ncontent-type: application/json");
        watched.rest(&head, r#"{"seconds":60}"#).await;
    }
    let callers = (0..CALLERS).map(|_| {
        let data = watched.data;
        tokio::spawn(async move {
            for _ in 0..CALLS {
                crate::harness::send(data, "POST /row", b"").await.check(200, &["7"]);
            }
        })
    });
    for caller in callers.collect::<Vec<_>>() {
        caller.await.unwrap();
    }
    let listed = watched.rest("GET /v1/memo/memos", "").await;
    let memos = listed["memos"].as_array().unwrap();
    let own = memos.iter().find(|memo| memo["name"] == "admin_capture.hit").unwrap();
    assert_eq!(own["served"], json!(3 * CALLERS * CALLS));
}

/// Tests in one process have one graph, and who begins to count forgets what was counted.
static COUNTS: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

const CALLERS: u64 = 8;
const CALLS: u64 = 50;
