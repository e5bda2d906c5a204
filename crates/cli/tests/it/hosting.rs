//! Programs in other languages, hosted by `tidewire serve`.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

use crate::program::{command, folder, run, until};

/// A program that nobody wrote for Tidewire: it listens at `PORT`, and says what it is asked.
pub(crate) const PROGRAM: &str = r#"
import os
from http.server import BaseHTTPRequestHandler, HTTPServer

class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        text = f"{self.path} {self.headers['X-Forwarded-Prefix']} {os.getpid()}".encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

HTTPServer(("127.0.0.1", int(os.environ["PORT"])), Handler).serve_forever()
"#;

const SETTINGS: &str = r#"
[server]
listen = "127.0.0.1:0"
[[service]]
name = "shop"
route = "/shop/*"
strip_prefix = true
run = ["python3", "app.py"]
start_timeout = "2m"
"#;

#[test]
fn a_program_is_started_by_its_first_call_and_ends_with_the_server() {
    let folder = folder(&[("app.py", PROGRAM), ("tidewire.toml", SETTINGS)]);
    run(folder.path(), &["check"]).check(0, &["checked 1 file: nothing wrong"]);
    let mut serve = command(folder.path(), &["serve"]).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(serve.stdout.take().unwrap()).lines();
    let listening = lines.next().unwrap().unwrap();
    let address = listening.strip_prefix("listening on ").unwrap();
    assert_eq!(lines.next().unwrap().unwrap(), "serving shop");
    let line = lines.next().unwrap().unwrap();
    assert!(
        line.starts_with("settings are from tidewire.toml"),
        "plain HTTP has no sources: {line}"
    );
    assert!(ask(address, "/shopping").starts_with("HTTP/1.1 404 "));
    let answer = ask(address, "/shop/a?b=c");
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 200 "), "{answer}");
    let [path, prefix, pid] = body.split(' ').collect::<Vec<_>>()[..] else { panic!("{body}") };
    assert_eq!((path, prefix), ("/a?b=c", "/shop"));
    let place = format!("/proc/{pid}");
    assert!(std::fs::exists(&place).unwrap());
    let asked = Command::new("kill").arg(serve.id().to_string()).status().unwrap();
    assert!(asked.success() && serve.wait().unwrap().success());
    assert!(!std::fs::exists(&place).unwrap(), "it ended before its server did");
}

#[test]
fn how_long_replies_are_cached_is_said_at_start_where_a_program_has_sources() {
    let settings = format!("{SETTINGS}protocol = \"native\"\n");
    let folder = folder(&[("app.py", PROGRAM), ("tidewire.toml", &settings)]);
    let mut serve = command(folder.path(), &["serve"]).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(serve.stdout.take().unwrap()).lines().map(Result::unwrap);
    assert!(lines.any(|line| line == "serving shop"));
    let line = lines.next().unwrap();
    assert!(line.starts_with("replies are cached until their dependencies change"), "{line}");
    serve.kill().unwrap();
    serve.wait().unwrap();
}

/// `tidewire serve` in a folder; it ends with the test.
pub(crate) struct Served {
    child: Child,
    pub(crate) address: String,
    log: Receiver<String>,
}

impl Served {
    pub(crate) fn start(folder: &Path) -> Self {
        let serve =
            command(folder, &["serve"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
        let mut child = serve.unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let listening = lines.next().unwrap().unwrap();
        let address = listening.strip_prefix("listening on ").unwrap().to_owned();
        let (said, log) = std::sync::mpsc::channel();
        let errors = BufReader::new(child.stderr.take().unwrap());
        std::thread::spawn(move || {
            errors.lines().map_while(Result::ok).all(|line| {
                show(&line);
                said.send(line).is_ok()
            })
        });
        Self { child, address, log }
    }

    /// Waits until it logs something, and returns that line.
    pub(crate) fn says(&self, text: &str) -> String {
        self.says_until(text).pop().unwrap()
    }

    /// Waits until it logs something, and returns the lines up to that.
    pub(crate) fn says_until(&self, text: &str) -> Vec<String> {
        // Under load it never stops to say something, so the whole wait is bounded.
        let end = Instant::now() + Duration::from_secs(120);
        let mut said = Vec::new();
        while !said.last().is_some_and(|line: &String| line.contains(text)) {
            let left = end.saturating_duration_since(Instant::now());
            let line = self.log.recv_timeout(left);
            said.push(line.unwrap_or_else(|_| panic!("{text} is not among {said:#?}")));
        }
        said
    }

    pub(crate) fn hang_up(&self) {
        let id = self.child.id().to_string();
        assert!(Command::new("kill").args(["-HUP", &id]).status().unwrap().success());
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Shows what went wrong in a program, if the test fails, whatever it had read of it.
#[expect(clippy::print_stdout, reason = "it is shown of a test that fails")]
fn show(line: &str) {
    if line.contains(" WARN ") || line.contains(" ERROR ") {
        println!("{line}");
    }
}

/// The program above, which says a word of its environment in place of its path.
fn shop(word: &str, rest: &str) -> String {
    let program = SETTINGS.replace(
        "name = \"shop\"",
        &format!("name = \"shop\"\nenvironment = {{ WORD = {word:?} }}"),
    );
    format!("{program}{rest}\n")
}

#[test]
fn a_change_of_the_configuration_of_files_and_a_hangup_replace_a_program_under_load_and_no_call_fails()
 {
    let program = PROGRAM
        .replace("{self.path}", "{os.environ['WORD']}")
        .replace("HTTPServer(", "ThreadingHTTPServer(");
    let program = program.replace(
        "import BaseHTTPRequestHandler, HTTPServer",
        "import BaseHTTPRequestHandler, ThreadingHTTPServer",
    );
    let watch = "watch = [\"app.py\"]";
    let folder = folder(&[("app.py", &program), ("tidewire.toml", &shop("one", watch))]);
    let served = Served::start(folder.path());
    let over = AtomicBool::new(false);
    let word = || body_of(&ask(&served.address, "/shop/")).split(' ').next().unwrap().to_owned();
    std::thread::scope(|threads| {
        let callers = [(); 3].map(|()| {
            threads.spawn(|| {
                let mut calls = 0;
                while !over.load(Ordering::Relaxed) {
                    let answer = ask(&served.address, "/shop/a");
                    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
                    calls += 1;
                }
                calls
            })
        });
        let _ends = Ends(&over);
        until(|| word() == "one");
        write(folder.path(), "tidewire.toml", &shop("two", watch));
        until(|| word() == "two");
        // What cannot be used changes nothing, and neither does what cannot be started.
        write(folder.path(), "tidewire.toml", "[[service]]\nname = \"shop\"");
        served.says("the configuration cannot be used");
        assert_eq!(word(), "two");
        write(folder.path(), "tidewire.toml", "");
        served.says("it is empty now: the configuration cannot be used");
        std::fs::remove_file(folder.path().join("tidewire.toml")).unwrap();
        served.hang_up();
        served.says("it is gone; put it back: the configuration cannot be used");
        assert_eq!(word(), "two");
        write(
            folder.path(),
            "tidewire.toml",
            &shop("three", watch)
                .replace("app.py\"]\nroute", "none.py\"]\nroute")
                .replace("run = [\"python3\", \"app.py\"]", "run = [\"python3\", \"none.py\"]"),
        );
        served.says("before it listened");
        assert_eq!(word(), "two", "the old one serves");
        write(folder.path(), "tidewire.toml", &shop("four", watch));
        until(|| word() == "four");
        write(folder.path(), "app.py", &program.replace("{os.environ['WORD']}", "five"));
        until(|| word() == "five");
        let pid = |text: String| text.rsplit(' ').next().unwrap().to_owned();
        let before = pid(body_of(&ask(&served.address, "/shop/")));
        // One of which nothing changed is not started anew.
        while served.log.try_recv().is_ok() {}
        served.hang_up();
        served.says("programs are those of the configuration");
        assert_eq!(pid(body_of(&ask(&served.address, "/shop/"))), before);
        write(folder.path(), "tidewire.toml", &shop("six", "concurrency = 9"));
        served.hang_up();
        until(|| pid(body_of(&ask(&served.address, "/shop/"))) != before);
        over.store(true, Ordering::Relaxed);
        for caller in callers {
            assert!(caller.join().unwrap() > 0);
        }
    });
}

#[test]
fn what_the_old_program_answers_while_the_new_one_starts_is_kept_until_that_takes_over() {
    // Its pages may be kept, and one that says a word in capitals listens once it may.
    let program = PROGRAM
        .replace("{self.path}", "{os.environ['WORD']}")
        .replace("self.end_headers()", "self.send_header('Cache-Control', 'max-age=600'); self.end_headers()")
        .replace(
            "HTTPServer((",
            "while os.environ['WORD'].isupper() and not os.path.exists('may-listen'): pass\nHTTPServer((",
        );
    let settings = |word| shop(word, "cache = true\n[admin]\nlisten = \"unix:admin.sock\"");
    let folder = folder(&[("app.py", &program), ("tidewire.toml", &settings("one"))]);
    let served = Served::start(folder.path());
    let says = |path: &str, word: &str, cache: &str| {
        let answer = ask(&served.address, path);
        assert!(body_of(&answer).starts_with(&format!("{word} ")), "{answer}");
        assert!(answer.contains(&format!("cache-status: tidewire; {cache}")), "{answer}");
    };
    says("/shop/early", "one", "fwd=uri-miss; stored");
    write(folder.path(), "tidewire.toml", &settings("TWO"));
    served.says("replaced: its settings are read again");
    says("/shop/early", "one", "hit");
    says("/shop/meanwhile", "one", "fwd=uri-miss; stored");
    says("/shop/meanwhile", "one", "hit");
    write(folder.path(), "may-listen", "");
    served.says("the new one is called from now on");
    says("/shop/early", "TWO", "fwd=uri-miss; stored");
    says("/shop/meanwhile", "TWO", "fwd=uri-miss; stored");
    // Nothing of the files changed.
    let before = body_of(&ask(&served.address, "/shop/meanwhile"));
    run(folder.path(), &["restart", "shop"]).check(0, &["shop"]);
    assert_ne!(body_of(&ask(&served.address, "/shop/meanwhile")), before);
    // None runs, so the next call starts another.
    run(folder.path(), &["stop", "shop"]).check(0, &[]);
    says("/shop/early", "TWO", "fwd=uri-miss; stored");
    run(folder.path(), &["stop", "shop"]).check(0, &[]);
    write(folder.path(), "tidewire.toml", &settings("three"));
    served.says("replaced: its settings are read again");
    until(|| body_of(&ask(&served.address, "/shop/early")).starts_with("three "));
}

#[test]
fn a_new_executable_the_configuration_and_a_hangup_replace_a_program_in_go_under_load_too() {
    let settings = SETTINGS.replace(r#""python3", "app.py""#, r#""./app""#);
    let folder = folder(&[("tidewire.toml", &settings)]);
    let app = folder.path().join("app");
    // One of the tests of hosting, which answers with its process id.
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/../hosting/tests/it/program.go");
    let build = Command::new("go").args(["build", "-o"]).arg(&app).arg(source).status();
    assert!(build.unwrap().success());
    let served = Served::start(folder.path());
    let over = AtomicBool::new(false);
    let pid = || body_of(&ask(&served.address, "/shop/pid"));
    std::thread::scope(|threads| {
        let caller = threads.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                let answer = ask(&served.address, "/shop/a");
                assert!(answer.starts_with("HTTP/1.1 200 ") && answer.ends_with("/a"), "{answer}");
            }
        });
        let _ends = Ends(&over);
        for replace in [
            &|| {
                std::fs::copy(&app, folder.path().join("new")).unwrap();
                std::fs::rename(folder.path().join("new"), &app).unwrap();
            },
            &|| {
                write(
                    folder.path(),
                    "tidewire.toml",
                    &settings.replace("run", "concurrency = 3\nrun"),
                )
            },
            &|| {
                write(
                    folder.path(),
                    "tidewire.toml",
                    &settings.replace("run", "concurrency = 4\nrun"),
                );
                served.hang_up();
            },
        ] as [&dyn Fn(); 3]
        {
            let before = pid();
            replace();
            until(|| pid() != before);
        }
        over.store(true, Ordering::Relaxed);
        caller.join().unwrap();
    });
}

#[test]
fn a_program_whose_file_is_still_being_written_is_started_when_it_is_there() {
    let settings = SETTINGS.replace(r#""python3", "app.py""#, r#""./app.py""#);
    let program = format!("#!/usr/bin/env python3\n{PROGRAM}");
    let folder = folder(&[("app.py", &program), ("tidewire.toml", &settings)]);
    let app = folder.path().join("app.py");
    std::fs::set_permissions(&app, std::fs::Permissions::from_mode(0o755)).unwrap();
    let served = Served::start(folder.path());
    let writer = std::fs::File::options().append(true).open(&app).unwrap();
    std::thread::scope(|threads| {
        let call = threads.spawn(|| ask(&served.address, "/shop/a"));
        served.says("its file is open for writing");
        drop(writer);
        let answer = call.join().unwrap();
        assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    });
}

/// Says that it is over, also when an assertion failed.
pub(crate) struct Ends<'a>(pub(crate) &'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn programs_and_routes_come_and_go_with_the_configuration() {
    let folder = folder(&[("app.py", PROGRAM), ("tidewire.toml", SETTINGS)]);
    let served = Served::start(folder.path());
    let status = |path: &str| ask(&served.address, path)[..12].to_owned();
    assert_eq!((status("/shop/"), status("/tea/")), ("HTTP/1.1 200".into(), "HTTP/1.1 404".into()));
    let pid = body_of(&ask(&served.address, "/shop/")).rsplit(' ').next().unwrap().to_owned();
    let other = SETTINGS.replace("shop", "tea");
    write(folder.path(), "tidewire.toml", &other);
    until(|| status("/tea/") == "HTTP/1.1 200");
    assert_eq!(status("/shop/"), "HTTP/1.1 404");
    until(|| !std::fs::exists(format!("/proc/{pid}")).unwrap());
}

#[test]
fn what_a_changed_file_has_that_waits_for_a_restart_is_named() {
    let folder = folder(&[("app.py", PROGRAM), ("tidewire.toml", SETTINGS)]);
    let served = Served::start(folder.path());
    // It follows its file once it serves.
    assert!(ask(&served.address, "/shop/a").starts_with("HTTP/1.1 200 "));
    let more = "[limits]\ncommands_max = 7\n[memo.methods.\"a.B/C\"]\nttl = \"9s\"\n";
    write(folder.path(), "tidewire.toml", &format!("{more}{SETTINGS}"));
    let line = served.says("waits for a restart");
    assert!(
        line.ends_with("changed, and waits for a restart: limits.commands_max, memo.methods"),
        "{line}"
    );
}

#[test]
fn a_rule_for_a_path_that_nothing_has_is_told_at_the_start() {
    let rules = "[auth.paths.\"/shop/admin\"]\naccess = \"anonymous\"\n\
                 [auth.paths.\"/shp/*\"]\naccess = \"anonymous\"\n";
    let settings = format!("{rules}{SETTINGS}");
    let folder = folder(&[("app.py", PROGRAM), ("tidewire.toml", &settings)]);
    let told = "tidewire.toml:3:13: ";
    let what = "auth.paths has \"/shp/*\", which is for nothing that is served";
    let checked = run(folder.path(), &["check"]);
    checked.check(0, &[&format!("{told}warning: {what}"), "1 warning"]);
    let line = Served::start(folder.path()).says("WARN");
    assert!(line.contains(&format!("{told}{what}")), "{line}");
}

#[test]
fn the_log_says_who_called_what_in_which_program_and_what_the_cache_knew() {
    let program = PROGRAM
        .replace(
            "        text = f",
            "        if self.path == \"/crash\":\n            os._exit(3)\n        text = f",
        )
        .replace(
            "        self.end_headers()",
            "        self.send_header(\"Cache-Control\", \"max-age=600\")\n        self.end_headers()",
        );
    // The key is `secret`.
    let settings = format!(
        "{SETTINGS}cache = true\n[log]\naccess = \"json\"\n[auth]\notherwise = \"anonymous\"\n\
         [[auth.api_key]]\nsubject = \"ada\"\n\
         sha256 = \"2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b\"\n"
    );
    let folder = folder(&[("app.py", &program), ("tidewire.toml", &settings)]);
    let served = Served::start(folder.path());
    for cache in ["miss", "hit"] {
        assert!(ask(&served.address, "/shop/page").starts_with("HTTP/1.1 200 "));
        let line = served.says("GET /shop/page");
        for part in [format!("\"cache\":\"{cache}\""), "\"caller\":\"\"".to_owned()] {
            assert!(line.contains(&part), "{part} in {line}");
        }
    }
    let mut stream = TcpStream::connect(&served.address).unwrap();
    let headers = "x-api-key: secret\r\nx-request-id: r-1\r\nconnection: close";
    write!(stream, "GET /shop/crash HTTP/1.1\r\nhost: localhost\r\n{headers}\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 502 "), "{answer}");
    for (said, parts) in [
        ("crashed in this call", ["GET /crash", "r-1", "shop"]),
        ("a call failed", ["GET /shop/crash", "r-1", "shop"]),
        ("\"code\":\"5xx\"", ["\"caller\":\"ada\"", "r-1", "\"program\":\"shop\""]),
    ] {
        let line = served.says(said);
        for part in parts {
            assert!(line.contains(part) && !line.contains("secret"), "{part} in {line}");
        }
    }
}

/// A program with the file for Python, which logs.
const LOGS: &str = r#"
import tidewire

app = tidewire.App()

def page(environ, start_response):
    app.log("warn", "tea is low", left=2)
    start_response("200 OK", [("Content-Length", "3")])
    return [b"tea"]

app.wsgi(page)
app.serve()
"#;

#[test]
fn what_a_program_logs_has_its_level_and_its_fields() {
    let sdk = concat!(env!("CARGO_MANIFEST_DIR"), "/../../sdk/python");
    let settings =
        format!("{SETTINGS}protocol = \"native\"\nenvironment = {{ PYTHONPATH = {sdk:?} }}\n");
    let folder = folder(&[("app.py", LOGS), ("tidewire.toml", &settings)]);
    let served = Served::start(folder.path());
    assert_eq!(body_of(&ask(&served.address, "/shop/")), "tea");
    let line = served.says("tea is low");
    for part in ["WARN", "left=2", "shop"] {
        assert!(line.contains(part), "{part} in {line}");
    }
}

/// A program with a method whose answers are kept.
const METHODS: &str = r#"
import os, tidewire

app = tidewire.App()

@app.unary("shop.v1.Shop/GetItem")
def get_item(request, context):
    context.depends("items", request.get("id", 0))
    return {"id": os.getpid()}

app.serve()
"#;

const SHOP: &str = r#"
syntax = "proto3";
package shop.v1;
import "tidewire/v1/options.proto";
service Shop {
  rpc GetItem(Item) returns (Item) {
    option idempotency_level = NO_SIDE_EFFECTS;
    option (tidewire.v1.method) = { cache: PUBLIC };
  }
}
message Item { int32 id = 1; }
"#;

#[test]
fn a_program_with_methods_that_is_taken_out_and_put_back_serves_them_again() {
    let sdk = concat!(env!("CARGO_MANIFEST_DIR"), "/../../sdk/python");
    let settings = format!(
        "[server]\nlisten = \"127.0.0.1:0\"\n[[service]]\nname = \"shop\"\nproto = \"shop.proto\"\n\
         codec = \"json\"\nrun = [\"python3\", \"app.py\"]\nenvironment = {{ PYTHONPATH = {sdk:?} }}\n",
    );
    let files = [("app.py", METHODS), ("shop.proto", SHOP), ("tidewire.toml", &settings)];
    let folder = folder(&files);
    let served = Served::start(folder.path());
    let get =
        || ask(&served.address, "/shop.v1.Shop/GetItem?encoding=json&message=%7B%7D&connect=v1");
    let first = body_of(&get());
    assert_eq!(body_of(&get()), first, "it is kept");
    write(folder.path(), "tidewire.toml", &settings.replace("\"shop\"", "\"tea\""));
    served.says("programs are those of the configuration");
    let answer = get();
    assert!(answer.starts_with("HTTP/1.1 503 "), "nothing is kept of what is gone: {answer}");
    write(folder.path(), "tidewire.toml", &settings);
    served.says("programs are those of the configuration");
    let again = body_of(&get());
    assert!(again.starts_with("{\"id\":") && again != first, "another process: {again}");
}

pub(crate) fn write(folder: &Path, name: &str, text: &str) {
    // In one step, as editors and deployments do.
    std::fs::write(folder.join("new"), text).unwrap();
    std::fs::rename(folder.join("new"), folder.join(name)).unwrap();
}

pub(crate) fn body_of(answer: &str) -> String {
    answer.split_once("\r\n\r\n").map(|(_, body)| body.to_owned()).unwrap_or_default()
}

pub(crate) fn ask(address: &str, path: &str) -> String {
    send(address, &format!("GET {path}"), "")
}

/// The answer to a request without a body, with these lines of headers.
pub(crate) fn send(address: &str, request: &str, headers: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    let head = format!("{request} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n{headers}");
    write!(stream, "{head}\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}
