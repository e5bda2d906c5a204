//! Byte credit: how many item bytes may be on their way.
//!
//! The sender keeps what is outstanding and may send while that is below the window; one frame may
//! go over, so that an item larger than the window needs no special rule (specification 4.2).
//! The receiver returns credit in quarters of the window.

use crate::reason::{Reason, Violation};

/// The sender's side of the connection level.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SendWindow {
    pub(crate) window: u64,
    outstanding: u64,
}

impl SendWindow {
    pub(crate) fn new(window: u64, outstanding: u64) -> Self {
        Self { window, outstanding }
    }

    #[inline]
    pub(crate) fn may_send(&self) -> bool {
        self.outstanding < self.window
    }

    #[inline]
    pub(crate) fn sent(&mut self, bytes: u64) {
        self.outstanding += bytes;
    }

    pub(crate) fn credited(&mut self, bytes: u64) -> Result<(), Violation> {
        self.outstanding = self.outstanding.checked_sub(bytes).ok_or_else(too_much)?;
        Ok(())
    }

    /// Bytes sent and not credited.
    pub(crate) fn outstanding(&self) -> u64 {
        self.outstanding
    }
}

#[cold]
pub(crate) fn too_much() -> Violation {
    Violation::new(Reason::Credit, "credit for more bytes than are outstanding")
}

/// The receiver's side of the connection level.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ReceiveWindow {
    window: u64,
    /// Received, not consumed.
    held: u64,
    /// Consumed, not credited.
    owed: u64,
}

impl ReceiveWindow {
    pub(crate) fn new(window: u64) -> Self {
        Self { window, held: 0, owed: 0 }
    }

    /// Bytes received and not consumed.
    pub(crate) fn unconsumed_bytes(&self) -> u64 {
        self.held
    }

    /// Bytes received and not credited.
    pub(crate) fn uncredited(&self) -> u64 {
        self.held + self.owed
    }

    /// Starts over with a new connection: the peer is told what is held.
    pub(crate) fn restart(&mut self) {
        self.owed = 0;
    }

    #[inline]
    pub(crate) fn received(&mut self, bytes: u64) -> Result<(), Violation> {
        if self.held + self.owed >= self.window {
            return Err(Violation::new(
                Reason::Credit,
                format!("items arrived over connection_credit = {}", self.window),
            ));
        }
        self.held += bytes;
        Ok(())
    }

    /// Notes consumption; a quarter of the window is due as credit.
    #[inline]
    pub(crate) fn consumed(&mut self, bytes: u64) -> Option<u64> {
        let bytes = bytes.min(self.held);
        self.held -= bytes;
        self.owed += bytes;
        (self.owed >= self.window.div_ceil(4)).then(|| std::mem::take(&mut self.owed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_frame_may_go_over_and_the_next_may_not() {
        let mut sender = SendWindow::new(100, 0);
        let mut receiver = ReceiveWindow::new(100);
        assert!(sender.may_send());
        sender.sent(1000);
        receiver.received(1000).unwrap();
        assert!(!sender.may_send());
        assert!(receiver.received(1).is_err());
        assert_eq!(receiver.consumed(24), None);
        assert_eq!(receiver.consumed(976), Some(1000));
        sender.credited(1000).unwrap();
        assert_eq!(sender.outstanding(), 0);
        assert!(sender.credited(1).is_err());
    }
}
