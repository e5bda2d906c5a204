//! The `tidewire` program: arguments in, exit codes and output out.
//!
//! | exit code | means |
//! |---|---|
//! | 0 | done |
//! | 1 | it failed; the last line on standard error says why |
//! | 2 | the arguments or the configuration are wrong |

mod command;
mod log;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Define a service once in protobuf; serve it over every protocol.
#[derive(Debug, Parser)]
#[command(name = "tidewire", version, propagate_version = true)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Serve `.proto` files over Connect, gRPC, gRPC-Web and plain HTTP on one port.
    Serve(command::serve::Serve),
}

#[tokio::main]
#[expect(clippy::print_stderr, reason = "the program's own error output")]
async fn main() -> ExitCode {
    let outcome = match Arguments::parse().command {
        Command::Serve(serve) => serve.run().await,
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("tidewire: {:#}", failure.error);
            ExitCode::from(failure.code)
        }
    }
}

/// Why a command failed, and the exit code for it.
struct Failure {
    error: anyhow::Error,
    code: u8,
}

impl Failure {
    /// The arguments or the configuration are wrong.
    fn usage(error: impl Into<anyhow::Error>) -> Self {
        Self { error: error.into(), code: 2 }
    }
}

impl<E: Into<anyhow::Error>> From<E> for Failure {
    fn from(error: E) -> Self {
        Self { error: error.into(), code: 1 }
    }
}
