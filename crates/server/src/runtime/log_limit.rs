//! Lines of the log that a peer can cause: few of them, and how many were left out.
//!
//! A caller that fails a call as often as it can must not fill a disk. Each kind of line has its
//! own [`LogLimit`]; its first lines of a second are written, and the next one after that says how
//! many were not.

use parking_lot::Mutex;
use std::time::{Duration, Instant};

/// Lets some lines of one kind through.
#[derive(Debug)]
pub(crate) struct LogLimit(Mutex<State>);

#[derive(Debug)]
struct State {
    second: Option<Instant>,
    lines: u32,
    left_out: u64,
}

impl LogLimit {
    /// None was written yet.
    pub(crate) const fn new() -> Self {
        Self(Mutex::new(State { second: None, lines: 0, left_out: 0 }))
    }

    /// Whether a line may be written now, and how many were left out before it.
    pub(crate) fn line(&self) -> Option<u64> {
        self.line_at(Instant::now())
    }

    fn line_at(&self, now: Instant) -> Option<u64> {
        let mut state = self.0.lock();
        let is_over = state.second.is_none_or(|since| now - since >= Duration::from_secs(1));
        if is_over {
            (state.second, state.lines) = (Some(now), 0);
        }
        if state.lines == LINES_MAX {
            state.left_out += 1;
            return None;
        }
        state.lines += 1;
        Some(std::mem::take(&mut state.left_out))
    }
}

/// How many lines of one kind are written in a second.
const LINES_MAX: u32 = 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_of_lines_is_a_few_with_a_count() {
        let (limit, now) = (LogLimit::new(), Instant::now());
        let lines = (0..1000).filter_map(|_| limit.line_at(now)).count();
        assert_eq!(lines, 10);
        let later = now + Duration::from_secs(1);
        assert_eq!(limit.line_at(later), Some(990));
        assert_eq!(limit.line_at(later), Some(0));
    }
}
