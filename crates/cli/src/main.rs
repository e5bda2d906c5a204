//! The `tidewire` program: arguments in, exit codes and output out.
//!
//! | exit code | means |
//! |---|---|
//! | 0 | done |
//! | 1 | it failed, a threshold did not hold, or a second signal cut a drain short; the last line on standard error says why |
//! | 2 | the arguments or the configuration are wrong, or a measurement could not be made |
//! | 3, 4, 5, 65 to 80 | what a call came to; see `call/outcome.rs` |
//! | 6 | two measurements cannot be compared: the generator made the figures of one |
//! | 130 | a measurement was stopped by Ctrl-C; what was measured is printed |

#![doc = include_str!("../README.md")]

mod admin;
mod broken_pipe;
mod call;
mod catalog;
mod colors;
mod command;
mod failure;
mod foreign_flags;
mod import;
mod init;
mod json;
mod names;
mod origin;
mod release_memory;
mod serving;

use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};

use crate::broken_pipe::is_broken_pipe;
use crate::command::processes::ProcessAction;
use crate::failure::{Failure, report};

/// Gives memory back after a peak, which the allocator of the system hardly does: see
/// `bench-runs/attack.md`.
#[cfg(feature = "jemalloc")]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// Which build this is, for whoever reports a fault; see `build.rs`.
const VERSION: &str = concat!(
    env!("CARGO_PKG_VERSION"),
    "\ncommit ",
    env!("BUILD_COMMIT"),
    "\ntarget ",
    env!("BUILD_TARGET"),
    "\nfeatures ",
    env!("BUILD_FEATURES"),
);

/// Define a service once in protobuf; serve it over every protocol.
#[derive(Debug, Parser)]
#[command(name = "tidewire", version, long_version = VERSION, propagate_version = true)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Init(command::init::Init),
    Import(command::import::Import),
    /// Serve `.proto` files over Connect, gRPC, gRPC-Web and plain HTTP on one port.
    Serve(command::serve::Serve),
    Mock(command::mock::Mock),
    Call(command::call::CallArgs),
    Top(command::top::Top),
    Console(command::console::Console),
    Calls(command::calls::Calls),
    Inspect(command::inspect::Inspect),
    Ps(command::processes::Ps),
    Logs(command::processes::Logs),
    /// Start a process of a hosted program, unless one runs.
    Start(command::processes::ProcessArgs),
    /// End the processes of a hosted program after their calls; the next call starts another.
    Stop(command::processes::ProcessArgs),
    /// Replace the processes of a hosted program by a new one.
    Restart(command::processes::ProcessArgs),
    /// Freeze the processes of a hosted program until its next call.
    Freeze(command::processes::ProcessArgs),
    /// Thaw the frozen processes of a hosted program.
    Thaw(command::processes::ProcessArgs),
    Invalidate(command::invalidate::Invalidate),
    Mocks(command::mocks::Mocks),
    Mcp(command::mcp::Mcp),
    Oplog(command::oplog::OplogArgs),
    List(command::list::List),
    Describe(command::describe::Describe),
    Proto(command::proto::ProtoArgs),
    Check(command::check::Check),
    Completions(command::complete::Completions),
    #[command(hide = true)]
    Complete(command::complete::Complete),
    /// Print the version with its commit, target and features, as `--version` does.
    Version,
    /// Measure a server: load, latency, its CPU and memory; compare results.
    Bench(tidewire_bench::command::BenchArgs),
}

fn main() -> ExitCode {
    tidewire::hosting::supervisor();
    let arguments = match Arguments::try_parse_from(foreign_flags::rewrite(std::env::args())) {
        Ok(arguments) => arguments,
        Err(error) => return refuse(&error),
    };
    let outcome = match arguments.command {
        Command::Init(init) => init.run(),
        Command::Import(import) => done(import.run()),
        Command::Version => {
            serving::print(&format!("tidewire {VERSION}\n"));
            Ok(ExitCode::SUCCESS)
        }
        Command::Serve(serve) => done(serve.run()),
        Command::Mock(mock) => done(mock.run()),
        Command::Call(call) => wait(call.run()),
        Command::Calls(calls) => done(wait(calls.run())),
        Command::Top(top) => done(wait(top.run())),
        Command::Console(console) => done(wait(console.run())),
        Command::Inspect(inspect) => done(wait(inspect.run())),
        Command::Ps(ps) => done(wait(ps.run())),
        Command::Logs(logs) => done(wait(logs.run())),
        Command::Start(one) => done(wait(one.run(ProcessAction::Start))),
        Command::Stop(one) => done(wait(one.run(ProcessAction::Stop))),
        Command::Restart(one) => done(wait(one.run(ProcessAction::Restart))),
        Command::Freeze(one) => done(wait(one.run(ProcessAction::Freeze))),
        Command::Thaw(one) => done(wait(one.run(ProcessAction::Thaw))),
        Command::Invalidate(pages) => done(wait(pages.run())),
        Command::Oplog(oplog) => done(wait(oplog.run())),
        Command::Mocks(mocks) => done(wait(mocks.run())),
        Command::Mcp(mcp) => done(wait(mcp.run())),
        Command::Check(check) => check.run(),
        Command::Completions(completions) => completions.run(),
        Command::Complete(complete) => wait(complete.run(&Arguments::command())),
        Command::List(list) => wait(list.run()),
        Command::Describe(describe) => wait(describe.run()),
        Command::Proto(proto) => done(proto.run()),
        Command::Bench(bench) => wait(command::bench::run(&bench)),
    };
    match outcome {
        Ok(code) => code,
        Err(failure) if is_broken_pipe(&failure) => ExitCode::SUCCESS,
        Err(failure) => {
            report(&format!("{:#}", failure.error));
            ExitCode::from(failure.code)
        }
    }
}

/// Runs what ends by itself.
#[tokio::main]
async fn wait<T>(command: impl Future<Output = T>) -> T {
    command.await
}

fn done(outcome: Result<(), Failure>) -> Result<ExitCode, Failure> {
    outcome.map(|()| ExitCode::SUCCESS)
}

/// Prints what clap says of the arguments, help among it, and what to write in place of a flag of
/// another program.
fn refuse(error: &clap::Error) -> ExitCode {
    let _ = error.print();
    if let Some(text) = foreign_flags::instead(error) {
        report(&text);
    }
    ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every option of a command and of those below it, with the words that lead to it.
    fn options(command: &clap::Command, path: &str, found: &mut Vec<(String, clap::Arg)>) {
        for argument in command.get_arguments() {
            found.push((format!("{path} {}", argument.get_id()), argument.clone()));
        }
        // These come from the comments of `tidewire.admin.v1`.
        for below in command.get_subcommands().filter(|below| below.get_name() != "mocks") {
            options(below, &format!("{path} {}", below.get_name()), found);
        }
    }

    #[test]
    fn every_option_is_explained_in_one_form() {
        let mut found = Vec::new();
        options(&Arguments::command(), "tidewire", &mut found);
        assert!(found.len() > 100, "only {} options", found.len());
        for (name, argument) in found {
            let help = argument.get_help().map(ToString::to_string).unwrap_or_default();
            let is_sentence = help.starts_with(char::is_uppercase) || help.starts_with('`');
            assert!(is_sentence, "{name}: {help:?} begins with a capital letter");
            for other in ["repeatable", "(default", "by default", "efaults to"] {
                assert!(!help.contains(other), "{name}: write [default: …] or may be repeated");
            }
            let is_many = matches!(argument.get_action(), clap::ArgAction::Append);
            if is_many && !argument.is_positional() && argument.get_value_delimiter().is_none() {
                let is_said = help.contains("may be repeated") || help.contains("all ");
                assert!(
                    is_said || argument.get_num_args().is_some_and(|n| n.max_values() > 1),
                    "{name}: {help:?} says that it may be repeated"
                );
            }
            let is_duration = argument.get_default_values().iter().any(|value| {
                let value = value.to_string_lossy();
                let digits = value.trim_end_matches("ms").trim_end_matches(['s', 'm']);
                digits.len() < value.len() && digits.parse::<u32>().is_ok()
            });
            if is_duration {
                let names = argument.get_value_names().unwrap_or_default();
                assert_eq!(names, ["DURATION"], "{name}");
            }
        }
    }
}
