//! `tidewire top`: what a running server does, from its admin listener.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::io::{IsTerminal as _, Write as _};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use serde::Deserialize;
use tidewire::http::{HeaderName, HeaderValue, Method};
use tidewire::{Call, Client, Context, Service as _};

use crate::Failure;

/// Show what a running server does: calls a second, times and outcomes by method.
///
/// The server has `admin.listen` in its settings. Rates are of the time since the last look; with --once,
/// and at first, since its start.
#[derive(Debug, clap::Args)]
pub(crate) struct Top {
    /// Where its admin listener is: 127.0.0.1:8081, or unix:/run/shop/admin.sock.
    admin: String,
    /// File with the token (`admin.token_file`); a Unix socket needs none.
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// Print once and end.
    #[arg(long)]
    once: bool,
    /// Seconds between two looks.
    #[arg(long, value_name = "SECONDS", default_value_t = 2)]
    every: u64,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Overview {
    ready: bool,
    uptime_ms: u64,
    connections_open: u64,
    commands_running: u64,
    bounds: Vec<BoundReached>,
}

#[derive(Debug, Deserialize)]
struct BoundReached {
    key: String,
    times: u64,
}

#[derive(Debug, Deserialize)]
struct Figures {
    methods: Vec<MethodFigures>,
}

#[derive(Debug, Deserialize)]
struct MethodFigures {
    method: String,
    protocol: String,
    running: u64,
    calls: u64,
    outcomes: Vec<OutcomeCount>,
    #[serde(rename = "p50Us")]
    p50_us: u64,
    #[serde(rename = "p99Us")]
    p99_us: u64,
}

#[derive(Debug, Deserialize)]
struct OutcomeCount {
    code: String,
    count: u64,
}

/// How many calls there were, by method and protocol, and when.
type Before = (Instant, HashMap<(String, String), u64>);

impl Top {
    pub(crate) async fn run(self) -> Result<(), Failure> {
        let url = match self.admin.starts_with("unix:") || self.admin.contains("://") {
            true => self.admin.clone(),
            false => format!("http://{}", self.admin),
        };
        let client = Client::builder(url).build().map_err(Failure::usage)?;
        let token = self.token()?;
        let mut before = None;
        loop {
            let system: Overview = ask(&client, "/v1/system", token.as_ref()).await?;
            let figures: Figures = ask(&client, "/v1/calls/methods", token.as_ref()).await?;
            let screen = table(&system, &figures, before.as_ref());
            let clear = !self.once && std::io::stdout().is_terminal();
            let begin = if clear { "\u{1b}[2J\u{1b}[H" } else { "" };
            write!(std::io::stdout(), "{begin}{screen}")?;
            if self.once {
                return Ok(());
            }
            before = Some((Instant::now(), figures.methods.iter().map(counted).collect()));
            tokio::time::sleep(Duration::from_secs(self.every.max(1))).await;
        }
    }

    fn token(&self) -> Result<Option<HeaderValue>, Failure> {
        let Some(path) = &self.token_file else { return Ok(None) };
        let text = std::fs::read_to_string(path)
            .with_context(|| format!("cannot read {}", path.display()))
            .map_err(Failure::usage)?;
        let value = HeaderValue::from_str(&format!("Bearer {}", text.trim()));
        value.map(Some).map_err(Failure::usage)
    }
}

fn counted(figures: &MethodFigures) -> ((String, String), u64) {
    ((figures.method.clone(), figures.protocol.clone()), figures.calls)
}

async fn ask<T: serde::de::DeserializeOwned>(
    client: &Client,
    path: &'static str,
    token: Option<&HeaderValue>,
) -> anyhow::Result<T> {
    let mut context = Context::default();
    if let Some(token) = token {
        context = context.with_header(HeaderName::from_static("authorization"), token.clone());
    }
    let call = Call::http(Method::GET, path.parse()?, context, "");
    let reply = client.call(call).await.context("the admin listener does not answer")?;
    let status = reply.status;
    let body = reply.body.collect(16 << 20).await?;
    if !status.is_success() {
        bail!("the admin listener answers {status}: {}", String::from_utf8_lossy(&body));
    }
    serde_json::from_slice(&body).context("the admin listener answers something else")
}

/// What is shown: the busiest methods first.
fn table(system: &Overview, figures: &Figures, before: Option<&Before>) -> String {
    let mut text = String::new();
    let state = if system.ready { "ready" } else { "draining" };
    let uptime = Duration::from_secs(system.uptime_ms / 1000);
    let (connections, commands) = (system.connections_open, system.commands_running);
    let _ =
        writeln!(text, "{state}, up {uptime:?}, {connections} connections, {commands} commands");
    for BoundReached { key, times } in system.bounds.iter().filter(|bound| bound.times > 0) {
        let _ = writeln!(text, "{key} was reached {times} times");
    }
    let seconds =
        before.map_or(system.uptime_ms as f64 / 1e3, |(at, _)| at.elapsed().as_secs_f64());
    let mut rows: Vec<_> = figures
        .methods
        .iter()
        .map(|figures| {
            let (name, calls) = counted(figures);
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
        let (p50, p99) = (*p50_us as f64 / 1e3, *p99_us as f64 / 1e3);
        let failed = failed.collect::<String>();
        let _ = writeln!(
            text,
            "{rate:>9.1} {running:>7} {p50:>9.1} {p99:>9.1}  {method} {protocol}{failed}"
        );
    }
    text
}

fn is_well(code: &str) -> bool {
    matches!(code, "ok" | "2xx" | "3xx")
}
