//! A peer that loads itself, or brings a client that does: runs it and reads what it counted.

use std::time::{Duration, Instant};

use serde::Deserialize;
use tidewire_loadgen::Stop;

use super::peer::Peer;
use super::runner::{Figures, Latency, PeerHost, Settings};
use crate::proc;

/// What such a peer or client prints, as one line of JSON.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct PrintedCounts {
    calls: u64,
    /// With those of the warm-up, where there is one.
    made: Option<u64>,
    seconds: f64,
    /// CPU time of the client, for the calls that it made.
    cpu_seconds: f64,
    /// Where each call is timed.
    latency: Option<Latency>,
    writes_per_second: Option<f64>,
    /// Reads that were older than they may be, where each was checked.
    stale: Option<u64>,
    rss_bytes: u64,
    pss_bytes: Option<u64>,
    /// Seconds that the first call of all took.
    first: Option<f64>,
}

/// How much longer than it was told to a peer may take.
const PATIENCE: Duration = Duration::from_mins(1);

/// Runs `peer` for `word` on all cores. Blocks.
pub(super) fn measure(
    word: &str,
    peer: &Peer,
    at: &PeerHost<'_>,
    settings: &Settings,
    stop: &Stop,
) -> Result<Figures, String> {
    if let Some(cores) = at.cores {
        cores.to_all();
    }
    let seconds = settings.duration.as_secs_f64().to_string();
    counted(&[word, &seconds], peer, at, settings, stop)?.figures()
}

/// Runs the client of `peer` for `word` where the load is, beside its server, whose CPU time and
/// memory are told; or the peer alone, if it needs none. Blocks.
pub(super) fn apart(
    word: &str,
    peer: &Peer,
    at: &PeerHost<'_>,
    settings: &Settings,
    stop: &Stop,
) -> Result<Figures, String> {
    let seconds = settings.duration.as_secs_f64().to_string();
    let warm_up = settings.warm_up.as_secs_f64().to_string();
    let connections = settings.capped.unwrap_or(1).to_string();
    let words = [word, &seconds, &warm_up, &connections];
    if !peer.has_client() {
        if let Some(cores) = at.cores {
            cores.to_load();
        }
        return counted(&words, peer, at, settings, stop)?.figures();
    }
    let mut running = at.start(peer, stop)?;
    let client = peer.client(&running.address).ok_or("it has no client")?;
    let usage = |pid| proc::usage(&proc::tree(pid)).ok_or("its CPU time was not seen");
    let before = usage(running.pid())?;
    let counted = counted(&words, &client, at, settings, stop);
    if let Some(how) = running.ended() {
        return Err(how);
    }
    let after = usage(running.pid())?;
    PrintedCounts {
        cpu_seconds: after.cpu_seconds - before.cpu_seconds,
        rss_bytes: after.rss_bytes,
        ..counted?
    }
    .figures()
}

fn counted(
    words: &[&str],
    peer: &Peer,
    at: &PeerHost<'_>,
    settings: &Settings,
    stop: &Stop,
) -> Result<PrintedCounts, String> {
    let until = Instant::now() + settings.warm_up + settings.duration + PATIENCE;
    let over = || stop.is_raised() || Instant::now() > until;
    let line = peer.run(words, &at.peers.folder, at.backing, &over)?;
    serde_json::from_str(line.trim())
        .map_err(|error| format!("printed {:?}, which is not a count: {error}", line.trim()))
}

impl PrintedCounts {
    fn figures(self) -> Result<Figures, String> {
        if self.calls == 0 || self.seconds <= 0.0 {
            return Err("counted no calls".to_owned());
        }
        Ok(Figures {
            ok_per_second: self.calls as f64 / self.seconds,
            latency: self.latency,
            cpu_per_request: self.cpu_seconds / self.made.unwrap_or(self.calls) as f64,
            rss_bytes: self.rss_bytes,
            pss_bytes: self.pss_bytes,
            first: self.first,
            writes_per_second: self.writes_per_second,
            stale: self.stale,
            ..Figures::default()
        })
    }
}
