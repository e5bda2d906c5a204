//! A peer as a process: started, ready or not, ended with all that it started.
//!
//! Whoever waits for a peer looks every few milliseconds at what may end the waiting: the peer has
//! ended, its time is over, or somebody pressed Ctrl-C. A peer that ends by itself is told of by
//! its exit status and by what it complained of last.

use std::io::{BufRead as _, BufReader};
use std::net::TcpStream;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Child, ChildStderr, ChildStdout, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};
use tidewire_loadgen::Stop;

use crate::proc;

/// How long it may take to end when it is asked to.
const GRACE: Duration = Duration::from_secs(2);
/// How often what is waited for is looked at.
const LOOK: Duration = Duration::from_millis(5);
/// What is shown of a complaint.
const COMPLAINT_CHARS: usize = 200;
const INTERRUPTED: &str = "was ended by hand while it started";

/// An empty folder, for as long as it is held.
#[derive(Debug)]
pub(super) struct Scratch(PathBuf);

impl Scratch {
    pub(super) fn new() -> std::io::Result<Self> {
        let name = format!("tidewire-peer-{}-{:x}", std::process::id(), fastrand::u64(..));
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir(&path)?;
        Ok(Self(path))
    }

    pub(super) fn path(&self) -> String {
        self.0.to_string_lossy().into_owned()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A process that was started.
#[derive(Debug)]
pub(crate) struct PeerProcess {
    child: Child,
    pub(crate) address: String,
    /// The first line that it prints.
    said: Receiver<String>,
    /// The last line that it complained with, when no more can come.
    complained: Receiver<String>,
    _scratch: Scratch,
}

impl PeerProcess {
    /// Starts it in its own process group.
    pub(super) fn spawn(mut command: Command, scratch: Scratch) -> Result<Self, String> {
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .spawn()
            .map_err(|error| format!("did not start: {error}"))?;
        let stdout = child.stdout.take();
        let stderr = child.stderr.take();
        let said = first_line(stdout);
        let complained = last_line(stderr);
        Ok(Self { child, address: String::new(), said, complained, _scratch: scratch })
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// What it prints first, unless it is `over` before. Blocks.
    pub(super) fn first_line(mut self, over: &dyn Fn() -> bool) -> Result<String, String> {
        loop {
            match self.said.recv_timeout(LOOK) {
                Ok(line) if line.trim().is_empty() => {
                    return Err(self.ending().unwrap_or_else(|| "printed nothing".to_owned()));
                }
                Ok(line) => return Ok(line),
                Err(RecvTimeoutError::Timeout) if !over() => {}
                Err(_) => return Err("was ended before it printed anything".to_owned()),
            }
        }
    }

    /// It, ready, by the address that it prints. Blocks.
    pub(super) fn once_it_says_where(
        mut self,
        patience: Duration,
        stop: &Stop,
    ) -> Result<Self, String> {
        let until = Instant::now() + patience;
        let line = loop {
            match self.said.recv_timeout(LOOK) {
                Ok(line) => break line,
                Err(_) if stop.is_raised() => return Err(INTERRUPTED.to_owned()),
                Err(_) if Instant::now() > until => {
                    return Err(format!("printed no address within {} s", patience.as_secs()));
                }
                Err(_) => {}
            }
        };
        // `listening on ADDRESS` says it too, and a URL.
        let Some(word) = line.split_whitespace().last() else {
            return Err(self.ending().unwrap_or_else(|| "printed no address".to_owned()));
        };
        self.address = word.trim_start_matches("http://").trim_end_matches('/').to_owned();
        Ok(self)
    }

    /// It, ready, at the port that it was told. Blocks.
    pub(super) fn once_it_takes_connections(
        mut self,
        port: u16,
        patience: Duration,
        stop: &Stop,
    ) -> Result<Self, String> {
        self.address = format!("127.0.0.1:{port}");
        let until = Instant::now() + patience;
        while TcpStream::connect(&self.address).is_err() {
            if let Some(how) = self.ended() {
                return Err(how);
            }
            if stop.is_raised() {
                return Err(INTERRUPTED.to_owned());
            }
            if Instant::now() > until {
                return Err(format!("took no connection within {} s", patience.as_secs()));
            }
            std::thread::sleep(LOOK);
        }
        // The port was free when it was chosen; somebody else may have been faster since.
        match proc::listener(port) {
            Some(pid) if !proc::tree(self.pid()).contains(&pid) => {
                Err(format!("its port {port} was taken by process {pid}"))
            }
            _ => Ok(self),
        }
    }

    /// How it ends, if it does so now that its output has ended.
    fn ending(&mut self) -> Option<String> {
        let until = Instant::now() + GRACE;
        loop {
            let ended = self.ended();
            if ended.is_some() || Instant::now() > until {
                return ended;
            }
            std::thread::sleep(LOOK);
        }
    }

    /// How it ended, if it did, and what it complained of last.
    pub(crate) fn ended(&mut self) -> Option<String> {
        let status = self.child.try_wait().ok().flatten()?;
        // What it started may hold its output open, and is not waited for.
        let complaint = self.complained.recv_timeout(GRACE).unwrap_or_default();
        let complaint: String = complaint.trim().chars().take(COMPLAINT_CHARS).collect();
        let told = if complaint.is_empty() { complaint } else { format!(": {complaint}") };
        Some(format!("ended by itself ({status}){told}"))
    }
}

impl Drop for PeerProcess {
    /// Ends it and what it started, politely first.
    fn drop(&mut self) {
        let group = Pid::from_child(&self.child);
        let _ = kill_process_group(group, Signal::TERM);
        let until = Instant::now() + GRACE;
        while Instant::now() < until && matches!(self.child.try_wait(), Ok(None)) {
            std::thread::sleep(Duration::from_millis(2));
        }
        let _ = kill_process_group(group, Signal::KILL);
        let _ = self.child.wait();
    }
}

/// The first line, on a thread that ends with the output. What comes later is read and dropped, so
/// that the peer never waits.
fn first_line(out: Option<ChildStdout>) -> Receiver<String> {
    let (told, heard) = channel();
    let Some(out) = out else { return heard };
    let mut out = BufReader::new(out);
    std::thread::spawn(move || {
        let mut line = String::new();
        let _ = out.read_line(&mut line);
        let _ = told.send(line);
        let _ = std::io::copy(&mut out, &mut std::io::sink());
    });
    heard
}

/// The last line that is not empty, once there are no more.
fn last_line(out: Option<ChildStderr>) -> Receiver<String> {
    let (told, heard) = channel();
    let Some(out) = out else { return heard };
    std::thread::spawn(move || {
        let lines = BufReader::new(out).split(b'\n').map_while(Result::ok);
        let last = lines.filter(|line| !line.trim_ascii().is_empty()).last().unwrap_or_default();
        let _ = told.send(String::from_utf8_lossy(&last).into_owned());
    });
    heard
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    const PATIENCE: Duration = Duration::from_mins(1);

    fn shell(script: &str) -> PeerProcess {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        PeerProcess::spawn(command, Scratch::new().unwrap()).unwrap()
    }

    #[test]
    fn a_stranger_at_the_port_of_a_peer_is_not_measured_in_its_place() {
        let stranger = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = stranger.local_addr().unwrap().port();
        let peer = shell("exec sleep 600");
        let why = peer.once_it_takes_connections(port, PATIENCE, &Stop::new()).unwrap_err();
        assert_eq!(why, format!("its port {port} was taken by process {}", std::process::id()));
    }

    #[test]
    fn a_peer_that_ends_is_told_of_with_its_last_complaint() {
        let script = "echo first >&2; echo 'no database at 127.0.0.1' >&2; echo >&2; exit 7";
        let told = "ended by itself (exit status: 7): no database at 127.0.0.1";
        let stop = Stop::new();
        assert_eq!(shell(script).once_it_says_where(PATIENCE, &stop).unwrap_err(), told);
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let peer = shell(script);
        assert_eq!(peer.once_it_takes_connections(port, PATIENCE, &stop).unwrap_err(), told);
        assert_eq!(shell(script).first_line(&|| false).unwrap_err(), told);
    }

    #[test]
    fn a_peer_that_says_nothing_is_waited_for_until_somebody_stops() {
        let stop = Stop::new();
        stop.raise();
        let peer = shell("exec sleep 600");
        assert_eq!(peer.once_it_says_where(PATIENCE, &stop).unwrap_err(), INTERRUPTED);
    }
}
