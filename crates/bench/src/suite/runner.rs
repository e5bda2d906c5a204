//! Runs a suite: rounds, cases, peers, in this order from the outside in.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use tidewire_loadgen::{Error, Second, Stop};

use super::cores::Cores;
use super::itself;
use super::load::plan;
use super::peer::{BackingServices, Peer};
use super::peer_process::PeerProcess;
use super::proxy::{ORIGIN, OriginCount};
use super::{Case, Load, OriginUse, Peers, Suite, Work};
use crate::case::{self, ServerPlan};
use crate::console::{Console, bar};
use crate::measure;
use crate::quantity::{digits, time};
use crate::result::{Context, RunResult};

/// The value of [`SuiteResult::format`].
pub(crate) const FORMAT: &str = "tidewire-suite/1";

/// How a suite is run.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    pub(crate) rounds: usize,
    pub(crate) warm_up: Duration,
    pub(crate) duration: Duration,
    /// Cores of the servers, and connections of clients that are their own processes; one unless
    /// set.
    pub(crate) capped: Option<usize>,
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
    /// Servers and load each had their own core.
    pub(crate) pinned: bool,
    /// Cores that servers could have at most, where somebody chose.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) capped: Option<usize>,
    /// Peers that are not installed, and what to do about it.
    pub(crate) absent: Vec<(String, String)>,
    /// Peers that were loaded for longer than the others before they were measured, and for how
    /// many seconds.
    #[serde(default)]
    pub(crate) warmed: Vec<(String, u64)>,
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
    /// Of a ramp: every second of it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) seconds: Vec<Moment>,
}

/// One second of a ramp.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(crate) struct Moment {
    pub(crate) at: u64,
    pub(crate) clients: u64,
    pub(crate) ok: u64,
    pub(crate) failed: u64,
    /// Latencies of the answers of this second, in seconds.
    pub(crate) p50: f64,
    pub(crate) p99: f64,
}

/// What one measurement found.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Figures {
    pub(crate) ok_per_second: f64,
    pub(crate) failed: u64,
    /// Requests that were made, those that failed among them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) total: Option<u64>,
    /// The share of requests that failed, 0 to 1.
    pub(crate) errors: f64,
    /// Of requests; calls in process are too short to be timed one by one.
    pub(crate) latency: Option<Latency>,
    /// CPU seconds of the server and its children.
    pub(crate) cpu_per_request: f64,
    pub(crate) rss_bytes: u64,
    /// Of the server and all that belongs to it, where that was asked.
    #[serde(default)]
    pub(crate) pss_bytes: Option<u64>,
    /// Seconds that the first request of all took, where it was timed.
    #[serde(default)]
    pub(crate) first: Option<f64>,
    /// Of a ramp: the fewest clients that gave 95 % of the best second's rate.
    pub(crate) knee: Option<u64>,
    /// What a writer did beside the readers.
    pub(crate) writes_per_second: Option<f64>,
    /// Reads that were older than they may be, where each was checked.
    pub(crate) stale: Option<u64>,
    /// Of these, later after the write than a reader puts up with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) stale_late: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) stale_for: Option<StaleTime>,
    /// Answers that nobody ever wrote, which are not among those that are counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) wrong: Option<u64>,
}

/// Seconds from the acknowledgement of a write to the last answer without it; 0 where no read that
/// began after it was stale.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct StaleTime {
    pub(crate) p50: f64,
    pub(crate) p99: f64,
}

/// Latencies in seconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Latency {
    #[serde(default)]
    pub(crate) min: f64,
    pub(crate) mean: f64,
    pub(crate) p50: f64,
    pub(crate) p90: f64,
    pub(crate) p95: f64,
    pub(crate) p99: f64,
    #[serde(default)]
    pub(crate) max: f64,
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
    let cores = Cores::divide(settings.capped);
    let absent = peers.found.iter().filter_map(|found| {
        found.absent.as_ref().map(|why| (found.peer.name.clone(), why.clone()))
    });
    let mut result = SuiteResult {
        format: FORMAT.to_owned(),
        suite: suite.name.to_owned(),
        context,
        rounds: settings.rounds,
        seconds: settings.duration.as_secs_f64(),
        pinned: cores.is_some()
            && suite.cases.iter().all(|case| !matches!(case.load, Load::Itself | Load::TwoHosts)),
        capped: settings.capped,
        absent: absent.collect(),
        ..SuiteResult::default()
    };
    let warmed = there(peers).filter(|peer| peer.warm_up > 0);
    result.warmed = warmed.map(|peer| (peer.name.clone(), peer.warm_up)).collect();
    for (peer, why) in &result.absent {
        console.text(&format!("absent: {peer}: {why}\n"))?;
    }
    let wanted = |case: &str, peer: &str| {
        settings
            .only
            .iter()
            .all(|part| case.contains(part.as_str()) || peer.contains(part.as_str()))
    };
    let all = suite.cases.iter().flat_map(|case| there(peers).map(move |peer| (case, peer)));
    let chosen: Vec<_> =
        all.filter(|(case, peer)| peer.has(case.needs) && wanted(case.name, &peer.name)).collect();
    let backing = BackingServices::start(peers, &mut |told| Ok(console.text(told)?), stop)?;
    let at = PeerHost { peers, backing: &backing, cores: cores.as_ref() };
    let mut way = Progress { done: 0, all: chosen.len() * settings.rounds, began: Instant::now() };
    for round in 0..settings.rounds {
        for &(case, peer) in &chosen {
            if stop.is_raised() {
                result.interrupted = true;
                return Ok(result);
            }
            let whole = format!("{}  {} · {}  ", way.line(), case.name, peer.name);
            let mut part = console.part(whole);
            part.progress("starts")?;
            let measured = one(case, peer, &at, settings, &mut part, stop).await;
            if measured.is_err() && stop.is_raised() {
                continue;
            }
            way.done += 1;
            console.text(&format!(
                "{}/{}  {:<44} {:<12} {}\n",
                round + 1,
                settings.rounds,
                case.name,
                peer.name,
                in_short(&measured)
            ))?;
            let case = case.name.to_owned();
            let peer = peer.name.clone();
            let (figures, failure, seconds) = match measured {
                Ok((figures, seconds)) => (Some(figures), None, seconds),
                Err(why) => (None, Some(why), Vec::new()),
            };
            let measurement = Measurement { case, peer, round, figures, failure, seconds };
            result.measurements.push(measurement);
        }
    }
    result.interrupted = stop.is_raised();
    Ok(result)
}

/// The peers that can run here.
fn there(peers: &Peers) -> impl Iterator<Item = &Peer> {
    peers.found.iter().filter(|found| found.absent.is_none()).map(|found| &found.peer)
}

fn in_short(measured: &Result<(Figures, Vec<Moment>), String>) -> String {
    match measured {
        Ok((one, _)) => {
            format!("{}/s, {} CPU", digits(one.ok_per_second), time(one.cpu_per_request))
        }
        Err(why) => why.clone(),
    }
}

/// How far a suite is.
struct Progress {
    done: usize,
    all: usize,
    began: Instant,
}

impl Progress {
    /// A bar, the number of the next measurement, and how long it all goes on if that goes on as
    /// before.
    fn line(&self) -> String {
        let part = self.done as f64 / self.all.max(1) as f64;
        let spent = self.began.elapsed().as_secs_f64();
        let left = match self.done {
            0 => String::new(),
            done => {
                let left = spent / done as f64 * (self.all - done) as f64;
                format!(", {}:{:02} left", left as u64 / 60, left as u64 % 60)
            }
        };
        format!("{} {} of {}{left}", bar(part), self.done + 1, self.all)
    }
}

/// Where peers are measured.
pub(super) struct PeerHost<'a> {
    pub(super) peers: &'a Peers,
    pub(super) backing: &'a BackingServices,
    pub(super) cores: Option<&'a Cores>,
}

impl PeerHost<'_> {
    /// Starts `peer` where servers are; from then on this is where the load is.
    pub(super) fn start(&self, peer: &Peer, stop: &Stop) -> Result<PeerProcess, String> {
        if let Some(cores) = self.cores {
            cores.to_servers();
        }
        let started = peer.start(&self.peers.folder, self.backing, stop);
        if let Some(cores) = self.cores {
            cores.to_load();
        }
        started
    }
}

async fn one(
    case: &Case,
    peer: &Peer,
    at: &PeerHost<'_>,
    settings: &Settings,
    console: &mut Console<'_>,
    stop: &Stop,
) -> Result<(Figures, Vec<Moment>), String> {
    if let Work::Itself(word) = case.work {
        let figures = match case.load {
            Load::Apart => itself::apart(word, peer, at, settings, stop)?,
            _ => itself::measure(word, peer, at, settings, stop)?,
        };
        return Ok((figures, Vec::new()));
    }
    let mut running = at.start(peer, stop)?;
    let origin = origin_count(case, at, &running.address)?;
    let mut plan = plan(case, &at.peers.folder, &running.address, settings)
        .map_err(|error| error.to_string())?;
    plan.warm_up = plan.warm_up.max(Duration::from_secs(peer.warm_up));
    let server = ServerPlan { pid: Some(running.pid()), ..ServerPlan::default() };
    let measured = Arc::new(case::Case { load: plan, server });
    let result =
        measure::measure(&measured, console, stop).await.map_err(|error| error.to_string())?;
    if let Some(how) = running.ended() {
        return Err(format!("{how} after {} answers", result.requests.ok));
    }
    if let Some(origin) = origin {
        origin.after(result.requests.ok + result.requests.warm_up_sent)?;
    }
    let seconds = match case.load {
        Load::Steady { .. } | Load::Itself | Load::TwoHosts | Load::Apart => Vec::new(),
        Load::Ramp { .. } => moments(&result),
    };
    Ok((figures(&result, &seconds)?, seconds))
}

/// The origin behind the peer at `address`, where the case has one.
fn origin_count<'a>(
    case: &Case,
    at: &'a PeerHost<'_>,
    address: &str,
) -> Result<Option<OriginCount<'a>>, String> {
    let Work::Call { path, origin, .. } = case.work else { return Ok(None) };
    if origin == OriginUse::Absent {
        return Ok(None);
    }
    let counts = at.backing.address(ORIGIN).ok_or("the backing service origin did not start")?;
    OriginCount::before(counts, origin, address, path).map(Some)
}

/// The whole seconds of a run: the last answers come in their own second, which would look like a
/// collapse.
fn moments(result: &RunResult) -> Vec<Moment> {
    let whole = result
        .timeline
        .iter()
        .filter(|row| (row.at + 1) as f64 <= result.throughput.seconds + 0.001);
    let moment = |row: &Second| Moment {
        at: row.at,
        clients: row.connections,
        ok: row.ok,
        failed: row.failed,
        p50: row.p50,
        p99: row.p99,
    };
    whole.map(moment).collect()
}

fn knee(seconds: &[Moment]) -> Option<u64> {
    let best = seconds.iter().map(|one| one.ok).max()?;
    let enough = |one: &&Moment| one.ok as f64 >= 0.95 * best as f64;
    seconds.iter().find(enough).map(|one| one.clients)
}

fn figures(result: &RunResult, seconds: &[Moment]) -> Result<Figures, String> {
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
        total: Some(result.requests.ok + result.requests.failed),
        errors: result.requests.failed as f64
            / (result.requests.ok + result.requests.failed).max(1) as f64,
        latency: Some(Latency {
            min: result.latency.raw.min,
            mean: result.latency.raw.mean,
            p50: result.latency.raw.p50,
            p90: result.latency.raw.p90,
            p95: result.latency.raw.p95,
            p99: result.latency.raw.p99,
            max: result.latency.raw.max,
        }),
        cpu_per_request: phase.cpu_seconds_per_request.ok_or("its CPU time was not seen")?,
        rss_bytes: phase.rss_bytes,
        knee: knee(seconds),
        ..Figures::default()
    })
}
