//! `tidewire top`: what a running server does, from its admin listener.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::io::{IsTerminal as _, Write as _};
use std::time::{Duration, Instant};

use tidewire::admin::proto::tidewire::admin::v1::{
    BoundReached, CallsClient, ListProcessesRequest, MemoClient, MemoOverviewReply,
    MemoOverviewRequest, MethodFigures, MethodFiguresRequest, OverviewReply, OverviewRequest,
    Process, ProcessesClient, SystemClient,
};

use crate::admin::{Admin, body_or_failure};
use crate::call::printable::printable;
use crate::failure::Failure;
use crate::json::{self, JsonFlag};

/// Show the activity of a running server: calls per second, times and outcomes by method.
///
/// Needs `admin.listen` in the settings of the server. Rates are since the last update; with
/// --once, and at first, since the start of the server. With --json: what the server counted since
/// its start, one object per update.
#[derive(Debug, clap::Args)]
pub(crate) struct Top {
    /// Print once and exit.
    #[arg(long)]
    once: bool,
    /// Seconds between updates.
    #[arg(long, value_name = "SECONDS", default_value_t = 2)]
    every: u64,
    #[command(flatten)]
    json: JsonFlag,
    #[command(flatten)]
    admin: Admin,
}

/// How many calls there were, by method and protocol, and when.
type PreviousCounts = (Instant, HashMap<(String, String), u64>);

impl Top {
    pub(crate) async fn run(self) -> Result<(), Failure> {
        let channel = self.admin.channel()?;
        let system = SystemClient::new(channel.clone());
        let calls = CallsClient::new(channel.clone());
        let memo = MemoClient::new(channel.clone());
        let processes = ProcessesClient::new(channel);
        let mut before = None;
        loop {
            let overview = body_or_failure(system.overview(OverviewRequest::default()).await)?;
            let figures =
                body_or_failure(calls.methods(MethodFiguresRequest::default()).await)?.methods;
            let kept = body_or_failure(memo.overview(MemoOverviewRequest::default()).await)?;
            let hosted = body_or_failure(processes.list(ListProcessesRequest::default()).await)?;
            let screen = match self.json.json {
                true => json::line(&serde_json::json!({
                    "overview": overview,
                    "methods": figures,
                    "memory": kept,
                    "processes": hosted.processes,
                }))?,
                false => {
                    table(&overview, &kept, &figures, before.as_ref())
                        + &programs(&hosted.processes)
                }
            };
            let clear = !self.once && !self.json.json && std::io::stdout().is_terminal();
            let begin = if clear { "\u{1b}[2J\u{1b}[H" } else { "" };
            write!(std::io::stdout(), "{begin}{screen}")?;
            if self.once {
                return Ok(());
            }
            before = Some((Instant::now(), figures.iter().map(count_by_method).collect()));
            tokio::time::sleep(Duration::from_secs(self.every.max(1))).await;
        }
    }
}

fn count_by_method(figures: &MethodFigures) -> ((String, String), u64) {
    ((figures.method.clone(), figures.protocol.clone()), figures.calls)
}

/// What is shown: the busiest methods first.
fn table(
    system: &OverviewReply,
    kept: &MemoOverviewReply,
    figures: &[MethodFigures],
    before: Option<&PreviousCounts>,
) -> String {
    let mut text = String::new();
    let state = if system.ready { "ready" } else { "draining" };
    let uptime = Duration::from_secs(system.uptime_ms / 1000);
    let connections = system.connections_open;
    let commands = system.commands_running;
    let _ =
        writeln!(text, "{state}, up {uptime:?}, {connections} connections, {commands} commands");
    if kept.asked > 0 {
        let MemoOverviewReply { asked, hits, entries, bytes, .. } = kept;
        let rate = *hits as f64 * 100.0 / *asked as f64;
        let _ = writeln!(text, "memory: {rate:.1} % hits, {entries} entries, {bytes} bytes");
    }
    for BoundReached { key, times, .. } in system.bounds.iter().filter(|bound| bound.times > 0) {
        let _ = writeln!(text, "{key} was reached {times} times");
    }
    let seconds =
        before.map_or(system.uptime_ms as f64 / 1e3, |(at, _)| at.elapsed().as_secs_f64());
    let mut rows: Vec<_> = figures
        .iter()
        .map(|figures| {
            let (name, calls) = count_by_method(figures);
            let earlier = before.and_then(|(_, known)| known.get(&name)).copied().unwrap_or(0);
            (calls.saturating_sub(earlier) as f64 / seconds.max(0.001), figures)
        })
        .collect();
    rows.sort_by(|a, b| b.0.total_cmp(&a.0));
    let _ =
        writeln!(text, "{:>9} {:>7} {:>9} {:>9}  METHOD", "CALLS/S", "RUNNING", "P50 MS", "P99 MS");
    for (rate, figures) in rows {
        let MethodFigures { method, protocol, running, p50_us, p99_us, .. } = figures;
        let failed = figures.outcomes.iter().filter(|outcome| !is_well(&outcome.code));
        let failed = failed.map(|outcome| format!(" {}={}", outcome.code, outcome.count));
        let p50 = *p50_us as f64 / 1e3;
        let p99 = *p99_us as f64 / 1e3;
        let failed = failed.collect::<String>();
        let method = printable(method);
        let _ = writeln!(
            text,
            "{rate:>9.1} {running:>7} {p50:>9.1} {p99:>9.1}  {method} {protocol}{failed}"
        );
    }
    text
}

/// The programs that it hosts, if it hosts any.
fn programs(programs: &[Process]) -> String {
    let mut text = String::new();
    if programs.is_empty() {
        return text;
    }
    let _ = writeln!(
        text,
        "\n{:>9} {:>7} {:>7} {:>6} {:>9} {:>9} {:>7}  PROGRAM",
        "CALLS", "RUNNING", "WAITING", "STARTS", "START MS", "WAIT MS", "CRASHES"
    );
    for program in programs {
        let Process { name, state, route, requests, calls, waiting, starts, crashes, .. } = program;
        let mean = |total_us: u64, count: u64| total_us as f64 / 1e3 / count.max(1) as f64;
        let start = mean(program.start_us, *starts);
        let wait = mean(program.queue_us, program.queued);
        let name = printable(name);
        let route = printable(route);
        let memory = match program.out_of_memory {
            0 => String::new(),
            times => format!(" out_of_memory={times}"),
        };
        let _ = writeln!(
            text,
            "{requests:>9} {calls:>7} {waiting:>7} {starts:>6} {start:>9.1} {wait:>9.1} {crashes:>7}  \
             {name} {state} {route}{memory}"
        );
    }
    text
}

fn is_well(code: &str) -> bool {
    matches!(code, "ok" | "2xx" | "3xx")
}
