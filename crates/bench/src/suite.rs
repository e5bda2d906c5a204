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
//!
//! Peers are in `bench/peers`, named by its `peers.toml`: `peer.rs`. Tables: `report.rs`.

mod peer;
mod report;
mod runner;
mod web;

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
    pub(crate) path: &'static str,
    /// The body of a good answer, to the letter.
    pub(crate) body: &'static str,
    pub(crate) connections: usize,
    pub(crate) depth: usize,
}

/// Every suite there is.
pub(crate) const SUITES: &[Suite] = &[web::WEB];
