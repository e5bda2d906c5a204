//! Cached replies: a query that asks for it is answered from memory until what its reply depends on
//! changes.
//!
//! [`ReplyCache`] makes a [`Layer`](tidewire_service::Layer). It keeps the encoded reply of a query
//! by the call as it arrived, in the same graph in which the service's own functions are memoized:
//! whatever the handler reads of sources and memos is what the reply depends on, so a write
//! invalidates exactly the dependent replies. A hit decodes and encodes nothing.
//!
//! | a reply is cached when | because |
//! |---|---|
//! | its method, its route or the settings say so: `cache` ([`CacheScope`](tidewire_service::CacheScope)) | only its author knows that everything it depends on is a source |
//! | the method is a query (`NO_SIDE_EFFECTS`) with one request and one reply, or a plain `GET` | commands and streams pass through |
//! | something ends it: it read a source or a memo, carries its own freshness, or the method declares `ttl` or `immutable` | otherwise nothing would ever invalidate it |
//! | it read nothing of the call that is not in its key | otherwise it is one caller's: *private* |
//! | it is complete, at most `reply_bytes_max`, without `set-cookie` | a stream may have no end; a cookie is somebody's |
//! | it is OK, NOT_FOUND, INVALID_ARGUMENT, FAILED_PRECONDITION or OUT_OF_RANGE | other codes say nothing about the next call |
//!
//! A query without `cache` runs for each call. It can be watched all the same: see
//! `watched_queries.rs`.
//!
//! If a reply that asked for it cannot be cached, the log says why, once a method ([`Refusal`]).
//! The key of a call is its method, codecs and message bytes, or its URI and `accept`; and whom the
//! reply may be shared with. Nothing is canonicalised.
//!
//! | what a handler reads | `PUBLIC` | `CALLER` | `VARY` with names |
//! |---|---|---|---|
//! | principal, `authorization`, `cookie` | private | in the key, as a keyed hash | private unless named |
//! | a header of the names | private | private | in the key |
//! | any other header, the peer, the protocol, extensions | private | private | private |
//!
//! Where several calls with one key arrive at once, the service runs once; for a plain `GET` only
//! where an answer was kept before, since nothing else says of it that the others may have it. If
//! that run turns out to be private or untracked, it answers its own caller only and the others run
//! by themselves, so that no caller is given what was computed before its own write; a method that
//! declares `coalesce` is shared all the same where it is not private.
//!
//! ```
//! use std::sync::Arc;
//! use tidewire_cache::ReplyCache;
//! use tidewire_memo::{Graph, Source};
//! use tidewire_service::{CacheScope, Call, Layer, Reply};
//!
//! # use tidewire_service::Clock;
//! # fn layered(timer: impl Clock) {
//! let rows = Source::<u64>::new("rows");
//! let handler = move |call: Call| async move {
//!     let id = call.param::<u64>("id")?;
//!     rows.read(&id);
//!     Ok(Reply::text(format!("row {id}")))
//! };
//! let cache = ReplyCache::new(&Graph::global());
//! let service = cache.page_layer(timer, CacheScope::Public).layer(Arc::new(handler));
//! # let _ = service;
//! # }
//! ```

#![doc = include_str!("../README.md")]

mod attempt;
mod cached_reply;
mod caching_service;
mod difference;
mod flights;
mod http;
mod identity;
mod key;
mod method_override;
mod method_policy;
mod methods;
mod mismatch;
mod override_error;
mod own_headers;
mod pages;
mod previous;
mod privacy;
mod refusal;
mod reply_cache;
mod runs;
mod scope;
mod settings;
mod staleness;
mod table;
mod turns;
mod verify;
mod watched_queries;
mod weight;

pub use method_override::{CacheSetting, MethodOverride};
pub use mismatch::Mismatch;
pub use override_error::OverrideError;
pub use pages::{Audience, PageCache, PageChange, PageRuntime, PageSettings, PageStats};
pub use refusal::Refusal;
pub use reply_cache::ReplyCache;
