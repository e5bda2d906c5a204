//! A page of another port in a real browser runs no command of a bank, in whatever way it asks.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::process::Stdio;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tidewire::http::header::CONTENT_TYPE;
use tidewire::http::{Method, StatusCode};
use tidewire::{
    Body, Builder, Call, Context, Implementation, Message, Method as RpcMethod, Reply, Result,
    Schema, Server,
};
use tidewire_tests::program::{browser, root};
use tokio::process::Command;
use tokio::sync::mpsc;

use crate::harness::start;

const PROTO: &str = r#"
syntax = "proto3";
package test.v1;
import "google/api/annotations.proto";
import "google/api/httpbody.proto";
import "google/protobuf/empty.proto";

service Bank {
  rpc Pay(Payment) returns (google.protobuf.Empty) {
    option (google.api.http) = { post: "/pay" body: "*" };
  }
  rpc Touch(google.protobuf.Empty) returns (google.protobuf.Empty) {
    option (google.api.http) = { post: "/touch" };
  }
  rpc Upload(google.api.HttpBody) returns (google.protobuf.Empty) {
    option (google.api.http) = { post: "/upload" body: "*" };
  }
  rpc Fire(google.protobuf.Empty) returns (google.protobuf.Empty) {
    option (google.api.http) = { get: "/fire" };
  }
}
message Payment { int32 amount = 1; string x = 2; }
"#;

/// A bound on a hang, not a measurement.
const PATIENCE: Duration = Duration::from_secs(120);

/// How often each command ran.
type Ran = Arc<Mutex<BTreeMap<String, usize>>>;

struct Bank(Schema, Ran);

impl Implementation for Bank {
    async fn unary(&self, method: &RpcMethod, _: Context, _: Message) -> Result<Reply<Message>> {
        *self.1.lock().unwrap().entry(method.method.to_string()).or_default() += 1;
        Ok(Reply::new(self.0.message(&method.output).expect("a known message")))
    }
}

/// Adds the page, and where it says what it saw.
fn with_page(builder: Builder) -> (Builder, mpsc::UnboundedReceiver<String>) {
    let (results, result) = mpsc::unbounded_channel();
    let take = move |call: Call| {
        let results = results.clone();
        async move {
            let lines = call.body.collect(1 << 20).await?;
            let _ = results.send(String::from_utf8_lossy(&lines).into_owned());
            Ok(Reply::empty(StatusCode::NO_CONTENT))
        }
    };
    let page = async |_: Call| {
        let content = std::fs::read(root().join("tests/foreign/node/foreign_page.html")).unwrap();
        Reply::new(Body::from(content)).with_header(CONTENT_TYPE, "text/html")
    };
    let builder =
        builder.route(Method::GET, "/page.html", page).route(Method::POST, "/result", take);
    (builder, result)
}

/// Opens the page that `pages` has before `bank`, and gives what it says: the outcome of each way.
/// Both are `HOST:PORT`.
async fn opened(
    pages: &str,
    bank: &str,
    result: &mut mpsc::UnboundedReceiver<String>,
) -> BTreeMap<String, String> {
    let profile = tempfile::tempdir().unwrap();
    // A run that is killed leaves no browser behind.
    let mut browser = Command::new("setpriv")
        .args(["--pdeathsig", "KILL", "--"])
        .arg(browser())
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run"])
        .args(["--disable-background-networking", "--disable-dev-shm-usage"])
        .arg("--host-resolver-rules=MAP *.example 127.0.0.1")
        .arg(format!("--user-data-dir={}", profile.path().display()))
        .arg(format!("http://{pages}/page.html?bank=http://{bank}"))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let lines = tokio::select! {
        lines = tokio::time::timeout(PATIENCE, result.recv()) => {
            lines.expect("the page says something in time").unwrap()
        }
        ended = browser.wait() => panic!("the browser ended before the page did: {ended:?}"),
    };
    browser.kill().await.unwrap();
    let outcomes = lines.lines().filter_map(|line| line.split_once(": "));
    outcomes.map(|(way, outcome)| (way.to_owned(), outcome.to_owned())).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_of_another_port_runs_no_command_and_one_of_the_same_runs_them() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("bank.proto"), PROTO).unwrap();
    let schema = Schema::from_folder(folder.path()).unwrap();
    let ran = Ran::default();
    let bank = Bank(schema.clone(), Arc::clone(&ran));
    let bank = Server::builder().service(schema.implement("test.v1.Bank", bank).unwrap());
    let (bank, mut own_result) = with_page(bank);
    let (_bank, bank) = start(bank).await;
    let (pages, mut result) = with_page(Server::builder());
    let (_pages, pages) = start(pages).await;

    // With names that are not of this machine, browsers say less of the page over plain HTTP.
    let named = |name: &str, address: SocketAddr| format!("{name}.example:{}", address.port());
    for (pages, bank) in [
        (pages.to_string(), bank.to_string()),
        (named("pages", pages), named("bank", bank)),
        (named("pages", pages), bank.to_string()),
    ] {
        let foreign = opened(&pages, &bank, &mut result).await;
        assert_eq!(*ran.lock().unwrap(), BTreeMap::new(), "{pages} {bank} {foreign:#?}");
        assert_eq!(foreign["a WebSocket"], "refused");
        assert_eq!(foreign["a preflighted JSON body"], "refused");
        assert_eq!(foreign.len(), 26, "{foreign:#?}");
    }
    // The same page of the bank's own: what is refused above is not refused for another reason.
    for bank in [bank.to_string(), named("bank", bank)] {
        let own = opened(&bank, &bank, &mut own_result).await;
        let ran = std::mem::take(&mut *ran.lock().unwrap());
        assert_eq!(own["a WebSocket"], "open");
        for command in ["Pay", "Touch", "Upload", "Fire"] {
            assert!(ran.contains_key(command), "{command} did not run: {own:#?}");
        }
    }
}
