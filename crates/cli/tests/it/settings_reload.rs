//! Limits, access rules and other origins that change while `tidewire serve` answers.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use crate::hosting::{Ends, PROGRAM, Served, ask, body_of, send, write};
use crate::program::folder;

const PROTO: &str = r#"
syntax = "proto3";
package shop.v1;
service Items { rpc Get(Item) returns (Item); }
service Other { rpc Get(Item) returns (Item); }
message Item { string name = 1; }
"#;

const SETTINGS: &str = r#"
[server]
listen = "127.0.0.1:0"
[log]
level = "info"
[[service]]
proto = "shop.proto"
"#;

const PROGRAM_SETTINGS: &str = r#"
[[service]]
name = "shop"
route = "/shop/*"
strip_prefix = true
run = ["python3", "app.py"]
start_timeout = "2m"
"#;

const TAKEN_UP: &str = "settings and programs are those of the configuration";
/// The server accepts no credentials, so nobody may call this method.
const CLOSED: &str = "[auth.methods.\"shop.v1.Items/Get\"]\naccess = \"authenticated\"\n";

struct Site {
    folder: tempfile::TempDir,
    served: Served,
    hangs_up: bool,
}

impl Site {
    fn start(before: &str, hangs_up: bool) -> Self {
        let settings = format!("{SETTINGS}{before}");
        let files =
            [("shop.proto", PROTO), ("app.py", PROGRAM), ("tidewire.toml", &*padded(&settings))];
        let folder = folder(&files);
        let served = Served::start(folder.path());
        Self { folder, served, hangs_up }
    }

    /// Changes the file, and waits until the log says what became of it.
    fn change(&self, more: &str, told: &str) -> String {
        self.write(&format!("{SETTINGS}{more}"));
        self.served.says(told)
    }

    fn write(&self, text: &str) {
        let folder = self.folder.path();
        if !self.hangs_up {
            return write(folder, "tidewire.toml", text);
        }
        // Its size, time and number stay, so only SIGHUP tells that it is another.
        let file = folder.join("tidewire.toml");
        let mut file = OpenOptions::new().write(true).open(file).unwrap();
        let modified = file.metadata().unwrap().modified().unwrap();
        if text.is_empty() {
            file.set_len(0).unwrap();
        } else {
            file.write_all(padded(text).as_bytes()).unwrap();
        }
        file.set_modified(modified).unwrap();
        self.served.hang_up();
    }

    fn get(&self, service: &str, headers: &str) -> String {
        self.post(service, headers, "{}")
    }

    fn post(&self, service: &str, headers: &str, body: &str) -> String {
        post(&self.served.address, service, headers, body)
    }
}

/// Settings that are as long as all others.
fn padded(settings: &str) -> String {
    format!("{settings:#<2000}")
}

fn post(address: &str, service: &str, headers: &str, body: &str) -> String {
    let length = body.len();
    let head = format!("{headers}content-type: application/json\r\ncontent-length: {length}");
    let target = format!("POST /shop.v1.{service}/Get");
    send(address, &target, &format!("{head}\r\n\r\n{body}"))
}

fn status(answer: &str) -> &str {
    answer.split(' ').nth(1).unwrap_or(answer)
}

/// Both ways by which a server learns that its file is another.
fn each_way(before: &str, check: impl Fn(&Site)) {
    for hangs_up in [false, true] {
        check(&Site::start(before, hangs_up));
    }
}

#[test]
fn a_limit_that_is_lowered_refuses_what_passed_before() {
    each_way("", |site| {
        let name = format!("{{\"name\":\"{}\"}}", "x".repeat(2000));
        assert_eq!(status(&site.post("Items", "", &name)), "200");
        site.change("[limits]\nmessage_bytes_max = \"1KiB\"\n", TAKEN_UP);
        let answer = site.post("Items", "", &name);
        assert!(answer.contains("limits.message_bytes_max"), "{answer}");
        assert_eq!(status(&site.get("Items", "")), "200");
        site.change("[limits]\naddress_rate = 1\n", TAKEN_UP);
        let answers = [site.get("Items", ""), site.get("Items", ""), site.get("Items", "")];
        assert!(answers.iter().any(|answer| status(answer) == "429"), "{answers:?}");
    });
}

#[test]
fn an_origin_that_is_added_is_answered() {
    each_way("", |site| {
        let ask = || site.get("Items", "origin: https://a.example\r\n");
        assert!(!ask().contains("access-control-allow-origin"));
        site.change("[cors]\norigins = \"https://a.example\"\n", TAKEN_UP);
        assert!(ask().contains("access-control-allow-origin: https://a.example"), "{}", ask());
    });
}

#[test]
fn rules_close_and_open_a_method_while_all_other_calls_go_on() {
    each_way("", |site| {
        let (is_over, asked) = (AtomicBool::new(false), AtomicUsize::new(0));
        let address = &site.served.address;
        std::thread::scope(|threads| {
            for _ in 0..2 {
                threads.spawn(|| {
                    while !is_over.load(Ordering::Relaxed) {
                        let answer = post(address, "Other", "", "{}");
                        assert_eq!(status(&answer), "200", "{answer}");
                        asked.fetch_add(1, Ordering::Relaxed);
                    }
                });
            }
            let _over = Ends(&is_over);
            assert_eq!(status(&site.get("Items", "")), "200");
            site.change(CLOSED, TAKEN_UP);
            assert_eq!(status(&site.get("Items", "")), "401");
            site.change("", TAKEN_UP);
            assert_eq!(status(&site.get("Items", "")), "200");
        });
        assert!(asked.load(Ordering::Relaxed) > 0);
    });
}

#[test]
fn a_file_that_cannot_be_used_changes_nothing_and_the_log_says_why_and_where() {
    each_way("", |site| {
        let key = "body_bytes_mx = 3\n";
        let line = site.change(&format!("{CLOSED}[limits]\n{key}"), "cannot be used");
        assert!(line.contains("tidewire.toml:11:1: unknown key body_bytes_mx"), "{line}");
        let bound = "stream_window_bytes = 0\n";
        let line = site.change(&format!("{CLOSED}[limits]\n{bound}"), "cannot be used");
        assert!(line.contains("tidewire.toml:11:"), "{line}");
        let rule = "[auth.methods.\"shop.v1.Nothing/Get\"]\naccess = \"authenticated\"\n";
        let line = site.change(&format!("{CLOSED}{rule}"), "cannot be used");
        assert!(line.contains("tidewire.toml: ") && line.contains("shop.v1.Nothing/Get"), "{line}");
        assert_eq!(status(&site.get("Items", "")), "200");
    });
}

#[test]
fn a_program_stays_as_it_is_beside_settings_that_change_or_cannot_be_used() {
    each_way(PROGRAM_SETTINGS, |site| {
        let address = &site.served.address;
        let first = body_of(&ask(address, "/shop/a"));
        let (is_over, asked) = (AtomicBool::new(false), AtomicUsize::new(0));
        std::thread::scope(|threads| {
            threads.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    let answer = ask(address, "/shop/a");
                    assert_eq!(status(&answer), "200", "{answer}");
                    assert_eq!(body_of(&answer), first, "the same process answers");
                    asked.fetch_add(1, Ordering::Relaxed);
                }
            });
            let _over = Ends(&is_over);
            let unknown = "[limits]\nbody_bytes_mx = 3\n";
            site.change(&format!("{PROGRAM_SETTINGS}{unknown}"), "cannot be used");
            assert_eq!(body_of(&ask(address, "/shop/a")), first);
            let gone = "[auth.methods.\"shop.v1.Gone/Get\"]\naccess = \"anonymous\"\n";
            site.change(gone, "cannot be used");
            assert_eq!(body_of(&ask(address, "/shop/a")), first);
            site.change(&format!("{PROGRAM_SETTINGS}{CLOSED}"), TAKEN_UP);
            assert_eq!(status(&site.get("Items", "")), "401");
            assert_eq!(body_of(&ask(address, "/shop/a")), first);
        });
        assert!(asked.load(Ordering::Relaxed) > 0);
    });
}

#[test]
fn a_file_that_is_empty_or_gone_changes_nothing() {
    each_way(CLOSED, |site| {
        site.write("");
        site.served.says("it is empty now");
        assert_eq!(status(&site.get("Items", "")), "401");
        std::fs::remove_file(site.folder.path().join("tidewire.toml")).unwrap();
        if site.hangs_up {
            site.served.hang_up();
        }
        site.served.says("it is gone");
        assert_eq!(status(&site.get("Items", "")), "401");
    });
}

#[test]
fn what_waits_for_a_restart_is_named() {
    each_way("", |site| {
        let more = "[limits]\ncommands_max = 7\ncaller_rate = 100\n";
        let line = site.change(more, "waits for a restart");
        assert!(line.ends_with("waits for a restart: limits.commands_max"), "{line}");
    });
}
