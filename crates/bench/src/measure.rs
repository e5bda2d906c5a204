//! From a plan to a result: runs the engine, shows progress, turns records into figures.

use std::sync::Arc;

use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::sync::oneshot;

use crate::case::Case;
use crate::cold_start;
use crate::console::{Console, View, bar};
use crate::events::Event;
use crate::machine;
use crate::quantity::{digits, grouped, time};
use crate::result::{
    Client, Latencies, LoadDescription, Phase, Requests, RunResult, StepResult, Throughput,
};
use crate::server::{self, ServerProcess, Watch};
use tidewire_loadgen::{
    Error, Model, Plan, Progress, Protocol, Run, RunClock, Stop, Transport, seconds,
};

/// A thread busier than this spent the whole run working.
const BUSY: f64 = 0.90;
/// Due requests noticed later than this, in seconds, mean the generator cannot keep the schedule.
const LATE: f64 = 0.001;

/// Runs `case` and reports what it measured. The context is the caller's to fill in.
pub(crate) async fn measure(
    case: &Arc<Case>,
    console: &mut Console<'_>,
    stop: &Stop,
) -> Result<RunResult, Error> {
    let (running, start) = begin(case, stop).await?;
    let clock = RunClock::start();
    let watch = running.as_ref().map(|server| Watch::begin(server.pid, clock, case.load.origin()));
    let (progress, received) = unbounded_channel();
    let (finished, result) = oneshot::channel();
    let offered = Arc::clone(case);
    let engine_stop = stop.clone();
    std::thread::Builder::new()
        .name("bench".to_owned())
        .spawn(move || {
            let run = tidewire_loadgen::run(&offered.load, clock, &engine_stop, &progress);
            drop(progress);
            let _ = finished.send(run);
        })
        .map_err(|error| Error::system(format!("cannot start a thread: {error}")))?;
    show(&case.load, console, received).await?;
    let run = result.await.map_err(|_| Error::system("the engine stopped without a result"))?;
    let record = watch.map(Watch::end);
    let mut result = result_of(&case.load, run?);
    if let (Some(server), Some(record)) = (&running, record) {
        // What was not answered cost something else than an answer.
        let sent = |count| if result.requests.ok == 0 { 0 } else { count };
        let requests = server::RequestCounts {
            warm_up: sent(result.requests.warm_up_sent),
            measured: sent(result.requests.sent),
        };
        result.server = Some(server::describe(server, record, start, &requests));
    }
    Ok(result)
}

/// Finds or starts the server under test, and waits for the first answer of a started one.
async fn begin(
    case: &Arc<Case>,
    stop: &Stop,
) -> Result<(Option<ServerProcess>, Option<Phase>), Error> {
    let case = Arc::clone(case);
    let stop = stop.clone();
    let (finished, begun) = oneshot::channel();
    std::thread::spawn(move || {
        let started = ServerProcess::begin(&case.server).and_then(|mut running| {
            let mut start = None;
            if let Some(server) = running.as_mut().filter(|_| case.server.command.is_some()) {
                let took = cold_start::first_answer(server, &case, &stop)?;
                start = Some(server::start_phase(server, took));
            }
            if let Some(status) = running.as_mut().and_then(ServerProcess::has_ended) {
                return Err(Error::unreachable(format!(
                    "the server under test has ended ({status})"
                )));
            }
            tidewire_loadgen::prepare(&case.load)?;
            Ok((running, start))
        });
        let _ = finished.send(started);
    });
    begun.await.map_err(|_| Error::system("the server under test was lost while starting"))?
}

/// Measures cold starts instead of load.
pub(crate) async fn cold(
    case: &Arc<Case>,
    count: usize,
    console: &mut Console<'_>,
    stop: &Stop,
) -> Result<RunResult, Error> {
    let cold = cold_start::measure(case, count, console, stop).await?;
    let mut load = describe(&case.load, 0.0);
    load.model = "cold start".to_owned();
    load.shape = format!("{count} starts");
    (load.connections, load.depth, load.duration) = (1, 1, 0.0);
    let started = cold.starts.len() as u64;
    let requests = Requests {
        offered: started + cold.failed,
        sent: started + cold.failed,
        ok: started,
        failed: cold.failed,
        ..Requests::default()
    };
    let first = cold.first_answer.clone();
    Ok(RunResult {
        format: crate::result::FORMAT.to_owned(),
        load,
        requests,
        latency: Latencies {
            correction: "none".to_owned(),
            corrected: first.clone(),
            raw: first,
            ..Latencies::default()
        },
        cold_start: Some(cold),
        interrupted: stop.is_raised(),
        ..RunResult::default()
    })
}

/// Shows progress until the engine is done.
async fn show(
    plan: &Plan,
    console: &mut Console<'_>,
    mut received: UnboundedReceiver<Progress>,
) -> Result<(), Error> {
    let mut latest = vec![Progress::default(); plan.threads];
    let mut before = (0, 0.0);
    let every = match console.view() {
        View::Terminal => 1,
        View::Program => 1,
        View::Plain if plan.duration.is_some_and(|length| length.as_secs() <= 30) => 1,
        View::Plain => 10,
    };
    let mut rows = 0;
    while let Some(progress) = received.recv().await {
        latest[progress.worker] = progress;
        if progress.worker != 0 {
            continue;
        }
        rows += 1;
        if rows % every != 0 {
            continue;
        }
        let sum = |part: fn(&Progress) -> u64| latest.iter().map(part).sum::<u64>();
        let at = seconds(progress.at.saturating_sub(plan.origin()));
        let ok = sum(|one| one.ok);
        let failed = sum(|one| one.failed);
        let dropped = sum(|one| one.dropped);
        if console.view() == View::Program {
            let Progress { p50, p99, .. } = progress;
            console.progress(&Event { at, ok, failed, dropped, p50, p99 }.line()?)?;
            continue;
        }
        let rate = (ok - before.0) as f64 / (at - before.1).max(1e-9);
        before = (ok, at);
        let reached = Reached::of(plan, at, ok + failed);
        let bar = match console.view() {
            View::Terminal => bar(reached.share),
            View::Plain | View::Program => String::new(),
        };
        let mut line = format!(
            "{bar}{}   {:>9}/s   p50 {:>8}   p99 {:>8}",
            reached.text,
            grouped(rate),
            time(progress.p50),
            time(progress.p99),
        );
        if failed + dropped > 0 {
            line.push_str(&format!("   failed {failed}   dropped {dropped}"));
        }
        console.progress(&line)?;
    }
    Ok(())
}

/// How far a load has come, by what ends it.
struct Reached {
    share: f64,
    text: String,
}

impl Reached {
    fn of(plan: &Plan, seconds: f64, done: u64) -> Self {
        if let Some(length) = plan.duration {
            let total = length.as_secs_f64();
            let text = format!("{seconds:>5.0} s of {total:.0}");
            return Self { share: seconds / total, text };
        }
        let total = plan.requests.unwrap_or(u64::MAX);
        let text = format!("{seconds:>5.0} s, {done} of {total}");
        Self { share: done as f64 / total.max(1) as f64, text }
    }
}

fn result_of(plan: &Plan, run: Run) -> RunResult {
    let recorder = &run.recorder;
    let measured = recorder.measured;
    let asked = plan.duration.unwrap_or_default().as_secs_f64();
    let last = seconds(recorder.last_answer.saturating_sub(plan.origin()));
    let ended = seconds(run.ended_at.saturating_sub(plan.origin()));
    let bounded = plan.requests.is_some() || run.interrupted;
    let length = if measured.ok == 0 {
        ended.max(1e-9)
    } else if bounded {
        last.max(1e-9)
    } else {
        asked.max(last.min(ended))
    };
    let raw = recorder.raw.summary();
    let corrected = recorder.corrected.as_ref().map_or_else(|| raw.clone(), |own| own.summary());
    let correction = if recorder.corrected.is_some() { "intended-start" } else { "none" };
    let stalls = recorder.gaps.stalls(raw.p50, plan.origin());
    let mut result = RunResult {
        format: crate::result::FORMAT.to_owned(),
        load: describe(plan, length),
        requests: Requests {
            offered: measured.offered,
            sent: measured.sent,
            ok: measured.ok,
            failed: measured.failed,
            dropped: measured.dropped,
            messages: measured.messages,
            bytes: measured.bytes,
            warm_up_sent: recorder.warm_up.sent,
            reconnects: run.reconnects,
        },
        throughput: Throughput {
            ok_per_second: measured.ok as f64 / length,
            bytes_per_second: measured.bytes as f64 / length,
            messages_per_second: measured.messages as f64 / length,
            seconds: length,
        },
        latency: Latencies {
            correction: correction.to_owned(),
            corrected,
            raw,
            failed: recorder.failed.summary(),
            connect: recorder.connects.summary(),
        },
        failures: recorder.failures.iter().map(|(key, n)| (key.to_string(), *n)).collect(),
        stalls,
        timeline: recorder.timeline.clone(),
        steps: steps(plan, &run),
        client: client(&run),
        interrupted: run.interrupted,
        ..RunResult::default()
    };
    result.client.is_bottleneck = is_bottleneck(&plan.model, &result);
    result.notes = notes(plan, &run, &result);
    result
}

fn steps(plan: &Plan, run: &Run) -> Vec<StepResult> {
    let names = plan.workload.steps.iter().map(|step| &step.name);
    names
        .zip(&run.recorder.steps)
        .map(|(name, totals)| StepResult {
            name: name.clone(),
            ok: totals.ok,
            failed: totals.failed,
            latency: totals.raw.summary(),
        })
        .collect()
}

fn client(run: &Run) -> Client {
    let cpu = seconds(run.client_cpu);
    Client {
        cpu_seconds: cpu,
        cpu_seconds_per_request: cpu / run.recorder.measured.ok.max(1) as f64,
        busiest_thread: run.busiest,
        lateness: run.recorder.lateness.summary(),
        rss_peak_bytes: machine::rss_peak(),
        is_bottleneck: false,
    }
}

fn is_bottleneck(model: &Model, result: &RunResult) -> bool {
    match model {
        Model::Closed { .. } => result.client.busiest_thread > BUSY,
        Model::Open { .. } => {
            result.client.busiest_thread > BUSY && result.client.lateness.p99 > LATE
        }
    }
}

/// What a reader should know before trusting the figures.
fn notes(plan: &Plan, run: &Run, result: &RunResult) -> Vec<String> {
    let mut notes = Vec::new();
    if result.interrupted {
        notes.push("the run was stopped by hand; these are the figures up to then".to_owned());
    }
    notes.extend(generator_note(result));
    if let Some(since) = run.recorder.refused_since {
        let at = seconds(since.saturating_sub(plan.origin()));
        notes.push(format!("the target refused connections from {at:.1} s on"));
    }
    if let Some(note) = unreached(plan, result) {
        notes.push(note);
    }
    if result.requests.dropped > 0 {
        notes.push(format!(
            "{} requests were dropped at the in-flight cap; they are in no percentile",
            grouped(result.requests.dropped as f64)
        ));
    }
    notes
}

/// What the generator itself did to the figures: it was the bottleneck, or it was late, as it is
/// where others take its core.
pub(crate) fn generator_note(result: &RunResult) -> Option<String> {
    let client = &result.client;
    if client.is_bottleneck {
        let percent = (client.busiest_thread * 100.0).min(100.0);
        return Some(format!(
            "the generator was the bottleneck: a thread of it was busy {percent:.0} % of the time; \
             these figures are its limit, not the target's (more --threads, or fewer checks)"
        ));
    }
    (client.lateness.p99 > LATE).then(|| {
        format!(
            "the generator noticed due requests late (p99 {}); that is part of the corrected \
             latency: give it its own core",
            time(client.lateness.p99)
        )
    })
}

/// The rate asked for was not reached.
fn unreached(plan: &Plan, result: &RunResult) -> Option<String> {
    let Model::Open { .. } = plan.model else { return None };
    let requests = &result.requests;
    let due = requests.offered;
    let share = requests.ok as f64 / due.max(1) as f64;
    let took = result.throughput.seconds / result.load.duration.max(1e-9);
    if result.interrupted || (share >= 0.99 && took <= 1.05) {
        return None;
    }
    Some(format!(
        "the rate was not reached: {} of {} due requests were answered well, {}/s",
        grouped(requests.ok as f64),
        grouped(due as f64),
        digits(result.throughput.ok_per_second),
    ))
}

/// A load, and how long its measured part was if nobody said so.
fn describe(plan: &Plan, length: f64) -> LoadDescription {
    let speech = &plan.workload.speech;
    let transport = match speech.transport {
        Transport::Http1 => "HTTP/1.1",
        Transport::Http2 => "HTTP/2",
        Transport::WebSocket => "WebSocket",
        Transport::Live => "the live protocol",
    };
    let protocol = match speech.protocol {
        Protocol::Plain | Protocol::WebSocket | Protocol::Live => transport.to_owned(),
        Protocol::Connect => format!("Connect over {transport}"),
        Protocol::ConnectGet => format!("Connect GET over {transport}"),
        Protocol::ConnectStream => format!("Connect stream over {transport}"),
        Protocol::Grpc => format!("gRPC over {transport}"),
        Protocol::GrpcWeb => format!("gRPC-Web over {transport}"),
    };
    let (model, rate) = match &plan.model {
        Model::Closed { .. } => ("closed", None),
        Model::Open { segments, .. } => ("open", segments.last().map(|last| last.to)),
    };
    LoadDescription {
        target: plan.target.url(),
        protocol,
        model: model.to_owned(),
        shape: shape(plan),
        connections: plan.connections,
        depth: plan.depth,
        rate,
        duration: plan.duration.map_or(length, |duration| duration.as_secs_f64()),
        warm_up: plan.warm_up.as_secs_f64(),
        threads: plan.threads,
    }
}

fn shape(plan: &Plan) -> String {
    match &plan.model {
        Model::Closed { connections_from } if *connections_from < plan.connections => {
            format!("{connections_from} to {} connections", plan.connections)
        }
        Model::Closed { .. } => format!("{} connections", plan.connections),
        Model::Open { segments, spacing, .. } => {
            let parts: Vec<String> = segments
                .iter()
                .map(|one| match (digits(one.from), digits(one.to)) {
                    (from, to) if from == to => format!("{from}/s"),
                    (from, to) => format!("{from} to {to}/s"),
                })
                .collect();
            let poisson = match spacing {
                tidewire_loadgen::ArrivalSpacing::Uniform => "",
                tidewire_loadgen::ArrivalSpacing::Poisson(_) => ", Poisson",
            };
            format!("{}{poisson}", parts.join(", "))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_generator_that_is_itself_the_bottleneck_says_so() {
        let mut result = RunResult::default();
        result.client.busiest_thread = 0.97;
        let closed = Model::Closed { connections_from: 8 };
        assert!(is_bottleneck(&closed, &result));
        let open = Model::Open {
            segments: Vec::new(),
            spacing: tidewire_loadgen::ArrivalSpacing::Uniform,
            in_flight_max: 1,
        };
        assert!(!is_bottleneck(&open, &result), "busy waiting for a due request is not work");
        result.client.lateness.p99 = 0.02;
        assert!(is_bottleneck(&open, &result));
        result.client.is_bottleneck = true;
        assert!(generator_note(&result).unwrap().contains("the generator was the bottleneck"));
    }
}
