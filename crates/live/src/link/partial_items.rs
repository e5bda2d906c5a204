//! Items of a connection that are not complete: how much of them is put together at once.
//!
//! A piece is taken as it comes, so an item larger than a window passes. The bytes that are put
//! together for all calls are bounded, so items that never end do not fill the memory:
//!
//! | what is put together | a call that takes another piece |
//! |---|---|
//! | less than the bound | goes on |
//! | as much | goes on if none else does, and is then the one that goes on until its item is whole |
//! | as much, and another call goes on | waits: its stream is given no credit, the others are |
//!
//! One always goes on, so they all end, if their peer ends them.

use std::collections::VecDeque;

use tidewire_live_proto::CallId;

/// What is put together for the calls of a session.
#[derive(Debug)]
pub(crate) struct PartialItems {
    bytes: usize,
    bytes_max: usize,
    /// Who goes on whatever there is.
    goes_on: Option<CallId>,
    waiting: VecDeque<CallId>,
}

/// What becomes of a call that took a piece.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Next {
    GoesOn,
    Waits,
}

impl PartialItems {
    pub(crate) fn new(bytes_max: usize) -> Self {
        Self { bytes: 0, bytes_max, goes_on: None, waiting: VecDeque::new() }
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// A call took a piece of an item that is not complete.
    pub(crate) fn take(&mut self, call: CallId, bytes: usize) -> Next {
        self.bytes += bytes;
        if self.bytes <= self.bytes_max || self.goes_on == Some(call) {
            return Next::GoesOn;
        }
        if self.goes_on.is_none() {
            self.goes_on = Some(call);
            return Next::GoesOn;
        }
        if !self.waiting.contains(&call) {
            self.waiting.push_back(call);
        }
        Next::Waits
    }

    /// An item is complete, or nobody wants it any more.
    pub(crate) fn let_go(&mut self, call: CallId, bytes: usize) {
        self.bytes -= bytes;
        if self.goes_on == Some(call) {
            self.goes_on = None;
        }
        self.waiting.retain(|waits| *waits != call);
    }

    /// The next call that may go on.
    pub(crate) fn next(&mut self) -> Option<CallId> {
        if self.bytes > self.bytes_max && self.goes_on.is_some() {
            return None;
        }
        let next = self.waiting.pop_front()?;
        if self.bytes > self.bytes_max {
            self.goes_on = Some(next);
        }
        Some(next)
    }
}
