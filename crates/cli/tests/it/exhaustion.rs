//! A server that has no file descriptors left: it waits, says so, and goes on once there are some.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Command, Stdio};

use crate::program::{command, folder};

const PROTO: &str = r#"
syntax = "proto3";
package shop.v1;
service Items { rpc Get(Item) returns (Item); }
message Item { string name = 1; }
"#;

/// How many descriptors the server has.
const DESCRIPTORS: &str = "--nofile=64:64";

fn ask(stream: &mut TcpStream) -> String {
    let head = "POST /shop.v1.Items/Get HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
                content-length: 14\r\n\r\n";
    stream.write_all(head.as_bytes()).unwrap();
    stream.write_all(br#"{"name":"tea"}"#).unwrap();
    let mut answer = Vec::new();
    while !answer.ends_with(br#"{"name":"tea"}"#) {
        let mut some = [0; 1024];
        let read = stream.read(&mut some).unwrap();
        assert!(read > 0, "{}", String::from_utf8_lossy(&answer));
        answer.extend_from_slice(&some[..read]);
    }
    String::from_utf8(answer).unwrap()
}

#[test]
fn without_descriptors_open_connections_are_served_and_others_wait_until_there_are_some() {
    let folder = folder(&[("shop.proto", PROTO)]);
    let plain = command(folder.path(), &["serve", "shop.proto", "--port", "0"]);
    let mut serve = Command::new("prlimit");
    serve.arg(DESCRIPTORS).arg(plain.get_program()).args(plain.get_args());
    serve.current_dir(folder.path()).env_clear().env("PATH", env!("PATH"));
    let mut serve = serve.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut output = BufReader::new(serve.stdout.take().unwrap()).lines();
    let mut log = BufReader::new(serve.stderr.take().unwrap()).lines();
    let first = output.next().unwrap().unwrap();
    let address = first.strip_prefix("listening on ").unwrap().to_owned();

    let mut open = TcpStream::connect(&address).unwrap();
    ask(&mut open);
    // More than it can have: those beyond wait in the queue of the socket.
    let held: Vec<_> = (0..100).map(|_| TcpStream::connect(&address).unwrap()).collect();
    let told = log.by_ref().map(Result::unwrap).find(|line| line.contains("could not be accepted"));
    assert!(told.unwrap().contains("Too many open files"));
    ask(&mut open);
    let mut waiting = TcpStream::connect(&address).unwrap();
    drop(held);
    ask(&mut waiting);
    ask(&mut TcpStream::connect(&address).unwrap());
    ask(&mut open);
    serve.kill().unwrap();
    serve.wait().unwrap();
    // It waited between two attempts, and did not say so each time.
    assert!(log.map(Result::unwrap).filter(|line| line.contains("accepted")).count() < 5);
}
