//! Simulates 1 to 1,000 hosts that follow one change log, in a virtual clock: the load on the
//! database, the delay, and where fan-out would have to begin.
//!
//! ```text
//! cargo run --release -p tidewire-oplog --example simulation > bench-runs/oplog/simulation.md
//! ```
//!
//! The same command prints the same page. What a statement costs the database was measured:
//! `--example latency -- constants` prints it again.
#![allow(clippy::print_stdout, reason = "a measurement")]

#[path = "simulation/model.rs"]
mod model;

use model::{Costs, MICROSECOND, MILLISECOND, Nanoseconds, Outcome, SECOND, Scenario, run};

const HOSTS: [usize; 4] = [1, 10, 50, 1000];
const WRITES: [f64; 3] = [10.0, 100.0, 1000.0];
/// Where the start of fan-out is looked for.
const STEPS: [usize; 13] = [2, 3, 5, 7, 10, 15, 20, 30, 50, 70, 100, 150, 200];
/// What of a database one would give to the log.
const SHARE: f64 = 0.1;
/// The bars of a delay: woken, and of `psql`.
const WOKEN: Nanoseconds = 12 * MILLISECOND;
const PSQL: Nanoseconds = 35 * MILLISECOND;

/// A cost, as `--example latency -- constants` names and measured it.
struct Constant {
    name: &'static str,
    microseconds: f64,
    of: &'static str,
}

/// Measured on the machine that `bench-runs/oplog/bars.md` tells of, at a load of 1. A poll is
/// one of every 25 ms: without a pause it takes less than half, since nothing has left the caches.
const MEASURED: [Constant; 8] = [
    Constant { name: "poll", microseconds: 463.7, of: "a poll that finds nothing" },
    Constant { name: "row", microseconds: 2.1, of: "each row that a poll finds" },
    Constant { name: "notify", microseconds: 124.4, of: "a `NOTIFY` that nobody listens to" },
    Constant { name: "signal", microseconds: 5.0, of: "the same, for each backend that listens" },
    Constant { name: "hear", microseconds: 26.7, of: "a backend hears a notification" },
    Constant { name: "check", microseconds: 4124.6, of: "a check of one table's triggers" },
    Constant { name: "trim", microseconds: 825.0, of: "a trim that removes nothing" },
    Constant { name: "write", microseconds: 157.8, of: "an `UPDATE` of a captured row" },
];

fn main() {
    println!("{HEAD}");
    println!("| cost | µs of a core | of |\n|---|--:|---|");
    for constant in MEASURED {
        println!("| {} | {:.1} | {} |", constant.name, constant.microseconds, constant.of);
    }
    println!("{LOAD_AND_DELAY}");
    for hosts in HOSTS {
        for writes in WRITES {
            let mut cells = vec![hosts.to_string(), writes.to_string()];
            for wake in [false, true] {
                cells.extend(of(&run(&scenario(hosts, writes, wake))));
            }
            println!("| {} |", cells.join(" | "));
        }
    }
    println!("{FAN_OUT}");
    for writes in WRITES {
        let mut cells = vec![writes.to_string()];
        for (wake, bar) in [(true, WOKEN), (false, PSQL)] {
            cells.extend(fan_out(|hosts| scenario(hosts, writes, wake), bar));
        }
        println!("| {} |", cells.join(" | "));
    }
    println!("{REST}");
    for rest in [0, 3, 5, 10] {
        let rested = |hosts| {
            let rest = rest * MILLISECOND;
            Scenario { rest, ..scenario(hosts, 1000.0, true) }
        };
        let mut cells = vec![format!("{rest} ms")];
        cells.extend(of(&run(&rested(10))));
        cells.extend(fan_out(rested, WOKEN));
        println!("| {} |", cells.join(" | "));
    }
}

fn of(outcome: &Outcome) -> [String; 4] {
    [
        format!("{:.0}", outcome.polls_per_second),
        format!("{:.1} %", outcome.log_share * 100.0),
        milliseconds(outcome.percentile(50)),
        milliseconds(outcome.percentile(99)),
    ]
}

/// With how many hosts the log takes too much, and with how many it is too late.
fn fan_out(scenario: impl Fn(usize) -> Scenario, bar: Nanoseconds) -> [String; 2] {
    let outcomes: Vec<(usize, Outcome)> =
        STEPS.iter().map(|&hosts| (hosts, run(&scenario(hosts)))).collect();
    let first = |is_past: &dyn Fn(&Outcome) -> bool| {
        let past = outcomes.iter().find(|(_, outcome)| is_past(outcome));
        past.map_or_else(|| "over 200".to_owned(), |(hosts, _)| hosts.to_string())
    };
    [
        first(&|outcome| outcome.log_share > SHARE),
        first(&|outcome| outcome.percentile(99).is_some_and(|late| late > bar)),
    ]
}

fn milliseconds(delay: Option<Nanoseconds>) -> String {
    delay.map_or_else(
        || "–".to_owned(),
        |delay| format!("{:.1} ms", delay as f64 / MILLISECOND as f64),
    )
}

fn scenario(hosts: usize, writes_per_second: f64, wake: bool) -> Scenario {
    let cost = |name: &str| {
        let found = MEASURED.iter().find(|constant| constant.name == name);
        found.map_or(0, |constant| (constant.microseconds * MICROSECOND as f64) as Nanoseconds)
    };
    Scenario {
        hosts,
        cores: 2,
        costs: Costs {
            poll: cost("poll"),
            row: cost("row"),
            notify: cost("notify"),
            signal: cost("signal"),
            hear: cost("hear"),
            check: cost("check"),
            trim: cost("trim"),
            write: cost("write"),
            network: 100 * MICROSECOND,
            grain: MILLISECOND,
        },
        poll: 25 * MILLISECOND,
        check: 10 * SECOND,
        trim: 60 * SECOND,
        rest: 3 * MILLISECOND,
        wake,
        writes_per_second,
        length: 20 * SECOND,
        seed: 1,
    }
}

const HEAD: &str = "\
# Many hosts on one database, simulated

`cargo run --release -p tidewire-oplog --example simulation`, seed 1, 20 virtual seconds a row. A database of
two cores. Hosts poll every 25 ms, and sooner when they are woken, with 3 ms in between; they check triggers
every 10 s and trim every minute. A delay is from the acknowledgement of a commit until its dependants are stale
on another host. *Load* is of both cores, and the log's alone: writers, applications and loads come on top.

Costs are processor time of backends of PostgreSQL 15, as `--example latency -- constants` printed them on a
machine of two cores with little else to do (load 1). Each poll takes what one of every 25 ms does; one that
follows another at once took 190 µs, so the loads of many polls a second are upper bounds.
Assumed, not measured: 0.1 ms from a host to the database, and a timer that is late by up to 1 ms.

Where the load is near 100 %, the database can do no more: delays there say that it is too much, not how much.
The model serves in order of arrival, so that a `NOTIFY` waits behind every poll.
";

const LOAD_AND_DELAY: &str = "
## Load and delay

*Polls alone* is what holds for `psql`; *woken* where every commit is by a host that says so.

| hosts | commits a second | polls alone: polls/s | load | p50 | p99 | woken: polls/s | load | p50 | p99 |
|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|";

const FAN_OUT: &str = "
## Where fan-out would begin

The first number of hosts (of 2, 3, 5, 7, 10, 15, 20, 30, 50, 70, 100, 150 and 200) with which the log takes
more than a tenth of the database, and with which p99 is past its bar (12 ms woken, 35 ms by polls alone).

| commits a second | woken: a tenth | woken: p99 | polls alone: a tenth | polls alone: p99 |
|--:|--:|--:|--:|--:|";

const REST: &str = "
## What it saves that a woken host rests

A host that is woken again and again rests for 3 ms in between. This is what another pause would do at 1,000
commits a second: 10 hosts, and then where fan-out would begin.

| pause | polls/s | load | p50 | p99 | a tenth | p99 past its bar |
|--:|--:|--:|--:|--:|--:|--:|";
