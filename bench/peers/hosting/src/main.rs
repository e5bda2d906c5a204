//! What a front of hosted workers costs, cold and warm: one front, one case, as many seconds as it
//! is told.
//!
//! `hosting FRONT CASE SECONDS` starts the front and its worker, asks over HTTP/1.1 and prints what
//! it counted as one line of JSON. Warm: eight connections, each with one request under way; alone:
//! one of them, over a Unix socket. Cold: one at a time, each timed from before it is sent to its
//! full answer, once no worker is left; large: once the front has a gibibyte resident.
//!
//! | front | is |
//! |---|---|
//! | `tidewire` | the gateway, with one service in `tidewire.toml` |
//! | `nginx`, `proxy` | a proxy before the same worker: nginx, and hyper as barely as it goes (`bench/peers/proxy`) |
//! | `frames` | hyper, and the least that speaks frames to the same worker (`frames.rs`) |
//! | `uwsgi` | the same page, served by uWSGI |
//! | `bare` | no front: the worker started with the request waiting in its socket, which is the floor; alone: asked by its socket |

mod ask;
mod frames;
mod front;
mod usage;
mod worker;

use std::time::{Duration, Instant};

use ask::{Connection, Latencies};
use frames::Direct;
use front::Front;
use worker::Worker;

type Result<T, E = Box<dyn std::error::Error + Send + Sync>> = std::result::Result<T, E>;

/// What is measured: `http-warm-python`.
struct Case {
    kind: String,
    state: String,
    worker: Worker,
}

impl Case {
    fn parse(word: &str) -> Result<Self> {
        let parts: Vec<&str> = word.split('-').collect();
        let &[kind, state, language] = parts.as_slice() else {
            return Err(format!("no case {word}").into());
        };
        let worker = Worker::new(language, kind)?;
        Ok(Self { kind: kind.to_owned(), state: state.to_owned(), worker })
    }

    /// The request, as its bytes.
    fn request(&self) -> Vec<u8> {
        match (self.kind.as_str(), self.state.as_str()) {
            ("http", _) => b"GET /worker HTTP/1.1\r\nhost: localhost\r\n\r\n".to_vec(),
            (_, "cached") => call("Kept", "Ada"),
            _ => call("Greet", "Ada"),
        }
    }
}

/// A call of the worker, as its bytes.
fn call(method: &str, name: &str) -> Vec<u8> {
    let body = format!(r#"{{"name":"{name}"}}"#);
    format!(
        "POST /hosting.v1.Greeter/{method} HTTP/1.1\r\nhost: localhost\r\n\
         content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
    .into_bytes()
}

fn main() -> std::process::ExitCode {
    match run() {
        Ok(()) => std::process::ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            std::process::ExitCode::FAILURE
        }
    }
}

fn run() -> Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["serve", "proxy", socket] => proxy::pass::serve(&std::env::var("LISTEN")?, socket),
        ["serve", "frames", language] => frames::serve(&Worker::new(language, "pipe")?),
        [front, case, seconds] => {
            let (case, time) = (Case::parse(case)?, Duration::from_secs_f64(seconds.parse()?));
            let counted = match (*front, case.state.as_str()) {
                ("bare", "alone") => direct(&case, time)?,
                ("bare", _) => bare(&case, time)?,
                (_, "warm" | "cached" | "alone") => {
                    warm(&Front::start(front, &case)?, &case, time)?
                }
                _ => cold(&Front::start(front, &case)?, &case, time)?,
            };
            println!("{counted}");
            Ok(())
        }
        _ => Err("hosting FRONT CASE SECONDS".into()),
    }
}

/// So many connections all the time.
fn warm(front: &Front, case: &Case, time: Duration) -> Result<serde_json::Value> {
    let request = case.request();
    let mut one = Connection::open(&front.address)?;
    let began = Instant::now();
    one.ask(&request)?;
    let first = began.elapsed();
    for _ in 0..200 {
        one.ask(&request)?;
    }
    let before = front.cpu();
    let began = Instant::now();
    let connections = if case.state == "alone" { 1 } else { 8 };
    let threads: Vec<_> = (0..connections)
        .map(|_| {
            let (address, request) = (front.address.clone(), request.clone());
            std::thread::spawn(move || -> Result<Latencies> {
                let mut connection = Connection::open(&address)?;
                let mut latencies = Latencies::default();
                while began.elapsed() < time {
                    latencies.time(|| connection.ask(&request))?;
                }
                Ok(latencies)
            })
        })
        .collect();
    let mut all = Latencies::default();
    for thread in threads {
        all.add(thread.join().map_err(|_| "a connection panicked")??);
    }
    let seconds = began.elapsed().as_secs_f64();
    Ok(all.counted(seconds, first, front.cpu() - before, front.memory()))
}

/// One request at a time, each with nobody there to answer it.
fn cold(front: &Front, case: &Case, time: Duration) -> Result<serde_json::Value> {
    let request = case.request();
    let mut connection = Connection::open(&front.address)?;
    match case.state.as_str() {
        "spare" => usage::until(|| front.has_spare(), "a process stands by")?,
        "large" => fill(front, &mut connection)?,
        _ => {}
    }
    let mut all = Latencies::default();
    let (before, began) = (front.cpu(), Instant::now());
    let mut first = None;
    while began.elapsed() < time || all.count() < 5 {
        let text = all.time(|| connection.ask(&request))?;
        first.get_or_insert(all.last());
        let pid = worker::pid_of(&text)?;
        match case.state.as_str() {
            "frozen" => usage::until(|| usage::is_stopped(pid), "the worker is frozen")?,
            "spare" => usage::until(
                || !usage::is_alive(pid) && front.has_spare(),
                "the worker is stopped, and another stands by",
            )?,
            _ => usage::until(|| !usage::is_alive(pid), "the worker is stopped")?,
        }
    }
    if case.state == "frozen" {
        // The first one was a start.
        all.forget_first();
    }
    let (first, total) = (first.unwrap_or_default(), all.total());
    Ok(all.counted(total.as_secs_f64(), first, front.cpu() - before, front.memory()))
}

/// Lets the front keep large answers until it has a gibibyte resident.
fn fill(front: &Front, connection: &mut Connection) -> Result<()> {
    let (padding, mut pid) = ("x".repeat(LARGE_BYTES), None);
    for number in 0..LARGE_MAX {
        // What they have is read page by page.
        if number % 100 == 0 && front.memory().0 >= 1 << 30 {
            let Some(pid) = pid else { break };
            return usage::until(|| !usage::is_alive(pid), "the worker is stopped");
        }
        let request = call("Kept", &format!("Ada {number} {padding}"));
        pid = Some(worker::pid_of(&connection.ask(&request)?)?);
    }
    Err(format!("it keeps {} bytes, not a gibibyte", front.memory().0).into())
}

/// How large the name is that a front keeps with its answer.
const LARGE_BYTES: usize = 500_000;
/// So many would be two gibibytes without their answers.
const LARGE_MAX: usize = (2 << 30) / LARGE_BYTES;

/// The worker alone, asked by its socket.
fn direct(case: &Case, time: Duration) -> Result<serde_json::Value> {
    let began = Instant::now();
    let mut worker = Direct::open(&case.worker)?;
    let first = began.elapsed();
    for _ in 0..200 {
        worker.ask()?;
    }
    let pid = worker.worker.id();
    let (mut all, before, began) = (Latencies::default(), usage::cpu(&[pid]), Instant::now());
    while began.elapsed() < time {
        all.time(|| worker.ask())?;
    }
    let (seconds, cpu) = (began.elapsed().as_secs_f64(), usage::cpu(&[pid]) - before);
    let counted = all.counted(seconds, first, cpu, usage::memory(&[pid], &[pid]));
    worker::end(worker.worker);
    Ok(counted)
}

/// The worker alone.
fn bare(case: &Case, time: Duration) -> Result<serde_json::Value> {
    let (mut all, began) = (Latencies::default(), Instant::now());
    let (mut memory, mut cpu) = ((0, 0), 0.0);
    while began.elapsed() < time || all.count() < 5 {
        let child = match case.kind.as_str() {
            "http" => all.time(|| case.worker.answers_http(&case.request()))?,
            _ => all.time(|| Ok(Direct::open(&case.worker)?.worker))?,
        };
        let pid = child.id();
        (memory, cpu) = (usage::memory(&[pid], &[pid]), cpu + usage::cpu(&[pid]));
        worker::end(child);
    }
    let (first, total) = (all.first(), all.total());
    Ok(all.counted(total.as_secs_f64(), first, cpu, memory))
}
