//! The suite `proxy`: what a front door costs that answers pages from its cache, and one that
//! passes requests on to an origin.
//!
//! The origin, which is a backing service, counts what it is asked. So each measurement is checked
//! by it: a hit asks it nothing, and whatever is passed on asks it each time.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use tidewire_loadgen::{MessageCodec, Protocol};

use super::{Answer, Case, Load, Suite, Work};

pub(super) const PROXY: Suite = Suite {
    name: "proxy",
    about: "a caching reverse proxy: pages from its cache, requests passed on; nginx, Varnish, Caddy, bare hyper",
    reading: "One proxy on one core; the load and the origin (hyper, one thread) share the other. *Cached*: a page with \
              `max-age=3600`, which the proxy has in its cache before it is measured; a measurement in which the \
              origin is asked for it once is a failure. *Passed*: a `GET` of 13 bytes with `no-store`, or a `POST` of 1 KiB that \
              comes back; the origin has to be asked each time. The cache is on for all of them, by one file for \
              both, so that whether a page is to be kept is found out by its answer. Tidewire opens a connection to the \
              origin for each request with a body, unless `reuse_after_body` is set; the others keep theirs. nginx has one worker, its cache on \
              disk (which is the page cache of the kernel here), no access log, and 64 kept connections to the \
              origin; Varnish one thread pool, pages in memory, and its log in shared memory (80 MiB of its RSS), as it has by itself; a \
              request there has a thread to itself, and an answer with `no-store` is one to pass, not a miss. Caddy has one thread for Go code and, as Debian builds it, no cache. *Bare hyper* answers the \
              same bytes from memory or passes all on, and looks at nothing. CPU is that of a proxy and its \
              children, without the origin's. The rate of what is passed on may be the origin's and the load's: \
              compare CPU per request.",
    duration: Duration::from_secs(4),
    quick: Duration::from_secs(1),
    cases: &[
        cached("cached page, 1 KiB, 8 connections", &PAGE, 8, 1),
        cached("cached page, 1 KiB, 64 connections", &PAGE, 64, 1),
        cached("cached page, 1 KiB, 8 connections, 16 pipelined", &PAGE, 8, 16),
        cached("cached page, 100 KiB, 8 connections", &LARGE, 8, 1),
        cached("cached page, 100 KiB, 64 connections", &LARGE, 64, 1),
        cached("cached page, 100 KiB, 8 connections, 16 pipelined", &LARGE, 8, 16),
        passed("passed GET, 8 connections", &SMALL, 8),
        passed("passed GET, 64 connections", &SMALL, 64),
        passed("passed POST, 1 KiB, 8 connections", &POSTED, 8),
        passed("passed POST, 1 KiB, 64 connections", &POSTED, 64),
    ],
};

/// What the origin answers (`bench/peers/proxy/src/pages.rs`).
struct Resource {
    path: &'static str,
    sent: &'static str,
    body: &'static str,
}

const KIBIBYTE: &str = text(&[b'x'; 1024]);
const PAGE: Resource = Resource { path: "/page", sent: "", body: KIBIBYTE };
const LARGE: Resource = Resource { path: "/large", sent: "", body: text(&[b'x'; 100 * 1024]) };
const SMALL: Resource = Resource { path: "/pass", sent: "", body: "Hello, World!" };
const POSTED: Resource = Resource { path: "/echo", sent: KIBIBYTE, body: KIBIBYTE };

const fn text(bytes: &'static [u8]) -> &'static str {
    match str::from_utf8(bytes) {
        Ok(text) => text,
        Err(_) => panic!("not UTF-8"),
    }
}

const fn cached(name: &'static str, what: &Resource, connections: usize, depth: usize) -> Case {
    let load = Load::Steady { connections, depth };
    Case { name, needs: "cached", work: work(what, OriginUse::Never), load }
}

const fn passed(name: &'static str, what: &Resource, connections: usize) -> Case {
    let load = Load::Steady { connections, depth: 1 };
    Case { name, needs: "passed", work: work(what, OriginUse::EachTime), load }
}

const fn work(what: &Resource, origin: OriginUse) -> Work {
    Work::Call {
        path: what.path,
        protocol: Protocol::Plain,
        codec: MessageCodec::Json,
        sent: what.sent,
        answer: Answer::Is(what.body),
        origin,
    }
}

/// How often the origin behind a peer is asked while the peer is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OriginUse {
    /// There is nothing behind it.
    Absent,
    /// The peer has the answer before it is measured.
    Never,
    /// By each request.
    EachTime,
}

/// The backing service that counts.
pub(super) const ORIGIN: &str = "origin";
/// So often a page is asked for until a peer has it: some keep it a moment after they gave it.
const TRIES: u32 = 50;
const TIMEOUT: Duration = Duration::from_secs(5);

/// The origin, and what it was asked before a measurement.
pub(super) struct OriginCount<'a> {
    origin: &'a str,
    usage: OriginUse,
    before: u64,
}

impl<'a> OriginCount<'a> {
    /// Lets `peer` have the page of `path` if the origin is not to be asked for it. Blocks.
    pub(super) fn before(
        origin: &'a str,
        usage: OriginUse,
        peer: &str,
        path: &str,
    ) -> Result<Self, String> {
        let before = match usage {
            OriginUse::Never => fill(origin, peer, path)?,
            _ => request_count(origin)?,
        };
        Ok(Self { origin, usage, before })
    }

    /// Fails unless so many good answers, with those of the warm-up, came from where they had to.
    /// Blocks.
    pub(super) fn after(&self, answers: u64) -> Result<(), String> {
        let asked = request_count(self.origin)?.saturating_sub(self.before);
        match self.usage {
            OriginUse::Never if asked > 0 => Err(format!(
                "asked the origin {asked} times, so its {answers} answers are not all from its cache"
            )),
            OriginUse::EachTime if asked < answers => Err(format!(
                "asked the origin {asked} times only, so its {answers} answers were not all passed on"
            )),
            _ => Ok(()),
        }
    }
}

/// Asks for a page until the peer has it; how many requests the origin had by then.
fn fill(origin: &str, peer: &str, path: &str) -> Result<u64, String> {
    let mut before = request_count(origin)?;
    for _ in 0..TRIES {
        get(peer, path)?;
        let after = request_count(origin)?;
        if after == before {
            return Ok(after);
        }
        before = after;
    }
    Err(format!("does not keep {path}: it asked the origin {TRIES} times for it"))
}

/// How many requests the origin had.
fn request_count(origin: &str) -> Result<u64, String> {
    let body = get(origin, "/asked")?;
    body.trim().parse().map_err(|_| format!("the origin counted {body:?}"))
}

/// The body of a good answer.
fn get(address: &str, path: &str) -> Result<String, String> {
    let answer = exchange(address, path).map_err(|error| format!("{path}: {error}"))?;
    match answer.split_once("\r\n\r\n") {
        Some((head, body)) if head.starts_with("HTTP/1.1 200 ") => Ok(body.to_owned()),
        _ => {
            let first = answer.lines().next().unwrap_or_default();
            Err(format!("{path}: answered {first:?}"))
        }
    }
}

fn exchange(address: &str, path: &str) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    let head = format!("GET {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n");
    stream.write_all(head.as_bytes())?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead as _, BufReader};
    use std::net::TcpListener;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    /// A server whose body for a path is this one's, for as long as the tests run.
    fn server(answers: impl Fn(&str) -> String + Send + 'static) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                let lines = BufReader::new(&stream).lines().map_while(Result::ok);
                let head: Vec<String> = lines.take_while(|line| !line.is_empty()).collect();
                let body = answers(head[0].split(' ').nth(1).unwrap());
                write!(stream, "HTTP/1.1 200 OK\r\n\r\n{body}").unwrap();
            }
        });
        address
    }

    /// An origin, and what counts for it.
    fn origin() -> (String, Arc<AtomicU64>) {
        let count = Arc::new(AtomicU64::new(7));
        let counted = Arc::clone(&count);
        (server(move |_| counted.load(Ordering::Relaxed).to_string()), count)
    }

    /// A proxy that asks the origin so many times before it has the page.
    fn peer(count: &Arc<AtomicU64>, misses: u64) -> String {
        let (count, end) = (Arc::clone(count), count.load(Ordering::Relaxed) + misses);
        server(move |path| {
            assert_eq!(path, "/page");
            if count.load(Ordering::Relaxed) < end {
                count.fetch_add(1, Ordering::Relaxed);
            }
            "page".to_owned()
        })
    }

    #[test]
    fn a_page_is_in_the_cache_before_it_is_measured() {
        let (origin, count) = origin();
        let peer = peer(&count, 2);
        let asked = OriginCount::before(&origin, OriginUse::Never, &peer, "/page").unwrap();
        assert_eq!(asked.before, 9);
        asked.after(1000).unwrap();
    }

    #[test]
    fn a_proxy_that_keeps_nothing_is_not_measured_as_a_cache() {
        let (origin, count) = origin();
        let peer = peer(&count, u64::MAX / 2);
        let asked = OriginCount::before(&origin, OriginUse::Never, &peer, "/page");
        let told = format!("does not keep /page: it asked the origin {TRIES} times for it");
        assert_eq!(asked.err(), Some(told));
    }

    #[test]
    fn one_miss_among_hits_and_one_hit_among_misses_are_failures() {
        let (origin, count) = origin();
        let peer = peer(&count, 0);
        let hits = OriginCount::before(&origin, OriginUse::Never, &peer, "/page").unwrap();
        let passed = OriginCount::before(&origin, OriginUse::EachTime, &peer, "/page").unwrap();
        count.fetch_add(1, Ordering::Relaxed);
        let told = "asked the origin 1 times, so its 1000 answers are not all from its cache";
        assert_eq!(hits.after(1000).unwrap_err(), told);
        count.fetch_add(998, Ordering::Relaxed);
        let told = "asked the origin 999 times only, so its 1000 answers were not all passed on";
        assert_eq!(passed.after(1000).unwrap_err(), told);
        count.fetch_add(1, Ordering::Relaxed);
        passed.after(1000).unwrap();
    }

    #[test]
    fn an_error_of_a_proxy_is_told() {
        let (origin, _) = origin();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let peer = listener.local_addr().unwrap().to_string();
        let answers = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut head = [0; 1024];
            let _ = stream.read(&mut head).unwrap();
            stream.write_all(b"HTTP/1.1 502 Bad Gateway\r\n\r\n").unwrap();
        });
        let asked = OriginCount::before(&origin, OriginUse::Never, &peer, "/page");
        answers.join().unwrap();
        assert_eq!(asked.err(), Some("/page: answered \"HTTP/1.1 502 Bad Gateway\"".to_owned()));
    }
}
