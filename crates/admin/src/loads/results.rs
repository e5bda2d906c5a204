//! What came of runs, in a folder: it is there after the program that was measured.
//!
//! Each run has a folder, named by its id. `result.json` is what `tidewire bench` wrote,
//! for `tidewire bench compare` by hand; `load.json` says what was asked for. The oldest go first.

use std::collections::HashMap;
use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::command;
use super::plan::Plan;
use crate::proto::tidewire::admin::v1::{
    Load, LoadFailure, LoadFigures, LoadSecond, LoadTimes, StartLoadRequest,
};

/// Runs with results, as they were read; a result does not change.
#[derive(Default)]
pub(super) struct Results(Arc<Mutex<HashMap<PathBuf, Load>>>);

impl Results {
    /// All runs but the one that goes on, the newest first.
    pub(super) async fn all(&self, folder: PathBuf, running: Option<String>) -> Vec<Load> {
        let known = Arc::clone(&self.0);
        let read = tokio::task::spawn_blocking(move || {
            let mut known = known.lock();
            let mut there = ids(&folder);
            there.retain(|id| running.as_ref() != Some(id));
            known.retain(|path, _| {
                path.file_name().is_some_and(|name| there.iter().any(|id| name == &**id))
            });
            let loads = there.iter().filter_map(|id| {
                let path = self::folder(&folder, id);
                if let Some(load) = known.get(&path) {
                    return Some(load.clone());
                }
                let load = read(&path, id)?;
                if load.figures.is_set() {
                    known.insert(path, load.clone());
                }
                Some(load)
            });
            loads.collect()
        });
        read.await.unwrap_or_default()
    }
}

/// The folder of one run.
pub(super) fn folder(all: &Path, id: &str) -> PathBuf {
    all.join(id)
}

/// The ids of runs, the newest first.
fn ids(folder: &Path) -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let mut ids: Vec<_> = names.filter(|name| is_id(name)).collect();
    ids.sort_unstable_by(|a, b| b.cmp(a));
    ids
}

/// An id begins with the time in milliseconds, so that ids are in the order of their runs.
pub(super) fn id(at_ms: u64, random: &str) -> String {
    format!("{at_ms:014}-{random}")
}

fn is_id(name: &str) -> bool {
    let parts = name.split_once('-');
    parts.is_some_and(|(at, random)| {
        at.len() == 14
            && at.bytes().all(|byte| byte.is_ascii_digit())
            && random.bytes().all(|byte| byte.is_ascii_hexdigit())
    })
}

/// What was asked for, and how it ended, as it is written beside a result.
#[derive(Serialize, Deserialize)]
pub(super) struct StoredLoad {
    pub(super) at_ms: u64,
    method: String,
    path: String,
    protocol: String,
    message: String,
    headers: std::collections::BTreeMap<String, String>,
    rate: f64,
    seconds: u32,
    connections: u32,
    requests: u64,
    command: String,
    pub(super) problem: String,
    pub(super) stopped_by: String,
}

impl StoredLoad {
    /// The plan, without its secrets.
    pub(super) fn new(plan: &Plan, at_ms: u64) -> Self {
        let shown = plan.without_secrets();
        let command = command::line(&shown);
        let StartLoadRequest { method, path, protocol, message, headers, .. } = shown.asked;
        let StartLoadRequest { rate, seconds, connections, requests, .. } = plan.asked;
        Self {
            at_ms,
            method,
            path,
            protocol,
            message,
            headers: headers.into_iter().collect(),
            rate,
            seconds,
            connections,
            requests,
            command,
            problem: LOST.to_owned(),
            stopped_by: String::new(),
        }
    }

    pub(super) fn to_message(&self, id: &str) -> Load {
        let plan = StartLoadRequest {
            method: self.method.clone(),
            path: self.path.clone(),
            protocol: self.protocol.clone(),
            message: self.message.clone(),
            headers: self.headers.clone().into_iter().collect(),
            rate: self.rate,
            seconds: self.seconds,
            connections: self.connections,
            requests: self.requests,
            ..Default::default()
        };
        Load {
            id: id.to_owned(),
            state: "failed".to_owned(),
            at_ms: self.at_ms,
            plan: plan.into(),
            command: self.command.clone(),
            problem: self.problem.clone(),
            stopped_by: self.stopped_by.clone(),
            ..Default::default()
        }
    }

    /// Writes it into the folder of the run.
    pub(super) fn write(&self, folder: &Path) -> io::Result<()> {
        std::fs::write(folder.join(LOAD), serde_json::to_string_pretty(self)?)
    }
}

/// Makes the folder of a run, and removes the oldest where there are too many. What was sent in
/// runs whose program was killed goes, too: a process reads it once, as it starts.
pub(super) fn create(all: &Path, id: &str) -> io::Result<PathBuf> {
    for (at, old) in ids(all).iter().enumerate() {
        let old = folder(all, old);
        if at >= RUNS_MAX - 1 {
            std::fs::remove_dir_all(old)?;
        } else {
            let _ = std::fs::remove_file(old.join(SCENARIO));
        }
    }
    let folder = folder(all, id);
    DirBuilder::new().recursive(true).mode(0o700).create(&folder)?;
    Ok(folder)
}

fn read(folder: &Path, id: &str) -> Option<Load> {
    let text = std::fs::read_to_string(folder.join(LOAD)).ok()?;
    let stored: StoredLoad = serde_json::from_str(&text).ok()?;
    let mut load = stored.to_message(id);
    let result = std::fs::read_to_string(folder.join(RESULT)).ok();
    if let Some(result) = result.and_then(|text| serde_json::from_str::<Value>(&text).ok()) {
        let is_whole = result["interrupted"] == false;
        load.state = if is_whole { "done" } else { "stopped" }.to_owned();
        load.seconds = seconds(&result);
        load.figures = figures(&result).into();
    }
    Some(load)
}

fn seconds(result: &Value) -> Vec<LoadSecond> {
    let rows = result["timeline"].as_array().into_iter().flatten();
    let second = |row: &Value| LoadSecond {
        at: count(&row["at"]),
        offered: count(&row["offered"]),
        ok: count(&row["ok"]),
        failed: count(&row["failed"]),
        dropped: count(&row["dropped"]),
        p50_us: micros(&row["p50"]),
        p99_us: micros(&row["p99"]),
        ..Default::default()
    };
    rows.map(second).collect()
}

fn figures(result: &Value) -> LoadFigures {
    let requests = &result["requests"];
    let latency = &result["latency"];
    let client = &result["client"];
    let phases = result["server"]["phases"].as_array().into_iter().flatten();
    let measured = phases.into_iter().find(|phase| phase["name"] == "measured");
    let server = measured.unwrap_or(&Value::Null);
    let number = |value: &Value| value.as_f64().unwrap_or_default();
    let length = number(&server["seconds"]);
    let failures = result["failures"].as_object().into_iter().flatten();
    let notes = result["notes"].as_array().into_iter().flatten();
    LoadFigures {
        model: result["load"]["model"].as_str().unwrap_or_default().to_owned(),
        offered: count(&requests["offered"]),
        sent: count(&requests["sent"]),
        ok: count(&requests["ok"]),
        failed: count(&requests["failed"]),
        dropped: count(&requests["dropped"]),
        ok_per_second: number(&result["throughput"]["ok_per_second"]),
        seconds: number(&result["throughput"]["seconds"]),
        from_intended_start: latency["correction"] == "intended-start",
        answered: times(&latency["corrected"]).into(),
        not_answered: times(&latency["failed"]).into(),
        failures: failures
            .map(|(what, times)| LoadFailure {
                what: what.clone(),
                times: count(times),
                ..Default::default()
            })
            .collect(),
        stalls: result["stalls"].as_array().map_or(0, Vec::len) as u32,
        generator_busy: number(&client["busiest_thread"]),
        generator_late_p99_us: micros(&client["lateness"]["p99"]),
        server_cores: if length > 0.0 { number(&server["cpu_seconds"]) / length } else { 0.0 },
        server_cpu_us_per_call: number(&server["cpu_seconds_per_request"]) * 1e6,
        server_memory_bytes: count(&server["rss_bytes"]),
        notes: notes.filter_map(|note| note.as_str().map(str::to_owned)).collect(),
        ..Default::default()
    }
}

fn times(summary: &Value) -> LoadTimes {
    LoadTimes {
        p50_us: micros(&summary["p50"]),
        p90_us: micros(&summary["p90"]),
        p99_us: micros(&summary["p99"]),
        p99_9_us: micros(&summary["p99_9"]),
        max_us: micros(&summary["max"]),
        ..Default::default()
    }
}

pub(super) fn count(value: &Value) -> u64 {
    value.as_u64().unwrap_or_default()
}

/// Seconds as they are in a result.
pub(super) fn micros(value: &Value) -> u64 {
    (value.as_f64().unwrap_or_default() * 1e6).round() as u64
}

pub(super) const RESULT: &str = "result.json";
/// What is sent; it goes when the run ends.
pub(super) const SCENARIO: &str = "scenario.toml";
pub(super) const DESCRIPTORS: &str = "schema.binpb";
/// The certificate of this server; it goes when the run ends.
pub(super) const CERTIFICATE: &str = "server.pem";
const LOAD: &str = "load.json";
/// What stands there until the end of a run is known.
const LOST: &str =
    "there is no result: the program that started it ended first, or another one still runs it";
/// Runs that are there at once.
const RUNS_MAX: usize = 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_folders_of_runs_are_runs_and_the_oldest_go() {
        let folder = tempfile::tempdir().unwrap();
        for at in 0..RUNS_MAX as u64 + 3 {
            let run = create(folder.path(), &id(at, "ab12")).unwrap();
            std::fs::write(run.join(SCENARIO), "a secret").unwrap();
        }
        std::fs::create_dir(folder.path().join("notes")).unwrap();
        let ids = ids(folder.path());
        assert_eq!(ids.len(), RUNS_MAX);
        assert_eq!(ids[0], id(RUNS_MAX as u64 + 2, "ab12"));
        assert!(folder.path().join("notes").exists());
        let left = ids.iter().filter(|id| super::folder(folder.path(), id).join(SCENARIO).exists());
        assert_eq!(left.count(), 1, "of the last one, which may run");
        for name in ["..", "00000000000001-../x", "1-ab", ""] {
            assert!(!is_id(name), "{name}");
        }
    }
}
