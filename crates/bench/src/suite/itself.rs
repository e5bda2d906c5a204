//! A peer that loads itself: runs it and reads what it counted.

use std::time::{Duration, Instant};

use serde::Deserialize;
use tidewire_load::Stop;

use super::Peers;
use super::peer::{Backing, Peer};
use super::runner::{Figures, Latency, Settings};

/// What such a peer prints, as one line of JSON.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Counted {
    calls: u64,
    seconds: f64,
    cpu_seconds: f64,
    writes_per_second: Option<f64>,
    /// Reads that were older than they may be, where each was checked.
    stale: Option<u64>,
    rss_bytes: u64,
    pss_bytes: Option<u64>,
    /// Seconds that the first call of all took.
    first: Option<f64>,
    /// Where each call is timed.
    latency: Option<Latency>,
}

/// How much longer than it was told to a peer may take.
const PATIENCE: Duration = Duration::from_mins(1);

/// Runs `peer` for `word`. Blocks.
pub(super) fn measure(
    word: &str,
    peer: &Peer,
    peers: &Peers,
    backing: &Backing,
    settings: &Settings,
    stop: &Stop,
) -> Result<Figures, String> {
    let seconds = settings.duration.as_secs_f64();
    let until = Instant::now() + settings.duration + PATIENCE;
    let over = || stop.is_raised() || Instant::now() > until;
    let line = peer.run(&[word, &seconds.to_string()], &peers.folder, backing, &over)?;
    let counted: Counted = serde_json::from_str(line.trim())
        .map_err(|error| format!("printed {:?}, which is no count: {error}", line.trim()))?;
    if counted.calls == 0 || counted.seconds <= 0.0 {
        return Err("counted no calls".to_owned());
    }
    Ok(Figures {
        ok_per_second: counted.calls as f64 / counted.seconds,
        cpu_per_request: counted.cpu_seconds / counted.calls as f64,
        rss_bytes: counted.rss_bytes,
        pss_bytes: counted.pss_bytes,
        first: counted.first,
        latency: counted.latency,
        writes_per_second: counted.writes_per_second,
        stale: counted.stale,
        ..Figures::default()
    })
}
