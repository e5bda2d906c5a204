//! Programs in other languages, hosted by `tidewire serve`.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Command, Stdio};

use crate::program::{command, folder, run};

/// A program that nobody wrote for Tidewire: it listens at `PORT`, and says what it is asked.
const PROGRAM: &str = r#"
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

fn ask(address: &str, path: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}
