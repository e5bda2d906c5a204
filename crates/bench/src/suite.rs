//! Suites: named sets of cases, with the peers that a reader would pick instead in the same run.
//!
//! Every measurement is of one case and one peer, which is a process of its own, started for it and
//! stopped after it. Rounds are interleaved (A B C, A B C), so that a slow minute of the machine is
//! shared; where there are two cores, servers have one of them and the load has another. What could not
//! be measured is a row that says why.
//!
//! | suite | file |
//! |---|---|
//! | `web`: plain handlers and methods, text and JSON | `web.rs` |
//! | `protocols`: one typed service over Connect, gRPC and gRPC-Web | `protocols.rs` |
//!
//! Peers are in `bench/peers`, named by its `peers.toml`: `peer.rs`. Tables: `report.rs`.

mod peer;
mod protocols;
mod report;
mod runner;
mod web;

use tidewire_load::{MessageCodec, Protocol};

pub(crate) use peer::Peers;
pub(crate) use report::markdown;
pub(crate) use runner::{Settings, SuiteResult, run};

/// A set of cases.
#[derive(Debug)]
pub(crate) struct Suite {
    pub(crate) name: &'static str,
    /// One line for `--list`.
    pub(crate) about: &'static str,
    /// What a reader of its tables has to know.
    pub(crate) reading: &'static str,
    pub(crate) cases: &'static [Case],
}

/// What is asked of every peer.
#[derive(Debug)]
pub(crate) struct Case {
    pub(crate) name: &'static str,
    /// What a peer has to have for it, as the peers' `lacks` call it.
    pub(crate) needs: &'static str,
    pub(crate) path: &'static str,
    pub(crate) protocol: Protocol,
    pub(crate) codec: MessageCodec,
    /// What is sent; nothing is a GET.
    pub(crate) sent: &'static str,
    /// What a good answer is, or has in it.
    pub(crate) answer: Answer,
    pub(crate) connections: usize,
    /// Under way on each: pipelined, or streams.
    pub(crate) depth: usize,
}

/// The body of a good answer.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Answer {
    /// To the letter.
    Is(&'static str),
    /// Somewhere in it: protocols put an envelope around a message.
    Has(&'static str),
}

/// Every suite there is.
pub(crate) const SUITES: &[Suite] = &[web::WEB, protocols::PROTOCOLS];
