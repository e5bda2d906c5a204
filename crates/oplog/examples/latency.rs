//! Measures the change log on a PostgreSQL that it starts: how late another host is, what capture
//! costs writers, and what hosts cost; beside two other ways in the same run.
//!
//! ```text
//! cargo run --release -p tidewire-oplog --example latency > bench-runs/oplog/bars.md
//! cargo run --release -p tidewire-oplog --example latency -- constants
//! ```
//!
//! `--rounds` (5) and `--seconds` (3) say how long; `--one-writer` ends after the first table.
//! `constants` prints what a statement costs the database, which `simulation` takes. Hosts and
//! writers are one process, PostgreSQL is another, on one machine.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a measurement")]

#[path = "../../../examples/contacts/tests/it/cluster.rs"]
#[allow(dead_code, reason = "tests use all of it")]
mod cluster;
#[path = "latency/constants.rs"]
mod constants;
#[path = "latency/hosts.rs"]
mod hosts;
#[path = "latency/processor.rs"]
mod processor;
#[path = "latency/report.rs"]
mod report;
#[path = "latency/rounds.rs"]
mod rounds;
#[path = "latency/times.rs"]
mod times;
#[path = "latency/ways.rs"]
mod ways;

use std::time::Duration;

use cluster::Cluster;
use report::Report;
use rounds::Length;

#[tokio::main]
async fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let option = |name: &str, default: u32| {
        let at = arguments.iter().position(|argument| argument == name);
        at.map_or(default, |at| arguments[at + 1].parse().unwrap())
    };
    match arguments.first().map(String::as_str) {
        Some("host") => hosts::be_one(&arguments[1]).await,
        Some("constants") => constants::print(&Cluster::start()).await,
        _ => {
            let seconds = Duration::from_secs(option("--seconds", 3).into());
            let is_short = arguments.iter().any(|argument| argument == "--one-writer");
            bars(Length { rounds: option("--rounds", 5), seconds }, is_short).await;
        }
    }
}

async fn bars(length: Length, is_short: bool) {
    let cluster = Cluster::start();
    cluster.restart_with("-c fsync=on");
    let mut report = Report::new(length);
    rounds::one_writer(&cluster, length, &mut report).await;
    if is_short {
        return report.print();
    }
    rounds::sixteen_writers(&cluster, length, &mut report).await;
    rounds::past(&cluster, length, &mut report).await;
    rounds::throughput(&cluster, length, &mut report).await;
    hosts::apply(&cluster, length, &mut report).await;
    hosts::idle(&cluster, length, &mut report).await;
    hosts::killed(&cluster, &mut report).await;
    hosts::restarts(&cluster, length, &mut report).await;
    report.print();
}
