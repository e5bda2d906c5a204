//! One run: its process from start to end, and what it says meanwhile.

use std::fs::OpenOptions;
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use parking_lot::Mutex;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tidewire_server::Handle;
use tidewire_service::{Error, Result};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, BufReader};
use tokio::process::Child;
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, MissedTickBehavior};

use super::LoadProgram;
use super::command;
use super::plan::Plan;
use super::results::{self, CERTIFICATE, DESCRIPTORS, SCENARIO, StoredLoad, count, micros};
use crate::proto::tidewire::admin::v1::{Load, LoadSecond};
use crate::{redact, token};

/// A run that was started here.
pub(super) struct LoadRun {
    id: String,
    folder: PathBuf,
    state: Mutex<State>,
    ended: watch::Sender<bool>,
    /// It is to stop.
    stopped: Notify,
}

struct State {
    stored: StoredLoad,
    seconds: Vec<LoadSecond>,
    /// The counts of the line before.
    before: LoadSecond,
    /// When somebody asked for it last.
    looked: Instant,
    stops: bool,
}

impl LoadRun {
    /// Starts the process.
    ///
    /// # Errors
    /// The folder cannot be written, or there is no such program.
    pub(super) fn start(program: &LoadProgram, plan: Plan, handle: Handle) -> Result<Arc<Self>> {
        let unwritable =
            |why: io::Error| Error::internal(format!("{}: {why}", program.folder.display()));
        let at = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let at_ms = u64::try_from(at.as_millis()).unwrap_or(u64::MAX);
        let random = token::random_hex::<4>().map_err(|why| Error::internal(why.to_string()))?;
        let id = results::id(at_ms, &random);
        let folder = results::create(&program.folder, &id).map_err(unwritable)?;
        let stored = StoredLoad::new(&plan, at_ms);
        write_request(&folder, &plan).map_err(unwritable)?;
        stored.write(&folder).map_err(unwritable)?;
        let mut command = command::process(&program.program, &plan);
        command.current_dir(&folder).kill_on_drop(true);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let child = command.spawn().map_err(|why| {
            let _ = std::fs::remove_dir_all(&folder);
            Error::failed_precondition(format!("{}: {why}", program.program.display()))
        })?;
        let run = Arc::new(Self::new(id, folder, stored));
        tokio::spawn(Arc::clone(&run).follow(child, handle));
        Ok(run)
    }

    fn new(id: String, folder: PathBuf, stored: StoredLoad) -> Self {
        let state = State {
            stored,
            seconds: Vec::new(),
            before: LoadSecond::default(),
            looked: Instant::now(),
            stops: false,
        };
        let ended = watch::Sender::new(false);
        Self { id, folder, state: Mutex::new(state), ended, stopped: Notify::new() }
    }

    pub(super) fn id(&self) -> &str {
        &self.id
    }

    pub(super) fn has_ended(&self) -> bool {
        *self.ended.borrow()
    }

    /// Waits for the end, at most so long.
    pub(super) async fn ended_within(&self, time: Duration) {
        let mut ended = self.ended.subscribe();
        let _ = tokio::time::timeout(time, ended.wait_for(|ended| *ended)).await;
    }

    /// Somebody wants to know of it.
    pub(super) fn looked_at(&self) {
        self.state.lock().looked = Instant::now();
    }

    /// Ends it early; the first reason is kept.
    pub(super) fn stop(&self, why: &str) {
        let mut state = self.state.lock();
        if state.stops {
            return;
        }
        state.stops = true;
        why.clone_into(&mut state.stored.stopped_by);
        drop(state);
        // Once: whoever follows the run asks again whether it is to stop, each time it wakes.
        self.stopped.notify_one();
    }

    /// How it is while it goes on.
    pub(super) fn to_message(&self) -> Load {
        let state = self.state.lock();
        let mut load = state.stored.to_message(&self.id);
        "running".clone_into(&mut load.state);
        load.problem.clear();
        load.seconds.clone_from(&state.seconds);
        load
    }

    async fn follow(self: Arc<Self>, mut child: Child, handle: Handle) {
        let problem = match self.read(&mut child, &handle).await {
            Ok(problem) => problem,
            Err(why) => why.to_string(),
        };
        for file in [SCENARIO, DESCRIPTORS, CERTIFICATE] {
            let _ = std::fs::remove_file(self.folder.join(file));
        }
        let has_result = self.folder.join(results::RESULT).exists();
        let mut state = self.state.lock();
        state.stored.problem = if has_result { String::new() } else { redact::text(&problem) };
        if let Err(why) = state.stored.write(&self.folder) {
            tracing::warn!("what was asked of a load cannot be written: {why}");
        }
        drop(state);
        self.ended.send_replace(true);
    }

    /// Reads what the process says, to its end, and stops it where that is due. Returns what it
    /// complained of.
    async fn read(&self, child: &mut Child, handle: &Handle) -> io::Result<String> {
        let lost = || io::Error::other("the process has no output");
        let mut lines = BufReader::new(child.stdout.take().ok_or_else(lost)?).lines();
        let mut errors = child.stderr.take().ok_or_else(lost)?;
        let complaints = tokio::spawn(async move {
            let mut said = Vec::new();
            // What is over it is read, too: the process would wait for ever.
            let mut first = (&mut errors).take(COMPLAINTS_MAX);
            let _ = first.read_to_end(&mut said).await;
            let _ = tokio::io::copy(&mut errors, &mut tokio::io::sink()).await;
            String::from_utf8_lossy(&said).trim().to_owned()
        });
        let mut ticks = tokio::time::interval(TICK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut asked_at = None;
        loop {
            tokio::select! {
                line = lines.next_line() => match line? {
                    Some(line) => self.hear(&line),
                    None => break,
                },
                _ = ticks.tick() => {}
                () = self.stopped.notified() => {}
            }
            self.stop_where_due(handle);
            match asked_at {
                None if self.state.lock().stops => {
                    ask_to_end(child);
                    asked_at = Some(Instant::now());
                }
                Some(at) if at.elapsed() > PATIENCE => child.start_kill()?,
                _ => {}
            }
        }
        let status = child.wait().await?;
        let said = complaints.await.unwrap_or_default();
        Ok(if said.is_empty() { format!("tidewire bench ended with {status}") } else { said })
    }

    fn stop_where_due(&self, handle: &Handle) {
        if !handle.is_ready() {
            self.stop("this server drains");
        }
        let looked = self.state.lock().looked;
        if looked.elapsed() > UNWATCHED_MAX {
            self.stop("nobody asked for it for a minute");
        }
    }

    /// Takes note of a line of `--events`.
    fn hear(&self, line: &str) {
        let Ok(event) = serde_json::from_str::<Value>(line) else { return };
        let mut state = self.state.lock();
        let now = LoadSecond {
            ok: count(&event["ok"]),
            failed: count(&event["failed"]),
            dropped: count(&event["dropped"]),
            ..Default::default()
        };
        let before = std::mem::replace(&mut state.before, now.clone());
        let at = state.seconds.len() as u64;
        state.seconds.push(LoadSecond {
            at,
            ok: now.ok.saturating_sub(before.ok),
            failed: now.failed.saturating_sub(before.failed),
            dropped: now.dropped.saturating_sub(before.dropped),
            p50_us: micros(&event["p50"]),
            p99_us: micros(&event["p99"]),
            ..Default::default()
        });
    }
}

/// Asks a process to end with the figures so far.
fn ask_to_end(child: &Child) {
    let pid = child.id().and_then(|pid| Pid::from_raw(i32::try_from(pid).ok()?));
    if let Some(pid) = pid {
        let _ = kill_process(pid, Signal::TERM);
    }
}

/// Writes what is sent where the process reads it.
fn write_request(folder: &Path, plan: &Plan) -> io::Result<()> {
    let mut file =
        OpenOptions::new().write(true).create_new(true).mode(0o600).open(folder.join(SCENARIO))?;
    file.write_all(scenario(plan).as_bytes())?;
    if let Some(called) = &plan.method {
        std::fs::write(folder.join(DESCRIPTORS), &called.descriptors)?;
    }
    if let Some(certificate) = &plan.certificate {
        std::fs::write(folder.join(CERTIFICATE), &certificate.pem)?;
    }
    Ok(())
}

fn scenario(plan: &Plan) -> String {
    let asked = &plan.asked;
    let path = match &plan.method {
        Some(called) => &*called.method.path,
        None => &*asked.path,
    };
    let mut text = format!("[[step]]\nname = \"request\"\npath = {}\n", string(path));
    if plan.method.is_some() {
        text += &format!("method = \"POST\"\nbody = {}\n", string(&asked.message));
    }
    let headers = asked.headers.iter();
    let headers = headers.map(|(name, value)| format!("{} = {}", string(name), string(value)));
    let headers = headers.collect::<Vec<_>>().join(", ");
    text + &format!("headers = {{ {headers} }}\n")
}

/// A text as TOML has it.
fn string(text: &str) -> String {
    // The escapes of JSON are among those of TOML, which wants one more character escaped.
    Value::from(text).to_string().replace('\u{7f}', "\\u007f")
}

const TICK: Duration = Duration::from_secs(1);
const UNWATCHED_MAX: Duration = Duration::from_secs(60);
/// How long a process may take to end when it was asked to.
const PATIENCE: Duration = Duration::from_secs(15);
const COMPLAINTS_MAX: u64 = 4096;

#[cfg(test)]
mod tests {
    use std::task::{Context, Poll, Waker};

    use rustix::io::Errno;
    use rustix::process::test_kill_process;
    use tidewire_server::{Address, RunningServer, Server};
    use tokio::process::Command;

    use super::*;
    use crate::proto::tidewire::admin::v1::StartLoadRequest;

    /// A run on a server, whose process neither says anything nor ends by itself.
    struct EndlessRun {
        server: RunningServer,
        run: Arc<LoadRun>,
        child: Child,
        pid: Pid,
        folder: tempfile::TempDir,
    }

    impl EndlessRun {
        async fn start() -> Self {
            let address = Address::Tcp(([127, 0, 0, 1], 0).into());
            let server = Server::builder().listen(address).start().await.unwrap();
            let asked = StartLoadRequest { path: "/".to_owned(), ..Default::default() };
            let plan = Plan::new(&server.handle(), asked).unwrap();
            let all = tempfile::tempdir().unwrap();
            let id = results::id(1, "ab12");
            let folder = results::create(all.path(), &id).unwrap();
            let mut command = Command::new("tail");
            command.args(["-f", "/dev/null"]).kill_on_drop(true);
            command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
            let child = command.spawn().unwrap();
            let pid = Pid::from_raw(i32::try_from(child.id().unwrap()).unwrap()).unwrap();
            let run = Arc::new(LoadRun::new(id, folder, StoredLoad::new(&plan, 1)));
            Self { server, run, child, pid, folder: all }
        }
    }

    #[tokio::test]
    async fn a_run_that_nobody_asks_for_ends_its_process_and_says_why() {
        let EndlessRun { server, run, child, pid, folder } = EndlessRun::start().await;
        assert_eq!(test_kill_process(pid), Ok(()), "it runs");
        // From here on time passes as soon as all wait.
        tokio::time::pause();
        Arc::clone(&run).follow(child, server.handle()).await;
        assert_eq!(test_kill_process(pid), Err(Errno::SRCH), "the process is gone");
        assert!(run.has_ended());
        let loads = results::Results::default().all(folder.path().to_owned(), None).await;
        let [load] = &loads[..] else { panic!("{loads:?}") };
        assert_eq!(load.stopped_by, "nobody asked for it for a minute");
        assert_eq!(load.state, "failed", "this process left no figures");
    }

    #[tokio::test]
    async fn a_run_that_somebody_asks_for_goes_on() {
        let EndlessRun { server, run, child, pid, folder: _folder } = EndlessRun::start().await;
        tokio::time::pause();
        let mut follow = Box::pin(Arc::clone(&run).follow(child, server.handle()));
        let mut context = Context::from_waker(Waker::noop());
        for _ in 0..10 {
            run.looked_at();
            for _ in 0..59 {
                tokio::time::advance(Duration::from_secs(1)).await;
                assert!(matches!(follow.as_mut().poll(&mut context), Poll::Pending));
            }
        }
        assert!(!run.state.lock().stops && test_kill_process(pid) == Ok(()));
        tokio::time::advance(Duration::from_secs(2)).await;
        follow.await;
        assert_eq!(run.state.lock().stored.stopped_by, "nobody asked for it for a minute");
        assert_eq!(test_kill_process(pid), Err(Errno::SRCH));
    }

    #[test]
    fn a_text_of_toml_is_that_text_whatever_is_in_it() {
        for text in ["plain", "\"\\\n\r\t\u{0}\u{7f}", "'''", "\u{202e}ä{{seq}}"] {
            let written = format!("x = {}", string(text));
            assert!(!written.contains('\n') && !written.contains('\u{7f}'), "{written}");
        }
        assert_eq!(string("a\"b\u{7f}"), r#""a\"b\u007f""#);
    }
}
