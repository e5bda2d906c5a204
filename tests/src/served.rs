//! Foreign servers as processes, ended when dropped.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Stdio;

use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};

use crate::program::root;

/// A running foreign server.
#[derive(Debug)]
pub struct Served {
    process: Child,
    /// Held, since a program may end when nobody hears what it says.
    _output: Lines<BufReader<ChildStdout>>,
    /// Where it listens, in the order in which it says so.
    pub addresses: Vec<SocketAddr>,
}

impl Served {
    /// Starts a program that prints `listening on ADDRESS` for each of `count` addresses.
    ///
    /// # Panics
    /// When it cannot be started or says something else.
    pub async fn start(program: impl Into<PathBuf>, arguments: &[&str], count: usize) -> Self {
        let program = program.into();
        let mut process = Command::new(&program)
            .args(arguments)
            .current_dir(root())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .unwrap_or_else(|error| panic!("{} cannot be started: {error}", program.display()));
        let output = process.stdout.take().expect("its output is piped");
        let mut lines = BufReader::new(output).lines();
        let mut addresses = Vec::new();
        while addresses.len() < count {
            let line = lines.next_line().await.expect("its output is text");
            let line = line.unwrap_or_default();
            let address = line.strip_prefix("listening on ").and_then(|text| text.parse().ok());
            addresses
                .push(address.unwrap_or_else(|| panic!("{} says {line:?}", program.display())));
        }
        Self { process, _output: lines, addresses }
    }

    /// The number of its process.
    ///
    /// # Panics
    /// When it was waited for.
    pub fn id(&self) -> u32 {
        self.process.id().expect("nobody waited for it")
    }
}
