//! Runs the foreign clients of `tests/foreign` against a server and counts their cases.
//!
//! Without an address there are two servers: the foreign one of `tests/foreign/go`, which shows the
//! clients right, so that a case which fails against Tidewire is Tidewire's; and a mock that plays
//! the service by rules. With an address it is any server of `tidewire.test.v1.BehaviourService`.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, ExitCode, Stdio};

use anyhow::{Context, Result, bail};

use crate::ci;

const SERVER: &str = ".tools/bin/foreign-go-server";
const MOCK: &str = "target/debug/tidewire";
const MOCK_WORDS: [&str; 7] = [
    "mock",
    "tests/proto",
    "--rules",
    "tests/fixtures/mock/behaviour",
    "--listen",
    "127.0.0.1:0",
    "--no-watch",
];
const GO_CLIENT: &str = ".tools/bin/foreign-go-client";
const NODE_CLIENT: &str = "tests/foreign/node/client.js";
const PYTHON: &str = ".tools/foreign-python/bin/python";
const PYTHON_CLIENT: &str = "tests/foreign/python/client.py";

/// Runs every client; fails if a case of one does.
///
/// # Errors
/// When a program is missing: `make setup` builds them.
pub(crate) fn run(root: &Path, address: Option<&str>) -> Result<ExitCode> {
    let failed = match address {
        Some(address) => clients(root, address)?,
        None => {
            let foreign = Server::start(Command::new(root.join(SERVER)).current_dir(root))?;
            println!("against the foreign server:");
            let failed = clients(root, &foreign.address)?;
            if matches!(ci::build(root, "--bin tidewire")?, ci::Outcome::Failed) {
                bail!("the program tidewire cannot be built");
            }
            let mut mock = Command::new(root.join(MOCK));
            let mock = Server::start(mock.args(MOCK_WORDS).current_dir(root))?;
            println!("against a mock:");
            failed + clients(root, &mock.address)?
        }
    };
    Ok(if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Runs the clients against a server, and returns how many cases failed.
fn clients(root: &Path, address: &str) -> Result<usize> {
    let mut failed = 0;
    let go = Command::new(root.join(GO_CLIENT));
    for (name, mut command) in [("go", go), ("node", node(root)), ("python", python(root))] {
        failed += cases(name, command.current_dir(root).arg(address))?;
    }
    Ok(failed)
}

fn node(root: &Path) -> Command {
    let mut command = Command::new("node");
    command.arg(root.join(NODE_CLIENT));
    command
}

fn python(root: &Path) -> Command {
    let mut command = Command::new(root.join(PYTHON));
    command.arg(root.join(PYTHON_CLIENT));
    command
}

/// Runs a client, prints what failed, and returns how many cases did, at least 1 if it says so.
fn cases(name: &str, command: &mut Command) -> Result<usize> {
    let output = command
        .stderr(Stdio::inherit())
        .output()
        .with_context(|| format!("the {name} client does not start; run `make setup`"))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let passed = text.lines().filter(|line| line.starts_with("ok ")).count();
    let failures: Vec<&str> = text.lines().filter(|line| !line.starts_with("ok ")).collect();
    for failure in &failures {
        println!("{name}: {failure}");
    }
    println!("{name}: {passed} cases agree, {} do not", failures.len());
    Ok(if output.status.success() { failures.len() } else { failures.len().max(1) })
}

/// A server, stopped when dropped.
struct Server {
    process: Child,
    address: String,
}

impl Server {
    /// Starts a program whose first line is `listening on ADDRESS`.
    fn start(command: &mut Command) -> Result<Self> {
        let mut process = command
            .stdout(Stdio::piped())
            // It logs the panics that it is asked for.
            .stderr(Stdio::null())
            .spawn()
            .context("the server does not start; run `make setup`")?;
        let mut line = String::new();
        let output = process.stdout.take().context("the server has no output")?;
        BufReader::new(output).read_line(&mut line)?;
        let address = line.trim().strip_prefix("listening on ").unwrap_or_default().to_owned();
        Ok(Self { process, address })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended by itself.
        drop(self.process.kill());
        drop(self.process.wait());
    }
}
