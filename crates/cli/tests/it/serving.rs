//! `tidewire serve` as a process: its signals, and nobody reading what it says.

use std::io::{BufRead as _, BufReader, Lines};
use std::process::{Child, ChildStderr, ChildStdout, Command, Stdio};

use tempfile::TempDir;

use crate::program::{command, folder, run};

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
        let folder = folder(&[("shop.proto", PROTO)]);
        let mut command = command(folder.path(), &["serve", "shop.proto", "--port", "0"]);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut output = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut log = BufReader::new(child.stderr.take().unwrap()).lines();
        let line = output.next().unwrap_or_else(|| panic!("it ended: {:?}", log.next())).unwrap();
        let address = line.strip_prefix("listening on ").unwrap().to_owned();
        Self { child, output: Some(output), log: Some(log), address, folder }
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

#[test]
fn a_hangup_is_logged_and_changes_nothing_and_a_termination_ends_it_well() {
    for last in ["TERM", "INT"] {
        let mut served = Served::start();
        for _ in 0..2 {
            served.signal("HUP");
            let said = served.log.as_mut().unwrap().map(Result::unwrap);
            let said = said.take_while(|line| !line.contains("SIGHUP changes nothing")).count();
            assert!(said < 20, "one line a signal");
            served.answers();
        }
        served.signal(last);
        assert_eq!(served.child.wait().unwrap().code(), Some(0), "{last}");
    }
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
