//! Runs a plan: workers on their own threads, merged into one record.
//!
//! A worker is one epoll loop over nonblocking sockets. It does what a browser tab of wrk does and
//! no more: one read and one write per batch of answers, one clock reading per read. An async
//! runtime was rejected here because its wakers and per-connection tasks cost more than the
//! request itself, and everything a load generator spends is missing from the machine under test.

use std::net::TcpStream;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::net::sockopt::{self, Timeout};
use tokio::sync::mpsc::UnboundedSender;

use crate::error::Error;
use crate::plan::Plan;
use crate::recorder::Recorder;
use crate::run_clock::{Nanos, RunClock};
use crate::target::Address;
use crate::tls::Tls;

mod cpu_reading;
mod worker;

use worker::{Stops, Worker};

/// How long the first connection may take.
const REACH: Duration = Duration::from_secs(5);

/// Ends a run early; clones share one flag.
#[derive(Debug, Clone, Default)]
pub struct Stop(Arc<AtomicBool>);

impl Stop {
    /// A flag that is not raised.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Ends the run: no further request starts, and what was measured so far is reported.
    pub fn raise(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether [`raise`](Self::raise) was called.
    #[must_use]
    pub fn is_raised(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// What one worker has counted so far, sent about once a second.
#[derive(Debug, Clone, Copy, Default)]
pub struct Progress {
    /// Which worker.
    pub worker: usize,
    /// When it counted.
    pub at: Nanos,
    /// Good answers.
    pub ok: u64,
    /// Requests that failed.
    pub failed: u64,
    /// Requests dropped at the in-flight cap.
    pub dropped: u64,
    /// Median latency so far, in seconds.
    pub p50: f64,
    /// 99th percentile so far, in seconds.
    pub p99: f64,
}

/// What a run left behind.
#[derive(Debug)]
pub struct Run {
    /// What was recorded, all workers together.
    pub recorder: Recorder,
    /// CPU time of all workers in the measured part.
    pub client_cpu: Nanos,
    /// The busiest worker's share of its core in the measured part.
    pub busiest: f64,
    /// Connections opened again after one was lost.
    pub reconnects: u64,
    /// When the last worker ended.
    pub ended_at: Nanos,
    /// Whether it was stopped by hand.
    pub interrupted: bool,
}

/// Makes sure that `plan` can be run at all, before its clock starts. Blocks.
pub fn prepare(plan: &Plan) -> Result<(), Error> {
    reserve_descriptors(plan)?;
    reachable(plan)
}

/// Runs `plan` to its end, or until `stop` is raised. Blocks.
pub fn run(
    plan: &Plan,
    clock: RunClock,
    stop: &Stop,
    progress: &UnboundedSender<Progress>,
) -> Result<Run, Error> {
    let given_up = Stop::new();
    let runs: Vec<Result<Run, Error>> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..plan.threads)
            .map(|index| {
                let stops = Stops { stop, given_up: &given_up };
                scope.spawn(move || Worker::new(plan, index, clock, stops, progress)?.run())
            })
            .collect();
        workers.into_iter().map(|worker| worker.join().expect("a worker panicked")).collect()
    });
    let mut merged: Option<Run> = None;
    for run in runs {
        let run = run?;
        match &mut merged {
            None => merged = Some(run),
            Some(total) => total.merge(run),
        }
    }
    merged.ok_or_else(|| Error::usage("--threads must be at least 1"))
}

impl Run {
    fn merge(&mut self, other: Self) {
        self.recorder.merge(other.recorder);
        self.client_cpu += other.client_cpu;
        self.busiest = self.busiest.max(other.busiest);
        self.reconnects += other.reconnects;
        self.ended_at = self.ended_at.max(other.ended_at);
        self.interrupted |= other.interrupted;
    }
}

/// Raises the soft limit of descriptors if it must, and says what to do when that is not enough.
fn reserve_descriptors(plan: &Plan) -> Result<(), Error> {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let needed = plan.connections as u64 + 64;
    let limit = getrlimit(Resource::Nofile);
    if limit.current.is_none_or(|soft| soft >= needed) {
        return Ok(());
    }
    let raised = Rlimit { current: Some(needed), maximum: limit.maximum };
    setrlimit(Resource::Nofile, raised).map_err(|_| {
        let text =
            |value: Option<u64>| value.map_or_else(|| "unlimited".to_owned(), |v| v.to_string());
        Error::system(format!(
            "{} connections need {needed} file descriptors, but the limit is {} (hard {}); \
             raise it with `ulimit -n {needed}` or lower --connections",
            plan.connections,
            text(limit.current),
            text(limit.maximum),
        ))
    })
}

/// A target that refuses at the very start is a mistake, not a measurement.
fn reachable(plan: &Plan) -> Result<(), Error> {
    let address = &plan.target.address;
    let fd: OwnedFd = match address {
        Address::Tcp(address) => TcpStream::connect_timeout(address, REACH).map(OwnedFd::from),
        Address::Unix(path) => UnixStream::connect(path).map(OwnedFd::from),
    }
    .map_err(|error| {
        let text = error.to_string().to_lowercase();
        let reason = text.split(" (os error").next().unwrap_or_default();
        Error::unreachable(format!(
            "cannot connect to {address}: {reason}; is the target running there?"
        ))
    })?;
    let Some(tls) = &plan.tls else { return Ok(()) };
    let _ = sockopt::set_socket_timeout(&fd, Timeout::Recv, Some(REACH));
    let greeted = tls.session().and_then(|mut session| session.greet(&fd));
    let why = match greeted {
        Ok(true) => return Ok(()),
        Ok(false) => "TLS: no answer to the handshake".to_owned(),
        Err(failure) => failure.to_string(),
    };
    Err(Error::unreachable(format!(
        "cannot speak {} with {address}: {why}; is it a TLS port with that protocol, and is its \
         certificate for {} (name its authority with --cacert, or use --insecure)?",
        plan.tls.as_ref().map_or("TLS", Tls::protocol),
        plan.target.host(),
    )))
}
