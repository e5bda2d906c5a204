//! Spans of requests, as a collector in Python receives them.

use std::io::{BufRead as _, BufReader, Lines};
use std::process::{Child, ChildStdout, Command, Stdio};

use serde_json::Value;
use tidewire::Address;
use tidewire::config::Config;
use tidewire_tests::behaviour::Behaviour;
use tidewire_tests::program::root;
use tidewire_tests::proto::BehaviourServiceServer;

use crate::harness::send;

/// The collector; it ends with the test.
struct Collector {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
    port: String,
}

impl Collector {
    fn start() -> Self {
        let mut child = Command::new(root().join(".tools/otlp/bin/python"))
            .arg(root().join("tests/foreign/python/otlp_receiver.py"))
            .stdout(Stdio::piped())
            .spawn()
            .expect("opentelemetry-proto is not installed; run `make setup`");
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let port = lines.next().unwrap().unwrap();
        Self { child, lines, port }
    }

    async fn next(mut self) -> (Self, Value) {
        let read = tokio::task::spawn_blocking(move || {
            let line = self.lines.next().unwrap().unwrap();
            (self, line)
        });
        let (collector, line) = read.await.unwrap();
        (collector, serde_json::from_str(&line).unwrap())
    }
}

impl Drop for Collector {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[tokio::test]
async fn a_collector_in_python_receives_a_span_of_each_request_in_the_callers_trace() {
    let collector = Collector::start();
    let text = format!(
        "[server]\nlisten = \"127.0.0.1:0\"\n[traces]\nservice = \"shop\"\nsample = 0\n\
         endpoint = \"http://127.0.0.1:{}/v1/traces\"\n",
        collector.port
    );
    let service = BehaviourServiceServer::new(Behaviour::default());
    let builder = Config::parse(&text, "t.toml").unwrap().server().unwrap();
    let running = builder.service(service).start().await.unwrap();
    let Address::Tcp(address) = running.addresses()[0] else { panic!("it is TCP") };
    let call = async |method: &str, parent: &str, body: &str| {
        let head = format!(
            "POST /tidewire.test.v1.BehaviourService/{method}\ncontent-type: application/json\n{parent}"
        );
        send(address, head.trim_end(), body.as_bytes()).await
    };
    let (trace, span) = ("0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331");
    let parent = format!("traceparent: 00-{trace}-{span}-01");
    // Nobody samples these two.
    call("Look", "", "{}").await.check(200, &[]);
    call("Look", &format!("traceparent: 00-{trace}-{span}-00"), "{}").await.check(200, &[]);
    call("Look", &parent, "{}").await.check(200, &[]);
    call("Fail", &parent, r#"{"code":5}"#).await.check(404, &[]);
    call("Fail", &parent, r#"{"code":13}"#).await.check(500, &[]);

    let (collector, look) = collector.next().await;
    let (collector, missing) = collector.next().await;
    let (_collector, broken) = collector.next().await;
    let name = |method: &str| format!("tidewire.test.v1.BehaviourService/{method}");
    assert_eq!(look["path"], "/v1/traces");
    assert_eq!(look["type"], "application/x-protobuf");
    assert_eq!(look["service"], "shop");
    assert_eq!((&look["trace"], &look["parent"]), (&trace.into(), &span.into()));
    assert_ne!(look["span"], span);
    assert_eq!(look["name"], name("Look"));
    assert_eq!(look["kind"], 2, "a server's");
    assert_eq!(look["attributes"]["rpc.method"], "Look");
    assert_eq!(look["attributes"]["http.response.status_code"], 200);
    assert_eq!(look["attributes"]["client.address"], "127.0.0.1");
    assert!(look["nanoseconds"].as_u64().unwrap() > 0);
    let events = look["events"].as_array().unwrap();
    assert!(events.contains(&"handler".into()) && events.contains(&"written".into()), "{events:?}");
    assert_eq!((&missing["name"], &missing["status"]), (&name("Fail").into(), &0.into()));
    assert_eq!(missing["attributes"]["rpc.response.status_code"], "not_found");
    assert_eq!((&broken["name"], &broken["status"]), (&name("Fail").into(), &2.into()));
}

#[tokio::test]
async fn a_collector_that_is_not_there_or_says_nothing_holds_up_nobody() {
    // It takes connections, and nobody reads from them.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    for collector in ["127.0.0.1:1".to_owned(), silent.local_addr().unwrap().to_string()] {
        let text = format!(
            "[server]\nlisten = \"127.0.0.1:0\"\n[traces]\nendpoint = \"http://{collector}/v1/traces\"\n"
        );
        let service = BehaviourServiceServer::new(Behaviour::default());
        let builder = Config::parse(&text, "t.toml").unwrap().server().unwrap();
        let running = builder.service(service).start().await.unwrap();
        let Address::Tcp(address) = running.addresses()[0] else { panic!("it is TCP") };
        for _ in 0..50 {
            crate::harness::post_json(address, "Look", "{}").await.check(200, &[]);
        }
        assert!(running.drain().await);
    }
    for (endpoint, expected) in
        [("no address", "this is not an address"), ("/v1/traces", "write http")]
    {
        let text = format!("[traces]\nendpoint = \"{endpoint}\"\n");
        let error = Config::parse(&text, "t.toml").unwrap().server().unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
}
