//! Three processes and two wires, which are cut:
//!
//! ```text
//!  contacts (this one), REST ◀─ wire ─ relay ◀─ wire ─ reader, which follows a card and renames
//! ```
//!
//! The contacts are one in memory, behind the `.proto` of the reference application.
//! What is asserted is order and loss, never time.

mod wire;

use std::net::SocketAddr;
use std::process::Stdio;
use std::sync::{Arc, Mutex};

use tidewire::config::Config;
use tidewire::http;
use tidewire::memo::Source;
use tidewire::schema::Value;
use tidewire::{
    Call, Client, Context, Implementation, Message, Method, Reply, Result, RunningServer, Schema,
    Service as _,
};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

use crate::wire::Wire;

/// A program of this package, and what it prints.
struct Program {
    _child: Child,
    stdin: ChildStdin,
    stdout: Lines<BufReader<ChildStdout>>,
}

impl Program {
    fn start(path: &str, arguments: &[&str]) -> Self {
        let mut child = Command::new(path)
            .args(arguments)
            .env("TIDEWIRE_SERVER_LISTEN", "127.0.0.1:0")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let (stdin, stdout) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        Self { _child: child, stdin, stdout: BufReader::new(stdout).lines() }
    }

    async fn line(&mut self) -> String {
        self.stdout.next_line().await.unwrap().expect("the program goes on")
    }
}

/// Contact 1.
#[derive(Clone)]
struct Contacts {
    schema: Schema,
    rows: Source<i32>,
    first_name: Arc<Mutex<String>>,
}

impl Implementation for Contacts {
    async fn unary(&self, method: &Method, _: Context, asked: Message) -> Result<Reply<Message>> {
        if method.method == "Update" {
            let write = self.rows.write(&1);
            if let Ok(Some(Value::String(name))) = asked.get("first_name") {
                name.clone_into(&mut self.first_name.lock().unwrap());
            }
            write.finish();
        } else {
            self.rows.read(&1);
        }
        let mut contact = self.schema.message(&method.output).unwrap();
        contact.set("id", 1_i32).unwrap();
        contact.set("first_name", self.first_name.lock().unwrap().as_str()).unwrap();
        Ok(Reply::new(contact))
    }
}

impl Contacts {
    async fn start() -> RunningServer {
        let schema = Schema::from_descriptors(replica::DESCRIPTOR_SET).unwrap();
        let first_name = Arc::new(Mutex::new("0".to_owned()));
        let contacts = Self { schema: schema.clone(), rows: Source::new("contacts"), first_name };
        let mut config = Config::default();
        config.server.listen = vec!["127.0.0.1:0".parse().unwrap()];
        let service = schema.implement("contacts.v1.Contacts", contacts).unwrap();
        config.server().unwrap().service(service).start().await.unwrap()
    }
}

/// The contacts, the relay and the reader of contact 1.
struct Chain {
    _contacts: RunningServer,
    rest: Client,
    _relay: Program,
    reader: Program,
    /// From the relay to the contacts, and from the reader to the relay.
    wires: [Wire; 2],
}

impl Chain {
    async fn start() -> Self {
        let running = Contacts::start().await;
        let rest = Client::builder(running.url()).build().unwrap();
        let to_contacts = Wire::to(address(&running.url())).await;
        let url = format!("ws://{}", to_contacts.address);
        let mut relay = Program::start(env!("CARGO_BIN_EXE_relay"), &[&url]);
        let told = relay.line().await;
        let to_relay = Wire::to(address(told.strip_prefix("cards at ").unwrap())).await;
        let url = format!("ws://{}", to_relay.address);
        let reader = Program::start(env!("CARGO_BIN_EXE_reader"), &[&url, "1"]);
        let wires = [to_contacts, to_relay];
        Self { _contacts: running, rest, _relay: relay, reader, wires }
    }

    /// Writes through REST, where the contacts are.
    async fn write(&self, value: u32) {
        let mut context = Context::default();
        context.set_header("content-type", "application/json").unwrap();
        let (patch, path) = (http::Method::PATCH, "/contacts/1".parse().unwrap());
        let json = format!(r#"{{"firstName":"{value}"}}"#);
        let status = self.rest.call(Call::http(patch, path, context, json)).await.unwrap().status;
        assert!(status.is_success(), "{status}");
    }
}

fn address(url: &str) -> SocketAddr {
    url.strip_prefix("http://").unwrap().parse().unwrap()
}

/// The first name in `[1: 17 ]`.
fn value(badge: &str) -> u32 {
    let name = badge.split(": ").last().unwrap();
    name.split(' ').next().unwrap().parse().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_row_written_through_rest_reaches_a_process_two_hops_away_in_order_over_cut_wires() {
    let mut chain = Chain::start().await;
    let mut seen = value(&chain.reader.line().await);
    assert_eq!(seen, 0);
    for value in 1..=60 {
        if value % 10 == 0 {
            chain.wires[usize::from(value % 20 == 0)].cut();
        }
        chain.write(value).await;
        // Every other one is awaited, so that it is one change after another and several at once.
        while value % 2 == 0 && seen < value {
            let told = self::value(&chain.reader.line().await);
            assert!(told > seen, "{told} after {seen}");
            seen = told;
        }
    }
    assert_eq!(seen, 60, "the last is never lost");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_writes_from_two_hops_away_reads_nothing_older_over_cut_wires() {
    let mut chain = Chain::start().await;
    chain.reader.line().await;
    let mut done = 0;
    while done < 40 {
        let next = done + 1;
        if next % 10 == 0 {
            chain.wires[usize::from(next % 20 == 0)].cut();
        }
        chain.reader.stdin.write_all(format!("{next}\n").as_bytes()).await.unwrap();
        let mut line = chain.reader.line().await;
        while line.starts_with('[') {
            line = chain.reader.line().await;
        }
        // `not written` would be a command whose connection was lost before it was sent: once more.
        if let Some(wrote) = line.strip_prefix("wrote ") {
            assert!(wrote.starts_with(&format!("{next} ")), "{line}");
            assert_eq!(value(wrote), next, "{line}");
            done = next;
        }
    }
}
