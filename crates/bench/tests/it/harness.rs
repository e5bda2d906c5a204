//! Runs the command as the program does, and small servers with chosen manners.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use clap::Parser;
use tidewire_bench::command::{self, BenchArgs, Outcome};
use tidewire_bench::result::RunResult;
use tidewire_bench::{Console, View};
use tidewire_loadgen::{Error, Stop};

#[derive(Parser)]
struct Program {
    #[command(flatten)]
    bench: BenchArgs,
}

/// What a command left behind.
pub(crate) struct Ran {
    pub(crate) outcome: Result<Outcome, Error>,
    pub(crate) text: String,
}

impl Ran {
    #[track_caller]
    pub(crate) fn error(self) -> String {
        self.outcome.unwrap_err().to_string()
    }
}

/// Runs `bench ARGUMENTS`.
pub(crate) fn bench(arguments: &[&str]) -> Ran {
    bench_until(arguments, &Stop::new())
}

pub(crate) fn bench_until(arguments: &[&str], stop: &Stop) -> Ran {
    bench_seen_in(View::Plain, arguments, stop)
}

/// The same as it is seen in a terminal or a file.
pub(crate) fn bench_seen_in(view: View, arguments: &[&str], stop: &Stop) -> Ran {
    let words = std::iter::once("bench").chain(arguments.iter().copied());
    let program = Program::try_parse_from(words).unwrap_or_else(|error| panic!("{error}"));
    let mut out = Vec::new();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let mut console = Console::new(&mut out, view);
    let outcome = runtime.block_on(command::run(&program.bench, None, &mut console, stop));
    Ran { outcome, text: String::from_utf8(out).unwrap() }
}

/// Runs `bench run ARGUMENTS` and reads the result it wrote.
#[track_caller]
pub(crate) fn measured(arguments: &[&str]) -> (Outcome, RunResult, String) {
    measured_until(arguments, &Stop::new())
}

#[track_caller]
pub(crate) fn measured_until(arguments: &[&str], stop: &Stop) -> (Outcome, RunResult, String) {
    let json = scratch("json");
    let mut words = vec!["run"];
    words.extend_from_slice(arguments);
    let path = json.to_str().unwrap().to_owned();
    words.extend(["--json", &path]);
    let ran = bench_until(&words, stop);
    let outcome = ran.outcome.unwrap();
    let result = serde_json::from_str(&std::fs::read_to_string(&json).unwrap()).unwrap();
    (outcome, result, ran.text)
}

/// Its own path for a file of this test run.
pub(crate) fn scratch(ending: &str) -> PathBuf {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    folder.join(format!("bench-{}-{number}.{ending}", std::process::id()))
}

/// What a server does with one request.
pub(crate) enum Manner {
    /// Sends this and goes on.
    Answer(String),
    /// Sends this and closes the connection.
    Close(String),
    /// Sends this, closes the connection, and refuses from then on.
    Die(String),
}

/// A plain answer with this status and body.
pub(crate) fn answer(status: u16, body: &str) -> String {
    let length = body.len();
    format!("HTTP/1.1 {status} X\r\ncontent-length: {length}\r\n\r\n{body}")
}

/// A request as a server sees it.
pub(crate) struct Seen {
    pub(crate) number: u64,
    pub(crate) head: String,
    pub(crate) body: String,
}

/// A server with manners. Its threads end with the test process.
pub(crate) struct Peer {
    pub(crate) address: SocketAddr,
    pub(crate) served: Arc<AtomicU64>,
    pub(crate) accepted: Arc<AtomicU64>,
}

impl Peer {
    pub(crate) fn start(manner: impl Fn(&Seen) -> Manner + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let peer = Self {
            address: listener.local_addr().unwrap(),
            served: Arc::default(),
            accepted: Arc::default(),
        };
        let (served, accepted) = (Arc::clone(&peer.served), Arc::clone(&peer.accepted));
        let manner = Arc::new(manner);
        std::thread::spawn(move || {
            let dying = Arc::new(AtomicU64::new(0));
            loop {
                let Ok((stream, _)) = listener.accept() else { break };
                if dying.load(Ordering::SeqCst) > 0 {
                    break;
                }
                accepted.fetch_add(1, Ordering::SeqCst);
                let (served, manner, dying) =
                    (Arc::clone(&served), Arc::clone(&manner), Arc::clone(&dying));
                std::thread::spawn(move || serve(stream, &served, &dying, &*manner));
            }
        });
        peer
    }

    /// A server that answers everything well.
    pub(crate) fn good() -> Self {
        Self::start(|_| Manner::Answer(answer(200, "hello")))
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}/", self.address)
    }

    pub(crate) fn served(&self) -> u64 {
        self.served.load(Ordering::SeqCst)
    }
}

/// Answers the requests of one connection.
pub(crate) fn serve<S: Read + Write>(
    mut stream: S,
    served: &AtomicU64,
    dying: &AtomicU64,
    manner: &(impl Fn(&Seen) -> Manner + ?Sized),
) {
    let mut input: Vec<u8> = Vec::new();
    let mut buffer = [0; 16 * 1024];
    loop {
        while let Some((head, body, length)) = first_request(&input) {
            input.drain(..length);
            let number = served.fetch_add(1, Ordering::SeqCst);
            let (text, goes_on) = match manner(&Seen { number, head, body }) {
                Manner::Answer(text) => (text, true),
                Manner::Close(text) => (text, false),
                Manner::Die(text) => {
                    dying.store(1, Ordering::SeqCst);
                    (text, false)
                }
            };
            if stream.write_all(text.as_bytes()).is_err() || !goes_on {
                return;
            }
            if dying.load(Ordering::SeqCst) > 0 {
                return;
            }
        }
        match stream.read(&mut buffer) {
            Ok(count) if count > 0 => input.extend_from_slice(&buffer[..count]),
            _ => return,
        }
    }
}

fn first_request(input: &[u8]) -> Option<(String, String, usize)> {
    let end = input.windows(4).position(|four| four == b"\r\n\r\n")? + 4;
    let head = String::from_utf8_lossy(&input[..end]).into_owned();
    let length = head
        .lines()
        .find_map(|line| line.strip_prefix("content-length: "))
        .map_or(0, |digits| digits.parse().unwrap());
    let body = input.get(end..end + length)?;
    Some((head, String::from_utf8_lossy(body).into_owned(), end + length))
}

/// A port on which nothing listens, out of those that the system gives to nobody.
pub(crate) fn closed_port() -> SocketAddr {
    static TURN: AtomicU64 = AtomicU64::new(0);
    loop {
        let turn = u64::from(std::process::id()) * 257 + TURN.fetch_add(1, Ordering::Relaxed);
        let address = SocketAddr::from(([127, 0, 0, 1], 11_000 + (turn % 9_000) as u16));
        if TcpListener::bind(address).is_ok() {
            return address;
        }
    }
}

/// Reads from `stream` until `needle` has come.
pub(crate) fn read_until(stream: &mut TcpStream, needle: &[u8]) -> Vec<u8> {
    let mut input = Vec::new();
    let mut byte = [0];
    while !input.ends_with(needle) {
        stream.read_exact(&mut byte).unwrap();
        input.push(byte[0]);
    }
    input
}
