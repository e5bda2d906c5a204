//! `tidewire inspect`: what a running server keeps, of what it was made, and why it was made again,
//! from its admin listener.

use std::fmt::Write as _;
use std::io::Write as _;

use tidewire::admin::proto::tidewire::admin::v1::{
    ChangeLog, CountHitsRequest, ExplainReply, ExplainRequest, GetEntryReply, GetEntryRequest,
    InvalidatorsReply, InvalidatorsRequest, ListEntriesRequest, ListMemosReply, ListMemosRequest,
    MemoClient, MemoEntry, MemoEvent, MemoInfo, MemoOverviewReply, MemoOverviewRequest,
    ObserveMemoRequest, OverviewRequest, SteerMemoReply, SteerMemoRequest, SystemClient,
};

use crate::admin::{Admin, body_or_failure};
use crate::call::printable::printable;
use crate::failure::Failure;
use crate::json::{self, JsonFlag};

/// Show the memos and sources of a running server.
///
/// Without arguments: memos and sources, with entries, bytes and hits, and the changes that made
/// the most values stale. With a memo: its keys. With a memo and a part of a key: what the first
/// such key read, what depends on it, and why it was recomputed. Reasons and ages are known only
/// while --observe is on.
#[derive(Debug, clap::Args)]
pub(crate) struct Inspect {
    /// Memo or source, as listed.
    memo: Option<String>,
    /// Part of a key, as listed.
    key: Option<String>,
    /// Record what happens to values for this many seconds; 0 stops recording [default: show
    /// values].
    #[arg(long, value_name = "SECONDS")]
    observe: Option<u32>,
    /// Count hits inside the server for this many seconds, which slows them down; 0 stops counting
    /// [default: show values].
    #[arg(long, value_name = "SECONDS")]
    count_hits: Option<u32>,
    /// Make the named keys and everything that depends on them stale; for a source: report that
    /// they changed.
    #[arg(long, requires = "memo", conflicts_with = "evict")]
    invalidate: bool,
    /// Remove the values of the named keys from memory.
    #[arg(long, requires = "memo")]
    evict: bool,
    #[command(flatten)]
    json: JsonFlag,
    #[command(flatten)]
    admin: Admin,
}

impl Inspect {
    pub(crate) async fn run(self) -> Result<(), Failure> {
        let client = MemoClient::new(self.admin.channel()?);
        if let Some(seconds) = self.observe {
            let request = ObserveMemoRequest { seconds, ..Default::default() };
            body_or_failure(client.observe(request).await)?;
        }
        if let Some(seconds) = self.count_hits {
            let request = CountHitsRequest { seconds, ..Default::default() };
            body_or_failure(client.count_hits(request).await)?;
        }
        let as_json = self.json.json;
        let text = match (self.memo, self.key) {
            (Some(memo), key) if self.invalidate || self.evict => {
                let memo = full_name(&client, &memo).await?;
                let done = steer(&client, memo, key, self.evict).await?;
                match (as_json, self.evict) {
                    (true, _) => json::line(&done)?,
                    (false, true) => format!("{} entries dropped\n", done.entries),
                    (false, false) => format!(
                        "{} entries made stale, and {} suspect that depend on them\n",
                        done.entries, done.marked
                    ),
                }
            }
            (None, _) => {
                let overview =
                    body_or_failure(client.overview(MemoOverviewRequest::default()).await)?;
                let memos = body_or_failure(client.list_memos(ListMemosRequest::default()).await)?;
                let request = InvalidatorsRequest { limit: 10, ..Default::default() };
                let invalidators = body_or_failure(client.invalidators(request).await)?;
                let system = SystemClient::new(self.admin.channel()?);
                let system = body_or_failure(system.overview(OverviewRequest::default()).await)?;
                let log = system.change_log.as_option();
                match as_json {
                    true => json::line(&serde_json::json!({
                        "overview": overview,
                        "memos": memos.memos,
                        "invalidators": invalidators.invalidators,
                        "changeLog": log,
                    }))?,
                    false => {
                        log.map(change_log).unwrap_or_default()
                            + &of_all(&overview, &memos, &invalidators)
                    }
                }
            }
            (Some(memo), None) => {
                let memo = full_name(&client, &memo).await?;
                of_memo(&client, &memo, as_json).await?
            }
            (Some(memo), Some(key)) => {
                let memo = full_name(&client, &memo).await?;
                let (around, why) = of_key(&client, &memo, &key).await?;
                match as_json {
                    true => json::line(&serde_json::json!({ "entry": around, "why": why }))?,
                    false => of_entry(&around, &why),
                }
            }
        };
        Ok(std::io::stdout().write_all(text.as_bytes())?)
    }
}

/// The memo or the source that a name means, with or without the slash before a method.
async fn full_name(client: &MemoClient, name: &str) -> Result<String, Failure> {
    let listed = body_or_failure(client.list_memos(ListMemosRequest::default()).await)?;
    let names: Vec<&str> = listed.memos.iter().map(|memo| &*memo.name).collect();
    let bare = |name: &str| name.trim_start_matches('/').to_owned();
    match names.iter().find(|known| bare(known) == bare(name)) {
        Some(known) => Ok((*known).to_owned()),
        None => {
            let suggestion = crate::names::suggestion(name, names.iter().copied());
            let text = format!("there is no memo or source {name}{}", printable(&suggestion));
            Err(Failure::usage(anyhow::anyhow!(text)))
        }
    }
}

/// Makes entries stale, or drops them: all of a memo, or those with this in their keys.
async fn steer(
    client: &MemoClient,
    memo: String,
    key: Option<String>,
    drops: bool,
) -> Result<SteerMemoReply, Failure> {
    let request = match key {
        None => SteerMemoRequest { memo, ..Default::default() },
        Some(key) => {
            let mut ids = Vec::new();
            let mut after = 0;
            loop {
                let (entries, next) = page(client, &memo, &key, after).await?;
                ids.extend(entries.iter().map(|entry| entry.id));
                after = next;
                if next == 0 {
                    break;
                }
            }
            if ids.is_empty() {
                return Err(anyhow::anyhow!("{memo} has no key with {key:?} in it").into());
            }
            SteerMemoRequest { ids, ..Default::default() }
        }
    };
    let done = match drops {
        true => client.evict(request).await,
        false => client.invalidate(request).await,
    };
    body_or_failure(done)
}

/// Where this host is in the change log of its database, and what is not captured.
fn change_log(log: &ChangeLog) -> String {
    let lag = log.lag_us as f64 / 1000.0;
    let mut text = format!("change log: read {lag:.1} ms ago; hosts: {}", log.hosts.max(1));
    if log.suspended {
        text.push_str(", nothing is given from memory");
    }
    if !log.problem.is_empty() {
        let _ = write!(text, " ({})", printable(&log.problem));
    }
    text.push('\n');
    if !log.position.is_empty() {
        let _ = writeln!(text, "  position {}", printable(&log.position));
    }
    for source in &log.sources {
        let from = match source.tables.is_empty() {
            true => "changes that programs announce".to_owned(),
            false => format!("table {}", source.tables.join(", ")),
        };
        let _ = write!(text, "  {}: {}", printable(&source.name), printable(&from));
        if !source.problem.is_empty() {
            let _ = write!(text, "; not cached: {}", printable(&source.problem));
        }
        text.push('\n');
    }
    text.push('\n');
    text
}

fn of_all(all: &MemoOverviewReply, memos: &ListMemosReply, made: &InvalidatorsReply) -> String {
    let MemoOverviewReply { bytes, entries, computed, cut_off, asked, hits, .. } = all;
    let mut text = format!(
        "{entries} entries, {bytes} bytes, {computed} computed, {cut_off} to what was there, hits {}\n",
        rate(*asked, *hits)
    );
    let served =
        |count: String| if memos.counting { format!(" {count:>12}") } else { String::new() };
    let title = served("SERVED".to_owned());
    let _ = writeln!(text, "{:>9} {:>12} {:>7}{title}  NAME", "ENTRIES", "BYTES", "HITS");
    let counted = |memo: &MemoInfo| served(memo.served.to_string());
    let mut memos: Vec<_> = memos.memos.iter().collect();
    memos.sort_by_key(|memo| (memo.source, std::cmp::Reverse(memo.bytes)));
    for memo in memos {
        let MemoInfo { name, source, entries, bytes, asked, hits, .. } = memo;
        let served = counted(memo);
        let name = printable(name);
        let what = if *source { " (source)" } else { "" };
        let hits = rate(*asked, *hits);
        let _ = writeln!(text, "{entries:>9} {bytes:>12} {hits:>7}{served}  {name}{what}");
    }
    for made in &made.invalidators {
        let changed = printable(&made.changed);
        let times = made.times;
        let marked = made.marked;
        let _ = writeln!(text, "{changed} changed {times} times, and made {marked} suspect");
    }
    if !made.observing {
        text +=
            "what makes things stale is not observed now; --observe 60 does that for a minute\n";
    }
    text
}

/// How many in a hundred.
fn rate(asked: u64, hits: u64) -> String {
    match asked {
        0 => "-".to_owned(),
        _ => format!("{:.1} %", hits as f64 * 100.0 / asked as f64),
    }
}

async fn of_memo(client: &MemoClient, memo: &str, as_json: bool) -> Result<String, Failure> {
    let mut text = match as_json {
        true => String::new(),
        false => format!("{:<8} {:>9} {:>5} {:>5}  KEY\n", "STATE", "BYTES", "READ", "DEPS"),
    };
    let mut after = 0;
    loop {
        let (entries, next) = page(client, memo, "", after).await?;
        for entry in &entries {
            if as_json {
                text += &json::line(entry)?;
                continue;
            }
            let MemoEntry { state, bytes, dependencies, dependants, key, .. } = entry;
            let key = printable(key);
            let _ =
                writeln!(text, "{state:<8} {bytes:>9} {dependencies:>5} {dependants:>5}  {key}");
        }
        after = next;
        // A terminal is not a place for a million rows.
        let is_enough = !as_json && text.lines().count() > ROWS_MAX;
        if next == 0 || is_enough {
            let more = if next == 0 { "" } else { "… and more; name a part of a key\n" };
            return Ok(text + more);
        }
    }
}

async fn page(
    client: &MemoClient,
    memo: &str,
    key: &str,
    after: u32,
) -> Result<(Vec<MemoEntry>, u32), Failure> {
    let memo = memo.to_owned();
    let key = key.to_owned();
    let request = ListEntriesRequest { memo, key, after, limit: 1000, ..Default::default() };
    let reply = body_or_failure(client.list_entries(request).await)?;
    Ok((reply.entries, reply.next))
}

async fn of_key(
    client: &MemoClient,
    memo: &str,
    key: &str,
) -> Result<(GetEntryReply, ExplainReply), Failure> {
    let mut after = 0;
    loop {
        let (entries, next) = page(client, memo, key, after).await?;
        if let Some(MemoEntry { id, .. }) = entries.first() {
            let id = *id;
            let around = client.get_entry(GetEntryRequest { id, ..Default::default() }).await;
            let why = client.explain(ExplainRequest { id, ..Default::default() }).await;
            return Ok((body_or_failure(around)?, body_or_failure(why)?));
        }
        if next == 0 {
            let text = format!("no key of {memo} has {key:?} in it");
            return Err(anyhow::anyhow!(text).into());
        }
        after = next;
    }
}

fn of_entry(around: &GetEntryReply, why: &ExplainReply) -> String {
    let entry = &*around.entry;
    let age = match around.age_ms {
        Some(age) => format!("{} s old", age / 1000),
        None => "of an age that was not observed".to_owned(),
    };
    let MemoEntry { memo, key, state, version, bytes, .. } = entry;
    let mut text = format!(
        "{}({}): {state}, version {version}, {bytes} bytes, {age}\n",
        printable(memo),
        printable(key)
    );
    for (what, entries) in [("read", &around.dependencies), ("depends on it:", &around.dependants)]
    {
        for MemoEntry { memo, key, state, version, .. } in entries {
            let memo = printable(memo);
            let key = printable(key);
            let _ = writeln!(text, "  {what} {memo}({key}) {state}, version {version}");
        }
    }
    for event in &why.events {
        let _ = writeln!(text, "  {}", describe_event(event));
    }
    if why.events.is_empty() {
        let hint = if why.observing { "nothing since it is observed" } else { "--observe 60" };
        let _ = writeln!(text, "  why: not recorded ({hint})");
    }
    text
}

fn describe_event(event: &MemoEvent) -> String {
    let MemoEvent { what, tick, changed, dependency, dependencies, .. } = event;
    let why = match (changed.is_empty(), dependency) {
        (false, _) => format!(" since {} changed", printable(changed)),
        (true, 1..) => {
            format!(" since number {dependency} of {dependencies} that it read is another")
        }
        (true, 0) => String::new(),
    };
    format!("@{tick} {what}{why}")
}

const ROWS_MAX: usize = 1000;
