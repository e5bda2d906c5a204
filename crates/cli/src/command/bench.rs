//! `tidewire bench`: honest load, from the crate `bench`.

use std::io::IsTerminal;
use std::process::ExitCode;

use tidewire::Schema;
use tidewire_bench::command::{self, BenchArgs, ReflectionTarget};
use tidewire_bench::{Console, View};
use tidewire_loadgen::Stop;
use tokio::signal::unix::{SignalKind, signal};

use crate::call::detect::detect;
use crate::call::reach::Reach;
use crate::call::reflection::reflect;
use crate::call::target::Target;
use crate::call::watch::Watch;
use crate::failure::Failure;

/// Measures, and gives the exit code that the outcome asks for. Ctrl-C and SIGTERM end a run early,
/// with the figures so far, and leave no peer behind.
pub(crate) async fn run(arguments: &BenchArgs) -> Result<ExitCode, Failure> {
    let stop = Stop::new();
    let mut out = std::io::stdout();
    let view = if out.is_terminal() { View::Terminal } else { View::Plain };
    let mut console = Console::new(&mut out, view);
    let schema = match arguments.reflects() {
        Some(server) => Some(schema(server).await?),
        None => None,
    };
    // On its own thread: a peer that starts is waited for on this one.
    let mut hears = tokio::task::JoinSet::new();
    for kind in [SignalKind::interrupt(), SignalKind::terminate()] {
        let raised = stop.clone();
        let mut asked = signal(kind).map_err(Failure::usage)?;
        hears.spawn(async move {
            if asked.recv().await.is_some() {
                raised.raise();
            }
        });
    }
    let outcome = command::run(arguments, schema, &mut console, &stop).await;
    Ok(ExitCode::from(outcome.map_err(Failure::usage)?.exit_code()))
}

/// The schema of a server, as `call` asks for it.
async fn schema(server: ReflectionTarget<'_>) -> Result<Schema, Failure> {
    // A template has values only for the calls.
    let headers = server.headers.iter().filter(|header| !header.contains("{{"));
    let reach = Reach::trusting(server.authorities, server.insecure)
        .with_server_certificate(server.only_certificate)
        .with_headers(headers);
    let reach = reach.map_err(Failure::usage)?;
    let target = match server.socket {
        Some(socket) => Target::parse(&format!("unix:{}", socket.display())),
        None => Target::parse(server.url),
    };
    let target = target.map_err(Failure::usage)?;
    let found = detect(&target, &reach, &Watch::new(false)).await?;
    Ok(reflect(&found, &reach, target.method()).await?.schema)
}
