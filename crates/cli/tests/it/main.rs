//! The `tidewire` program as its users meet it: arguments in, output and exit codes out.

#![allow(clippy::unwrap_used, reason = "a test says what it expects")]

#[path = "../../../../examples/contacts/tests/it/cluster.rs"]
#[expect(dead_code, reason = "the reference application's tests use all of it")]
mod cluster;

mod call;
mod check;
mod console;
mod deploying;
mod exhaustion;
mod foreign_flags;
mod front_door;
mod grpc_programs;
mod hosting;
mod import;
mod init;
mod measuring;
mod mock;
mod mock_bodies;
mod mock_calls;
mod mock_compat;
mod mock_faults;
mod mock_import;
mod mock_record;
mod mocked;
mod operating;
mod program;
mod restart;
mod schema;
mod server;
mod serving;
mod settings_reload;
mod shells;
mod steering;
mod trouble;
mod version;
