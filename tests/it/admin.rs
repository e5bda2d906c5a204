//! The admin listener: what it tells, to whom, and what it refuses, over real sockets.

use std::net::SocketAddr;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::{Arc, Mutex};

use serde_json::Value;
use tidewire::config::Config;
use tidewire::{Address, RunningServer};
use tidewire_tests::behaviour::Behaviour;
use tidewire_tests::proto::BehaviourServiceServer;

use crate::harness::{Response, post_json, send};

/// A server with an admin listener, and where both are.
struct Watched {
    running: RunningServer,
    data: SocketAddr,
    admin: SocketAddr,
    token: String,
    levels: Arc<Mutex<Vec<String>>>,
    _folder: tempfile::TempDir,
}

fn tcp(running: &RunningServer) -> SocketAddr {
    match running.addresses()[0] {
        Address::Tcp(address) => address,
        _ => panic!("no TCP address"),
    }
}

async fn watched(more: &str) -> Watched {
    watched_in(tempfile::tempdir().unwrap(), more, "").await
}

/// The same with files in a folder, and more settings of the listener.
async fn watched_in(folder: tempfile::TempDir, more: &str, admin: &str) -> Watched {
    let token = folder.path().join("token");
    let file = folder.path().join("tidewire.toml");
    let text = format!(
        "{more}[server]\nlisten = \"127.0.0.1:0\"\n[admin]\nlisten = \"127.0.0.1:0\"\n\
         token_file = \"{}\"\n{admin}\n",
        token.display()
    );
    std::fs::write(&file, text).unwrap();
    let mut config = Config::load(Some(&file), [], &[("limits.streams_max", "7".into())]).unwrap();
    let levels = Arc::new(Mutex::new(Vec::new()));
    let set = Arc::clone(&levels);
    config.on_log_level(move |level| {
        set.lock().unwrap().push(level.to_owned());
        if level == "loud" { Err("no such level".to_owned()) } else { Ok(()) }
    });
    let service = BehaviourServiceServer::new(Behaviour::default());
    let running = config.server().unwrap().service(service).start().await.unwrap();
    let (data, admin) = (tcp(&running), tcp(running.beside().unwrap()));
    let token = std::fs::read_to_string(token).unwrap().trim().to_owned();
    Watched { running, data, admin, token, levels, _folder: folder }
}

impl Watched {
    async fn ask(&self, head: &str, body: &str) -> Response {
        let (first, more) = head.split_once('\n').unwrap_or((head, ""));
        // `send` names a host that is not here; a later one of the same name would be a second.
        raw(self.admin, &format!("{first}\nauthorization: Bearer {}\n{more}", self.token), body)
            .await
    }

    async fn json(&self, head: &str) -> Value {
        let answer = self.ask(head, "").await;
        answer.check(200, &[]);
        serde_json::from_slice(&answer.body).unwrap()
    }
}

/// Sends a request with the host that belongs to the address, unless the head has another.
async fn raw(address: SocketAddr, head: &str, body: &str) -> Response {
    crate::harness::send_to_host(address, &address.to_string(), head, body.as_bytes()).await
}

#[tokio::test]
async fn probes_pass_without_a_token_and_nothing_else_does() {
    let watched = watched("").await;
    raw(watched.admin, "GET /livez", "").await.check(200, &["ok"]);
    raw(watched.admin, "GET /readyz", "").await.check(200, &["ready"]);
    for head in [
        "GET /metrics",
        "GET /v1/system",
        "GET /openapi.json",
        "GET /nowhere",
        "POST /v1/system:drain",
        "POST /tidewire.admin.v1.System/Settings\ncontent-type: application/json",
        "POST /grpc.reflection.v1.ServerReflection/ServerReflectionInfo\ncontent-type: application/grpc",
    ] {
        let refused = raw(watched.admin, head, "{}").await;
        assert!(
            refused.status == 401 || refused.head.contains("grpc-status: 16"),
            "{head}: {refused:?}"
        );
        let (first, more) = head.split_once('\n').unwrap_or((head, ""));
        let wrong = format!("{first}\nauthorization: Bearer {}x\n{more}", watched.token);
        let refused = raw(watched.admin, &wrong, "{}").await;
        assert!(
            refused.status == 401 || refused.head.contains("grpc-status: 16"),
            "{head}: {refused:?}"
        );
        assert!(!refused.text().contains(&watched.token), "{head}");
    }
    // What is told on one port is not on the other.
    send(watched.data, "GET /metrics", b"").await.check(404, &[]);
}

#[tokio::test]
async fn who_has_the_token_for_reading_reads_and_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("read.token");
    let setting = format!("read_token_file = \"{}\"", path.display());
    let watched = watched_in(folder, "", &setting).await;
    assert_eq!(std::fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
    let token = std::fs::read_to_string(&path).unwrap().trim().to_owned();
    assert_ne!(token, watched.token);
    let reads = async |head: &str, body: &str| {
        let (first, more) = head.split_once('\n').unwrap_or((head, ""));
        let head = format!("{first}\nauthorization: Bearer {token}\n{more}");
        raw(watched.admin, &head, body).await
    };
    reads("GET /metrics", "").await.check(200, &["tidewire_"]);
    reads("GET /v1/system", "").await.check(200, &["\"version\""]);
    let json = "content-type: application/json";
    let connect = format!("POST /tidewire.admin.v1.System/Settings\n{json}");
    reads(&connect, "{}").await.check(200, &["admin.read_token_file"]);
    let level = "{\"level\":\"debug\"}";
    for (head, body) in [
        ("POST /v1/system:setLogLevel", level),
        ("POST /tidewire.admin.v1.System/SetLogLevel", level),
        ("POST /v1/system:drain", "{}"),
        ("POST /tidewire.admin.v1.System/Drain", "{}"),
        ("POST /v1/calls:record", "{\"seconds\":9}"),
        ("POST /v1/memo:countHits", "{\"seconds\":9}"),
        ("POST /tidewire.admin.v1.Memo/CountHits", "{\"seconds\":9}"),
    ] {
        let refused = reads(&format!("{head}\n{json}"), body).await;
        let text = refused.text().to_lowercase();
        assert_eq!(refused.status, 403, "{head}: {refused:?}");
        assert!(text.contains("permission_denied") && text.contains("admin.act"), "{head}: {text}");
    }
    assert!(watched.levels.lock().unwrap().is_empty());
    raw(watched.admin, "GET /readyz", "").await.check(200, &["ready"]);
    // The other token is good for both.
    watched.ask(&format!("POST /v1/system:setLogLevel\n{json}"), level).await.check(200, &[]);
    assert_eq!(*watched.levels.lock().unwrap(), ["debug"]);
}

#[test]
fn a_token_for_reading_is_not_the_other_one() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let files = |token: &str, read: &str| {
        let files = format!("token_file = {:?}\nread_token_file = {:?}", path(token), path(read));
        let text = format!("[admin]\nlisten = \"127.0.0.1:0\"\n{files}\n");
        let builder = Config::parse(&text, "t.toml").unwrap().server();
        builder.map(|_| ()).map_err(|error| error.to_string())
    };
    assert_eq!(files("a", "b"), Ok(()));
    let same = "admin.read_token_file holds the token of admin.token_file";
    assert!(files("a", "a").unwrap_err().starts_with(same));
    std::fs::copy(path("a"), path("b")).unwrap();
    assert!(files("a", "b").unwrap_err().starts_with(same));
    assert!(files("a", "").unwrap_err().starts_with("admin.read_token_file = /"));
}

#[tokio::test]
async fn pages_of_browsers_are_kept_out() {
    let watched = watched("").await;
    let own = format!("http://{}", watched.admin);
    for (line, status) in [
        ("host: evil.example".to_owned(), 421),
        (format!("host: evil.example:{}", watched.admin.port()), 421),
        (format!("origin: http://{}", watched.data), 403),
        ("origin: null".to_owned(), 403),
        ("origin: https://evil.example".to_owned(), 403),
        ("sec-fetch-site: cross-site".to_owned(), 403),
        ("sec-fetch-site: same-site".to_owned(), 403),
        (format!("origin: {own}\nsec-fetch-site: same-origin"), 200),
    ] {
        let answer = watched.ask(&format!("GET /v1/system\n{line}"), "").await;
        assert_eq!(answer.status, status, "{line}");
        assert!(!answer.head.contains("access-control"), "{line}: {}", answer.head);
    }
    let probe = raw(watched.admin, "GET /readyz\nhost: evil.example", "").await;
    assert_eq!(probe.status, 421, "a probe tells a page nothing either");
    for kind in ["text/plain", "application/x-www-form-urlencoded"] {
        let head = format!("POST /v1/system:drain\ncontent-type: {kind}");
        watched.ask(&head, "{}").await.check(415, &[]);
    }
    assert!(watched.running.handle().is_ready(), "no page drained it");
}

#[tokio::test]
async fn a_command_is_a_post() {
    let watched = watched("").await;
    let get = "GET /tidewire.admin.v1.System/Drain?encoding=json&message=%7B%7D&connect=v1";
    for head in [get, "GET /v1/system:drain", "DELETE /v1/system:drain"] {
        let answer = watched.ask(head, "").await;
        assert!(answer.status >= 400, "{head}: {answer:?}");
    }
    assert!(watched.running.handle().is_ready());
}

#[tokio::test]
async fn it_tells_of_the_system_its_settings_its_methods_and_its_calls() {
    let watched = watched("[limits]\ncommands_max = 50\n").await;
    post_json(watched.data, "Look", "{}").await.check(200, &[]);
    post_json(watched.data, "Fail", r#"{"code":5}"#).await.check(404, &[]);
    let system = watched.json("GET /v1/system").await;
    assert_eq!(system["ready"], true);
    assert_eq!(system["connectionsAccepted"], 2, "{system}");
    let settings = watched.json("GET /v1/settings").await;
    let told = |key: &str| {
        let all = settings["settings"].as_array().unwrap();
        let setting = all.iter().find(|setting| setting["key"] == key).unwrap();
        let text = |name: &str| setting[name].as_str().unwrap().to_owned();
        (text("value"), text("origin"))
    };
    assert_eq!(told("limits.streams_max"), ("7".to_owned(), "flag".to_owned()));
    assert_eq!(told("limits.commands_max").0, "50");
    assert!(told("limits.commands_max").1.ends_with("tidewire.toml"));
    assert_eq!(told("limits.idle_timeout"), ("2m".to_owned(), "default".to_owned()));
    let services = watched.json("GET /v1/services").await;
    let look =
        services["methods"].as_array().unwrap().iter().find(|method| method["method"] == "Look");
    assert_eq!(look.unwrap()["query"], true);
    let calls = watched.json("GET /v1/calls/methods").await;
    let of = |method: &str| {
        let name = format!("tidewire.test.v1.BehaviourService/{method}");
        let all = calls["methods"].as_array().unwrap();
        all.iter().find(|figures| figures["method"] == name).unwrap().clone()
    };
    assert_eq!(
        (&of("Look")["calls"], &of("Look")["outcomes"][0]["code"]),
        (&1.into(), &"ok".into())
    );
    assert_eq!(of("Fail")["outcomes"][0]["code"], "not_found");
    watched.json("GET /v1/memo").await;
    let metrics = watched.ask("GET /metrics", "").await;
    metrics
        .check(200, &["tidewire_requests_total{method=\"tidewire.test.v1.BehaviourService/Look\""]);
    metrics.check(200, &["tidewire_limit_reached_total{limit=\"limits.calls_max\"} 0"]);
    assert_eq!(metrics.head.matches("content-type").count(), 1, "{}", metrics.head);
}

#[tokio::test]
async fn the_level_of_the_log_is_set_while_it_runs() {
    let watched = watched("").await;
    let head = "POST /v1/system:setLogLevel\ncontent-type: application/json";
    watched.ask(head, r#"{"level":"debug"}"#).await.check(200, &[]);
    watched.ask(head, r#"{"level":"loud"}"#).await.check(400, &["no such level"]);
    for nothing in ["{}", r#"{"level":""}"#, r#"{"level":" "}"#] {
        watched.ask(head, nothing).await.check(400, &["level is empty"]);
    }
    assert_eq!(*watched.levels.lock().unwrap(), ["debug", "loud"]);
    let settings = watched.json("GET /v1/settings").await;
    let of_log = settings["settings"].as_array().unwrap().iter().find(|s| s["key"] == "log.level");
    let (value, origin) = (&of_log.unwrap()["value"], &of_log.unwrap()["origin"]);
    assert_eq!((value, origin), (&"debug".into(), &"the admin listener".into()));
}

#[tokio::test]
async fn a_token_is_shown_once() {
    let watched = watched("").await;
    let twice = "GET /v1/system\nauthorization: Bearer x";
    watched.ask(twice, "").await.check(401, &["authorization is sent twice"]);
}

#[tokio::test]
async fn what_names_nothing_in_a_request_is_refused_by_its_name() {
    let watched = watched("").await;
    let text = "content-type: application/json";
    for path in ["/v1/system:setLogLevel", "/tidewire.admin.v1.System/SetLogLevel"] {
        let head = format!("POST {path}\n{text}");
        let misspelt = r#"{"level":"debug","for":"10m"}"#;
        watched.ask(&head, misspelt).await.check(400, &["invalid_argument", "\\\"for\\\""]);
        assert_eq!(*watched.levels.lock().unwrap(), [] as [&str; 0]);
    }
    for path in ["/v1/system:setLogLevel", "/tidewire.admin.v1.System/SetLogLevel"] {
        let head = format!("POST {path}\n{text}");
        watched.ask(&head, r#"{"level":"debug"}"#).await.check(200, &[]);
    }
    assert_eq!(*watched.levels.lock().unwrap(), ["debug", "debug"]);
}

#[tokio::test]
async fn while_it_drains_it_still_answers_that_it_is_not_ready() {
    let watched = watched("[limits]\ndrain_grace = \"600s\"\n").await;
    let Watched { running, admin, data, token, .. } = watched;
    let handle = running.handle();
    let stopped = tokio::spawn(running.until_stopped());
    let head = format!(
        "POST /v1/system:drain\nauthorization: Bearer {token}\ncontent-type: application/json"
    );
    raw(admin, &head, "{}").await.check(200, &[]);
    while handle.is_ready() {
        tokio::task::yield_now().await;
    }
    raw(admin, "GET /readyz", "").await.check(503, &["drains"]);
    raw(admin, "GET /livez", "").await.check(200, &["ok"]);
    post_json(data, "Look", "{}").await.check(200, &[]);
    stopped.abort();
}

#[tokio::test]
async fn who_owns_the_socket_needs_no_token_and_nobody_else_gets_in() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("admin.sock");
    let text = format!(
        "[server]\nlisten = \"127.0.0.1:0\"\n[admin]\nlisten = \"unix:{}\"\n",
        path.display()
    );
    let running = Config::parse(&text, "t.toml").unwrap().server().unwrap().start().await.unwrap();
    assert_eq!(std::fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
    let answer = over_socket(
        &path,
        "GET /v1/system HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n",
    )
    .await;
    assert!(answer.starts_with("HTTP/1.1 200") && answer.contains("\"ready\":true"), "{answer}");
    let rebound = over_socket(
        &path,
        "GET /v1/system HTTP/1.1\r\nhost: evil.example\r\nconnection: close\r\n\r\n",
    )
    .await;
    assert!(rebound.starts_with("HTTP/1.1 421"), "{rebound}");
    drop(running);
}

async fn over_socket(path: &Path, request: &str) -> String {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let mut stream = tokio::net::UnixStream::connect(path).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer
}

#[tokio::test]
async fn every_metric_of_the_dashboard_exists() {
    let watched = watched("").await;
    post_json(watched.data, "Look", "{}").await.check(200, &[]);
    let metrics = watched.ask("GET /metrics", "").await.text();
    let families: Vec<_> = metrics
        .lines()
        .filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next())
        .flat_map(|name| ["", "_bucket", "_sum", "_count"].map(|end| format!("{name}{end}")))
        .collect();
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/operate/grafana.json");
    let dashboard: Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    let name = regex::Regex::new("tidewire_[a-z_]+").unwrap();
    let mut found = 0;
    for panel in dashboard["panels"].as_array().unwrap() {
        for target in panel["targets"].as_array().unwrap() {
            for metric in name.find_iter(target["expr"].as_str().unwrap()) {
                let metric = metric.as_str().to_owned();
                assert!(families.contains(&metric), "{metric} of {} is not there", panel["title"]);
                found += 1;
            }
        }
    }
    assert!(found >= 12, "{found} metrics");
}
