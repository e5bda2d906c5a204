//! `tidewire import`: a manifest of local_lambdas, and its workers served by what was written.

use crate::hosting::{Served, ask};
use crate::program::{folder, run};

/// A worker that reads its request to the end of the stream, as the workers in .NET do, and answers
/// with their byte order mark.
const WORKER: &str = r#"
import base64, json, os, socket, sys
listener = socket.socket(socket.AF_UNIX)
listener.bind(os.environ["PIPE_ADDRESS"])
listener.listen(5)
while True:
    connection, _ = listener.accept()
    with connection, connection.makefile("rb") as stream:
        asked = json.load(stream)
        body = " ".join([sys.argv[1], asked["method"], asked["uri"]]).encode()
        answer = {"status": 200, "body": base64.b64encode(body).decode()}
        connection.sendall(b"\xef\xbb\xbf" + json.dumps(answer).encode())
"#;

/// One of its programs of HTTP.
const HTTP: &str = r#"
import os
from http.server import BaseHTTPRequestHandler, HTTPServer
class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        body = f"http {self.path}".encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
host, port = os.environ["HTTP_ADDRESS"].split(":")
HTTPServer((host, int(port)), Handler).serve_forever()
"#;

const MANIFEST: &str = r#"<?xml version="1.0" encoding="UTF-8"?>
<manifest>
  <!-- <process><id>old</id></process> -->
  <process>
    <id>pipe</id>
    <executable>python3</executable>
    <arg>worker.py</arg>
    <arg>--mode</arg>
    <route>/pipe/*</route>
    <pipe_name>a_pipe</pipe_name>
    <working_dir>workers</working_dir>
  </process>
  <process>
    <id>web</id>
    <executable>python3</executable>
    <arg>web.py</arg>
    <route>/web/</route>
    <pipe_name>b_pipe</pipe_name>
    <communication_mode>http</communication_mode>
  </process>
</manifest>
"#;

#[test]
fn the_workers_of_a_manifest_run_unchanged() {
    let there =
        folder(&[("manifest.xml", MANIFEST), ("workers/worker.py", WORKER), ("web.py", HTTP)]);
    run(there.path(), &["import", "manifest.xml"]).check(
        0,
        &[
            "manifest.xml:5: id: name = \"pipe\"\nmanifest.xml:6: executable: run, its first word\n",
            "manifest.xml:11: working_dir: folder = \"workers\"\n",
            "manifest.xml:17: route: route = \"/web/*\"; it gets /web itself, too\n",
            "wrote tidewire.toml: 2 of 2 processes\nnext: tidewire check\n",
        ],
    );
    run(there.path(), &["check"]).check(0, &["checked 1 file: nothing wrong"]);
    let settings = there.path().join("tidewire.toml");
    let text = std::fs::read_to_string(&settings).unwrap();
    std::fs::write(&settings, format!("[server]\nlisten = \"127.0.0.1:0\"\n{text}")).unwrap();
    let served = Served::start(there.path());
    for (path, body) in [("/pipe/a?b=c", "--mode GET /pipe/a?b=c"), ("/web/a", "http /web/a")] {
        let answer = ask(&served.address, path);
        assert!(answer.starts_with("HTTP/1.1 200 ") && answer.ends_with(body), "{answer}");
    }
}

#[test]
fn what_cannot_be_carried_over_is_told_and_nothing_is_replaced_unasked() {
    let manifest = MANIFEST.replace("<working_dir>", "<memory>1</memory>\n<working_dir>");
    let there = folder(&[("a/manifest.xml", &manifest), ("mine.toml", "# mine")]);
    let settings = there.path().join("mine.toml");
    let import = |more: &[&str]| {
        let fixed = ["import", "a/manifest.xml", "--out", "mine.toml"];
        run(there.path(), &[&fixed, more].concat())
    };
    import(&["--dry-run"]).check(1, &["[[service]]\nname = \"pipe\"\n"]);
    import(&[]).check(2, &["mine.toml exists, so nothing is written; --overwrite replaces it"]);
    assert_eq!(std::fs::read_to_string(&settings).unwrap(), "# mine");
    import(&["--overwrite"]).check(
        1,
        &[
            "a/manifest.xml:11: memory: left out: a manifest of local_lambdas has nothing of",
            "wrote mine.toml: 2 of 2 processes\nnext: tidewire check mine.toml\n",
            "1 thing could not be carried over",
        ],
    );
    assert!(std::fs::read_to_string(&settings).unwrap().contains("protocol = \"pipe-json\""));
    // A link is replaced, and what it leads to is not.
    let outside = there.path().join("outside");
    std::fs::write(&outside, "theirs").unwrap();
    std::fs::remove_file(&settings).unwrap();
    std::os::unix::fs::symlink(&outside, &settings).unwrap();
    import(&[]).check(2, &["exists"]);
    import(&["--overwrite"]).check(1, &["wrote"]);
    assert_eq!(std::fs::read_to_string(&outside).unwrap(), "theirs");
}

#[test]
fn what_is_not_a_manifest_is_told_by_file_and_line() {
    let large = format!("<manifest>{}</manifest>", " ".repeat(1 << 20));
    let there = folder(&[
        ("broken.xml", "<manifest>\n  <process>\n</manifest>"),
        ("other.xml", "\n<web-app/>"),
        ("entity.xml", "<!DOCTYPE m [<!ENTITY e SYSTEM \"secret\">]>\n<manifest>&e;</manifest>"),
        ("large.xml", &large),
        ("secret", "SECRET"),
    ]);
    std::fs::write(there.path().join("latin.xml"), b"<manifest>\n<!-- \xe4 -->\n</manifest>")
        .unwrap();
    for (file, why) in [
        ("broken.xml", "broken.xml:3: not valid XML: "),
        ("other.xml", "other.xml:2: the root is <web-app>; a manifest has <manifest>"),
        ("entity.xml", "entity.xml:1: a DTD"),
        ("large.xml", "large.xml is larger than 1 MiB"),
        ("latin.xml", "latin.xml:2: not UTF-8 text"),
        ("none.xml", "cannot read none.xml: "),
    ] {
        run(there.path(), &["import", file]).check(2, &[why]);
        assert!(!there.path().join("tidewire.toml").exists(), "{file}");
    }
}
