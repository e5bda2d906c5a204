//! The admin listener in trouble: who has no business there, who reads too slowly, what comes from
//! another start of the program, and input that is made to hurt.

use std::net::SocketAddr;
use std::path::Path;

use tidewire::admin::proto::tidewire::admin::v1::{
    CallsClient, ListCallsRequest, OverviewRequest, System, SystemClient, TailBatch, TailClient,
    WatchRequest,
};
use tidewire::config::Config;
use tidewire::{Address, Client, Code, Context, RunningServer, Stream};
use tidewire_tests::behaviour::Behaviour;
use tidewire_tests::proto::BehaviourServiceServer;

use crate::harness::{post_json, send_to_host};

/// A server with an admin listener at a Unix socket of this folder.
async fn watched(folder: &Path) -> (RunningServer, SocketAddr, Client) {
    let socket = folder.join("admin.sock");
    let text = format!(
        "[server]\nlisten = \"127.0.0.1:0\"\n[admin]\nlisten = \"unix:{}\"\n",
        socket.display()
    );
    let builder = Config::parse(&text, "t.toml").unwrap().server().unwrap();
    let service = BehaviourServiceServer::new(Behaviour::default());
    let running = builder.service(service).start().await.unwrap();
    let Address::Tcp(data) = running.addresses()[0] else { panic!("it is TCP") };
    let client = Client::builder(format!("unix:{}", socket.display())).build().unwrap();
    (running, data, client)
}

async fn watch(client: &Client, request: WatchRequest) -> Stream<TailBatch> {
    TailClient::new(client.channel()).watch(request).await.unwrap().body
}

/// Why nothing can be watched, if so.
async fn refusal(client: &Client, request: WatchRequest) -> Option<Code> {
    watch(client, request).await.next().await.err().map(|error| error.code())
}

fn of(topic: &str) -> WatchRequest {
    WatchRequest { topics: vec![topic.to_owned()], ..Default::default() }
}

/// Batches until this many calls came; their numbers, and how many were dropped.
async fn calls(batches: &mut Stream<TailBatch>, wanted: usize) -> (Vec<u64>, u64) {
    let (mut numbers, mut dropped) = (Vec::new(), 0);
    while numbers.len() + (dropped as usize) < wanted {
        let batch = batches.next().await.unwrap().unwrap();
        numbers.extend(batch.calls.iter().map(|call| call.number));
        dropped += batch.dropped;
    }
    (numbers, dropped)
}

#[tokio::test]
async fn a_tail_begins_with_what_there_is_and_tells_each_call_once() {
    let folder = tempfile::tempdir().unwrap();
    let (_running, data, client) = watched(folder.path()).await;
    let mut batches = watch(&client, WatchRequest::default()).await;
    let first = batches.next().await.unwrap().unwrap();
    assert_eq!((first.seq, first.system.ready), (1, true));
    for _ in 0..3 {
        post_json(data, "Look", "{}").await.check(200, &[]);
    }
    assert_eq!(calls(&mut batches, 3).await, (vec![1, 2, 3], 0));
    let recorded = CallsClient::new(client.channel());
    drop(batches);
    let asked = ListCallsRequest { after: 1, ..Default::default() };
    let listed = recorded.list(asked).await.unwrap().body;
    assert_eq!((listed.calls.len(), listed.next), (2, 3));
    assert_eq!(refusal(&client, of("weather")).await, Some(Code::InvalidArgument));
}

#[tokio::test]
async fn who_watches_goes_on_where_it_ended_and_a_number_of_another_start_is_no_obstacle() {
    let folder = tempfile::tempdir().unwrap();
    let (_running, data, client) = watched(folder.path()).await;
    let _holds = watch(&client, of("calls")).await;
    for _ in 0..3 {
        post_json(data, "Look", "{}").await.check(200, &[]);
    }
    for (after, expected) in [(1, vec![2, 3]), (1_000_000, vec![1, 2, 3])] {
        let request = WatchRequest { after, ..of("calls") };
        let mut batches = watch(&client, request).await;
        assert_eq!(calls(&mut batches, expected.len()).await, (expected, 0), "{after}");
    }
}

#[tokio::test]
async fn a_watcher_who_does_not_read_holds_nobody_up_and_is_told_what_it_missed() {
    const CALLS: usize = 3000;
    let folder = tempfile::tempdir().unwrap();
    let (_running, data, client) = watched(folder.path()).await;
    let mut stalled = watch(&client, of("calls")).await;
    let target = Client::builder(format!("http://{data}")).build().unwrap();
    let look = tidewire_tests::proto::BehaviourServiceClient::new(target.channel());
    for _ in 0..CALLS {
        look.look(Default::default()).await.unwrap();
    }
    let (numbers, dropped) = calls(&mut stalled, CALLS).await;
    assert_eq!(numbers.len() + dropped as usize, CALLS);
    // On a fast machine the last ones are among those that it is only told the number of.
    assert!(numbers.is_sorted() && numbers.first() == Some(&1), "{numbers:?}");
}

#[tokio::test]
async fn watchers_are_bounded_and_one_who_leaves_makes_room() {
    let folder = tempfile::tempdir().unwrap();
    let (_running, _, client) = watched(folder.path()).await;
    let mut open = Vec::new();
    for _ in 0..32 {
        let mut batches = watch(&client, of("system")).await;
        assert!(batches.next().await.unwrap().is_some());
        open.push(batches);
    }
    assert_eq!(refusal(&client, of("system")).await, Some(Code::ResourceExhausted));
    drop(open.pop());
    while refusal(&client, of("system")).await.is_some() {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_tail_ends_with_the_program() {
    let folder = tempfile::tempdir().unwrap();
    let (running, _, client) = watched(folder.path()).await;
    let mut batches = watch(&client, of("system")).await;
    batches.next().await.unwrap().unwrap();
    let drained = tokio::spawn(running.drain());
    while let Ok(Some(_)) = batches.next().await {}
    assert!(drained.await.unwrap());
}

#[tokio::test]
async fn over_http2_a_foreign_authority_is_refused_as_a_foreign_host_is() {
    let folder = tempfile::tempdir().unwrap();
    let (_running, _, _) = watched(folder.path()).await;
    let socket = folder.path().join("admin.sock");
    let ask = async |more: &[&str], url: &str| {
        let mut curl = tokio::process::Command::new("curl");
        curl.args(["-s", "-o", "/dev/null", "-w", "%{http_version} %{http_code}"]);
        curl.args(["--http2-prior-knowledge", "--unix-socket"]).arg(&socket).args(more).arg(url);
        String::from_utf8(curl.output().await.unwrap().stdout).unwrap()
    };
    assert_eq!(ask(&[], "http://localhost/v1/system").await, "2 200");
    assert_eq!(ask(&[], "http://127.0.0.1:8081/v1/system").await, "2 200");
    assert_eq!(ask(&[], "http://evil.example/v1/system").await, "2 421");
    assert_eq!(ask(&["-H", "host: evil.example"], "http://localhost/v1/system").await, "2 421");
    assert_eq!(ask(&[], "http://evil.example/readyz").await, "2 421");
}

#[tokio::test]
async fn the_token_of_an_earlier_start_opens_nothing_once_its_file_is_another() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("token");
    let text = format!(
        "[server]\nlisten = \"127.0.0.1:0\"\n[admin]\nlisten = \"127.0.0.1:0\"\ntoken_file = \"{}\"\n",
        file.display()
    );
    let config = Config::parse(&text, "t.toml").unwrap();
    let ask = async |running: &RunningServer, token: &str| {
        let Address::Tcp(address) = running.beside().unwrap().addresses()[0] else { panic!("TCP") };
        let url = format!("http://{address}");
        let client = SystemClient::new(Client::builder(url).build().unwrap().channel());
        let value = format!("Bearer {}", token.trim());
        let context = Context::default().with_header("authorization", value).unwrap();
        let reply = System::overview(&client, context, OverviewRequest::default()).await;
        reply.map(drop).map_err(|error| error.code())
    };
    let first = config.server().unwrap().start().await.unwrap();
    let old = std::fs::read_to_string(&file).unwrap();
    assert_eq!(ask(&first, &old).await, Ok(()));
    drop(first);
    std::fs::remove_file(&file).unwrap();
    let second = config.server().unwrap().start().await.unwrap();
    assert_eq!(ask(&second, &old).await, Err(Code::Unauthenticated));
    let new = std::fs::read_to_string(&file).unwrap();
    assert_eq!(ask(&second, &new).await, Ok(()));
    // Neither does that of another program, nor what the file says now and did not at the start.
    std::fs::write(&file, "f".repeat(64)).unwrap();
    assert_eq!(ask(&second, &"f".repeat(64)).await, Err(Code::Unauthenticated));
}

#[tokio::test]
async fn json_that_is_ten_thousand_deep_is_refused_and_the_listener_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("token");
    let text = format!(
        "[server]\nlisten = \"127.0.0.1:0\"\n[admin]\nlisten = \"127.0.0.1:0\"\ntoken_file = \"{}\"\n",
        file.display()
    );
    let running = Config::parse(&text, "t.toml").unwrap().server().unwrap().start().await.unwrap();
    let Address::Tcp(admin) = running.beside().unwrap().addresses()[0] else { panic!("TCP") };
    let token = std::fs::read_to_string(&file).unwrap();
    let ask = async |head: &str, body: &str| {
        let (first, more) = head.split_once('\n').unwrap_or((head, ""));
        let head = format!("{first}\nauthorization: Bearer {}\n{more}", token.trim());
        send_to_host(admin, &admin.to_string(), head.trim_end(), body.as_bytes()).await
    };
    for body in [
        format!("{{\"level\":{}{}}}", "[".repeat(10_000), "]".repeat(10_000)),
        format!("{}{}", "{\"a\":".repeat(10_000), "1"),
        "[".repeat(1_000_000),
        "\u{0}\u{1}".repeat(1000),
    ] {
        for path in ["/v1/system:setLogLevel", "/tidewire.admin.v1.System/SetLogLevel"] {
            let head = format!("POST {path}\ncontent-type: application/json");
            let answer = ask(&head, &body).await;
            assert!((400..500).contains(&answer.status), "{path}: {answer:?}");
        }
    }
    for path in ["/v1/processes/..%2f..%2fetc%2fpasswd", "/v1/processes/%00", "/v1/calls/-1"] {
        let answer = ask(&format!("GET {path}"), "").await;
        assert!((400..500).contains(&answer.status), "{path}: {answer:?}");
    }
    ask("GET /v1/system", "").await.check(200, &["\"ready\":true"]);
}

#[tokio::test]
async fn every_query_of_the_admin_services_asks_for_read_and_every_command_for_act() {
    let folder = tempfile::tempdir().unwrap();
    let (running, _, _) = watched(folder.path()).await;
    let beside = running.beside().unwrap().handle();
    let methods = beside.methods();
    let own = methods.iter().filter(|method| method.service.starts_with("tidewire.admin"));
    let mut count = 0;
    for method in own {
        // A console is opened for what its caller may do, and nothing else.
        let only_looks = method.is_query() || method.method == "OpenConsole";
        let role: &'static [&'static str] =
            if only_looks { &["admin.read"] } else { &["admin.act"] };
        assert_eq!(method.access, Some(tidewire::service::Access::scopes(role)), "{}", method.path);
        count += 1;
    }
    assert!(count >= 30, "{count}");
}

#[tokio::test]
async fn metrics_are_openmetrics_with_exemplars_for_who_asks_for_that() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("admin.sock");
    let text = format!(
        "[server]\nlisten = \"127.0.0.1:0\"\n[log]\naccess = \"json\"\n[admin]\nlisten = \"unix:{}\"\n",
        socket.display()
    );
    let builder = Config::parse(&text, "t.toml").unwrap().server().unwrap();
    let service = BehaviourServiceServer::new(Behaviour::default());
    let running = builder.service(service).start().await.unwrap();
    let Address::Tcp(data) = running.addresses()[0] else { panic!("it is TCP") };
    let head = "POST /tidewire.test.v1.BehaviourService/Look\ncontent-type: application/json\n\
                traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    crate::harness::send(data, head, b"{}").await.check(200, &[]);
    let ask = async |accept: &str| {
        let mut curl = tokio::process::Command::new("curl");
        curl.args(["-s", "-i", "-H", &format!("accept: {accept}"), "--unix-socket"]);
        let output = curl.arg(&socket).arg("http://localhost/metrics").output().await.unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    // As Prometheus sends it.
    let open = ask("application/openmetrics-text;version=1.0.0;q=0.5,text/plain;q=0.3").await;
    assert!(open.contains("content-type: application/openmetrics-text; version=1.0.0"), "{open}");
    assert!(open.contains("# TYPE tidewire_requests counter\ntidewire_requests_total{"), "{open}");
    assert!(open.contains(" # {trace_id=\"0af7651916cd43dd8448eb211c80319c\"} "), "{open}");
    assert!(open.ends_with("# EOF\n"), "{open}");
    let plain = ask("text/plain").await;
    assert!(plain.contains("# TYPE tidewire_requests_total counter\n"), "{plain}");
    assert!(!plain.contains("trace_id") && !plain.contains("# EOF"), "{plain}");
}
