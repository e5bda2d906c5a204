//! Behaviour that users see, over every protocol, with real sockets and foreign clients.

#![allow(clippy::unwrap_used, reason = "a test says what it expects")]

mod admin;
mod admin_said;
mod admin_trouble;
mod attack_memo;
mod attack_vocabulary;
mod auth;
mod bad_input;
mod browser;
mod client;
mod commands;
mod deploy;
mod drain;
mod expired;
mod following;
mod foreign;
mod framing;
mod harness;
mod hostile;
mod http2_peer;
mod in_process;
mod leaks;
mod limits;
mod live;
mod memo_clients;
mod memoized;
mod mock_changes;
mod mock_foreign;
mod mock_golden;
mod mock_trouble;
mod otlp;
mod page;
mod plain;
mod readers;
mod refusals;
mod replicas;
mod run_time_schema;
mod secure;
mod silent;
mod streams;
mod subscribed;
mod trouble;
mod upstream;
mod vocabulary;
mod way;
