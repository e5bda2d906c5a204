//! `tidewire serve` as a process: its signals, and nobody reading what it says.

use std::io::{BufRead as _, BufReader, Lines, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, ChildStderr, ChildStdout, Command, Stdio};

use tempfile::TempDir;

use crate::program::{command, folder, run, until};

const PROTO: &str = r#"
syntax = "proto3";
package shop.v1;
service Items { rpc Get(Item) returns (Item); }
message Item { string name = 1; }
"#;

/// The program, serving.
struct Served {
    child: Child,
    output: Option<Lines<BufReader<ChildStdout>>>,
    log: Option<Lines<BufReader<ChildStderr>>>,
    address: String,
    folder: TempDir,
}

impl Served {
    fn start() -> Self {
        Self::in_folder(folder(&[("shop.proto", PROTO)]), &["serve", "shop.proto", "--port", "0"])
    }

    fn in_folder(folder: TempDir, arguments: &[&str]) -> Self {
        let mut command = command(folder.path(), arguments);
        command.env("TIDEWIRE_LOG_LEVEL", "info");
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut output = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut log = BufReader::new(child.stderr.take().unwrap()).lines();
        let line = output.next().unwrap_or_else(|| panic!("it ended: {:?}", log.next())).unwrap();
        let address = line.strip_prefix("listening on ").unwrap().to_owned();
        Self { child, output: Some(output), log: Some(log), address, folder }
    }

    /// What it prints next.
    fn says(&mut self, lines: &[&str]) {
        let output = self.output.as_mut().unwrap();
        assert_eq!(output.take(lines.len()).map(Result::unwrap).collect::<Vec<_>>(), lines);
    }

    fn signal(&self, name: &str) {
        let id = self.child.id().to_string();
        assert!(Command::new("kill").args(["-s", name, &id]).status().unwrap().success());
    }

    #[track_caller]
    fn answers(&self) {
        run(self.folder.path(), &["call", &self.address, "Get", r#"{"name":"tea"}"#])
            .check(0, &["{\"name\":\"tea\"}\n"]);
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[cfg(target_os = "linux")]
#[test]
fn it_has_as_many_threads_as_it_is_told() {
    let serves_with = |threads: &str, expected: usize| {
        let threads = format!("server.threads={threads}");
        let arguments = ["serve", "shop.proto", "--port", "0", "--set", &threads];
        let served = Served::in_folder(folder(&[("shop.proto", PROTO)]), &arguments);
        served.answers();
        // One that read a file for it stays for a while, and may end while it is looked at.
        until(|| {
            let tasks = std::fs::read_dir(format!("/proc/{}/task", served.child.id())).unwrap();
            let name = |task: std::io::Result<std::fs::DirEntry>| {
                std::fs::read_to_string(task.unwrap().path().join("comm")).unwrap_or_default()
            };
            tasks.map(name).filter(|name| name.starts_with("tokio")).count() == expected
        });
    };
    // Where it is the only one, the first serves.
    serves_with("1", 0);
    serves_with("6", 6);
    run(folder(&[]).path(), &["serve", "shop.proto", "--set", "server.threads=0"])
        .check(2, &["server.threads", "0 threads; write 1 to 1024"]);
}

#[test]
fn a_hangup_is_logged_and_a_termination_ends_it_well() {
    for last in ["TERM", "INT"] {
        let mut served = Served::start();
        for _ in 0..2 {
            served.signal("HUP");
            let said = served.log.as_mut().unwrap().map(Result::unwrap);
            let said = said.inspect(|line| assert!(!line.contains('\x1b'), "no colour: {line:?}"));
            let said =
                said.take_while(|line| !line.contains("are those of the configuration")).count();
            assert!(said < 20, "one line a signal");
            served.answers();
        }
        served.signal(last);
        assert_eq!(served.child.wait().unwrap().code(), Some(0), "{last}");
    }
}

#[test]
fn a_drain_says_what_it_waits_for_and_what_became_of_that() {
    let settings = "[server]\nlisten = \"127.0.0.1:0\"\n\
                    [limits]\ndrain_grace = \"100ms\"\ndrain_timeout = \"50ms\"\n";
    for has_call in [false, true] {
        let folder = folder(&[("shop.proto", PROTO), ("tidewire.toml", settings)]);
        let mut served = Served::in_folder(folder, &["serve", "shop.proto"]);
        let mut caller = TcpStream::connect(&served.address).unwrap();
        if has_call {
            let head = "POST /shop.v1.Items/Get HTTP/1.1\r\nhost: localhost\r\nexpect: 100-continue\r\n\
                        content-type: application/json\r\ncontent-length: 14\r\n\r\n";
            caller.write_all(head.as_bytes()).unwrap();
            // Who is told to go on is being read from.
            caller.read_exact(&mut [0; 12]).unwrap();
        }
        served.signal("TERM");
        let said: Vec<_> = served.log.take().unwrap().map(Result::unwrap).collect();
        let has = |text: &str| said.iter().any(|line| line.contains(text));
        assert!(has("calls are taken for limits.drain_grace = 100ms more"), "{said:?}");
        assert_eq!(has("what still ran after limits.drain_timeout = 50ms was cut off"), has_call);
        assert_eq!(has("drained: "), !has_call, "{said:?}");
        assert!(!has_call || has("may end within limits.drain_timeout = 50ms"), "{said:?}");
        assert!(!has_call || has("calls=1"), "{said:?}");
        assert_eq!(served.child.wait().unwrap().code(), Some(0));
    }
}

#[test]
fn in_development_pages_of_this_machine_may_call_and_their_cookies_count_for_nothing() {
    let preflight = |served: &Served, origin: &str| {
        let head = "OPTIONS /shop.v1.Items/Get HTTP/1.1\r\nhost: localhost\r\n\
                    access-control-request-method: POST\r\nconnection: close";
        let mut stream = TcpStream::connect(&served.address).unwrap();
        write!(stream, "{head}\r\norigin: {origin}\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer.contains("access-control-allow-origin: ")
    };
    let call = |served: &Served, more: &str| {
        let mut stream = TcpStream::connect(&served.address).unwrap();
        let head = "POST /shop.v1.Items/Get HTTP/1.1\r\nhost: localhost\r\n\
                    content-type: application/json\r\ncontent-length: 2\r\nconnection: close\r\n\
                    origin: http://localhost:5173\r\nsec-fetch-site: same-site";
        write!(stream, "{head}{more}\r\n\r\n{{}}").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer[..12].to_owned()
    };
    let arguments = ["serve", "shop.proto", "--port", "0", "--dev", "--no-console"];
    let served = Served::in_folder(folder(&[("shop.proto", PROTO)]), &arguments);
    assert!(preflight(&served, "http://localhost:5173"));
    assert!(!preflight(&served, "https://evil.example"));
    assert_eq!(call(&served, ""), "HTTP/1.1 200");
    assert_eq!(call(&served, "\r\ncookie: session=1"), "HTTP/1.1 403");
    let served = Served::start();
    assert!(!preflight(&served, "http://localhost:5173"));
    assert_eq!(call(&served, ""), "HTTP/1.1 403");
}

#[test]
fn a_second_signal_ends_it_at_once_and_that_is_a_failure() {
    let settings = "[server]\nlisten = \"127.0.0.1:0\"\n[limits]\ndrain_grace = \"1h\"\n";
    let folder = folder(&[("shop.proto", PROTO), ("tidewire.toml", settings)]);
    let mut served = Served::in_folder(folder, &["serve", "shop.proto"]);
    served.signal("TERM");
    let mut log = served.log.take().unwrap().map(Result::unwrap);
    assert!(log.any(|line| line.contains("limits.drain_grace = 3600s more")));
    // Who comes meanwhile is served.
    served.answers();
    served.signal("TERM");
    assert!(log.any(|line| line.contains("a second signal came")));
    assert_eq!(served.child.wait().unwrap().code(), Some(1));
}

#[test]
fn nobody_reading_its_output_or_its_log_does_not_end_it() {
    let mut served = Served::start();
    drop((served.output.take(), served.log.take()));
    for _ in 0..3 {
        // Each is a line of a log that is closed.
        served.signal("HUP");
        served.answers();
    }
    served.signal("TERM");
    assert_eq!(served.child.wait().unwrap().code(), Some(0));
}

#[test]
fn where_settings_come_from_is_said() {
    let settings = "[server]\nlisten = \"127.0.0.1:0\"\n";
    let folder = folder(&[("shop.proto", PROTO), ("tidewire.toml", settings)]);
    let mut served = Served::in_folder(folder, &["serve", "shop.proto"]);
    served.says(&["serving shop.v1.Items", "settings are from tidewire.toml, TIDEWIRE_LOG_LEVEL"]);
}

#[test]
fn a_folder_without_settings_says_what_to_do_with_what_it_has() {
    let protos = folder(&[("protos/shop/v1/shop.proto", PROTO)]);
    let next = ["there are .proto files in protos", "tidewire init", "tidewire mock protos"];
    run(protos.path(), &["serve"]).check(2, &next);
    std::fs::write(protos.path().join("tidewire.toml"), "[server]\n").unwrap();
    run(protos.path(), &["serve"]).check(2, &["write a [[service]] for them into tidewire.toml"]);
    run(folder(&[]).path(), &["serve"]).check(2, &["nothing to serve", "tidewire serve protos"]);
}

#[test]
fn settings_of_a_folder_above_are_found_with_their_paths() {
    let settings =
        "[server]\nlisten = \"127.0.0.1:0\"\n[[service]]\nproto = \"api\"\nbackend = \"echo\"\n";
    let folder =
        folder(&[("tidewire.toml", settings), ("api/shop.proto", PROTO), ("docs/deep/readme", "")]);
    let below = folder.path().join("docs/deep");
    run(&below, &["check"]).check(0, &["checked 2 files: nothing wrong"]);
    let mut child = command(&below, &["serve"]).stdout(Stdio::piped()).spawn().unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap()).lines();
    let line = output.next().unwrap().unwrap();
    let address = line.strip_prefix("listening on ").unwrap();
    run(&below, &["call", address, "Get", r#"{"name":"tea"}"#]).check(0, &["tea"]);
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn an_address_that_is_taken_is_told_with_the_flag_that_asked_for_it() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let (address, port) = (taken.local_addr().unwrap(), taken.local_addr().unwrap().port());
    let (address, port) = (address.to_string(), port.to_string());
    let folder = folder(&[("shop.proto", PROTO)]);
    for command in ["serve", "mock"] {
        let tried = |flag, value| run(folder.path(), &[command, "shop.proto", flag, value]);
        tried("--port", &port).check(1, &[&address, "is in use", "another --port"]);
        tried("--listen", &address).check(1, &[&address, "is in use", "another --listen"]);
        let admin = format!("admin.listen={address}");
        let settings = ["--port", "0", "--set", &admin, "--set", "admin.token_file=token"];
        let words = [&[command, "shop.proto"], &settings[..]].concat();
        run(folder.path(), &words).check(1, &[&address, "is in use", "another admin.listen"]);
        let file = format!("[admin]\nlisten = \"{address}\"\ntoken_file = \"token\"\n");
        std::fs::write(folder.path().join("tidewire.toml"), file).unwrap();
        let advice = "another admin.listen: this one is of tidewire.toml; --set admin.listen=";
        tried("--listen", "127.0.0.1:0").check(1, &[&address, "is in use", advice]);
        std::fs::remove_file(folder.path().join("tidewire.toml")).unwrap();
        let setting = format!("server.listen={address}");
        tried("--set", &setting).check(1, &["is in use", "server.listen in tidewire.toml"]);
    }
}

#[test]
fn rules_of_a_mock_may_come_after_its_start() {
    let mut served = Served::in_folder(
        folder(&[("shop.proto", PROTO)]),
        &["mock", "shop.proto", "--port", "0", "--no-console"],
    );
    served.says(&["mocking shop.v1.Items"]);
    let mut log = served.log.take().unwrap().map(Result::unwrap);
    let first = log.next().unwrap();
    assert!(first.contains("INFO") && first.contains("there are no rules yet"), "{first}");
    let rules = served.folder.path().join("rules");
    std::fs::create_dir(&rules).unwrap();
    let rule = "responses: [{body: {name: tea}}]";
    std::fs::write(rules.join("shop.v1.items.get.yaml"), rule).unwrap();
    assert!(log.any(|line| line.contains("reloaded") && line.contains("shop.v1.Items/Get")));
    served.answers();
}
