//! Asking over HTTP/1.1, and how long it took.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use crate::Result;

/// A connection that is kept.
pub struct Connection {
    stream: Box<dyn Stream>,
    buffer: Vec<u8>,
}

/// A socket of either kind.
pub trait Stream: Read + Write + Send {}
impl<T: Read + Write + Send> Stream for T {}

/// Opens `HOST:PORT` or `unix:PATH`.
pub fn open(address: &str) -> Result<Box<dyn Stream>> {
    let patience = Some(Duration::from_secs(20));
    if let Some(path) = address.strip_prefix("unix:") {
        let stream = UnixStream::connect(path)?;
        stream.set_read_timeout(patience)?;
        return Ok(Box::new(stream));
    }
    let stream = TcpStream::connect(address)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(patience)?;
    Ok(Box::new(stream))
}

impl Connection {
    pub fn open(address: &str) -> Result<Self> {
        Ok(Self { stream: open(address)?, buffer: vec![0; 16_384] })
    }

    /// Sends a request and reads its whole answer: the body of a good one.
    pub fn ask(&mut self, request: &[u8]) -> Result<String> {
        self.stream.write_all(request)?;
        let mut filled = 0;
        loop {
            if filled == self.buffer.len() {
                self.buffer.resize(2 * filled, 0);
            }
            let read = self.stream.read(&mut self.buffer[filled..])?;
            filled += read;
            if let Some(body) = body_of(&self.buffer[..filled])? {
                return match body.contains("Hello, Ada") {
                    true => Ok(body),
                    false => Err(format!("answered {body:?}").into()),
                };
            }
            if read == 0 {
                return Err("the connection was closed".into());
            }
        }
    }
}

/// The body of an answer that is all there.
pub fn body_of(answer: &[u8]) -> Result<Option<String>> {
    let Some(end) = answer.windows(4).position(|four| four == b"\r\n\r\n") else { return Ok(None) };
    let head = std::str::from_utf8(&answer[..end])?.to_ascii_lowercase();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length:"));
    let length: usize = length.ok_or_else(|| format!("no length: {head}"))?.trim().parse()?;
    if answer.len() < end + 4 + length {
        return Ok(None);
    }
    let body = String::from_utf8_lossy(&answer[end + 4..end + 4 + length]).into_owned();
    match head.starts_with("http/1.1 200") {
        true => Ok(Some(body)),
        false => Err(format!("{}: {body}", head.lines().next().unwrap_or_default()).into()),
    }
}

/// How long each request took.
#[derive(Default)]
pub struct Latencies(Vec<Duration>);

impl Latencies {
    /// Does something, timed from before it begins.
    pub fn time<T>(&mut self, what: impl FnOnce() -> Result<T>) -> Result<T> {
        let began = Instant::now();
        let done = what()?;
        self.0.push(began.elapsed());
        Ok(done)
    }

    pub fn add(&mut self, mut other: Self) {
        self.0.append(&mut other.0);
    }

    pub fn count(&self) -> usize {
        self.0.len()
    }

    pub fn first(&self) -> Duration {
        self.0.first().copied().unwrap_or_default()
    }

    pub fn last(&self) -> Duration {
        self.0.last().copied().unwrap_or_default()
    }

    pub fn total(&self) -> Duration {
        self.0.iter().sum()
    }

    pub fn forget_first(&mut self) {
        self.0.remove(0);
    }

    /// What the suite reads.
    pub fn counted(
        mut self,
        seconds: f64,
        first: Duration,
        cpu_seconds: f64,
        (rss_bytes, pss_bytes): (u64, u64),
    ) -> serde_json::Value {
        self.0.sort();
        let at =
            |part: f64| self.0[((self.0.len() - 1) as f64 * part).round() as usize].as_secs_f64();
        let mean = self.total().as_secs_f64() / self.0.len() as f64;
        serde_json::json!({
            "calls": self.0.len(), "seconds": seconds, "cpu_seconds": cpu_seconds,
            "rss_bytes": rss_bytes, "pss_bytes": pss_bytes, "first": first.as_secs_f64(),
            "latency": {
                "min": at(0.0), "mean": mean, "p50": at(0.5), "p90": at(0.9), "p95": at(0.95),
                "p99": at(0.99), "max": at(1.0),
            },
        })
    }
}
