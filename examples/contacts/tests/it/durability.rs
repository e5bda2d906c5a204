//! What was acknowledged is there after a restart, and after a crash of the program.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use bytes::Bytes;
use contacts::store::sqlite::Options;
use http_body_util::Full;
use hyper::Request;
use tempfile::TempDir;

use crate::app::{Answer, App, database_in, exchange};
use crate::cluster;

#[tokio::test]
async fn a_restart_keeps_the_contacts() {
    let app = App::start().await;
    let create = "/contacts.v1.Contacts/Create";
    app.post(create, r#"{"firstName":"Ada","surname":"Lovelace"}"#).await;
    let folder = app.stop().await;
    let app = App::start_on(folder, Options::default()).await;
    let found = app.post("/contacts.v1.Contacts/Get", r#"{"id":1}"#).await;
    assert_eq!(found.text(), r#"{"id":1,"firstName":"Ada","surname":"Lovelace"}"#);
    app.stop().await;
}

#[tokio::test]
async fn a_program_that_is_killed_keeps_what_it_acknowledged() {
    let folder = tempfile::tempdir().unwrap();
    let mut program = Program::start(&folder, "3");
    let created = program.call("Create", r#"{"firstName":"Ada"}"#).await;
    assert_eq!(created.text(), r#"{"id":4,"firstName":"Ada"}"#);
    program.child.kill().unwrap();
    program.child.wait().unwrap();

    let mut program = Program::start(&folder, "3");
    let found = program.call("Get", r#"{"id":4}"#).await;
    assert_eq!(found.text(), created.text());
    program.terminate();
    let mut rest = String::new();
    while program.output.read_line(&mut rest).unwrap() > 0 {}
    assert!(rest.ends_with("stopped; all calls ended\n"), "{rest}");
    assert!(program.child.wait().unwrap().success());
}

#[tokio::test]
async fn the_program_finds_its_postgres_by_url_or_by_the_variables_of_the_comparison() {
    let folder = tempfile::tempdir().unwrap();
    let config = cluster::database().await;
    let url = cluster::url(&config);
    let mut program = Program::start_with(command(&folder, "3").env("DATABASE_URL", &url));
    let created = program.call("Create", r#"{"firstName":"Ada"}"#).await;
    assert_eq!(created.text(), r#"{"id":4,"firstName":"Ada"}"#);
    program.child.kill().unwrap();
    program.child.wait().unwrap();

    let tokio_postgres::config::Host::Unix(host) = &config.get_hosts()[0] else { panic!() };
    let mut program = Program::start_with(
        command(&folder, "3")
            .env("Contacts_DatabaseHost", host)
            .env("Contacts_DatabaseName", config.get_dbname().unwrap()),
    );
    let found = program.call("Get", r#"{"id":4}"#).await;
    assert_eq!(found.text(), created.text());
    program.terminate();
    assert!(program.child.wait().unwrap().success());
}

#[test]
fn wrong_settings_end_the_program_with_a_line_that_says_what_is_wrong() {
    let folder = tempfile::tempdir().unwrap();
    let check = |arguments: &[&str], needle: &str| {
        let output = command(&folder, "0").args(arguments).output().unwrap();
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success());
        assert!(text.contains(needle), "{arguments:?}: {text}");
    };
    check(&["--set", "server.listn=1"], "unknown key server.listn; did you mean server.listen?");
    check(&["--set", "log.level"], "write it as KEY=VALUE");
    check(&["--listen", "here"], "here");
    check(&["--config", "not-there.toml"], "not-there.toml");
    check(&["--database", "not/there.sqlite"], "not/there.sqlite");
    check(&["--contacts", "many"], "many");
    check(&["--database-url", "mysql://h/n"], "write postgres://user@host/name");
    check(&["--database-url", "postgres://u@127.0.0.1:1/n"], "u@127.0.0.1:1/n");
}

/// The application as its own process.
pub(crate) struct Program {
    pub(crate) child: Child,
    output: BufReader<std::process::ChildStdout>,
    address: String,
}

impl Program {
    /// Starts it and waits until it says where it listens.
    fn start(folder: &TempDir, contacts: &str) -> Self {
        Self::start_with(&mut command(folder, contacts))
    }

    pub(crate) fn start_with(command: &mut Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        let address = loop {
            line.clear();
            assert!(output.read_line(&mut line).unwrap() > 0, "it ended before it listened");
            if let Some(address) = line.strip_prefix("listening on ") {
                break address.trim().to_owned();
            }
        };
        Self { child, output, address }
    }

    pub(crate) async fn call(&mut self, method: &str, json: &str) -> Answer {
        let request = Request::post(format!("/contacts.v1.Contacts/{method}"))
            .header("host", &self.address)
            .header("content-type", "application/json")
            .body(Full::new(Bytes::from(json.to_owned())))
            .unwrap();
        exchange(&self.address, request).await
    }

    fn terminate(&self) {
        let id = self.child.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &id]).status().unwrap().success());
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // Already over in a test that passed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(crate) fn command(folder: &TempDir, contacts: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_contacts"));
    command
        .current_dir(folder.path())
        .env("CONTACTS", contacts)
        .env("CONTACTS_DB", database_in(folder.path()))
        .env("TIDEWIRE_SERVER_LISTEN", "127.0.0.1:0");
    command
}
