//! `tidewire bench` by itself, for work on the bench alone.

use std::io::IsTerminal;
use std::process::ExitCode;

use clap::Parser;
use tidewire_bench::command::{self, BenchArgs};
use tidewire_bench::{Console, View};
use tidewire_loadgen::Stop;

#[derive(Parser)]
struct Program {
    #[command(flatten)]
    bench: BenchArgs,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let program = Program::parse();
    let stop = Stop::new();
    let raised = stop.clone();
    tokio::spawn(async move {
        if tokio::signal::ctrl_c().await.is_ok() {
            raised.raise();
        }
    });
    let mut out = std::io::stdout();
    let view = if out.is_terminal() { View::Terminal } else { View::Plain };
    let mut console = Console::new(&mut out, view);
    match command::run(&program.bench, None, &mut console, &stop).await {
        Ok(outcome) => ExitCode::from(outcome.exit_code()),
        Err(error) => {
            let _ =
                std::io::Write::write_fmt(&mut std::io::stderr(), format_args!("error: {error}\n"));
            ExitCode::from(2)
        }
    }
}
