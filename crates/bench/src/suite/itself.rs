//! A peer that loads itself, or brings a client that does: runs it and reads what it counted.

use std::time::{Duration, Instant};

use serde::Deserialize;
use tidewire_loadgen::Stop;

use super::peer::Peer;
use super::runner::{Figures, Latency, PeerHost, Settings, StaleTime};
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
    /// Of these, later after the write than a reader puts up with.
    stale_late: Option<u64>,
    stale_for: Option<StaleTime>,
    /// Answers that nobody ever wrote; they are not among the calls.
    wrong: Option<u64>,
    /// Calls and writes that failed, which are not among the calls either.
    failed: Option<u64>,
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
        let failed = self.failed.unwrap_or_default();
        Ok(Figures {
            ok_per_second: self.calls as f64 / self.seconds,
            failed,
            total: Some(self.calls + failed),
            errors: failed as f64 / (self.calls + failed) as f64,
            latency: self.latency,
            cpu_per_request: self.cpu_seconds / self.made.unwrap_or(self.calls) as f64,
            rss_bytes: self.rss_bytes,
            pss_bytes: self.pss_bytes,
            first: self.first,
            writes_per_second: self.writes_per_second,
            stale: self.stale,
            stale_late: self.stale_late,
            stale_for: self.stale_for,
            wrong: self.wrong,
            ..Figures::default()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures(line: &str) -> Result<Figures, String> {
        let counts: PrintedCounts =
            serde_json::from_str(line).map_err(|error| error.to_string())?;
        counts.figures()
    }

    #[test]
    fn what_two_hosts_count_is_read_and_failures_are_no_answers() {
        let line = r#"{"calls":900,"seconds":3,"cpu_seconds":1.8,"writes_per_second":99.5,"stale":30,
            "stale_late":4,"stale_for":{"p50":0.002,"p99":0.03},"wrong":2,"failed":100,"rss_bytes":1}"#;
        let one = figures(line).unwrap();
        assert_eq!((one.ok_per_second, one.cpu_per_request), (300.0, 0.002));
        assert_eq!((one.failed, one.errors, one.wrong), (100, 0.1, Some(2)));
        assert_eq!((one.stale, one.stale_late), (Some(30), Some(4)));
        assert_eq!(one.stale_for, Some(StaleTime { p50: 0.002, p99: 0.03 }));
    }

    #[test]
    fn a_peer_that_only_failed_has_no_figures() {
        let line = r#"{"calls":0,"seconds":3,"cpu_seconds":1,"failed":9,"rss_bytes":1}"#;
        assert_eq!(figures(line).unwrap_err(), "counted no calls");
        let line = r#"{"calls":1,"seconds":3,"cpu_seconds":1,"stale_fro":{},"rss_bytes":1}"#;
        assert!(figures(line).unwrap_err().contains("unknown field `stale_fro`"));
    }
}
