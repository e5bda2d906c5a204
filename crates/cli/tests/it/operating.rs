//! `tidewire top`, `inspect`, `ps`, `logs`, `stop` and the like, and `mocks`, against running
//! programs with an admin listener.

use std::io::{BufRead as _, BufReader, Lines, Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, ChildStdout, Stdio};
use std::time::Instant;

use crate::program::{HANG, Ran, command, folder, run};

const PROTO: &str = r#"
syntax = "proto3";
package shop.v1;
import "tidewire/v1/options.proto";
service Items {
  rpc Get(Item) returns (Item) {
    option idempotency_level = NO_SIDE_EFFECTS;
    option (tidewire.v1.method) = { cache: CALLER ttl: { seconds: 600 } };
  }
}
message Item { string name = 1; }
"#;

/// A program that runs, and ends with the test.
struct RunningServer {
    child: Child,
    /// Where it takes calls.
    address: String,
    lines: Lines<BufReader<ChildStdout>>,
}

impl RunningServer {
    fn start(folder: &Path, arguments: &[&str]) -> Self {
        let mut child = command(folder, arguments).stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let first = lines.next().unwrap().unwrap();
        let address = first.strip_prefix("listening on ").unwrap().to_owned();
        Self { child, address, lines }
    }

    fn admin(&mut self) -> String {
        let line = self.lines.next().unwrap().unwrap();
        line.strip_prefix("admin on ").unwrap().to_owned()
    }
}

impl Drop for RunningServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn top_shows_what_was_called_over_a_socket_or_with_the_token() {
    for listen in ["unix:admin.sock", "127.0.0.1:0"] {
        let settings = format!("[admin]\nlisten = \"{listen}\"\ntoken_file = \"admin.token\"\n");
        let folder = folder(&[("shop.proto", PROTO), ("tidewire.toml", &settings)]);
        let folder = folder.path();
        let mut serve = RunningServer::start(folder, &["serve", "shop.proto", "--port", "0"]);
        let admin = serve.admin();
        for _ in 0..4 {
            run(folder, &["call", &serve.address, "Get", r#"{"name":"tea"}"#]).check(0, &["tea"]);
        }
        let shows = ["ready, up", "CALLS/S", "shop.v1.Items/Get", "memory: 75.0 % hits"];
        let named = ["top", "--once", "--admin", &admin];
        if listen.starts_with("unix") {
            run(folder, &["top", "--once"]).check(0, &shows);
            run(folder, &named).check(0, &shows);
        } else {
            let with = [&named[..], &["--token-file", "admin.token"]].concat();
            run(folder, &with).check(0, &shows);
            run(folder, &named).check(0, &shows);
            std::fs::remove_file(folder.join("tidewire.toml")).unwrap();
            run(folder, &named).check(1, &["the admin listener refuses", "unauthenticated"]);
        }
    }
}

#[test]
fn inspect_shows_memos_keys_and_why_a_key_was_computed() {
    let settings = "[admin]\nlisten = \"unix:admin.sock\"\n";
    let folder = folder(&[("shop.proto", PROTO), ("tidewire.toml", settings)]);
    let folder = folder.path();
    let serve = RunningServer::start(folder, &["serve", "shop.proto", "--port", "0"]);
    run(folder, &["inspect", "--observe", "600"]).check(0, &["0 entries"]);
    for _ in 0..2 {
        run(folder, &["call", &serve.address, "Get", r#"{"name":"tea"}"#]).check(0, &["tea"]);
    }
    run(folder, &["inspect"]).check(0, &["1 entries", "/shop.v1.Items/Get", "50.0 %"]);
    let memo_name = "/shop.v1.Items/Get";
    let memo = ["inspect", memo_name];
    let listed = run(folder, &memo);
    listed.check(0, &["fresh", "message of "]);
    assert!(!listed.stdout.contains("tea"), "what was asked is nobody else's business");
    run(folder, &["inspect", "shop.v1.Items/Get"]).check(0, &["fresh", "message of "]);
    run(folder, &["inspect", "shop.v1.Items/Gett"])
        .check(2, &["there is no memo or source shop.v1.Items/Gett; did you mean"]);
    let of_key = [&memo[..], &["message"]].concat();
    run(folder, &of_key).check(0, &[": fresh, version ", " s old", " started", " published"]);
    run(folder, &[&memo[..], &["coffee"]].concat()).check(1, &["no key of", "coffee"]);
    run(folder, &["inspect", "--count-hits", "60"]).check(0, &["SERVED  NAME"]);
    run(folder, &["inspect", "--count-hits", "0"]).check(0, &["HITS  NAME"]);
    run(folder, &["inspect", "--observe", "0"]).check(0, &["is not observed now"]);
    run(folder, &of_key).check(0, &["of an age that was not observed", "why: not recorded"]);
    run(folder, &[&of_key[..], &["--invalidate"]].concat()).check(0, &["1 entries made stale"]);
    run(folder, &memo).check(0, &["dirty"]);
    let all = &json(&run(folder, &["inspect", "--json"]))[0];
    assert_eq!(all["overview"]["entries"], "1");
    assert!(all["memos"].as_array().unwrap().iter().any(|memo| memo["name"] == memo_name));
    let entry = &json(&run(folder, &[&memo[..], &["--json"]].concat()))[0];
    assert_eq!((&entry["memo"], &entry["state"]), (&memo_name.into(), &"dirty".into()));
    let entry = &json(&run(folder, &[&of_key[..], &["--json"]].concat()))[0];
    assert_eq!(entry["entry"]["entry"]["state"], "dirty");
    let dropped = [&memo[..], &["--evict"]].concat();
    run(folder, &dropped).check(0, &["1 entries dropped"]);
    run(folder, &dropped).check(0, &["0 entries dropped"]);
    run(folder, &[&memo[..], &["coffee", "--evict"]].concat()).check(1, &["no key", "coffee"]);
}

const PROGRAM: &str = r#"
import os, sys
from http.server import BaseHTTPRequestHandler, HTTPServer

class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        print("asked for", self.path, "at postgres://ada:hunter2@db/shop", chr(27) + "[31m", flush=True)
        text = str(os.getpid()).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

HTTPServer(("127.0.0.1", int(os.environ["PORT"])), Handler).serve_forever()
"#;

const HOSTING: &str = r#"
[server]
listen = "127.0.0.1:0"
[admin]
listen = "unix:admin.sock"
[[service]]
name = "shop"
route = "/shop/*"
run = ["python3", "app.py"]
start_timeout = "2m"
"#;

#[test]
fn calls_are_shown_with_what_was_said_in_them_while_that_is_wanted() {
    let settings = "[admin]\nlisten = \"unix:admin.sock\"\n";
    let folder = folder(&[("shop.proto", PROTO), ("tidewire.toml", settings)]);
    let folder = folder.path();
    let mut serve = RunningServer::start(folder, &["serve", "shop.proto", "--port", "0"]);
    serve.admin();
    let call = |name: &str| {
        let request = format!("{{\"name\":\"{name}\"}}");
        run(folder, &["call", &serve.address, "Get", &request]).check(0, &[name]);
    };
    run(folder, &["calls"]).check(0, &["are not recorded now"]);
    run(folder, &["calls", "--record", "60"]).check(0, &["NUMBER"]);
    call("tea");
    // The program asks what is served before its call.
    let last = || {
        let listed = run(folder, &["calls", "--method", "Items"]);
        listed.check(0, &["ok", "shop.v1.Items/Get"]);
        let line = listed.stdout.lines().rfind(|line| line.contains("Items/Get")).unwrap();
        line.split_whitespace().next().unwrap().to_owned()
    };
    let quiet = run(folder, &["calls", &last()]);
    quiet.check(0, &["shop.v1.Items/Get ok", "content-type: application/"]);
    assert!(!quiet.stdout.contains("tea"), "{}", quiet.stdout);
    run(folder, &["calls", "--capture", "60"]).check(0, &["NUMBER"]);
    call("milk");
    let said = ["→ {\"name\":\"milk\"}", "← {\"name\":\"milk\"}"];
    run(folder, &["calls", &last()]).check(0, &said);
    let failed = run(folder, &["calls", "--failed"]);
    assert!(!failed.stdout.contains("Items/Get"), "{}", failed.stdout);
    let listed = json(&run(folder, &["calls", "--method", "Items", "--json"]));
    assert!(listed.iter().any(|call| call["method"].as_str().unwrap().ends_with("Items/Get")));
    let call = &json(&run(folder, &["calls", &last(), "--json"]))[0];
    assert_eq!((&call["number"], &call["outcome"]), (&last().into(), &"ok".into()));
    run(folder, &["calls", "7777"]).check(1, &["call 7777 is not kept"]);
}

/// What a command printed with `--json`.
fn json(ran: &Ran) -> Vec<serde_json::Value> {
    ran.check(0, &[]);
    ran.stdout.lines().map(|line| serde_json::from_str(line).expect(line)).collect()
}

/// Runs a command until its output has this.
fn until(folder: &Path, arguments: &[&str], part: &str) -> Ran {
    let began = Instant::now();
    loop {
        let ran = run(folder, arguments);
        if ran.stdout.contains(part) {
            return ran;
        }
        assert!(began.elapsed() < HANG, "no {part:?} in {}", ran.stdout);
    }
}

#[test]
fn programs_are_listed_started_stopped_restarted_frozen_and_thawed() {
    let folder = folder(&[("app.py", PROGRAM), ("tidewire.toml", HOSTING)]);
    let folder = folder.path();
    let serve = RunningServer::start(folder, &["serve"]);
    run(folder, &["ps"]).check(0, &["NAME", "shop", "stopped"]);
    run(folder, &["start", "shop"]).check(0, &["shop"]);
    until(folder, &["ps"], "ready");
    run(folder, &["start", "shop"]).check(0, &["ready"]);
    let first = ask(&serve.address, "/shop/a");
    run(folder, &["ps"]).check(0, &["s old, 0 calls open, 1 in all, ", " MiB, ", "s on a core"]);
    let told = run(folder, &["logs", "shop"]);
    told.check(0, &["stdout asked for /shop/a at postgres://***@db/shop", r"\u{1b}[31m"]);
    assert!(!told.stdout.contains("hunter2"), "{}", told.stdout);
    let program = &json(&run(folder, &["ps", "--json"]))[0];
    assert_eq!((&program["name"], &program["state"]), (&"shop".into(), &"ready".into()));
    let lines = json(&run(folder, &["logs", "shop", "--json"]));
    let asked = |line: &&serde_json::Value| line["text"].as_str().unwrap().contains("/shop/a at");
    let line = lines.iter().find(asked).unwrap();
    let instance = &program["instances"][0];
    assert_eq!(line["pid"], instance["pid"]);
    assert!(line["atMs"].as_str().unwrap().parse::<u64>().unwrap() > 1_700_000_000_000, "{line}");
    let shown = told.stdout.lines().find(|line| line.contains("/shop/a at")).unwrap();
    assert_eq!(shown.split(' ').nth(1).unwrap(), instance["pid"].to_string(), "{shown}");
    assert!(shown.starts_with("20") && shown.split(' ').next().unwrap().ends_with('Z'), "{shown}");
    let memory = instance["memoryBytes"].as_str().unwrap().parse::<u64>().unwrap();
    assert!(memory > 1 << 20, "{instance}");
    let looked = &json(&run(folder, &["top", "--once", "--json"]))[0];
    assert_eq!(
        (&looked["overview"]["ready"], &looked["processes"][0]["name"]),
        (&true.into(), &"shop".into())
    );
    run(folder, &["freeze", "shop"]).check(0, &["frozen"]);
    run(folder, &["freeze", "shop"]).check(0, &["frozen"]);
    run(folder, &["thaw", "shop"]).check(0, &["ready"]);
    run(folder, &["freeze", "shop"]).check(0, &["frozen"]);
    assert_eq!(ask(&serve.address, "/shop/b"), first, "a call thaws it");
    let restarted = run(folder, &["restart", "shop"]);
    let old = instance["pid"].to_string();
    let is_new = |line: &str| line.starts_with("  ") && line.contains(" ready ");
    let line = restarted.check(0, &["shop"]).stdout.lines().find(|line| is_new(line));
    assert_ne!(line.unwrap().split_whitespace().next().unwrap(), old, "{}", restarted.stdout);
    until(folder, &["ps"], "      2      0 ");
    let second = ask(&serve.address, "/shop/c");
    assert_ne!(second, first);
    run(folder, &["stop", "shop"]).check(0, &["shop"]);
    until(folder, &["ps"], "stopped");
    run(folder, &["stop", "shop"]).check(0, &["stopped"]);
    assert_ne!(ask(&serve.address, "/shop/d"), second, "the next call starts another");
    run(folder, &["stop", "ship"]).check(1, &["no program is called \"ship\"; there are shop"]);
}

#[test]
fn ps_says_when_a_program_failed_and_which_programs_there_are() {
    let program = "import sys; sys.exit(7)";
    let settings =
        format!("{HOSTING}[[service]]\nname = \"cart\"\nroute = \"/cart/*\"\nrun = [\"true\"]\n");
    let folder = folder(&[("app.py", program), ("tidewire.toml", &settings)]);
    let folder = folder.path();
    let _serve = RunningServer::start(folder, &["serve"]);
    let quiet = run(folder, &["ps", "shop"]);
    assert!(!quiet.check(0, &["shop"]).stdout.contains("failure"), "{}", quiet.stdout);
    run(folder, &["start", "shop"]).check(0, &["shop"]);
    let failed = until(folder, &["ps", "shop"], "last failure ");
    failed.check(0, &["s ago: ", "exit code 7"]);
    assert!(!failed.stdout.contains("cart"), "{}", failed.stdout);
    let named = &json(&run(folder, &["ps", "shop", "--json"]))[0];
    assert_eq!(named["name"], "shop");
    run(folder, &["ps", "nope"]).check(1, &["no program is called \"nope\"; there are shop, cart"]);
}

#[test]
fn a_program_that_cannot_start_says_why_in_ps_and_not_to_callers() {
    let files = [
        ("python3", "app.py", "def (", "SyntaxError: "),
        ("node", "app.cjs", "serve(;", "SyntaxError: "),
        ("sh", "app.sh", "echo no database >&2; exit 3", "no database"),
    ];
    for (program, file, text, why) in files {
        let settings = HOSTING.replace("python3\", \"app.py", &format!("{program}\", \"{file}"));
        let folder = folder(&[(file, text), ("tidewire.toml", &settings)]);
        let serve = RunningServer::start(folder.path(), &["serve"]);
        let mut stream = TcpStream::connect(&serve.address).unwrap();
        write!(stream, "GET /shop/a HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")
            .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(
            answer.starts_with("HTTP/1.1 503") && answer.contains("its log says why"),
            "{answer}"
        );
        assert!(!answer.contains(why), "{answer}");
        let said = format!("before it listened ({why}");
        run(folder.path(), &["ps"]).check(0, &[&said]);
    }
}

#[test]
fn a_program_is_a_series_of_its_own_in_metrics_and_in_top() {
    let folder = folder(&[("app.py", PROGRAM), ("tidewire.toml", HOSTING)]);
    let serve = RunningServer::start(folder.path(), &["serve"]);
    ask(&serve.address, "/shop/a");
    ask(&serve.address, "/shop/b");
    let mut admin = UnixStream::connect(folder.path().join("admin.sock")).unwrap();
    write!(admin, "GET /metrics HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n").unwrap();
    let mut metrics = String::new();
    admin.read_to_string(&mut metrics).unwrap();
    let value = |family: &str| {
        let of_it = format!("{family}{{program=\"shop\",route=\"/shop/*\"}} ");
        let line = metrics.lines().find_map(|line| line.strip_prefix(&of_it));
        line.unwrap_or_else(|| panic!("no {of_it} in {metrics}")).parse::<f64>().unwrap()
    };
    for (family, expected) in [
        ("calls_total", 2.0),
        ("calls_running", 0.0),
        ("calls_waiting", 0.0),
        ("starts_total", 1.0),
        ("start_seconds_count", 1.0),
        // The call that it was started for.
        ("queue_seconds_count", 1.0),
        ("crashes_total", 0.0),
        ("out_of_memory_total", 0.0),
        ("broken", 0.0),
    ] {
        assert_eq!(value(&format!("tidewire_program_{family}")), expected, "{family}");
    }
    assert!(value("tidewire_program_start_seconds_sum") > 0.0);
    assert!(value("tidewire_program_queue_seconds_sum") > 0.0);
    run(folder.path(), &["top", "--once"]).check(0, &["PROGRAM", "shop ready /shop/*"]);
}

#[test]
fn programs_that_stand_by_are_counted() {
    let settings = format!("{HOSTING}spares = 2\n");
    let folder = folder(&[("app.py", PROGRAM), ("tidewire.toml", &settings)]);
    let serve = RunningServer::start(folder.path(), &["serve"]);
    let columns = |starts, spares, calls| format!(" {starts:>6} {spares:>6} {calls:>6} ");
    until(folder.path(), &["ps"], &columns(2, 2, 0)).check(0, &["SPARES", "stopped"]);
    ask(&serve.address, "/shop/a");
    until(folder.path(), &["ps"], &columns(3, 2, 0)).check(0, &["ready"]);
}

#[test]
fn logs_go_on_with_what_is_printed_later() {
    let folder = folder(&[("app.py", PROGRAM), ("tidewire.toml", HOSTING)]);
    let serve = RunningServer::start(folder.path(), &["serve"]);
    ask(&serve.address, "/shop/before");
    let logs = command(folder.path(), &["logs", "-f", "shop"]).stdout(Stdio::piped()).spawn();
    let mut logs = logs.unwrap();
    let mut lines = BufReader::new(logs.stdout.take().unwrap()).lines().map(Result::unwrap);
    assert!(lines.any(|line| line.contains("/shop/before")));
    ask(&serve.address, "/shop/after");
    assert!(lines.any(|line| line.contains("/shop/after")));
    logs.kill().unwrap();
    logs.wait().unwrap();
}

fn ask(address: &str, path: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    answer.split_once("\r\n\r\n").unwrap().1.to_owned()
}

#[test]
fn rules_and_calls_of_a_mock_are_shown_and_forgotten() {
    let settings = "[admin]\nlisten = \"unix:admin.sock\"\n";
    let rule =
        "responses:\n  - name: cheap\n    when: {request.name: tea}\n    body: {name: green}\n";
    let rules = ("rules/shop.v1.items.get.yaml", rule);
    let folder = folder(&[("shop.proto", PROTO), ("tidewire.toml", settings), rules]);
    let folder = folder.path();
    let mock = RunningServer::start(folder, &["mock", "shop.proto", "--port", "0"]);
    run(folder, &["mocks"]).check(0, &["shop.v1.Items/Get", "shop.v1.items.get.yaml:2 cheap"]);
    run(folder, &["mocks", "list-calls"]).check(0, &[]);
    run(folder, &["call", &mock.address, "Get", r#"{"name":"tea"}"#]).check(0, &["green"]);
    run(folder, &["mocks", "list-calls"]).check(0, &["1 shop.v1.Items/Get ok ", "get.yaml:2"]);
    run(folder, &["mocks", "reset"]).check(0, &[]);
    assert_eq!(run(folder, &["mocks", "list-calls"]).stdout, "");
    run(folder, &["ps"]).check(0, &["NAME"]);
}

#[test]
fn who_serves_no_mock_and_who_has_no_admin_listener_is_told() {
    let settings = "[admin]\nlisten = \"unix:admin.sock\"\n";
    let folder = folder(&[("shop.proto", PROTO), ("tidewire.toml", settings)]);
    run(folder.path(), &["ps"]).check(1, &["the admin listener does not answer"]);
    let _serve = RunningServer::start(folder.path(), &["serve", "shop.proto", "--port", "0"]);
    run(folder.path(), &["mocks"]).check(1, &["this server mocks nothing"]);
    run(folder.path(), &["stop", "shop"]).check(1, &["this server hosts none"]);
    let empty = crate::program::folder(&[]);
    run(empty.path(), &["top", "--once"]).check(2, &["where is the program?"]);
}

#[test]
fn the_level_of_the_log_is_set_to_one_that_there_is_and_told_and_a_named_address_gets_the_token() {
    let settings = "[admin]\nlisten = \"127.0.0.1:0\"\ntoken_file = \"admin.token\"\n";
    let folder = folder(&[("shop.proto", PROTO), ("tidewire.toml", settings)]);
    let folder = folder.path();
    let mut serve = RunningServer::start(folder, &["serve", "shop.proto", "--port", "0"]);
    let admin = serve.admin();
    let token = std::fs::read_to_string(folder.join("admin.token")).unwrap();
    let send = |line: &str, body: &str| {
        let mut stream = TcpStream::connect(&admin).unwrap();
        let (token, length) = (token.trim(), body.len());
        write!(
            stream,
            "{line} HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\nauthorization: Bearer {token}\r\n\
             content-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
        )
        .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    };
    let levels = "off, error, warn, info, debug, trace";
    for (body, said) in [
        ("{}", levels),
        (r#"{"level":"nosuch"}"#, levels),
        (r#"{"level":"info,,"}"#, levels),
        (r#"{"log_level":"info"}"#, r#"unknown field \"log_level\""#),
    ] {
        let answer = send("POST /v1/system:setLogLevel", body);
        assert!(answer.starts_with("HTTP/1.1 400"), "{body}: {answer}");
        assert!(answer.contains(said), "{body}: {answer}");
    }
    let level =
        |value, origin| format!(r#""key":"log.level","value":"{value}","origin":"{origin}""#);
    let told = send("GET /v1/settings", "");
    assert!(told.contains(&level("info", "default")), "{told}");
    let answer = send("POST /v1/system:setLogLevel", r#"{"level":"info,hyper=debug"}"#);
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    let told = send("GET /v1/settings", "");
    assert!(told.contains(&level("info,hyper=debug", "the admin listener")), "{told}");

    run(folder, &["top", "--once", "--admin", &admin]).check(0, &["ready"]);
    let elsewhere = crate::program::folder(&[]);
    let ran = run(elsewhere.path(), &["top", "--once", "--admin", &admin]);
    ran.check(1, &["name the file of its token by --token-file"]);
}

#[test]
fn what_a_server_says_reaches_the_terminal_as_text() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                let mut byte = [0];
                stream.read_exact(&mut byte).unwrap();
                head.push(byte[0]);
            }
            let body = r#"{"code":"internal","message":"a\u001b]0;pwn\u0007\u001b[31m\r\u009bb"}"#;
            let head = "HTTP/1.1 500 No\r\ncontent-type: application/json\r\nconnection: close";
            write!(stream, "{head}\r\ncontent-length: {}\r\n\r\n{body}", body.len()).unwrap();
        }
    });
    let folder = folder(&[]);
    for command in
        [&["ps"][..], &["top", "--once"], &["calls"], &["inspect"], &["mocks"], &["logs", "a"]]
    {
        let arguments: Vec<_> = command.iter().copied().chain(["--admin", &address]).collect();
        run(folder.path(), &arguments).check(1, &[r"a\u{1b}]0;pwn\u{7}\u{1b}[31m\r\u{9b}b"]);
    }
}
