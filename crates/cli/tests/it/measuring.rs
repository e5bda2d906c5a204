//! `tidewire bench suite` as a process: a signal ends it with all that it started.

use std::io::Read;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use tidewire::{Error, Head};

use crate::program::{command, folder, run};
use crate::server::{Background, behaviour, root};

const PEERS: &str = r#"
[[web]]
name = "tidewire"
setup = "-"
run = ["sh", "-c", "sleep 600 & echo $$ > started; wait"]
"#;

/// Of a peer that is waited for, with its own child.
#[test]
fn sigterm_and_ctrl_c_leave_no_peer_behind() {
    for signal in ["TERM", "INT"] {
        let folder = folder(&[("peers.toml", PEERS)]);
        let started = folder.path().join("started");
        assert!(Command::new("mkfifo").arg(&started).status().unwrap().success());
        let mut suite = command(folder.path(), &["bench", "suite", "web", "--peers", "."]);
        // A shell that starts something in the background lets it ignore SIGINT; this is as at a
        // prompt.
        let mut suite = suite.process_group(0).stdout(Stdio::piped()).spawn().unwrap();
        let mut group = String::new();
        std::fs::File::open(&started).unwrap().read_to_string(&mut group).unwrap();
        let id = suite.id().to_string();
        assert!(Command::new("kill").args(["-s", signal, &id]).status().unwrap().success());
        let ended = suite.wait().unwrap();
        assert_eq!(ended.code(), Some(130), "{signal}");
        assert_eq!(living(group.trim()), None, "{signal}");
    }
}

/// A process of this group that is more than a status that nobody has asked for.
fn living(group: &str) -> Option<String> {
    let listed = Command::new("ps").args(["-eo", "pgid=,stat=,args="]).output().unwrap().stdout;
    let listed = String::from_utf8(listed).unwrap();
    assert!(listed.contains("ps -eo"), "{listed}");
    let of_group = |line: &&str| {
        let mut fields = line.split_whitespace();
        fields.next() == Some(group) && !fields.next().unwrap_or_default().starts_with('Z')
    };
    listed.lines().find(of_group).map(str::to_owned)
}

/// The schema comes from reflection, since a body is to be sent as protobuf.
#[test]
fn headers_of_the_calls_are_sent_with_the_request_for_the_schema() {
    let gate = |head: &mut Head| match head.context.header("x-word") {
        Some(_) => Ok(()),
        None => Err(Error::unauthenticated("say the word")),
    };
    let server = Background::start(behaviour().gate(gate));
    let url = format!("http://{}/tidewire.test.v1.BehaviourService/Echo", server.address);
    let bench = |headers: &[&str]| {
        let mut words = vec!["bench", "run", &url, "--protocol", "grpc", "-d", "{}", "-n", "3"];
        headers.iter().for_each(|header| words.extend(["-H", header]));
        run(root(), &words)
    };
    bench(&[]).check(80, &["say the word"]);
    bench(&["x-number: {{seq}}", "x-word: please"]).check(0, &[]);
    bench(&["x word: please"]).check(2, &["--header \"x word: please\""]);
}
