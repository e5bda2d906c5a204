//! Pages that are kept, of any number of services: what there is to set, to ask for and to end.

use std::any::Any;
use std::fmt;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Instant, SystemTime};

use parking_lot::Mutex;
use tidewire_service::LATE_ANSWERS_MAX;

use super::fill::FillBudget;
use super::flight::Flights;
use super::ignored_changes::IgnoredChanges;
use super::named_tags::NamedTags;
use super::slots::Slots;
use super::table::Table;

/// What is held while a command runs.
pub(super) type Hold = Box<dyn Any + Send + Sync>;

/// Pages that are kept, of any number of services; cheap to clone.
///
/// | setting | default | meaning |
/// |---|---|---|
/// | [`bytes_max`](Self::bytes_max) | 64 MiB | memory for all pages |
///
/// What is asked for least goes first (SIEVE).
#[derive(Clone)]
pub struct PageCache(pub(super) Arc<Inner>);

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

pub(super) struct Inner {
    pub(super) table: Mutex<Table>,
    pub(super) flights: Flights,
    pub(super) fills: Arc<FillBudget>,
    pub(super) runtime: Arc<dyn PageRuntime>,
    pub(super) hits: AtomicU64,
    pub(super) misses: AtomicU64,
    /// What commands have named.
    pub(super) named: NamedTags,
    pub(super) ignored: IgnoredChanges,
    /// Commands that go on although their callers are gone, and those that are late.
    pub(super) orphans: Slots,
    pub(super) late: Slots,
    /// Hears of each change that is said here.
    listener: OnceLock<ChangeListener>,
    /// Makes what is held while a command runs.
    pub(super) holds: OnceLock<Box<dyn Fn() -> Hold + Send + Sync>>,
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
            ignored: IgnoredChanges::default(),
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

impl fmt::Debug for PageCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PageCache").field("stats", &self.stats()).finish()
    }
}

const BYTES_MAX: usize = 64 << 20;
/// How many commands of one service go on without their callers.
const ORPHANS_MAX: usize = 64;
