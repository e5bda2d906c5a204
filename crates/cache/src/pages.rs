//! Cached pages: responses of plain HTTP kept as RFC 9111 has it for a shared cache, for programs
//! and upstreams that say in `Cache-Control` how long they last.
//!
//! ```text
//!  request ─▶ pages/serve.rs ─ fresh ─▶ page                      ┌─▶ caller
//!                  │ not there, stale                             │
//!                  └─▶ flight: one of all who ask ─▶ service ─▶ fill ─▶ table (bytes, SIEVE, tags)
//! ```
//!
//! | file | what it decides |
//! |---|---|
//! | `pages/directives.rs` | what `Cache-Control` and `CDN-Cache-Control` say |
//! | `pages/date.rs` | what a date in a header says |
//! | `pages/policy.rs` | whether a response is stored, and how long it is fresh |
//! | `pages/page_request.rs` | what of a request counts: its key, its directives, who makes it |
//! | `pages/page.rs` | a stored response: age, use, what it is given as |
//! | `pages/conditions.rs` | `If-None-Match`, `If-Modified-Since`, `Range` |
//! | `pages/table.rs` | what is kept, within how many bytes, and what goes first |
//! | `pages/changes.rs` | that what was asked for before a change is not stored after it |
//! | `pages/flight.rs`, `pages/fill.rs` | who waits for whose response, and a body on its way |
//! | `pages/commands.rs` | which pages a command ends |
//! | `pages/run_command.rs` | a command on its way, also without its caller |
//! | `pages/serve.rs` | the path of a request |
//!
//! Cached replies (`reply_cache.rs`) end with what they depend on, and know their handlers. Pages
//! are of programs that nobody here can look into, which is why HTTP's rules hold for them.

mod changes;
mod commands;
mod conditions;
mod date;
mod directives;
mod fill;
mod flight;
mod page;
mod page_request;
mod policy;
mod run_command;
mod serve;
mod table;

use std::any::Any;
use std::fmt;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant, SystemTime};

use parking_lot::Mutex;
use tidewire_service::{LATE_ANSWERS_MAX, Layer, Service};

use self::commands::{Changes, NamedTags};
pub use self::directives::Audience;
use self::fill::FillBudget;
use self::flight::Flights;
use self::run_command::{Hold, Slots};
use self::serve::CachedPages;
use self::table::Table;

/// Pages that are kept, of any number of services; cheap to clone.
///
/// | setting | default | meaning |
/// |---|---|---|
/// | [`bytes_max`](Self::bytes_max) | 64 MiB | memory for all pages |
///
/// What is asked for least goes first (SIEVE).
#[derive(Clone)]
pub struct PageCache(Arc<Inner>);

/// How pages of one service are kept.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct PageSettings {
    /// The largest body that is stored; 1 MiB unless set. Larger ones pass through.
    pub page_bytes_max: usize,
    /// How long a page may be fresh that says nothing but when it was modified; a day unless set.
    pub heuristic_max: Duration,
    /// Whether responses with `Set-Cookie` are stored, with the cookie; not unless set.
    pub set_cookie: bool,
    /// How much longer than it says a page is used while the service fails; only as it says itself
    /// unless set.
    pub stale_if_error: Option<Duration>,
    /// How much longer a page that says nothing of errors is used while the service cannot be
    /// reached (RFC 9111, section 4.2.4); a minute unless set.
    pub stale_if_unreachable: Duration,
    /// How many pages one URL may have, by their `Vary` and callers; 64 unless set.
    pub variants_max: usize,
}

/// What a page cache needs of its surroundings.
pub trait PageRuntime: Send + Sync + 'static {
    /// The present.
    fn now(&self) -> Instant;

    /// The present as clocks on walls show it, for `Date` and `Last-Modified`.
    fn wall(&self) -> SystemTime;

    /// Runs what nobody waits for: the validation of a page that was used meanwhile.
    fn spawn(&self, work: Pin<Box<dyn Future<Output = ()> + Send>>);

    /// Runs a command to its end, whose caller is gone. It may be called from any thread, also when
    /// all ends; then it may drop the command.
    fn run(&self, command: Pin<Box<dyn Future<Output = ()> + Send>>);
}

/// What became of the requests of a page cache.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PageStats {
    /// Pages that are kept.
    pub pages: usize,
    /// What they take.
    pub bytes: usize,
    /// Requests that a stored page answered.
    pub hits: u64,
    /// Requests that went on.
    pub misses: u64,
    /// Pages that went for others.
    pub evicted: u64,
    /// Pages that a change or a command ended.
    pub invalidated: u64,
}

struct Inner {
    table: Mutex<Table>,
    flights: Flights,
    fills: Arc<FillBudget>,
    runtime: Arc<dyn PageRuntime>,
    hits: AtomicU64,
    misses: AtomicU64,
    /// What commands have named.
    named: NamedTags,
    /// Commands that go on although their callers are gone, and those that are late.
    orphans: Slots,
    late: Slots,
    /// Hears of each change that is said here.
    listener: OnceLock<ChangeListener>,
    /// Makes what is held while a command runs.
    holds: OnceLock<Box<dyn Fn() -> Hold + Send + Sync>>,
}

type ChangeListener = Box<dyn Fn(PageChange<'_>) + Send + Sync>;

/// A change that was said on this host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum PageChange<'a> {
    /// Pages with this tag, or one below it.
    Tag(&'a str),
    /// All pages of this service.
    Service(&'a str),
    /// All pages that have a tag.
    AllTags,
}

impl PageCache {
    /// Keeps nothing yet.
    pub fn new(runtime: impl PageRuntime) -> Self {
        Self(Arc::new(Inner {
            table: Mutex::new(Table::new(BYTES_MAX)),
            flights: Flights::default(),
            fills: Arc::new(FillBudget::new(BYTES_MAX)),
            runtime: Arc::new(runtime),
            hits: AtomicU64::new(0),
            misses: AtomicU64::new(0),
            named: NamedTags::default(),
            orphans: Slots::new(ORPHANS_MAX),
            late: Slots::new(LATE_ANSWERS_MAX),
            listener: OnceLock::new(),
            holds: OnceLock::new(),
        }))
    }

    /// Sets how much memory all pages may take; those that are on their way may take as much again.
    #[must_use]
    pub fn bytes_max(self, bytes: usize) -> Self {
        self.0.fills.set_max(bytes);
        self.0.table.lock().set_bytes_max(bytes);
        self
    }

    /// The layer of one service, whose name tells its pages from those of others.
    pub fn layer(&self, name: &str, settings: PageSettings) -> impl Layer + use<> {
        let cache = self.clone();
        let name = Arc::<str>::from(name);
        move |service: Arc<dyn Service>| -> Arc<dyn Service> {
            Arc::new(CachedPages::new(&cache, &name, &settings, service))
        }
    }

    /// The layer of a service whose pages are not kept, and whose commands may say what they have
    /// changed of others.
    pub fn changes_layer(&self, name: &str) -> impl Layer + use<> {
        let cache = self.clone();
        let name = Arc::<str>::from(name);
        move |service: Arc<dyn Service>| -> Arc<dyn Service> {
            Arc::new(Changes::new(&cache, &name, service))
        }
    }

    /// Ends the pages with this tag, and those with a tag below it: `items` also ends what is
    /// tagged `items/7`. Returns how many.
    pub fn changed(&self, tag: &str) -> usize {
        let ended = self.changed_elsewhere(tag);
        self.tell(PageChange::Tag(tag));
        ended
    }

    /// Ends all pages of a service. Returns how many.
    pub fn service_changed(&self, service: &str) -> usize {
        let ended = self.clear(service);
        self.tell(PageChange::Service(service));
        ended
    }

    /// Ends what a command of this service may have changed, of which nobody knows how it went: all
    /// pages of the service, and those with tags that its commands have named, or with tags below
    /// these. Returns how many.
    pub fn may_have_changed(&self, service: &str) -> usize {
        let ended = self.service_changed(service);
        let Some(roots) = self.0.named.of(service) else {
            let more = self.all_changed_elsewhere();
            self.tell(PageChange::AllTags);
            return ended + more;
        };
        ended + roots.iter().map(|root| self.changed(root)).sum::<usize>()
    }

    /// Waits until no command goes on without its caller, and none is late.
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub async fn until_commands_end(&self) {
        let Inner { orphans, late, .. } = &*self.0;
        std::future::poll_fn(|cx| orphans.poll_empty(cx)).await;
        std::future::poll_fn(|cx| late.poll_empty(cx)).await;
    }

    /// How many commands go on without their callers, or are late.
    pub fn commands_without_callers(&self) -> usize {
        self.0.orphans.count() + self.0.late.count()
    }

    fn tell(&self, change: PageChange<'_>) {
        if let Some(listener) = self.0.listener.get() {
            listener(change);
        }
    }

    /// As [`changed`](Self::changed), said by another host: no listener hears of it.
    pub fn changed_elsewhere(&self, tag: &str) -> usize {
        self.0.table.lock().changed(tag)
    }

    /// What other hosts said may have been missed: ends all pages that have a tag.
    pub fn all_changed_elsewhere(&self) -> usize {
        self.0.table.lock().all_tags_changed()
    }

    /// Says who hears of each change that is said here, after its pages have ended: other hosts.
    /// The first one does.
    pub fn on_change(&self, listener: impl Fn(PageChange<'_>) + Send + Sync + 'static) {
        let _ = self.0.listener.set(Box::new(listener));
    }

    /// Says what is held from the moment at which a command is passed on until its changes are
    /// known, whether or not its caller is there. The first one is.
    pub fn hold_commands(
        &self,
        hold: impl Fn() -> Box<dyn Any + Send + Sync> + Send + Sync + 'static,
    ) {
        let _ = self.0.holds.set(Box::new(hold));
    }

    /// Ends the pages of a source that a program named: those tagged with its name, and with its
    /// name and the key, `items/7`. Without a key it is each of its keys.
    pub fn source_changed(&self, source: &str, key: &str) -> usize {
        let mut table = self.0.table.lock();
        if key.is_empty() {
            return table.changed(source);
        }
        table.changed(&format!("{source}/{key}")) + table.changed_alone(source)
    }

    /// Ends all pages of a service on this host: its program is another.
    pub fn clear(&self, service: &str) -> usize {
        self.0.table.lock().clear(service)
    }

    /// What became of the requests so far.
    pub fn stats(&self) -> PageStats {
        let table = self.0.table.lock();
        PageStats {
            pages: table.len(),
            bytes: table.bytes(),
            hits: self.0.hits.load(Ordering::Relaxed),
            misses: self.0.misses.load(Ordering::Relaxed),
            evicted: table.evicted(),
            invalidated: table.invalidated(),
        }
    }
}

impl Default for PageSettings {
    fn default() -> Self {
        Self {
            page_bytes_max: 1 << 20,
            heuristic_max: Duration::from_secs(24 * 60 * 60),
            set_cookie: false,
            stale_if_error: None,
            stale_if_unreachable: Duration::from_secs(60),
            variants_max: 64,
        }
    }
}

impl fmt::Debug for PageCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PageCache").field("stats", &self.stats()).finish()
    }
}

const BYTES_MAX: usize = 64 << 20;
/// How many commands of one service go on without their callers.
const ORPHANS_MAX: usize = 64;
