//! Starting a process and waiting for its first complete, good answer.
//!
//! The clock starts before the spawn. Attempts follow each other a millisecond apart, each a full
//! request with all its checks, so an open port that answers nonsense does not count as started.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::mpsc::unbounded_channel;

use crate::case::Case;
use crate::console::Console;
use crate::quantity::time;
use crate::result::ColdStart;
use crate::server::ServerProcess;
use tidewire_loadgen::{Error, Histogram, Model, RunClock, Stop, nanos};

const PAUSE: Duration = Duration::from_millis(1);

/// Waits for the first good answer; the time is from the spawn. Blocks.
pub(crate) fn first_answer(
    running: &mut ServerProcess,
    case: &Case,
    stop: &Stop,
) -> Result<Duration, Error> {
    let mut probe = case.load.clone();
    probe.connections = 1;
    probe.depth = 1;
    probe.threads = 1;
    probe.model = Model::Closed { connections_from: 1 };
    probe.warm_up = Duration::ZERO;
    probe.requests = Some(probe.workload.steps.len().min(1) as u64);
    probe.timeout = case.server.start_timeout;
    probe.duration = Some(case.server.start_timeout);
    let (progress, _received) = unbounded_channel();
    loop {
        let ran = tidewire_loadgen::prepare(&probe)
            .and_then(|()| tidewire_loadgen::run(&probe, RunClock::start(), stop, &progress));
        let failure = match ran {
            Ok(run) if run.recorder.measured.ok > 0 => return Ok(running.spawned_at.elapsed()),
            Ok(run) => run.recorder.failures.keys().next().map(ToString::to_string),
            Err(error) => Some(error.to_string()),
        };
        if let Some(status) = running.has_ended() {
            return Err(Error::unreachable(format!(
                "the server under test ended before its first answer ({status})"
            )));
        }
        if running.spawned_at.elapsed() > case.server.start_timeout || stop.is_raised() {
            return Err(Error::unreachable(format!(
                "the server under test gave no good answer within {}: {}",
                time(case.server.start_timeout.as_secs_f64()),
                failure.unwrap_or_else(|| "no attempt ended".to_owned()),
            )));
        }
        std::thread::sleep(PAUSE);
    }
}

/// Starts and stops the server `count` times.
pub(crate) async fn measure(
    case: &Arc<Case>,
    count: usize,
    console: &mut Console<'_>,
    stop: &Stop,
) -> Result<ColdStart, Error> {
    let Some(command) = case.server.command.clone() else {
        return Err(Error::usage("--cold needs --server-command"));
    };
    let mut histogram = Histogram::new();
    let mut result = ColdStart::default();
    for turn in 0..count {
        if stop.is_raised() {
            break;
        }
        let case = Arc::clone(case);
        let stop = stop.clone();
        let command = command.clone();
        let (finished, started) = tokio::sync::oneshot::channel();
        std::thread::spawn(move || {
            let took = ServerProcess::spawn(&command, &case.server)
                .and_then(|mut running| first_answer(&mut running, &case, &stop));
            let _ = finished.send(took);
        });
        let began = Instant::now();
        match started.await.map_err(|_| Error::system("a start was lost"))? {
            Ok(took) => {
                histogram.record(nanos(took));
                result.starts.push(took.as_secs_f64());
                console.progress(&format!("start {}: {}", turn + 1, time(took.as_secs_f64())))?;
            }
            Err(error) => {
                result.failed += 1;
                let after = time(began.elapsed().as_secs_f64());
                console.progress(&format!("start {}: failed after {after}: {error}", turn + 1))?;
            }
        }
    }
    result.first_answer = histogram.summary();
    if result.starts.is_empty() {
        return Err(Error::unreachable("no start gave a good answer"));
    }
    Ok(result)
}
