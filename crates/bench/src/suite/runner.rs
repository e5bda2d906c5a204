//! Runs a suite: rounds, cases, peers, in this order from the outside in.

use std::sync::Arc;
use std::time::Duration;

use rustix::thread::{CpuSet, sched_setaffinity};
use serde::{Deserialize, Serialize};
use tidewire_load::{
    Body, Check, Error, Feeder, Model, Names, Plan, Protocol, Request, Reuse, Speech, Step, Stop,
    Target, Template, Transport, Workload,
};

use super::peer::{Peer, Running};
use super::{Answer, Case, Peers, Suite};
use crate::case::{self, ServerPlan};
use crate::console::{Console, View};
use crate::quantity::{digits, time};
use crate::result::{Context, RunResult};
use crate::{machine, measure};

/// Requests under way, of an answer that never comes, are given up after this time.
const TIMEOUT: Duration = Duration::from_secs(5);

/// How a suite is run.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    pub(crate) rounds: usize,
    pub(crate) warm_up: Duration,
    pub(crate) duration: Duration,
    /// Only measurements of which the case or the peer has each of these in its name.
    pub(crate) only: Vec<String>,
}

/// Everything that one run of a suite measured.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct SuiteResult {
    pub(crate) format: String,
    pub(crate) suite: String,
    pub(crate) context: Context,
    pub(crate) rounds: usize,
    /// Seconds of each measurement, after its warm-up.
    pub(crate) seconds: f64,
    /// Servers and load each had a core of their own.
    pub(crate) pinned: bool,
    /// Peers that are not installed, and what to do about it.
    pub(crate) absent: Vec<(String, String)>,
    pub(crate) measurements: Vec<Measurement>,
    /// It was ended by hand.
    pub(crate) interrupted: bool,
}

/// One case of one peer in one round.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Measurement {
    pub(crate) case: String,
    pub(crate) peer: String,
    pub(crate) round: usize,
    /// Absent when there is a failure.
    pub(crate) figures: Option<Figures>,
    /// Why there are no figures.
    pub(crate) failure: Option<String>,
}

/// What one measurement found.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(crate) struct Figures {
    pub(crate) ok_per_second: f64,
    pub(crate) failed: u64,
    /// Latencies in seconds.
    pub(crate) p50: f64,
    pub(crate) p99: f64,
    /// CPU seconds of the server and its children.
    pub(crate) cpu_per_request: f64,
    pub(crate) rss_bytes: u64,
}

/// Runs `suite` with those of `peers` that are there.
pub(crate) async fn run(
    suite: &Suite,
    peers: &Peers,
    settings: &Settings,
    context: Context,
    console: &mut Console<'_>,
    stop: &Stop,
) -> Result<SuiteResult, Error> {
    let cores = Cores::divide();
    let absent = peers.found.iter().filter_map(|found| {
        found.absent.as_ref().map(|why| (found.peer.name.clone(), why.clone()))
    });
    let mut result = SuiteResult {
        format: "tidewire-suite/1".to_owned(),
        suite: suite.name.to_owned(),
        context,
        rounds: settings.rounds,
        seconds: settings.duration.as_secs_f64(),
        pinned: cores.is_some(),
        absent: absent.collect(),
        ..SuiteResult::default()
    };
    for (peer, why) in &result.absent {
        console.text(&format!("absent: {peer}: {why}\n"))?;
    }
    let wanted = |case: &str, peer: &str| {
        settings
            .only
            .iter()
            .all(|part| case.contains(part.as_str()) || peer.contains(part.as_str()))
    };
    for round in 0..settings.rounds {
        for case in suite.cases {
            for found in peers.found.iter().filter(|found| found.absent.is_none()) {
                let peer = &found.peer;
                if stop.is_raised() {
                    result.interrupted = true;
                    return Ok(result);
                }
                if !peer.has(case.needs) || !wanted(case.name, &peer.name) {
                    continue;
                }
                let figures = one(case, peer, peers, settings, cores.as_ref(), stop).await;
                let told = match &figures {
                    Ok(one) => format!(
                        "{}/s, {} CPU",
                        digits(one.ok_per_second),
                        time(one.cpu_per_request)
                    ),
                    Err(why) => why.clone(),
                };
                console.text(&format!(
                    "{}/{}  {:<44} {:<12} {told}\n",
                    round + 1,
                    settings.rounds,
                    case.name,
                    peer.name
                ))?;
                let (case, peer) = (case.name.to_owned(), peer.name.clone());
                let (figures, failure) = match figures {
                    Ok(figures) => (Some(figures), None),
                    Err(why) => (None, Some(why)),
                };
                result.measurements.push(Measurement { case, peer, round, figures, failure });
            }
        }
    }
    result.interrupted = stop.is_raised();
    Ok(result)
}

async fn one(
    case: &Case,
    peer: &Peer,
    peers: &Peers,
    settings: &Settings,
    cores: Option<&Cores>,
    stop: &Stop,
) -> Result<Figures, String> {
    if let Some(cores) = cores {
        cores.to_servers();
    }
    let started = peer.start(&peers.folder);
    if let Some(cores) = cores {
        cores.to_load();
    }
    let mut running = started?;
    let plan = plan(case, &running, settings).map_err(|error| error.to_string())?;
    let server = ServerPlan { pid: Some(running.pid()), ..ServerPlan::default() };
    let measured = Arc::new(case::Case { load: plan, server });
    let mut silent = std::io::sink();
    let mut quiet = Console::new(&mut silent, View::Plain);
    let result =
        measure::measure(&measured, &mut quiet, stop).await.map_err(|error| error.to_string())?;
    if let Some(how) = running.ended() {
        return Err(format!("{how} after {} answers", result.requests.ok));
    }
    figures(&result)
}

fn figures(result: &RunResult) -> Result<Figures, String> {
    let failures = || {
        let kinds = result.failures.iter().map(|(kind, count)| format!("{count} × {kind}"));
        kinds.collect::<Vec<_>>().join(", ")
    };
    if result.requests.ok == 0 {
        return Err(format!("nothing was answered well: {}", failures()));
    }
    let mut phases = result.server.iter().flat_map(|server| &server.phases);
    let phase = phases.rfind(|phase| phase.name == "measured");
    let phase = phase.ok_or("the process was not seen")?;
    Ok(Figures {
        ok_per_second: result.throughput.ok_per_second,
        failed: result.requests.failed,
        p50: result.latency.raw.p50,
        p99: result.latency.raw.p99,
        cpu_per_request: phase.cpu_seconds_per_request.ok_or("its CPU time was not seen")?,
        rss_bytes: phase.rss_bytes,
    })
}

/// The load of a case on a peer: closed, one thread.
fn plan(case: &Case, running: &Running, settings: &Settings) -> Result<Plan, Error> {
    let target = Target::parse(&format!("http://{}{}", running.address, case.path), None)?;
    let fixed = |text: &str| Template::parse(text, &Names::default()).map_err(Error::usage);
    let request = Request {
        method: if case.sent.is_empty() { "GET" } else { "POST" }.to_owned(),
        path: fixed(case.path)?,
        headers: Vec::new(),
        body: Body::Bytes(case.sent.into()),
        messages: None,
    };
    let step = Step {
        name: case.name.to_owned(),
        request,
        checks: vec![match case.answer {
            Answer::Is(body) => Check::BodyEquals(Template::literal(body)),
            Answer::Has(part) => Check::BodyContains(Template::literal(part)),
        }],
        extracts: Vec::new(),
    };
    let mut workload = Workload {
        speech: Speech {
            transport: match case.protocol {
                Protocol::Grpc => Transport::Http2,
                _ => Transport::Http1,
            },
            protocol: case.protocol,
            codec: case.codec,
            messages: 1,
            authority: target.authority.clone(),
            secure: false,
            closes: false,
        },
        steps: vec![step],
        feeders: Vec::<Feeder>::new(),
        variables: 0,
        seed: 1,
    };
    workload.normalise();
    Ok(Plan {
        tls: None,
        workload,
        target,
        model: Model::Closed { connections_from: case.connections },
        connections: case.connections,
        depth: case.depth,
        reuse: Reuse::KeepAlive,
        threads: 1,
        warm_up: settings.warm_up,
        duration: settings.duration,
        requests: None,
        timeout: TIMEOUT,
    })
}

/// A core for servers and one for the load; what is started inherits where its starter stands.
struct Cores {
    servers: CpuSet,
    load: CpuSet,
}

impl Cores {
    /// `None` on a machine with one core, or where it may not be asked for.
    fn divide() -> Option<Self> {
        if machine::cores() < 2 {
            return None;
        }
        let one = |core| {
            let mut set = CpuSet::new();
            set.set(core);
            set
        };
        let cores = Self { servers: one(0), load: one(1) };
        sched_setaffinity(None, &cores.load).ok()?;
        Some(cores)
    }

    fn to_servers(&self) {
        let _ = sched_setaffinity(None, &self.servers);
    }

    fn to_load(&self) {
        let _ = sched_setaffinity(None, &self.load);
    }
}
