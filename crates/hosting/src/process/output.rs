//! What a hosted process prints: always read, its last lines kept, and logged.
//!
//! A process whose output nobody reads hangs once its pipe is full, so reading never waits: lines
//! go into a ring of 256 KiB, whose oldest lines give way, and into the log, at most 200 a second
//! of each pipe of one instance, so that no flood on one keeps the other out. What is left out of
//! the log is counted in the next line that is logged, or after the last.
//!
//! Who prints waits while its pipe is full. Node has it otherwise, and `process.exit` loses what
//! had no room yet; but that is a flag of the open pipe, and not of its descriptor. So the gateway
//! keeps a copy of the writing end while the process runs, and clears the flag whenever it reads.

use parking_lot::Mutex;
use std::borrow::Cow;
use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::os::fd::OwnedFd;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::pipe::{PipeFlags, fcntl_setpipe_size, pipe_with};
use tidewire_service::{OneLine, is_steering};
use tokio::net::unix::pipe::Receiver;
use tokio::sync::Notify;
use tokio::time::Instant;

/// Where a line was printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Pipe {
    /// Standard output.
    Output,
    /// Standard error.
    Error,
}

/// A line that a process printed; bytes that are not UTF-8 are replaced, control characters but for
/// tabs, and what is not seen, are written as `\r` or `\u{1b}`, since whoever looks at it has a
/// terminal, and a log has lines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// Where.
    pub pipe: Pipe,
    /// The text, without its end.
    pub text: String,
    /// The process whose pipe it is, which may have let others print there.
    pub pid: i32,
    /// When it was read, in milliseconds since 1970.
    pub at_ms: u64,
}

/// The last lines that the instances of a service printed.
#[derive(Debug, Clone, Default)]
pub(crate) struct OutputTail(Arc<Mutex<Lines>>);

#[derive(Debug, Default)]
struct Lines {
    lines: VecDeque<Line>,
    bytes: usize,
    dropped: u64,
}

/// The reading ends of the two pipes of a process.
#[derive(Debug)]
pub(crate) struct Pipes {
    output: Reader,
    errors: Reader,
}

/// A reading end, and the other end as the process has it, until that is gone.
#[derive(Debug)]
struct Reader {
    from: Receiver,
    to: Option<OwnedFd>,
}

impl OutputTail {
    /// The lines that are left, the oldest first.
    pub(crate) fn lines(&self) -> Vec<Line> {
        self.0.lock().lines.iter().cloned().collect()
    }

    /// Up to `limit` lines after so many, and the number of the first, from 0.
    pub(crate) fn after(&self, number: u64, limit: usize) -> (u64, Vec<Line>) {
        let ring = self.0.lock();
        let skipped = usize::try_from(number.saturating_sub(ring.dropped)).unwrap_or(usize::MAX);
        let lines = ring.lines.iter().skip(skipped).take(limit).cloned().collect();
        (number.max(ring.dropped), lines)
    }

    /// The line that says what went wrong with a process that has ended, as ` (SyntaxError: …)`.
    ///
    /// It is the last one of its standard error that speaks of an error, else the last one; empty
    /// where it printed none.
    pub(crate) fn last_words(&self, pid: i32) -> String {
        let ring = self.0.lock();
        let is_said = |line: &&Line| {
            line.pid == pid && line.pipe == Pipe::Error && !line.text.trim().is_empty()
        };
        // Node, for one, ends with its version.
        let is_error = |line: &&Line| {
            ["Error", "error", "panic"].into_iter().any(|word| line.text.contains(word))
        };
        let mut last = ring.lines.iter().rev().filter(is_said).take(LINES_OF_ERROR).peekable();
        let Some(&end) = last.peek() else { return String::new() };
        let text = last.find(is_error).unwrap_or(end).text.trim();
        match text.char_indices().nth(LAST_WORDS_MAX) {
            Some((at, _)) => format!(" ({}…)", &text[..at]),
            None => format!(" ({text})"),
        }
    }

    /// How many lines gave way.
    pub(crate) fn dropped(&self) -> u64 {
        self.0.lock().dropped
    }

    fn push(&self, line: Line) {
        let mut ring = self.0.lock();
        ring.bytes += line.cost();
        ring.lines.push_back(line);
        while ring.bytes > RING_BYTES_MAX {
            let Some(oldest) = ring.lines.pop_front() else { return };
            ring.bytes -= oldest.cost();
            ring.dropped += 1;
        }
    }
}

impl Line {
    /// What it takes of the ring: an empty line takes memory too.
    fn cost(&self) -> usize {
        self.text.len() + size_of::<Self>()
    }
}

impl Pipes {
    /// Two pipes, and their writing ends, for a process.
    ///
    /// # Errors
    /// When there are no more descriptors.
    pub(crate) fn new() -> io::Result<(Self, [OwnedFd; 2])> {
        let (output, to_output) = pipe()?;
        let (errors, to_errors) = pipe()?;
        Ok((Self { output, errors }, [to_output, to_errors]))
    }

    /// Reads until the process has `ended` and both pipes are closed by all who have them; once it
    /// is told that the `last` was written, what is there.
    pub(crate) async fn drain(
        mut self,
        service: &str,
        pid: i32,
        ring: &OutputTail,
        ended: impl Future,
        last: &Notify,
    ) {
        let mut ended = pin!(ended);
        let mut log = Log { service, pid, output: Rate::default(), errors: Rate::default() };
        let mut take = |pipe, text: &[u8]| {
            let text = text.strip_suffix(b"\r").unwrap_or(text);
            let text = printable(&String::from_utf8_lossy(text)).into_owned();
            let line = Line { pipe, text, pid, at_ms: now_ms() };
            log.line(&line);
            ring.push(line);
        };
        let mut output = LineSplitter::new(Pipe::Output);
        let mut errors = LineSplitter::new(Pipe::Error);
        let mut is_output_open = true;
        let mut is_error_open = true;
        while is_output_open || is_error_open {
            tokio::select! {
                _ = self.output.from.readable(), if is_output_open => {
                    let read = |buffer: &mut [u8]| self.output.try_read(buffer);
                    is_output_open = output.read(read, &mut take) != ReadResult::End;
                }
                _ = self.errors.from.readable(), if is_error_open => {
                    let read = |buffer: &mut [u8]| self.errors.try_read(buffer);
                    is_error_open = errors.read(read, &mut take) != ReadResult::End;
                }
                _ = &mut ended, if self.output.to.is_some() => {
                    (self.output.to, self.errors.to) = (None, None);
                }
                () = last.notified() => {
                    output.read_rest(&self.output.from, &mut take);
                    errors.read_rest(&self.errors.from, &mut take);
                    return;
                }
            }
        }
    }
}

impl Reader {
    /// Reads, and has who prints wait from now on.
    fn try_read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        if let Some(to) = &self.to {
            let flags = fcntl_getfl(to)?;
            if flags.contains(OFlags::NONBLOCK) {
                fcntl_setfl(to, flags - OFlags::NONBLOCK)?;
            }
        }
        self.from.try_read(buffer)
    }
}

fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// How many characters of the line that says what went wrong are repeated.
const LAST_WORDS_MAX: usize = 300;
/// How far before the last line it may be.
const LINES_OF_ERROR: usize = 40;

/// A text of a program without what a terminal would do, or a log take for an end of a line, and
/// without what is not seen; tabs stay.
pub(crate) fn printable(text: &str) -> Cow<'_, str> {
    if !text.contains(|character| character != '\t' && is_steering(character)) {
        return Cow::Borrowed(text);
    }
    let parts = text.split('\t').map(|part| OneLine(part).to_string());
    Cow::Owned(parts.collect::<Vec<_>>().join("\t"))
}

fn pipe() -> io::Result<(Reader, OwnedFd)> {
    let (read, write) = pipe_with(PipeFlags::CLOEXEC)?;
    // A limit of the system may forbid it; then it stays as it is.
    let _ = fcntl_setpipe_size(&write, PIPE_BYTES);
    let from = Receiver::from_owned_fd(read)?;
    let to = Some(write.try_clone()?);
    Ok((Reader { from, to }, write))
}

/// What a read found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ReadResult {
    Some,
    Nothing,
    /// Nobody writes any more.
    End,
}

/// Cuts what is read into lines.
struct LineSplitter {
    pipe: Pipe,
    rest: Vec<u8>,
}

impl LineSplitter {
    fn new(pipe: Pipe) -> Self {
        Self { pipe, rest: Vec::new() }
    }

    /// Reads what is in the pipe, and no more than fits into it twice: somebody may go on writing.
    fn read_rest(&mut self, from: &Receiver, take: &mut impl FnMut(Pipe, &[u8])) {
        for _ in 0..2 * PIPE_BYTES / READ_BYTES {
            // Whatever the runtime has heard of it by now.
            let read = |buffer: &mut [u8]| Ok(rustix::io::read(from, buffer)?);
            if self.read(read, take) != ReadResult::Some {
                break;
            }
        }
        if !self.rest.is_empty() {
            take(self.pipe, &self.rest);
            self.rest.clear();
        }
    }

    /// Reads once.
    fn read(
        &mut self,
        read: impl FnOnce(&mut [u8]) -> io::Result<usize>,
        take: &mut impl FnMut(Pipe, &[u8]),
    ) -> ReadResult {
        let mut buffer = [0; READ_BYTES];
        let count = match read(&mut buffer) {
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return ReadResult::Nothing,
            Err(_) => 0,
        };
        self.rest.extend_from_slice(&buffer[..count]);
        let mut start = 0;
        while let Some(length) = self.rest[start..].iter().position(|byte| *byte == b'\n') {
            take(self.pipe, &self.rest[start..start + length]);
            start += length + 1;
        }
        self.rest.drain(..start);
        if !self.rest.is_empty() && (count == 0 || self.rest.len() >= LINE_BYTES_MAX) {
            take(self.pipe, &self.rest);
            self.rest.clear();
        }
        if count > 0 { ReadResult::Some } else { ReadResult::End }
    }
}

/// Logs lines of one process, not too many of either pipe.
struct Log<'a> {
    service: &'a str,
    pid: i32,
    output: Rate,
    errors: Rate,
}

impl Log<'_> {
    fn line(&mut self, line: &Line) {
        let service = self.service;
        let pid = self.pid;
        let pipe = line.pipe;
        let rate = match pipe {
            Pipe::Output => &mut self.output,
            Pipe::Error => &mut self.errors,
        };
        match rate.takes(Instant::now()) {
            None => {}
            Some(0) => tracing::info!(service, pid, %pipe, "{}", line.text),
            Some(left_out) => tracing::info!(service, pid, %pipe, left_out, "{}", line.text),
        }
    }
}

impl Drop for Log<'_> {
    /// There are no more.
    fn drop(&mut self) {
        for (pipe, rate) in [(Pipe::Output, &self.output), (Pipe::Error, &self.errors)] {
            rate.tell(self.service, self.pid, &pipe);
        }
    }
}

/// How much of what a process says is logged: 200 lines a second.
#[derive(Debug)]
pub(crate) struct Rate {
    until: Instant,
    left: u32,
    left_out: u64,
}

impl Default for Rate {
    fn default() -> Self {
        Self { until: Instant::now(), left: 0, left_out: 0 }
    }
}

impl Rate {
    /// Whether another line is logged: if so, how many were left out before it.
    pub(crate) fn takes(&mut self, now: Instant) -> Option<u64> {
        if now >= self.until {
            (self.until, self.left) = (now + Duration::from_secs(1), LOGGED_A_SECOND);
        }
        if self.left == 0 {
            self.left_out += 1;
            return None;
        }
        self.left -= 1;
        Some(std::mem::take(&mut self.left_out))
    }

    /// Logs how many were left out since the last line: there is no next one to count them in.
    pub(crate) fn tell(&self, service: &str, pid: i32, pipe: &dyn fmt::Display) {
        let left_out = self.left_out;
        if left_out > 0 {
            tracing::info!(service, pid, %pipe, left_out, "its last lines are not in this log");
        }
    }
}

impl fmt::Display for Pipe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Output => "stdout",
            Self::Error => "stderr",
        })
    }
}

const RING_BYTES_MAX: usize = 256 << 10;
const LINE_BYTES_MAX: usize = 8 << 10;
const READ_BYTES: usize = 16 << 10;
const PIPE_BYTES: usize = 1 << 20;
const LOGGED_A_SECOND: u32 = 200;

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::fmt::Write as _;
    use std::future::{pending, ready};
    use std::sync::Once;

    use tracing::field::{Field, Visit};
    use tracing::{Event, Metadata, Subscriber, span};

    use super::*;

    thread_local! {
        static LOGGED: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
    }

    /// Keeps what each thread logs: a test has its own.
    struct Kept;

    impl Subscriber for Kept {
        fn enabled(&self, _: &Metadata<'_>) -> bool {
            true
        }

        fn event(&self, event: &Event<'_>) {
            let mut text = Text::default();
            event.record(&mut text);
            LOGGED.with_borrow_mut(|logged| logged.push(text.0));
        }

        fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
            span::Id::from_u64(1)
        }

        fn record(&self, _: &span::Id, _: &span::Record<'_>) {}
        fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}
        fn enter(&self, _: &span::Id) {}
        fn exit(&self, _: &span::Id) {}
    }

    #[derive(Default)]
    struct Text(String);

    impl Visit for Text {
        fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
            if ["message", "pipe", "left_out"].contains(&field.name()) {
                write!(self.0, "{field}={value:?} ").unwrap();
            }
        }
    }

    #[tokio::test]
    async fn a_flood_hides_no_last_words_and_what_it_left_out_is_counted_at_the_end() {
        static ONCE: Once = Once::new();
        ONCE.call_once(|| tracing::subscriber::set_global_default(Kept).unwrap());
        let (pipes, [output, errors]) = Pipes::new().unwrap();
        for _ in 0..1000 {
            rustix::io::write(&output, b"flood\n").unwrap();
        }
        rustix::io::write(&errors, b"it died\n").unwrap();
        drop((output, errors));
        // All within one second, by the clock of these tests.
        tokio::time::pause();
        pipes.drain("test", 1, &OutputTail::default(), ready(()), &Notify::new()).await;
        let logged = LOGGED.with_borrow(Clone::clone);
        let count = |text: &str| logged.iter().filter(|line| line.contains(text)).count();
        assert_eq!((count("flood"), count("it died")), (200, 1));
        let last = logged.last().unwrap();
        assert!(last.contains("pipe=stdout") && last.contains("left_out=800"), "{last}");
    }

    #[test]
    fn the_oldest_lines_give_way_and_are_counted() {
        let ring = OutputTail::default();
        let text = "x".repeat(1000);
        for _ in 0..1000 {
            let (pid, at_ms) = Default::default();
            ring.push(Line { pipe: Pipe::Output, text: text.clone(), pid, at_ms });
        }
        let kept = ring.lines().len();
        assert!(kept > 200 && kept * 1000 < RING_BYTES_MAX, "{kept}");
        let dropped = 1000 - u64::try_from(kept).unwrap();
        assert_eq!(ring.dropped(), dropped);
        assert_eq!(ring.after(0, 3), (dropped, ring.lines()[..3].to_vec()));
        assert_eq!(ring.after(998, 9), (998, ring.lines()[kept - 2..].to_vec()));
        assert_eq!(ring.after(1000, 9), (1000, Vec::new()));
    }

    #[tokio::test]
    async fn what_is_read_is_cut_into_lines_and_the_last_needs_no_end() {
        let (pipes, [output, errors]) = Pipes::new().unwrap();
        let ring = OutputTail::default();
        rustix::io::write(&output, b"one\r\ntwo\n\xffthree").unwrap();
        rustix::io::write(&errors, b"\x1b[31mbad\0\tb\rforged\xe2\x80\xae\n").unwrap();
        drop((output, errors));
        pipes.drain("test", 1, &ring, ready(()), &Notify::new()).await;
        let mut lines: Vec<_> = ring.lines().into_iter().map(|line| line.text).collect();
        lines.sort();
        assert_eq!(
            lines,
            ["\\u{1b}[31mbad\\u{0}\tb\\rforged\\u{202e}", "one", "two", "\u{fffd}three"]
        );
    }

    #[tokio::test]
    async fn all_that_was_written_is_read_although_somebody_else_has_the_pipe() {
        let (pipes, [output, _errors]) = Pipes::new().unwrap();
        let (ring, last) = (OutputTail::default(), Notify::new());
        let line = [b'x'; 99].iter().chain(b"\n").copied().collect::<Vec<_>>();
        (0..600).for_each(|_| assert_eq!(rustix::io::write(&output, &line).unwrap(), 100));
        rustix::io::write(&output, b"no end").unwrap();
        // Nothing was read yet.
        last.notify_one();
        pipes.drain("test", 1, &ring, pending::<()>(), &last).await;
        assert_eq!(ring.lines().len() as u64 + ring.dropped(), 601);
        assert_eq!(ring.lines().last().unwrap().text, "no end");
    }

    #[test]
    fn so_many_lines_are_logged_a_second_and_those_between_are_counted() {
        let (mut rate, now) = (Rate::default(), Instant::now());
        let logged = (0..1000).filter_map(|_| rate.takes(now)).collect::<Vec<_>>();
        assert_eq!(logged, [0; 200]);
        let later = now + Duration::from_secs(1);
        assert_eq!((rate.takes(later), rate.takes(later)), (Some(800), Some(0)));
    }
}
