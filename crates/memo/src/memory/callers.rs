//! What is kept for each caller of a computation, in the order of their numbers.
//!
//! Mostly there is one caller, which needs no memory beyond the computation's own; 40,000 that wait for
//! one key are found in a tree.

use std::collections::BTreeMap;

/// See the module documentation.
#[derive(Debug)]
pub(crate) struct ByCaller<T> {
    one: Option<(u32, T)>,
    more: Option<BTreeMap<u32, T>>,
}

impl<T> Default for ByCaller<T> {
    fn default() -> Self {
        Self { one: None, more: None }
    }
}

impl<T> ByCaller<T> {
    /// Whether it has nothing that has a destructor.
    #[inline]
    pub(crate) fn is_plain(&self) -> bool {
        self.more.is_none() && (self.one.is_none() || !std::mem::needs_drop::<T>())
    }

    /// Returns what was kept for the caller before.
    pub(crate) fn insert(&mut self, caller: u32, kept: T) -> Option<T> {
        match (&mut self.one, &mut self.more) {
            (Some((one, before)), _) if *one == caller => Some(std::mem::replace(before, kept)),
            (None, None) => {
                self.one = Some((caller, kept));
                None
            }
            (_, more) => more.get_or_insert_default().insert(caller, kept),
        }
    }

    /// What was kept for the caller, who goes.
    #[inline]
    pub(crate) fn remove(&mut self, caller: u32) -> Option<T> {
        match self.one.take_if(|(one, _)| *one == caller) {
            Some((_, kept)) => Some(kept),
            None => self.more.as_mut()?.remove(&caller),
        }
    }

    /// Takes out what was kept for the first so many.
    pub(crate) fn take_first(&mut self, count: usize) -> Self {
        let mut taken = Self { one: self.one.take(), more: None };
        let more = self.more.iter_mut();
        let first = more.flat_map(|more| std::iter::from_fn(|| more.pop_first()));
        first.take(count.saturating_sub(taken.one.iter().len())).for_each(|(caller, kept)| {
            taken.insert(caller, kept);
        });
        taken
    }

    /// In the order of their numbers, from this one on.
    pub(crate) fn iter_from(&self, caller: u32) -> impl Iterator<Item = (u32, &T)> {
        let one =
            self.one.iter().map(|(one, kept)| (*one, kept)).filter(move |(one, _)| *one >= caller);
        let more = self.more.iter().flat_map(move |more| more.range(caller..));
        let mut one = one.peekable();
        let mut more = more.map(|(&caller, kept)| (caller, kept)).peekable();
        std::iter::from_fn(move || match (one.peek(), more.peek()) {
            (Some((first, _)), Some((second, _))) if first > second => more.next(),
            (Some(_), _) => one.next(),
            (None, _) => more.next(),
        })
    }

    /// All of it.
    pub(crate) fn into_values(self) -> impl Iterator<Item = T> {
        let more = self.more.unwrap_or_default();
        self.one.into_iter().map(|(_, kept)| kept).chain(more.into_values())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn callers_are_found_in_order_whoever_came_first() {
        let mut callers = ByCaller::default();
        assert_eq!(callers.insert(5, 'a'), None);
        assert_eq!(callers.insert(5, 'b'), Some('a'));
        assert_eq!((callers.insert(7, 'c'), callers.insert(6, 'd')), (None, None));
        assert_eq!(callers.remove(5), Some('b'));
        assert_eq!(callers.insert(9, 'e'), None);
        assert_eq!(callers.insert(2, 'f'), None);
        let order = |callers: &ByCaller<char>, from| {
            callers.iter_from(from).map(|(caller, &kept)| (caller, kept)).collect::<Vec<_>>()
        };
        assert_eq!(order(&callers, 0), [(2, 'f'), (6, 'd'), (7, 'c'), (9, 'e')]);
        assert_eq!(order(&callers, 7), [(7, 'c'), (9, 'e')]);
        assert_eq!(callers.remove(8), None);
        let first = callers.take_first(2);
        assert_eq!(order(&first, 0), [(2, 'f'), (6, 'd')]);
        assert_eq!(order(&callers, 0), [(7, 'c'), (9, 'e')]);
        first.iter_from(0).for_each(|(caller, kept)| _ = callers.insert(caller, *kept));
        assert_eq!(callers.into_values().count(), 4);
    }
}
