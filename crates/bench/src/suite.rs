//! Suites: named sets of cases, with the peers that a reader would pick instead in the same run.
//!
//! Every measurement is of one case and one peer, which is its own process, started for it and
//! stopped after it. Rounds are interleaved (A B C, A B C), so that a slow minute of the machine is
//! shared; where there are two cores, servers have one of them and the load has another. What could
//! not be measured is a row that says why.
//!
//! | suite | file |
//! |---|---|
//! | `web`: plain handlers and methods, text and JSON | `web.rs` |
//! | `protocols`: one typed service over Connect, gRPC and gRPC-Web | `protocols.rs` |
//! | `mock`: the same on a mock, beside servers that were written | `mock.rs`, `published_tables.rs` |
//! | `rpc`: typed calls and streams between two processes | `rpc.rs` |
//! | `memo`: what keeps the answers of a database, read in process | `memo.rs` |
//! | `hosting`: hosted processes, kept, warm, cold, frozen | `hosting.rs` |
//! | `proxy`: pages from the cache of a reverse proxy, requests passed on | `proxy.rs` |
//! | `stacks`: one application as whole stacks have it, under a ramp of 300 clients | `stacks.rs` |
//!
//! Peers are in `bench/peers`, named by its `peers.toml`: `peer.rs`; one of them as a process:
//! `peer_process.rs`. Load: `load.rs`, and of peers that load themselves, or bring a client that
//! does, `itself.rs`. Cores: `cores.rs`. Tables: `report.rs`; lines of charts: `series.rs`.

mod cores;
mod hosting;
mod hosting_tables;
mod itself;
mod load;
mod memo;
mod mock;
mod peer;
mod peer_process;
mod protocols;
mod proxy;
mod published_tables;
mod report;
mod rpc;
mod runner;
mod series;
mod stacks;
mod web;

use std::time::Duration;

use tidewire_loadgen::{MessageCodec, Protocol};

pub(crate) use peer::Peers;
pub(crate) use proxy::OriginUse;
pub(crate) use report::{Cell, Section, cpu, markdown, notes, origin, ratios, sections, summary};
pub(crate) use runner::{FORMAT, Settings, SuiteResult, run};
pub(crate) use series::series;

/// A set of cases.
#[derive(Debug)]
pub(crate) struct Suite {
    pub(crate) name: &'static str,
    /// One line for `--list`.
    pub(crate) about: &'static str,
    /// What a reader of its tables has to know.
    pub(crate) reading: &'static str,
    /// How long each measurement is, where nothing else is asked for.
    pub(crate) duration: Duration,
    /// The same for a look at whether everything works.
    pub(crate) quick: Duration,
    pub(crate) cases: &'static [Case],
}

/// What is asked of every peer.
#[derive(Debug)]
pub(crate) struct Case {
    pub(crate) name: &'static str,
    /// What a peer has to have for it, as the peers' `lacks` call it.
    pub(crate) needs: &'static str,
    pub(crate) work: Work,
    pub(crate) load: Load,
}

/// What is sent, and what a good answer is.
#[derive(Debug)]
pub(crate) enum Work {
    /// The same request again and again.
    Call {
        path: &'static str,
        protocol: Protocol,
        codec: MessageCodec,
        /// Nothing is a GET.
        sent: &'static str,
        answer: Answer,
        /// Whether there is a server behind the peer that counts.
        origin: OriginUse,
    },
    /// The scenario of this file, in the folder of the peers: what `bench run --scenario` takes.
    Scenario(&'static str),
    /// Nothing: the peer, or the client that it brings, is run with this word and a number of
    /// seconds, does what the word says and prints what it counted.
    Itself(&'static str),
}

/// How it is sent.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Load {
    /// As many connections all the time, with `depth` under way on each: pipelined, or streams.
    Steady { connections: usize, depth: usize },
    /// One connection at first, more and more evenly up to `to`, each with one request under way.
    Ramp { to: usize },
    /// As the peer does it, on all cores.
    Itself,
    /// The same in two processes, of which one writes and the other reads.
    TwoHosts,
    /// As the peer's client does it on the core of the load, with a server on the other unless it
    /// needs none.
    Apart,
}

/// The body of a good answer.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Answer {
    /// To the letter.
    Is(&'static str),
    /// Each of these somewhere in it: protocols put an envelope around a message, and JSON has
    /// spaces where its printer likes them (Go's where it may surprise).
    Has(&'static [&'static str]),
}

/// Every suite there is.
pub(crate) const SUITES: &[Suite] = &[
    web::WEB,
    protocols::PROTOCOLS,
    mock::MOCK,
    rpc::RPC,
    memo::MEMO,
    hosting::HOSTING,
    proxy::PROXY,
    stacks::STACKS,
];
