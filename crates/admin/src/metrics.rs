//! `/metrics`: all counts, as Prometheus reads them, or as OpenMetrics where that is asked for.

use std::time::Duration;

use http::header::{ACCEPT, CONTENT_TYPE, HeaderValue};
use tidewire_cache::PageStats;
use tidewire_hosting::{State, Status as Program};
use tidewire_oplog::Status;
use tidewire_server::Handle;
use tidewire_service::{Context, Reply};
use tidewire_telemetry::{Exposition, Format, MethodFigures};

use crate::{Admin, Inventory};

/// The text of `/metrics`.
pub(crate) fn text(admin: &Admin, handle: &Handle, context: &Context) -> Reply {
    let accept = context.headers().get(ACCEPT).and_then(|accept| accept.to_str().ok());
    let format = Format::asked_by(accept.unwrap_or_default());
    let mut text = Exposition::new(format);
    admin.metrics.expose(&mut text);
    let usage = handle.usage();
    let mut one = |name, kind, about, value: u64| {
        text.family(name, kind, about);
        text.sample("", &[], value);
    };
    one("tidewire_ready", "gauge", "Whether it takes calls.", handle.is_ready().into());
    one(
        "tidewire_connections_open",
        "gauge",
        "Connections that are open.",
        usage.connections_open as u64,
    );
    one(
        "tidewire_connections_accepted_total",
        "counter",
        "Connections that were accepted.",
        usage.connections_accepted,
    );
    one(
        "tidewire_calls_waiting",
        "gauge",
        "Calls that wait for a place.",
        usage.calls_waiting as u64,
    );
    one(
        "tidewire_commands_running",
        "gauge",
        "Commands that run in tasks of the server.",
        usage.commands_running as u64,
    );
    let stats = admin.graph.stats();
    one("tidewire_memo_bytes", "gauge", "What kept values take.", stats.bytes as u64);
    one("tidewire_memo_nodes", "gauge", "Values, and their dependencies.", stats.nodes as u64);
    one("tidewire_memo_started_total", "counter", "Computations that began.", stats.started);
    one("tidewire_memo_joined_total", "counter", "Callers who joined one.", stats.joined);
    one("tidewire_memo_verified_total", "counter", "Values found unchanged.", stats.verified);
    one("tidewire_memo_removed_total", "counter", "Values that went.", stats.removed);
    text.family("tidewire_limit_reached_total", "counter", "How often each bound was reached.");
    for (bound, times) in &usage.reached {
        text.sample("", &[("limit", bound.key().to_owned())], times);
    }
    programs(&mut text, &admin.inventory);
    cached_of_programs(&mut text, &admin.inventory, &admin.metrics.figures());
    if let Some(pages) = admin.inventory.pages() {
        kept_pages(&mut text, pages.stats());
    }
    if let Some(log) = admin.inventory.oplog() {
        change_log(&mut text, &log.status());
    }
    let content_type = HeaderValue::from_static(format.content_type());
    let mut reply = Reply::text(text.into_text());
    reply.headers.insert(CONTENT_TYPE, content_type);
    reply
}

/// The pages that are kept of programs and upstreams.
fn kept_pages(text: &mut Exposition, stats: PageStats) {
    for (name, kind, about, value) in [
        ("tidewire_pages", "gauge", "Pages that are kept.", stats.pages as u64),
        ("tidewire_pages_bytes", "gauge", "Memory that they take.", stats.bytes as u64),
        ("tidewire_pages_hits_total", "counter", "Requests that a kept page answered.", stats.hits),
        ("tidewire_pages_misses_total", "counter", "Requests that went on.", stats.misses),
        ("tidewire_pages_evicted_total", "counter", "Pages that went for others.", stats.evicted),
        (
            "tidewire_pages_invalidated_total",
            "counter",
            "Pages that a change or a command ended.",
            stats.invalidated,
        ),
    ] {
        text.family(name, kind, about);
        text.sample("", &[], value);
    }
}

/// A family of programs: its name, its kind, what it is, and its value of each.
type Family = (&'static str, &'static str, &'static str, fn(&Program) -> u64);
/// One of methods of programs.
type Lookups = (&'static str, &'static str, fn(&MethodFigures) -> u64);
/// One of times: their sum, and how many they are.
type Times = (&'static str, &'static str, fn(&Program) -> (Duration, u64));

/// The programs that are hosted, by their names and routes.
fn programs(text: &mut Exposition, inventory: &Inventory) {
    let programs: Vec<_> = inventory
        .programs()
        .iter()
        .map(|it| {
            let labels =
                [("program", it.name().to_owned()), ("route", inventory.route_of(it.name()))];
            (labels, it.status())
        })
        .collect();
    let families: [Family; 9] = [
        ("tidewire_program_processes", "gauge", "Processes that run.", |it| it.pids.len() as u64),
        ("tidewire_program_spares", "gauge", "Processes that stand by.", |it| it.spares as u64),
        ("tidewire_program_calls_running", "gauge", "Calls that processes have.", |it| {
            it.calls as u64
        }),
        ("tidewire_program_calls_waiting", "gauge", "Calls that wait for a process.", |it| {
            it.waiting as u64
        }),
        ("tidewire_program_broken", "gauge", "Whether calls are refused, after crashes.", |it| {
            (it.state == State::Broken).into()
        }),
        (
            "tidewire_program_calls_total",
            "counter",
            "Calls that processes were given; one that is tried again counts again.",
            |it| it.requests,
        ),
        ("tidewire_program_crashes_total", "counter", "Processes that crashed.", |it| it.crashes),
        ("tidewire_program_starts_total", "counter", "Processes that were started.", |it| {
            it.starts
        }),
        (
            "tidewire_program_out_of_memory_total",
            "counter",
            "Times that a process ran out of memory_max.",
            |it| it.out_of_memory,
        ),
    ];
    for (family, kind, about, value) in families {
        text.family(family, kind, about);
        for (labels, status) in &programs {
            text.sample("", labels, value(status));
        }
    }
    let times: [Times; 2] = [
        (
            "tidewire_program_start_seconds",
            "How long starts took, until their process could be called.",
            |it| (it.start_time, it.starts),
        ),
        (
            "tidewire_program_queue_seconds",
            "How long calls waited for a process, of those that waited.",
            |it| (it.queue_time, it.queued),
        ),
    ];
    for (family, about, value) in times {
        text.family(family, "summary", about);
        for (labels, status) in &programs {
            let (time, count) = value(status);
            text.sample("_sum", labels, time.as_secs_f64());
            text.sample("_count", labels, count);
        }
    }
}

/// How often calls of programs' methods were looked up in the reply cache, and found there.
fn cached_of_programs(text: &mut Exposition, inventory: &Inventory, figures: &[MethodFigures]) {
    let families: [Lookups; 2] = [
        ("tidewire_program_cache_lookups_total", "Calls that the cache was asked for.", |of| {
            of.asked_memory
        }),
        ("tidewire_program_cache_hits_total", "Calls that the cache answered.", |of| {
            of.from_memory
        }),
    ];
    for (family, about, value) in families {
        text.family(family, "counter", about);
        for program in inventory.programs() {
            let name = program.name();
            let of_program = figures.iter().filter(|of| of.program.as_deref() == Some(name));
            let labels = [("program", name.to_owned()), ("route", inventory.route_of(name))];
            text.sample("", &labels, of_program.map(value).sum::<u64>());
        }
    }
}

/// How this host stands to the change log of its database.
fn change_log(text: &mut Exposition, status: &Status) {
    let counts = &status.counts;
    let broken = status.sources.iter().filter(|source| source.problem.is_some()).count();
    let seconds = |time: Option<Duration>| time.unwrap_or_default().as_secs_f64();
    let suspended = f64::from(u8::from(status.is_suspended));
    let lease = status.lease_remaining.as_secs_f64();
    for (name, about, value) in [
        (
            "tidewire_oplog_lag_seconds",
            "How long ago the last poll of the change log began.",
            seconds(status.lag),
        ),
        ("tidewire_oplog_poll_seconds", "How long the last poll took.", seconds(status.poll_time)),
        (
            "tidewire_oplog_lease_remaining_seconds",
            "How long memory is trusted without another poll.",
            lease,
        ),
        ("tidewire_oplog_suspended", "Whether nothing is given from memory.", suspended),
        (
            "tidewire_oplog_sources_suspended",
            "Sources whose changes are not captured.",
            broken as f64,
        ),
        (
            "tidewire_oplog_rows",
            "About how many rows the log has.",
            status.rows.unwrap_or(0) as f64,
        ),
        ("tidewire_oplog_hosts", "Hosts that read the log.", status.hosts.unwrap_or(0) as f64),
    ] {
        text.family(name, "gauge", about);
        text.sample("", &[], value);
    }
    for (name, about, value) in [
        ("tidewire_oplog_polls_total", "Polls of the log.", counts.polls),
        (
            "tidewire_oplog_failures_total",
            "Polls, or attempts to connect, that failed.",
            counts.failures,
        ),
        ("tidewire_oplog_keys_total", "Keys that the log made stale.", counts.keys),
        (
            "tidewire_oplog_sources_total",
            "Sources that the log made stale as a whole.",
            counts.whole_sources,
        ),
        (
            "tidewire_oplog_unknown_sources_total",
            "Changes of sources that are not here.",
            counts.unknown_sources,
        ),
        (
            "tidewire_oplog_unreadable_keys_total",
            "Keys that their source cannot read.",
            counts.unreadable_keys,
        ),
        ("tidewire_oplog_lapses_total", "Times that the lease ended.", counts.lapses),
        (
            "tidewire_oplog_barriers_total",
            "Requests that waited for another poll.",
            counts.barriers,
        ),
    ] {
        text.family(name, "counter", about);
        text.sample("", &[], value);
    }
    text.family("tidewire_oplog_resets_total", "counter", "Times that everything was made stale.");
    for (reason, times) in &counts.resets {
        text.sample("", &[("reason", reason.as_str().to_owned())], times);
    }
}
