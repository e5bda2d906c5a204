//! The pages that are kept, within a number of bytes.
//!
//! What goes first is chosen by SIEVE: pages stand in the order in which they came. A hand goes
//! from the oldest to the newest and around. A page that was asked for since the hand came by
//! stays, once; the first that was not goes. A hit moves nothing, and what is asked for once does
//! not push out what is asked for often.
//!
//! One key has a bounded number of pages, by its `Vary` and its callers. Once there are so many, a
//! further one takes the place of one that is stale, else of the one that was given least often,
//! and of several such of the newest: requests with headers that nobody else sends push out each
//! other's pages, and not those of everybody.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::Bound;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tidewire_service::Headers;

use super::changes::Changes;
use super::page::Page;
use super::page_request::{Key, hash};

/// The pages that are kept.
#[derive(Debug)]
pub(crate) struct Table {
    bytes_max: usize,
    bytes: usize,
    /// The pages of a key, the newest first.
    by_key: HashMap<Arc<Key>, Vec<u32>>,
    by_tag: BTreeMap<Box<str>, HashSet<u32>>,
    slots: Vec<Option<Slot>>,
    free: Vec<u32>,
    /// The oldest and the newest, and where the hand is.
    oldest: Option<u32>,
    newest: Option<u32>,
    hand: Option<u32>,
    changes: Changes,
    /// Keys whose responses cannot be stored, and until when nobody waits for one.
    passing: HashMap<u64, Instant>,
    evicted: u64,
    invalidated: u64,
}

#[derive(Debug)]
struct Slot {
    key: Arc<Key>,
    page: Arc<Page>,
    bytes: usize,
    was_asked_for: bool,
    /// How often it was given.
    uses: u32,
    older: Option<u32>,
    newer: Option<u32>,
}

/// What is there for a request.
#[derive(Debug)]
pub(crate) enum PageLookup {
    Page(Arc<Page>),
    /// Pages of this key, for other requests.
    Others,
    Nothing,
}

impl Table {
    pub(crate) fn new(bytes_max: usize) -> Self {
        Self {
            bytes_max,
            bytes: 0,
            by_key: HashMap::new(),
            by_tag: BTreeMap::new(),
            slots: Vec::new(),
            free: Vec::new(),
            oldest: None,
            newest: None,
            hand: None,
            changes: Changes::default(),
            passing: HashMap::new(),
            evicted: 0,
            invalidated: 0,
        }
    }

    pub(crate) fn set_bytes_max(&mut self, bytes: usize) {
        self.bytes_max = bytes;
        self.make_room();
    }

    pub(crate) fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(crate) fn evicted(&self) -> u64 {
        self.evicted
    }

    pub(crate) fn invalidated(&self) -> u64 {
        self.invalidated
    }

    /// The page for a request.
    pub(crate) fn find(&mut self, key: &Key, headers: &Headers, caller: Option<u64>) -> PageLookup {
        let Some(pages) = self.by_key.get(key) else { return PageLookup::Nothing };
        for id in pages {
            if let Some(slot) = self.slots.get_mut(*id as usize).and_then(Option::as_mut)
                && slot.page.is_for(headers, caller)
            {
                slot.was_asked_for = true;
                slot.uses = slot.uses.saturating_add(1);
                return PageLookup::Page(Arc::clone(&slot.page));
            }
        }
        PageLookup::Others
    }

    /// The number of the last change, which [`store`](Self::store) is told.
    pub(crate) fn last_change(&self) -> u64 {
        self.changes.last()
    }

    /// Keeps a page that was asked for after this change, unless it or a tag of it changed since;
    /// beside it no more than `variants_max` of its key.
    pub(crate) fn store(
        &mut self,
        key: Key,
        page: Page,
        asked_after: u64,
        variants_max: usize,
    ) -> bool {
        let bytes = page.bytes(&key);
        if bytes > self.bytes_max || !self.is_as_it_was(&key, &page.tags, asked_after) {
            return false;
        }
        self.passing.remove(&key.hash());
        let replaced = self.by_key.get(&key).and_then(|pages| {
            let is_replaced = |id: &u32| self.page(*id).is_some_and(|it| it.is_replaced_by(&page));
            let one = pages.iter().copied().find(is_replaced);
            one.or_else(|| {
                self.least_used(pages, page.since).filter(|_| pages.len() >= variants_max)
            })
        });
        // The page that is the same one, newer, has been given as often.
        let mut uses = 0;
        if let Some(id) = replaced {
            let is_same = self.page(id).is_some_and(|it| it.is_replaced_by(&page));
            let before = self.slots.get(id as usize).and_then(Option::as_ref);
            uses = before.filter(|_| is_same).map_or(0, |slot| slot.uses);
            self.remove(id);
        }
        let key = match self.by_key.get_key_value(&key) {
            Some((known, _)) => Arc::clone(known),
            None => Arc::new(key),
        };
        let tags = page.tags.clone();
        let slot = Slot {
            key: Arc::clone(&key),
            page: Arc::new(page),
            bytes,
            was_asked_for: false,
            uses,
            older: self.newest,
            newer: None,
        };
        let id = self.put(slot);
        self.bytes += bytes;
        self.by_key.entry(key).or_default().insert(0, id);
        for tag in tags {
            self.by_tag.entry(tag).or_default().insert(id);
        }
        self.make_room();
        true
    }

    /// Whether neither a key nor any of these tags changed since that change.
    pub(crate) fn is_as_it_was(&self, key: &Key, tags: &[Box<str>], since: u64) -> bool {
        let alone = tags.iter().map(|tag| hash(&(&**tag, "alone")));
        let hashes = tags.iter().flat_map(|tag| prefixes(tag).map(|tag| hash(&tag)));
        self.changes.is_none_since(since, hashes.chain(alone).chain([key.hash()]))
    }

    /// Ends all pages of a key: it changed.
    pub(crate) fn key_changed(&mut self, key: &Key) -> usize {
        self.changes.add(key.hash());
        self.passing.remove(&key.hash());
        let ids = self.by_key.get(key).cloned().unwrap_or_default();
        self.invalidate(&ids)
    }

    /// Ends the pages with this tag, or one below it.
    pub(crate) fn changed(&mut self, tag: &str) -> usize {
        self.changes.add(hash(&tag));
        let below = format!("{tag}/");
        let mut ids: Vec<u32> = self.by_tag.get(tag).into_iter().flatten().copied().collect();
        let further = self.by_tag.range::<str, _>((Bound::Included(&*below), Bound::Unbounded));
        let further = further.take_while(|(other, _)| other.starts_with(&below));
        ids.extend(further.flat_map(|(_, ids)| ids));
        self.invalidate(&ids)
    }

    /// Ends the pages with this very tag.
    pub(crate) fn changed_alone(&mut self, tag: &str) -> usize {
        self.changes.add(hash(&(tag, "alone")));
        let ids: Vec<u32> = self.by_tag.get(tag).into_iter().flatten().copied().collect();
        self.invalidate(&ids)
    }

    /// Ends all pages that have a tag.
    pub(crate) fn all_tags_changed(&mut self) -> usize {
        self.changes.add_all();
        let ids: Vec<u32> = self.by_tag.values().flatten().copied().collect();
        self.invalidate(&ids)
    }

    /// Ends all pages of a service.
    pub(crate) fn clear(&mut self, service: &str) -> usize {
        self.changes.add_all();
        let slots = (0_u32..).zip(&self.slots);
        let of_service = slots.filter_map(|(id, slot)| {
            let is_of_service = slot.as_ref().is_some_and(|slot| slot.key.is_of(service));
            is_of_service.then_some(id)
        });
        let ids: Vec<u32> = of_service.collect();
        self.invalidate(&ids)
    }

    /// Nobody waits for a response of this key until then, since it cannot be stored.
    pub(crate) fn pass(&mut self, key: &Key, now: Instant) {
        if self.passing.len() >= PASSING_MAX {
            self.passing.retain(|_, until| *until > now);
        }
        if self.passing.len() >= PASSING_MAX {
            self.passing.clear();
        }
        self.passing.insert(key.hash(), now + PASSING);
    }

    pub(crate) fn is_passing(&self, key: &Key, now: Instant) -> bool {
        self.passing.get(&key.hash()).is_some_and(|until| *until > now)
    }

    /// Which of the pages of a key, the newest first, goes for another one.
    fn least_used(&self, pages: &[u32], now: Instant) -> Option<u32> {
        let rank = |id: &&u32| {
            let slot = self.slots.get(**id as usize).and_then(Option::as_ref);
            slot.map(|slot| if slot.page.left(now) <= 0 { 0 } else { slot.uses.max(1) })
        };
        // Of several the first, which is the newest.
        pages.iter().min_by_key(rank).copied()
    }

    fn page(&self, id: u32) -> Option<&Page> {
        Some(&self.slots.get(id as usize)?.as_ref()?.page)
    }

    fn put(&mut self, slot: Slot) -> u32 {
        let before = slot.older;
        let id = match self.free.pop() {
            Some(id) => {
                self.slots[id as usize] = Some(slot);
                id
            }
            None => {
                self.slots.push(Some(slot));
                u32::try_from(self.slots.len() - 1).unwrap_or(u32::MAX)
            }
        };
        match before.and_then(|before| self.slots[before as usize].as_mut()) {
            Some(before) => before.newer = Some(id),
            None => self.oldest = Some(id),
        }
        self.newest = Some(id);
        id
    }

    fn invalidate(&mut self, ids: &[u32]) -> usize {
        let ended = ids.iter().filter(|id| self.remove(**id)).count();
        self.invalidated += ended as u64;
        ended
    }

    fn make_room(&mut self) {
        while self.bytes > self.bytes_max {
            let Some(id) = self.next_victim() else { return };
            self.remove(id);
            self.evicted += 1;
        }
    }

    /// The page that the hand stops at.
    fn next_victim(&mut self) -> Option<u32> {
        let mut at = self.hand.or(self.oldest)?;
        loop {
            let slot = self.slots[at as usize].as_mut()?;
            let next = slot.newer;
            if !std::mem::take(&mut slot.was_asked_for) {
                self.hand = next;
                return Some(at);
            }
            at = next.or(self.oldest)?;
        }
    }

    fn remove(&mut self, id: u32) -> bool {
        let Some(slot) = self.slots.get_mut(id as usize).and_then(Option::take) else {
            return false;
        };
        self.free.push(id);
        self.bytes -= slot.bytes;
        match slot.older.and_then(|older| self.slots[older as usize].as_mut()) {
            Some(older) => older.newer = slot.newer,
            None => self.oldest = slot.newer,
        }
        match slot.newer.and_then(|newer| self.slots[newer as usize].as_mut()) {
            Some(newer) => newer.older = slot.older,
            None => self.newest = slot.older,
        }
        if self.hand == Some(id) {
            self.hand = slot.newer;
        }
        if let Some(pages) = self.by_key.get_mut(&slot.key) {
            pages.retain(|other| *other != id);
            if pages.is_empty() {
                self.by_key.remove(&slot.key);
            }
        }
        for tag in &slot.page.tags {
            if let Some(ids) = self.by_tag.get_mut(tag) {
                ids.remove(&id);
                if ids.is_empty() {
                    self.by_tag.remove(tag);
                }
            }
        }
        true
    }
}

/// The tag, and all that it is below: a change of `items` is one of `items/7`.
fn prefixes(tag: &str) -> impl Iterator<Item = &str> {
    let above = tag.match_indices('/').map(|(at, _)| &tag[..at]);
    above.chain([tag])
}

const PASSING_MAX: usize = 1 << 16;
/// For how long nobody waits for what could not be stored.
const PASSING: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use http::StatusCode;
    use tidewire_service::ThinHeaders;

    use super::super::page_request::Origin;
    use super::super::policy::Policy;
    use super::*;

    fn key(name: &str) -> Key {
        let origin = Origin { scheme: "http", host: "a".into(), prefix: String::new() };
        Key::new("shop", &origin, name)
    }

    fn page(bytes: usize, tags: &[&str]) -> Page {
        Page {
            status: StatusCode::OK,
            headers: ThinHeaders::default(),
            body: vec![0; bytes].into(),
            policy: Policy {
                age: Duration::ZERO,
                lifetime: Duration::from_secs(60),
                must_validate: false,
                never_stale: false,
                stale_while_revalidate: Duration::ZERO,
                stale_if_error: Duration::ZERO,
                stale_if_unreachable: Duration::ZERO,
                is_public: true,
                omitted: Vec::new(),
            },
            since: Instant::now(),
            varies: Vec::new(),
            caller: None,
            tags: tags.iter().map(|tag| (*tag).into()).collect(),
        }
    }

    fn has(table: &mut Table, name: &str) -> bool {
        matches!(table.find(&key(name), &Headers::new(), None), PageLookup::Page(_))
    }

    #[test]
    fn what_is_asked_for_stays_and_bytes_are_bounded() {
        let mut table = Table::new(200_000);
        assert!(table.store(key("/often"), page(10_000, &[]), 0, 64));
        for number in 0..1000 {
            assert!(has(&mut table, "/often"), "{number}");
            assert!(table.store(key(&format!("/{number}")), page(10_000, &[]), 0, 64));
            assert!(table.bytes() <= 200_000, "{}", table.bytes());
        }
        assert!(table.evicted() > 900 && table.len() >= 10, "{}", table.len());
        assert!(!table.store(key("/large"), page(300_000, &[]), 0, 64));
        (0..1000).for_each(|number| _ = table.key_changed(&key(&format!("/{number}"))));
        table.key_changed(&key("/often"));
        assert_eq!((table.len(), table.bytes()), (0, 0));
    }

    #[test]
    fn a_tag_ends_its_pages_and_those_below_it_and_no_others() {
        let mut table = Table::new(1 << 20);
        let tagged = [
            ("/a", &["items"][..]),
            ("/b", &["items/7", "x"]),
            ("/c", &["items/8"]),
            ("/d", &["itemsandmore"]),
        ];
        for (changed, ended) in [
            ("items", &["/a", "/b", "/c"][..]),
            ("items/7", &["/b"]),
            ("x", &["/b"]),
            ("item", &[]),
        ] {
            let asked_after = table.last_change();
            for (name, tags) in tagged {
                table.store(key(name), page(1, tags), asked_after, 64);
            }
            assert_eq!(table.changed(changed), ended.len());
            for (name, _) in tagged {
                assert_eq!(has(&mut table, name), !ended.contains(&name), "{changed} {name}");
            }
        }
        assert_eq!(table.by_tag.len(), 5);
    }

    #[test]
    fn what_was_asked_for_before_a_change_is_not_stored_after_it() {
        let mut table = Table::new(1 << 20);
        let before = table.last_change();
        table.changed("items");
        assert!(!table.store(key("/a"), page(1, &["items/7"]), before, 64));
        assert!(table.store(key("/a"), page(1, &["others"]), before, 64));
        assert!(table.store(key("/b"), page(1, &["items/7"]), table.last_change(), 64));
        let before = table.last_change();
        table.key_changed(&key("/b"));
        assert!(!table.store(key("/b"), page(1, &[]), before, 64));
        let before = table.last_change();
        table.clear("other");
        assert!(!table.store(key("/c"), page(1, &[]), before, 64));
        assert_eq!(table.clear("shop"), 1);
    }

    #[test]
    fn pages_for_headers_that_nobody_else_sends_push_out_each_other_alone() {
        let mut table = Table::new(1 << 20);
        let of = |language: &str| {
            Headers::from_iter([("foo".parse().unwrap(), language.parse().unwrap())])
        };
        let varying = |headers: &Headers| {
            let response = Headers::from_iter([(http::header::VARY, "foo".parse().unwrap())]);
            let varies = super::super::page::varies(StatusCode::OK, &response, headers).unwrap();
            Page { varies, ..page(1, &[]) }
        };
        let has = |table: &mut Table, name: &str| {
            matches!(table.find(&key("/"), &of(name), None), PageLookup::Page(_))
        };
        let known = ["en", "de", "fr"];
        for name in known {
            assert!(table.store(key("/"), varying(&of(name)), 0, 4));
            (0..3).for_each(|_| assert!(has(&mut table, name)));
        }
        for number in 0..1000 {
            let name = format!("odd-{number}");
            assert!(table.store(key("/"), varying(&of(&name)), 0, 4));
            assert!(table.len() <= 4);
            // It is asked for again, as often as the attacker likes but less than the others.
            assert!(has(&mut table, &name));
        }
        for name in known {
            assert!(has(&mut table, name), "{name}");
        }
        // One that is stale goes first, however often it was given.
        let old = Page {
            policy: Policy { lifetime: Duration::ZERO, ..varying(&of("en")).policy },
            ..varying(&of("en"))
        };
        assert!(table.store(key("/"), old, 0, 4));
        assert!(table.store(key("/"), varying(&of("it")), 0, 4));
        assert_eq!((has(&mut table, "en"), has(&mut table, "it")), (false, true));
    }
}
