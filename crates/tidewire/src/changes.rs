//! Changes of files, noticed by looking.
//!
//! That works on every file system, those of containers and networks among them, and when a folder
//! goes away and comes back. A change counts once two looks in a row see the same, so that a file
//! which is still being written is left alone. At most a twentieth of a processor is spent on
//! looking.

use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, Instant, SystemTime};

/// A look may take a twentieth of the time.
const SHARE: u32 = 20;

/// A file as it is, as far as looking at it tells; of another file at its place, or one written
/// anew, it is another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stamp {
    bytes: u64,
    modified: Option<SystemTime>,
    number: u64,
}

/// What looks see.
#[derive(Debug)]
pub(crate) struct Changes<S> {
    /// What is in effect.
    served: S,
    /// What the last look saw.
    seen: S,
    pause: Duration,
}

impl Stamp {
    /// A file; `None` where there is none.
    pub(crate) fn of(path: &Path) -> Option<Self> {
        let file = std::fs::metadata(path).ok()?;
        Some(Self { bytes: file.len(), modified: file.modified().ok(), number: file.ino() })
    }
}

impl<S: PartialEq + Clone + Send + 'static> Changes<S> {
    /// Looks that are `pause` apart; `served` is in effect.
    pub(crate) fn new(served: S, pause: Duration) -> Self {
        Self { seen: served.clone(), served, pause }
    }

    /// Waits until looks see something else than what is in effect, and returns that.
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub(crate) async fn next(&mut self, look: impl Fn() -> S + Clone + Send + 'static) -> S {
        let mut pause = self.pause;
        loop {
            tokio::time::sleep(pause).await;
            let begun = Instant::now();
            let look = look.clone();
            let Ok(now) = tokio::task::spawn_blocking(look).await else { continue };
            pause = self.pause.max(begun.elapsed() * SHARE);
            let is_settled = now == self.seen;
            self.seen = now;
            if is_settled && self.seen != self.served {
                return self.seen.clone();
            }
        }
    }

    /// What is in effect.
    pub(crate) fn served(&self) -> &S {
        &self.served
    }

    /// This is in effect now.
    pub(crate) fn serve(&mut self, served: S) {
        self.served = served;
    }
}
