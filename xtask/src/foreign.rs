//! Runs the foreign clients of `tests/foreign` against a server and counts their cases.
//!
//! Without an address the server is the foreign one of `tests/foreign/go`: that shows the clients
//! right, so that a case which fails against Tidewire is Tidewire's. With an address it is any server
//! of `tidewire.test.v1.BehaviourService`.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, ExitCode, Stdio};

use anyhow::{Context, Result};

const SERVER: &str = ".tools/bin/foreign-go-server";
const GO_CLIENT: &str = ".tools/bin/foreign-go-client";
const NODE_CLIENT: &str = "tests/foreign/node/client.js";

/// Runs both clients; fails if a case of either does.
///
/// # Errors
/// When a program is missing: `make setup` builds them.
pub(crate) fn run(root: &Path, address: Option<&str>) -> Result<ExitCode> {
    let server = match address {
        Some(_) => None,
        None => Some(Server::start(root)?),
    };
    let own = || server.as_ref().map(|server| server.address.as_str());
    let address = address.or_else(own).unwrap_or_default();
    let mut failed = 0;
    for (name, mut command) in [("go", Command::new(root.join(GO_CLIENT))), ("node", node(root))] {
        failed += cases(name, command.current_dir(root).arg(address))?;
    }
    Ok(if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn node(root: &Path) -> Command {
    let mut command = Command::new("node");
    command.arg(root.join(NODE_CLIENT));
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

/// The foreign server, stopped when dropped.
struct Server {
    process: Child,
    address: String,
}

impl Server {
    fn start(root: &Path) -> Result<Self> {
        let mut process = Command::new(root.join(SERVER))
            .stdout(Stdio::piped())
            // It logs the panics that it is asked for.
            .stderr(Stdio::null())
            .spawn()
            .context("the foreign server does not start; run `make setup`")?;
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
