//! Lines of the log that a peer can cause: few of them, and how many were left out.
//!
//! A caller that fails a call as often as it can must not fill a disk. Each kind of line has its
//! own [`LogLimit`]; its first lines of a while are written, and the next one after that says how
//! many were not.

use parking_lot::Mutex;
use std::time::{Duration, Instant};

/// Lets some lines of one kind through.
#[derive(Debug)]
pub struct LogLimit {
    lines_max: u32,
    pause: Duration,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    since: Option<Instant>,
    lines: u32,
    left_out: u64,
}

impl LogLimit {
    /// Ten lines a second. None was written yet.
    #[must_use]
    pub const fn ten_a_second() -> Self {
        Self::new(10, Duration::from_secs(1))
    }

    /// One line a minute, of what goes on until somebody mends it. None was written yet.
    #[must_use]
    pub const fn one_a_minute() -> Self {
        Self::new(1, Duration::from_mins(1))
    }

    const fn new(lines_max: u32, pause: Duration) -> Self {
        let state = State { since: None, lines: 0, left_out: 0 };
        Self { lines_max, pause, state: Mutex::new(state) }
    }

    /// Whether a line may be written now, and how many were left out before it.
    pub fn line(&self, now: Instant) -> Option<u64> {
        let mut state = self.state.lock();
        let is_over =
            state.since.is_none_or(|since| now.saturating_duration_since(since) >= self.pause);
        if is_over {
            (state.since, state.lines) = (Some(now), 0);
        }
        if state.lines == self.lines_max {
            state.left_out += 1;
            return None;
        }
        state.lines += 1;
        Some(std::mem::take(&mut state.left_out))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_of_lines_is_a_few_with_a_count() {
        let (second, minute) = (Duration::from_secs(1), Duration::from_mins(1));
        for (limit, pause, most) in
            [(LogLimit::ten_a_second(), second, 10), (LogLimit::one_a_minute(), minute, 1)]
        {
            let now = Instant::now();
            let lines = (0..1000).filter_map(|_| limit.line(now)).count();
            assert_eq!(lines, most);
            let later = now + pause;
            assert_eq!(limit.line(later), Some(1000 - most as u64));
            assert_eq!(limit.line(later + pause), Some(0));
        }
    }
}
