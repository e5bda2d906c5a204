//! What a figure must be quoted with: processor, cores, kernel, version, commit.

use std::fs;
use std::time::{SystemTime, UNIX_EPOCH};

use crate::result::Context;

/// Describes this machine and this moment.
pub(crate) fn context(command: String) -> Context {
    Context {
        command,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        commit: commit(),
        started_at: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |at| at.as_secs()),
        cpu: cpu_model(),
        cores: cores(),
        system: system(),
    }
}

/// How many cores this process may use.
pub(crate) fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

/// Peak resident memory of this process in bytes.
pub(crate) fn rss_peak() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))
        .and_then(|rest| rest.trim().trim_end_matches(" kB").parse::<u64>().ok())
        .unwrap_or(0)
        * 1024
}

fn commit() -> Option<String> {
    let output = std::process::Command::new("git")
        .args(["rev-parse", "--short=12", "HEAD"])
        .stderr(std::process::Stdio::null())
        .output()
        .ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_owned())
}

fn cpu_model() -> String {
    let info = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    info.lines()
        .find(|line| line.starts_with("model name"))
        .and_then(|line| line.split_once(':'))
        .map_or_else(|| std::env::consts::ARCH.to_owned(), |(_, model)| model.trim().to_owned())
}

fn system() -> String {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    format!("{} {}", std::env::consts::OS, release.trim())
}
