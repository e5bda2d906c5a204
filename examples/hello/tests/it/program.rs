//! A program that ends in `tidewire::serve`: its file, its environment, its log, its end.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};

const LISTEN: &str = "[server]\nlisten = [\"127.0.0.1:0\"]\n";

fn program(folder: &Path, settings: &str) -> Command {
    std::fs::write(folder.join("tidewire.toml"), settings).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_hello"));
    command.current_dir(folder).stdout(Stdio::null()).stderr(Stdio::piped());
    command
}

/// The program, and the address that its log names.
fn serving(mut command: Command) -> (Child, String) {
    let mut child = command.spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.as_mut().unwrap()).lines();
    let line = lines.find(|line| line.as_ref().unwrap().contains("serving")).unwrap().unwrap();
    let (_, address) = line.split_once("address=").unwrap();
    let address = address.split_whitespace().next().unwrap().to_owned();
    (child, address)
}

fn get(address: &str, path: &str, headers: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nhost: {address}\r\n{headers}connection: close\r\n\r\n")
        .unwrap();
    let mut reply = String::new();
    stream.read_to_string(&mut reply).unwrap();
    reply
}

/// What it says on its way out, for a program that does not come up.
fn refused(command: Command) -> String {
    let output = { command }.output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn a_program_reads_its_file_logs_its_address_and_ends_gently() {
    let folder = tempfile::tempdir().unwrap();
    let cors = "[cors]\norigins = [\"https://app.example\"]\n";
    let (mut child, address) = serving(program(folder.path(), &format!("{LISTEN}{cors}")));
    let reply = get(&address, "/hello/Ada", "origin: https://app.example\r\n");
    assert!(reply.starts_with("HTTP/1.1 200"), "{reply}");
    assert!(reply.contains("access-control-allow-origin: https://app.example"), "{reply}");
    assert!(reply.ends_with(r#"{"text":"Hello, Ada!"}"#), "{reply}");
    let kill = Command::new("kill").args(["-TERM", &child.id().to_string()]).status().unwrap();
    assert!(kill.success());
    assert!(child.wait().unwrap().success());
}

#[test]
fn the_environment_wins_over_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = program(folder.path(), "[server]\nlisten = [\"127.0.0.1:1\"]\n");
    command.env("TIDEWIRE_SERVER_LISTEN", "127.0.0.1:0");
    let (mut child, address) = serving(command);
    assert!(get(&address, "/hello/Ada", "").starts_with("HTTP/1.1 200"));
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn what_a_program_cannot_follow_is_refused_at_its_start() {
    let folder = tempfile::tempdir().unwrap();
    for (settings, expected) in [
        ("[server]\nlistn = []\n", "tidewire.toml:2:1: unknown key listn; did you mean listen?"),
        (
            "[[service]]\nproto = \"protos\"\n",
            "[[service]] with proto = \"protos\": this program serves services that it has code for",
        ),
        ("[[service]]\nrun = [\"./shop\"]\nname = \"shop\"\nroute = \"/shop\"\n", "supervisor()"),
    ] {
        let said = refused(program(folder.path(), settings));
        assert!(said.contains(expected), "{settings}: {said}");
    }
}
