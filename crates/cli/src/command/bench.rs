//! `tidewire bench`: honest load, from the room `bench`.

use std::io::IsTerminal;
use std::process::ExitCode;

use tidewire_bench::command::{self, BenchArgs};
use tidewire_bench::{Console, View};
use tidewire_load::Stop;

use crate::Failure;

/// Measures, and gives the exit code that the outcome asks for. Ctrl-C ends a run early, with the
/// figures so far.
pub(crate) async fn run(arguments: &BenchArgs) -> Result<ExitCode, Failure> {
    let stop = Stop::new();
    let mut out = std::io::stdout();
    let view = if out.is_terminal() { View::Terminal } else { View::Plain };
    let mut console = Console::new(&mut out, view);
    let mut measuring = std::pin::pin!(command::run(arguments, &mut console, &stop));
    let outcome = tokio::select! {
        outcome = measuring.as_mut() => outcome,
        _ = tokio::signal::ctrl_c() => {
            stop.raise();
            measuring.await
        }
    };
    Ok(ExitCode::from(outcome.map_err(Failure::usage)?.exit_code()))
}
