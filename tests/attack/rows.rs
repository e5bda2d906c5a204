//! The rows: each an attack, the settings of its server, and what it may cost in MiB.

use std::net::SocketAddr;
use std::pin::Pin;

use crate::victim::Replies;
use crate::{flood, framing, idle, live, readers, silent};

/// One attack.
pub(crate) struct Row {
    pub(crate) name: &'static str,
    pub(crate) replies: Replies,
    pub(crate) settings: &'static [&'static str],
    /// How much more memory there may be at the peak, and half a minute after it.
    pub(crate) peak_max: u64,
    pub(crate) left_max: u64,
    pub(crate) attack: fn(SocketAddr) -> Attack,
}

/// What came of it, or why the server did wrong.
pub(crate) type Attack = Pin<Box<dyn Future<Output = Result<String, String>> + Send>>;

/// Half a minute is long for a table of many rows.
const SOON: &[&str] = &[
    "limits.first_byte_timeout=2s",
    "limits.header_read_timeout=2s",
    "limits.idle_timeout=2s",
    "limits.keep_alive_interval=2s",
    "limits.keep_alive_timeout=2s",
    "limits.body_progress_timeout=2s",
    "limits.reply_progress_timeout=2s",
];

const fn flood(name: &'static str, attack: fn(SocketAddr) -> Attack) -> Row {
    Row { name, replies: Replies::OfRequests, settings: &[], peak_max: 48, left_max: 16, attack }
}

/// What lives on after a peer is in `left_max`: sessions are kept for two minutes.
const fn live(name: &'static str, most: u64, attack: fn(SocketAddr) -> Attack) -> Row {
    Row { name, replies: Replies::ByRules, settings: &[], peak_max: most, left_max: most, attack }
}

/// All of them.
pub(crate) const ROWS: &[Row] = &[
    flood("HTTP/1.1 framing, 4,000 connections", |to| Box::pin(framing::framing(to))),
    flood("HTTP/1.1 endless head", |to| Box::pin(framing::endless_head(to))),
    flood("HTTP/2 SETTINGS flood", |to| Box::pin(flood::settings(to))),
    flood("HTTP/2 PING flood", |to| Box::pin(flood::ping(to))),
    flood("HTTP/2 CONTINUATION flood", |to| Box::pin(flood::continuation(to))),
    flood("HTTP/2 rapid reset", |to| Box::pin(flood::rapid_reset(to))),
    flood("HTTP/2 HPACK bomb", |to| Box::pin(flood::hpack_bomb(to))),
    flood("HTTP/2 empty DATA flood", |to| Box::pin(flood::empty_data(to))),
    flood("HTTP/2 WINDOW_UPDATE flood", |to| Box::pin(flood::window_update(to))),
    Row {
        name: "silent and slow peers, 2,000 connections",
        replies: Replies::OfRequests,
        settings: SOON,
        peak_max: 64,
        left_max: 16,
        attack: |to| Box::pin(silent::silent(to)),
    },
    Row {
        name: "readers that stop: window 0, 10 × 250 streams",
        replies: Replies::OfRequests,
        settings: SOON,
        peak_max: 384,
        left_max: 32,
        attack: |to| Box::pin(readers::window_zero(to)),
    },
    Row {
        name: "readers that stop, within 16 MiB over all",
        replies: Replies::OfRequests,
        settings: &["limits.reply_bytes_waiting_all_max=16MiB", "limits.reply_progress_timeout=8s"],
        peak_max: 64,
        left_max: 32,
        attack: |to| Box::pin(readers::bounded(to)),
    },
    Row {
        name: "readers that stop over HTTP/1.1, 20 connections",
        replies: Replies::OfRequests,
        settings: SOON,
        // Their requests are as large as their replies.
        peak_max: 192,
        left_max: 32,
        attack: |to| Box::pin(readers::http1(to)),
    },
    Row {
        name: "idle HTTP/1.1 connections",
        replies: Replies::OfRequests,
        settings: &["limits.connections_max=20000"],
        peak_max: 256,
        left_max: 64,
        attack: |to| Box::pin(idle::http1(to)),
    },
    Row {
        name: "idle HTTP/2 connections",
        replies: Replies::OfRequests,
        settings: &["limits.connections_max=20000"],
        peak_max: 512,
        left_max: 64,
        attack: |to| Box::pin(idle::http2(to)),
    },
    live("live: unfinished items, 3 × 250 streams", 64, |to| Box::pin(live::unfinished(to))),
    live("live: replies nobody reads, 60 × 200 of 1 MB", 64, |to| {
        Box::pin(live::unread_replies(to))
    }),
    live("live: 20 × 1,024 names of 16 kB", 64, |to| Box::pin(live::names(to))),
    live("live: 100 × all streams open", 64, |to| Box::pin(live::open_streams(to))),
    live("live: 5,600 sessions begun and left", 64, |to| Box::pin(live::sessions(to))),
    live("live: 50 × 200 watches nobody reads", 64, |to| Box::pin(live::unread_watches(to))),
    live("live: 384 MB of pings, answers unread", 64, |to| Box::pin(live::pings(to))),
    live("live: 86 MB of calls taken back, unread", 64, |to| Box::pin(live::cancelled(to))),
    live("live: 1 GB of unknown kinds", 64, |to| Box::pin(live::unknown_kinds(to))),
    live("live: 10,000 `auth` of 15 kB", 64, |to| Box::pin(live::headers(to))),
];
