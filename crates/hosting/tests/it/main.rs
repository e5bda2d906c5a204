//! Real processes: how they are started, called, watched and ended, and all the ways in which they
//! misbehave. The supervisor of these tests is the program of `gateway.rs`.

#![allow(clippy::unwrap_used, reason = "a test says what it expects")]

mod adapter;
mod bounds;
mod calls;
mod checks;
mod closing;
mod commands;
mod downloads;
mod ends;
mod health;
mod keys;
mod native;
mod pipe_json;
mod principal;
mod response_timer;
mod scarce;
mod starts;
mod uploads;
mod wrapped;

use std::panic::Location;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::{OnceLock, mpsc};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use futures_util::StreamExt as _;
use http::Method;
use tidewire_hosting::{Host, HostedService, LifeLimits, Listen, Program};
use tidewire_service::{Body, Call, Context, Error, Frame, Frames, Headers, Reply, Service};

/// Moves the clock of the gateway on.
async fn some_time_passes(time: Duration) {
    tokio::time::pause();
    tokio::time::advance(time).await;
    tokio::time::resume();
}

/// The clock of the gateway stands still until this is dropped, however slow a machine is.
struct StoppedClock(#[expect(dead_code, reason = "it is dropped")] mpsc::Sender<()>);

impl StoppedClock {
    fn stop() -> Self {
        tokio::time::pause();
        let (ends, ended) = mpsc::channel();
        // Beside work of this kind a paused clock does not go on by itself.
        drop(tokio::task::spawn_blocking(move || ended.recv()));
        Self(ends)
    }
}

impl Drop for StoppedClock {
    fn drop(&mut self) {
        tokio::time::resume();
    }
}

/// A folder of one test, which ends with it.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        let time = SystemTime::now().duration_since(UNIX_EPOCH).expect("a time").as_nanos();
        let name = format!("tidewire-test-{}-{time}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir(&path).expect("a folder of its own");
        Self(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Ready once it is so.
#[track_caller]
fn until(is_so: impl Fn() -> bool) -> impl Future<Output = ()> {
    let (caller, began) = (Location::caller(), Instant::now());
    async move {
        while !is_so() {
            assert!(began.elapsed() < HANG, "it never is what is waited for at {caller}");
            tokio::task::yield_now().await;
        }
    }
}

/// After so long what is waited for never comes, however slow a machine is.
const HANG: Duration = Duration::from_secs(120);

/// What builds the programs that these tests start.
const BUILD: &str = "cargo build --workspace --bins --example gateway";

/// The program whose `main` begins with the supervisor.
fn gateway() -> PathBuf {
    let mut path = std::env::current_exe().expect("this test has a path");
    path.pop();
    path.pop();
    path.join("examples/gateway")
}

fn host() -> Host {
    let gateway = gateway();
    assert!(gateway.is_file(), "run `{BUILD}` first");
    Host::start_by(gateway).expect("the supervisor starts")
}

/// The program of these tests, in one of its modes.
fn python(arguments: &[&str]) -> Program {
    program(&PYTHON, arguments)
}

/// -I and -S: without what the machine adds to an interpreter.
const PYTHON: [&str; 4] =
    ["python3", "-I", "-S", concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/program.py")];

/// The same in Go, built once.
fn go() -> &'static str {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    let program = BUILT.get_or_init(|| {
        let program = gateway().with_file_name("program-go");
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/program.go");
        let mut build = std::process::Command::new("go");
        build.args(["build", "-o"]).arg(&program).arg(source);
        let built = build.status().expect("go is installed");
        assert!(built.success(), "it compiles");
        program
    });
    program.to_str().expect("a path of text")
}

fn program(fixed: &[&str], arguments: &[&str]) -> Program {
    Program::new("test", fixed.iter().chain(arguments).copied()).listen(Listen::Inherited)
}

/// The command of the program in each language.
fn commands() -> [&'static [&'static str]; 2] {
    static GO: OnceLock<[&str; 1]> = OnceLock::new();
    [&PYTHON, GO.get_or_init(|| [go()])]
}

/// The program in each language.
fn programs(arguments: &[&str]) -> [Program; 2] {
    commands().map(|command| program(command, arguments))
}

/// The defaults, for programs that start on a machine with much else to do.
fn patient_limits() -> LifeLimits {
    let mut limits = LifeLimits::default();
    limits.start_timeout = Duration::from_secs(120);
    limits
}

fn limits(change: impl FnOnce(&mut LifeLimits)) -> LifeLimits {
    let mut limits = patient_limits();
    change(&mut limits);
    limits
}

fn call(method: Method, path: &str, body: impl Into<Body>) -> Call {
    let uri = path.parse().expect("a path");
    Call::http(method, uri, Context::new(Headers::new()), body)
}

async fn reply(hosted: &HostedService, path: &str) -> Result<Reply, Error> {
    hosted.call(call(Method::GET, path, Body::Empty)).await
}

/// A call that has a place until it is dropped.
struct OpenCall {
    /// The process that has it.
    pid: String,
    _frames: Pin<Box<dyn Frames>>,
}

async fn open(hosted: &HostedService) -> OpenCall {
    let mut frames = reply(hosted, "/open").await.unwrap().body.into_frames();
    let Some(Ok(Frame::Data(pid))) = frames.next().await else { panic!("it says which it is") };
    OpenCall { pid: text(pid), _frames: frames }
}

async fn get(hosted: &HostedService, path: &str) -> Result<String, Error> {
    Ok(text(reply(hosted, path).await?.body.collect(1 << 20).await?))
}

fn text(bytes: Bytes) -> String {
    String::from_utf8(bytes.to_vec()).expect("the program answers in UTF-8")
}

fn is_alive(pid: i32) -> bool {
    // A zombie has ended.
    std::fs::read_to_string(format!("/proc/{pid}/stat"))
        .is_ok_and(|stat| !stat.rsplit(") ").next().is_some_and(|rest| rest.starts_with('Z')))
}
