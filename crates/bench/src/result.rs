//! The result of a run, as written to `--json`. The committed schema is generated from these types.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use tidewire_loadgen::{Second, Stall, Summary};

/// The value of [`RunResult::format`].
pub(crate) const FORMAT: &str = "tidewire-bench/1";

/// Everything one run measured.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct RunResult {
    /// Name and version of this format.
    pub format: String,
    /// What was run, where and when.
    pub context: Context,
    /// The load as it was asked for.
    pub load: LoadDescription,
    /// How many requests there were.
    pub requests: Requests,
    /// Answers per second, failures excluded.
    pub throughput: Throughput,
    /// Latencies of good answers, in seconds.
    pub latency: Latencies,
    /// Failures by kind.
    pub failures: BTreeMap<String, u64>,
    /// Stretches in which the target answered nothing.
    pub stalls: Vec<Stall>,
    /// One row per second of the measured part.
    pub timeline: Vec<Second>,
    /// One row per step of a scenario; empty without one.
    pub steps: Vec<StepResult>,
    /// The generator itself.
    pub client: Client,
    /// The server under test; absent when it is not known.
    pub server: Option<Server>,
    /// The search for the knee, if there was one.
    pub knee: Option<Knee>,
    /// Cold starts, if they were measured.
    pub cold_start: Option<ColdStart>,
    /// Thresholds and whether they held.
    pub thresholds: Vec<ThresholdResult>,
    /// What a reader should know before trusting the figures.
    pub notes: Vec<String>,
    /// The run was ended by hand.
    pub interrupted: bool,
}

/// What was run, where and when.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Context {
    /// The command line.
    pub command: String,
    /// Version of Tidewire.
    pub version: String,
    /// Commit of the working directory, if it is a repository.
    pub commit: Option<String>,
    /// Start in seconds since 1970.
    pub started_at: u64,
    /// Processor model.
    pub cpu: String,
    /// Cores the generator may use.
    pub cores: usize,
    /// Operating system and kernel.
    pub system: String,
}

/// The load as it was asked for.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct LoadDescription {
    /// The URL.
    pub target: String,
    /// Protocol and transport.
    pub protocol: String,
    /// `open` or `closed`.
    pub model: String,
    /// The shape in words.
    pub shape: String,
    /// Connections (the largest number of them).
    pub connections: usize,
    /// Requests under way per connection.
    pub depth: usize,
    /// Offered rate at the end of the measured part; absent in the closed model.
    pub rate: Option<f64>,
    /// Length of the measured part in seconds.
    pub duration: f64,
    /// Length of the warm-up in seconds.
    pub warm_up: f64,
    /// Threads of the generator.
    pub threads: usize,
}

/// Counts of requests in the measured part, and of the warm-up before it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Requests {
    /// Due (open model) or started (closed model).
    pub offered: u64,
    /// Sent to the target.
    pub sent: u64,
    /// Answered well.
    pub ok: u64,
    /// Not answered well.
    pub failed: u64,
    /// Never sent because the in-flight cap was reached.
    pub dropped: u64,
    /// Messages received in streams.
    pub messages: u64,
    /// Bytes received.
    pub bytes: u64,
    /// Sent during the warm-up, not part of the counts above.
    pub warm_up_sent: u64,
    /// Times a connection was opened again.
    pub reconnects: u64,
}

/// Answers per second, failures excluded.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Throughput {
    /// Good answers per second.
    pub ok_per_second: f64,
    /// Bytes received per second.
    pub bytes_per_second: f64,
    /// Streamed messages received per second.
    pub messages_per_second: f64,
    /// The seconds the rates are over: from the end of the warm-up to the last answer.
    pub seconds: f64,
}

/// Latencies in seconds.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Latencies {
    /// How `corrected` was made: `intended-start` (open model) or `none` (closed model, where it
    /// equals `raw` and stalls must be read from `stalls` and `timeline`).
    pub correction: String,
    /// From the intended start to the complete answer.
    pub corrected: Summary,
    /// From the real start to the complete answer.
    pub raw: Summary,
    /// From the intended start to the failure, for requests that failed.
    pub failed: Summary,
    /// Opening a connection.
    pub connect: Summary,
}

/// One step of a scenario.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct StepResult {
    /// Its name in the scenario.
    pub name: String,
    /// Answered well.
    pub ok: u64,
    /// Not answered well.
    pub failed: u64,
    /// Latency from the real start, in seconds.
    pub latency: Summary,
}

/// The generator itself.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Client {
    /// CPU seconds of its threads in the measured part.
    pub cpu_seconds: f64,
    /// The same per good answer.
    pub cpu_seconds_per_request: f64,
    /// The busiest thread's share of a core.
    pub busiest_thread: f64,
    /// How late due requests were noticed, in seconds; empty in the closed model.
    pub lateness: Summary,
    /// Peak resident memory of the generator's process in bytes.
    pub rss_peak_bytes: u64,
    /// The generator, not the target, limited the figures.
    pub is_bottleneck: bool,
}

/// The server under test.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Server {
    /// Process ID of the root of its process tree.
    pub pid: u32,
    /// Its command line.
    pub command: String,
    /// Seconds from before the spawn to the first complete good answer, if it was started here.
    pub start_seconds: Option<f64>,
    /// Caps in force, or why there are none.
    pub caps: Option<String>,
    /// Use of CPU and memory by phase.
    pub phases: Vec<Phase>,
    /// One sample per second of the measured part.
    pub samples: Vec<ServerSample>,
}

/// What the server used in one phase of a run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Phase {
    /// `start`, `warm-up` or `measured`.
    pub name: String,
    /// Its length in seconds.
    pub seconds: f64,
    /// CPU seconds, user and system.
    pub cpu_seconds: f64,
    /// CPU seconds per request; absent when there were none.
    pub cpu_seconds_per_request: Option<f64>,
    /// Context switches of both kinds.
    pub context_switches: u64,
    /// Context switches per request; absent when there were none.
    pub context_switches_per_request: Option<f64>,
    /// Resident memory at its end, in bytes, shared pages counted in every process.
    pub rss_bytes: u64,
    /// Proportional memory at its end, in bytes; absent when it may not be read.
    pub pss_bytes: Option<u64>,
    /// Largest resident memory seen.
    pub rss_peak_bytes: u64,
}

/// The server in one second.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ServerSample {
    /// Seconds from the start of the measured part.
    pub at: f64,
    /// Cores in use since the sample before.
    pub cores: f64,
    /// Resident memory in bytes.
    pub rss_bytes: u64,
}

/// A search for the highest rate that keeps an objective.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Knee {
    /// The objective as given.
    pub objective: String,
    /// The highest offered rate that kept it; absent when not even the lowest did.
    pub rate: Option<f64>,
    /// Every rate tried, in order.
    pub trials: Vec<Trial>,
}

/// One rate tried.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Trial {
    /// Requests offered per second.
    pub rate: f64,
    /// Good answers per second.
    pub ok_per_second: f64,
    /// Corrected median in seconds.
    pub p50: f64,
    /// Corrected 99th percentile in seconds.
    pub p99: f64,
    /// Share of requests that failed or were dropped.
    pub errors: f64,
    /// The objective held and the rate was reached.
    pub held: bool,
    /// Why it did not hold.
    pub reason: Option<String>,
}

/// Cold starts of a process.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ColdStart {
    /// From before the spawn to the first complete good answer, in seconds.
    pub first_answer: Summary,
    /// Every start in order, in seconds.
    pub starts: Vec<f64>,
    /// Starts that gave no good answer in time.
    pub failed: u64,
}

/// A threshold and whether it held.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ThresholdResult {
    /// The threshold as given.
    pub threshold: String,
    /// The measured figure in its unit: seconds, a share, or per second.
    pub measured: f64,
    /// Whether it held.
    pub held: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Writes the schema when it differs and `BLESS` is set.
    #[test]
    fn the_committed_schema_is_that_of_these_types() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/schema/result.schema.json");
        let schema = schemars::schema_for!(RunResult);
        let text = serde_json::to_string_pretty(&schema).unwrap() + "\n";
        let committed = std::fs::read_to_string(path).unwrap_or_default();
        if committed != text && std::env::var_os("BLESS").is_some() {
            std::fs::write(path, text).unwrap();
            return;
        }
        assert!(committed == text, "the types changed; run this test again with BLESS=1");
    }
}
