//! The `tidewire` program: arguments in, exit codes and output out.
//!
//! | exit code | means |
//! |---|---|
//! | 0 | done |
//! | 1 | it failed, or a threshold did not hold; the last line on standard error says why |
//! | 2 | the arguments or the configuration are wrong, or a measurement could not be made |
//! | 3, 4, 5, 65 to 80 | what a call came to; see `call/outcome.rs` |
//! | 130 | a measurement was stopped by Ctrl-C; what was measured is printed |

mod call;
mod command;
mod describe;
mod known;
mod log;
mod names;
mod origin;
mod serving;

use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};

/// Gives memory back after a peak, which the allocator of the system hardly does: see
/// `bench-runs/attack.md`.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

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
    Call(command::call::CallArgs),
    List(command::list::List),
    Describe(command::describe::Describe),
    Check(command::check::Check),
    Completions(command::complete::Completions),
    #[command(hide = true)]
    Complete(command::complete::Complete),
    /// Measure a server: load, latency, its CPU and memory; compare results.
    Bench(tidewire_bench::command::BenchArgs),
}

#[tokio::main]
#[expect(clippy::print_stderr, reason = "the program's own error output")]
async fn main() -> ExitCode {
    let outcome = match Arguments::parse().command {
        Command::Serve(serve) => serve.run().await.map(|()| ExitCode::SUCCESS),
        Command::Call(call) => call.run().await,
        Command::Check(check) => check.run(),
        Command::Completions(completions) => completions.run(),
        Command::Complete(complete) => complete.run(&Arguments::command()).await,
        Command::List(list) => list.run().await,
        Command::Describe(describe) => describe.run().await,
        Command::Bench(bench) => command::bench::run(&bench).await,
    };
    match outcome {
        Ok(code) => code,
        // Whoever read the output has enough of it.
        Err(failure) if is_broken_pipe(&failure.error) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("tidewire: {:#}", failure.error);
            ExitCode::from(failure.code)
        }
    }
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    let io = error.downcast_ref::<std::io::Error>();
    io.is_some_and(|error| error.kind() == std::io::ErrorKind::BrokenPipe)
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
