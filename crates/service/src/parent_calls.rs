//! What a call is part of: the calls that wait for it.
//!
//! A hosted process may call back while it serves a call, and so on. Who serves the call inside has
//! to know that those outside wait for it: it is not queued behind them, and a chain has a greatest
//! depth. No answer depends on it, so that reading it makes none private.

use std::sync::Arc;

/// A chain of calls that wait for one, the innermost first; cheap to clone.
#[derive(Debug, Clone)]
pub struct ParentCalls(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    /// Who serves it.
    holder: u64,
    outer: Option<ParentCalls>,
}

impl ParentCalls {
    /// A call that `holder` serves, inside of `outer`.
    pub fn within(outer: Option<&Self>, holder: u64) -> Self {
        Self(Arc::new(Inner { holder, outer: outer.cloned() }))
    }

    /// Those who serve the calls of the chain, the innermost first.
    pub fn holders(&self) -> impl Iterator<Item = u64> {
        std::iter::successors(Some(self), |chain| chain.0.outer.as_ref())
            .map(|chain| chain.0.holder)
    }

    /// How many calls wait.
    pub fn depth(&self) -> usize {
        self.holders().count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chain_names_who_waits_from_the_inside() {
        let chain = ParentCalls::within(Some(&ParentCalls::within(None, 1)), 2);
        assert_eq!(chain.holders().collect::<Vec<_>>(), [2, 1]);
        assert_eq!(chain.depth(), 2);
    }
}
