//! What the two hosts know together: which version of each user was acknowledged, and when.
//!
//! A file that both have in memory, so that what one host does is seen by the other at once. All of
//! it are numbers: how many versions a user may have; of each user the last that was asked for and
//! the last that was acknowledged; of each version of each user, when that was.

use std::fs::File;
use std::path::Path;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Context as _, Result};
use contacts::store::USERS;
use rustix::mm::{MapFlags, ProtFlags};
use rustix::time::ClockId;

/// How many users there are. They are counted from 0 here.
pub(super) const COUNT: usize = USERS as usize;

/// See the module.
pub(super) struct Board {
    words: NonNull<AtomicU64>,
    length: usize,
    /// Versions that each user may have.
    pub(super) versions: usize,
}

// SAFETY: The words are atomic and mapped for as long as the board is there.
unsafe impl Send for Board {}
// SAFETY: As above.
unsafe impl Sync for Board {}

/// Nanoseconds of a clock that all processes of the machine share.
pub(super) fn clock() -> u64 {
    let now = rustix::time::clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

impl Board {
    /// A new one with room for this many writes, to whichever users they go.
    pub(super) fn make(path: &Path, writes: f64) -> Result<Self> {
        // Users are picked at random, so some have many more than the mean.
        let versions = (writes / COUNT as f64 * 4.0) as usize + 64;
        let words = 1 + 2 * COUNT + COUNT * versions;
        let file = File::options().read(true).write(true).create_new(true).open(path)?;
        file.set_len((words * size_of::<u64>()) as u64)?;
        let mut board = Self::map(&file, words)?;
        board.word(0).store(versions as u64, Ordering::Release);
        board.versions = versions;
        Ok(board)
    }

    /// The one that another process made.
    pub(super) fn open(path: &Path) -> Result<Self> {
        let file = File::options().read(true).write(true).open(path)?;
        let words = usize::try_from(file.metadata()?.len())? / size_of::<u64>();
        let mut board = Self::map(&file, words)?;
        board.versions = usize::try_from(board.word(0).load(Ordering::Acquire))?;
        Ok(board)
    }

    fn map(file: &File, length: usize) -> Result<Self> {
        let bytes = length * size_of::<u64>();
        // SAFETY: The address is chosen by the system, so nothing else is there.
        let words = unsafe {
            rustix::mm::mmap(
                std::ptr::null_mut(),
                bytes,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::SHARED,
                file,
                0,
            )
        };
        let words = NonNull::new(words?.cast()).context("the board is at no address")?;
        Ok(Self { words, length, versions: 0 })
    }

    fn word(&self, at: usize) -> &AtomicU64 {
        assert!(at < self.length, "outside of the board");
        // SAFETY: It is within what is mapped, which begins at a page.
        unsafe { self.words.add(at).as_ref() }
    }

    /// The number of the next version of a user, which is asked for from now on; `None` where there
    /// is no room. Of each user by one task.
    pub(super) fn ask(&self, user: usize) -> Option<u64> {
        let next = self.last_version(user) + 1;
        if next as usize >= self.versions {
            return None;
        }
        self.word(1 + user).store(next, Ordering::Release);
        Some(next)
    }

    /// The last version of a user that may be in the database.
    pub(super) fn last_version(&self, user: usize) -> u64 {
        self.word(1 + user).load(Ordering::Acquire)
    }

    /// A version is in the database, as of now.
    pub(super) fn acknowledge(&self, user: usize, version: u64) {
        let at = self.time(user, version);
        self.word(at).store(clock(), Ordering::Release);
        self.word(1 + COUNT + user).store(version, Ordering::Release);
    }

    /// The last version of a user that was acknowledged; 0 is the one that all began with.
    pub(super) fn acknowledged(&self, user: usize) -> u64 {
        self.word(1 + COUNT + user).load(Ordering::Acquire)
    }

    /// When a version was acknowledged, if it was.
    pub(super) fn acknowledged_at(&self, user: usize, version: u64) -> Option<u64> {
        let at = self.word(self.time(user, version)).load(Ordering::Acquire);
        (at > 0).then_some(at)
    }

    fn time(&self, user: usize, version: u64) -> usize {
        1 + 2 * COUNT + user * self.versions + version as usize
    }
}

impl Drop for Board {
    fn drop(&mut self) {
        // SAFETY: It was mapped with this length, and nobody holds a word of it.
        let _ = unsafe {
            rustix::mm::munmap(self.words.as_ptr().cast(), self.length * size_of::<u64>())
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_one_host_acknowledges_the_other_sees() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("board");
        let here = Board::make(&path, 1000.0).unwrap();
        let there = Board::open(&path).unwrap();
        assert_eq!(there.ask(999), Some(1));
        assert_eq!((here.last_version(999), here.acknowledged(999)), (1, 0));
        assert_eq!(here.acknowledged_at(999, 1), None);
        let before = clock();
        there.acknowledge(999, 1);
        assert_eq!((here.acknowledged(999), here.acknowledged(998)), (1, 0));
        assert!((before..=clock()).contains(&here.acknowledged_at(999, 1).unwrap()));
    }

    #[test]
    fn there_is_no_version_without_room_for_its_time() {
        let folder = tempfile::tempdir().unwrap();
        let board = Board::make(&folder.path().join("board"), 0.0).unwrap();
        let last = std::iter::from_fn(|| board.ask(999)).last().unwrap();
        board.acknowledge(999, last);
        assert_eq!(board.acknowledged(999), last);
    }
}
