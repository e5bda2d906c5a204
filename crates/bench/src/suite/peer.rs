//! Peers: which there are, and one of them as a process.
//!
//! `peers.toml` has one table a peer, in a list that is named as the suite. A peer prints its
//! address as its first line of output; one that cannot is given a free port by `{port}` and an
//! empty folder by `{folder}`, and is ready when the port takes connections.
//!
//! What peers ask for while they are measured, such as a database, is a `[[backing]]`: a process
//! that is started once, for all of them. What it prints is put where a peer's command or
//! environment has its name in braces, `{store}`, and the port of it for `{store.port}`.

use std::collections::BTreeMap;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use serde::Deserialize;
use tidewire_loadgen::{Error, Stop};

use super::peer_process::{PeerProcess, Scratch};

/// How long a peer may take to be ready.
const PATIENCE: Duration = Duration::from_secs(20);
/// How long a backing service may take: a database is filled.
const PATIENCE_WITH_BACKING: Duration = Duration::from_mins(10);
/// The list of `peers.toml` that has the backing services.
const BACKING: &str = "backing";

/// A peer as `peers.toml` has it.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Peer {
    pub(crate) name: String,
    /// The command, from the folder of the peers.
    run: Vec<String>,
    /// The command of its client, which loads it; `{address}` is where it is.
    client: Option<Vec<String>>,
    /// How a person makes it runnable.
    setup: String,
    /// A program that has to be on the path beside the command itself.
    program: Option<String>,
    /// A file or folder that `setup` makes, where that is not the command.
    installed: Option<String>,
    #[serde(default)]
    environment: BTreeMap<String, String>,
    /// What it has no answer for, as the cases call it: paths, protocols.
    #[serde(default)]
    lacks: Vec<String>,
    /// Seconds for which it is loaded before it is measured, where it needs more than the others: a
    /// runtime that compiles while it runs is compared as it is after that.
    #[serde(default)]
    pub(super) warm_up: u64,
}

/// The peers of one suite.
#[derive(Debug)]
pub(crate) struct Peers {
    pub(crate) folder: PathBuf,
    pub(crate) found: Vec<PeerStatus>,
    backing: Vec<Peer>,
}

/// A peer, and why it cannot run here if it cannot.
#[derive(Debug)]
pub(crate) struct PeerStatus {
    pub(crate) peer: Peer,
    pub(crate) absent: Option<String>,
}

impl Peers {
    /// Those of a suite, from the folder that has `peers.toml`.
    pub(crate) fn read(folder: &Path, suite: &str) -> Result<Self, Error> {
        let path = folder.join("peers.toml");
        let text = std::fs::read_to_string(&path).map_err(|error| {
            Error::usage(format!(
                "{}: {error}; run from a clone of the repository, or name its bench/peers by --peers",
                path.display()
            ))
        })?;
        let mut suites: BTreeMap<String, Vec<Peer>> = toml::from_str(&text)
            .map_err(|error| Error::usage(format!("{}: {error}", path.display())))?;
        let peers = suites.remove(suite).ok_or_else(|| {
            Error::usage(format!("{}: no peers for the suite {suite:?}", path.display()))
        })?;
        let backing = suites.remove(BACKING).unwrap_or_default();
        let found = peers.into_iter().map(|peer| PeerStatus { absent: peer.absent(folder), peer });
        Ok(Self { folder: folder.to_owned(), found: found.collect(), backing })
    }
}

/// The backing services that peers of a run ask for, until they are dropped.
#[derive(Debug, Default)]
pub(crate) struct BackingServices(BTreeMap<String, Result<PeerProcess, String>>);

impl BackingServices {
    /// Starts those that a peer names which is there. Blocks, no longer than until `stop` is
    /// raised. One that does not start is a failure of each peer that needs it. `tell` hears what
    /// takes a while.
    pub(crate) fn start(
        peers: &Peers,
        tell: &mut dyn FnMut(&str) -> Result<(), Error>,
        stop: &Stop,
    ) -> Result<Self, Error> {
        let mut started = Self::default();
        for service in &peers.backing {
            let mut there = peers.found.iter().filter(|found| found.absent.is_none());
            if !there.any(|found| found.peer.asks_for(&service.name)) {
                continue;
            }
            tell(&format!("starting the backing service {}\n", service.name))?;
            let running = match service.absent(&peers.folder) {
                Some(why) => Err(why),
                None => service.start_within(PATIENCE_WITH_BACKING, &peers.folder, &started, stop),
            };
            started.0.insert(service.name.clone(), running);
        }
        Ok(started)
    }

    /// Where the service of this name is, if it is asked for.
    pub(super) fn address(&self, name: &str) -> Option<&str> {
        Some(&self.0.get(name)?.as_ref().ok()?.address)
    }

    /// `text` with what they printed where it has their names.
    fn fill(&self, text: &str) -> Result<String, String> {
        let mut filled = text.to_owned();
        for (name, running) in &self.0 {
            let places = places(name);
            if !places.iter().any(|place| filled.contains(place)) {
                continue;
            }
            let running = running
                .as_ref()
                .map_err(|why| format!("the backing service {name} did not start: {why}"))?;
            let port = running.address.rsplit(':').next().unwrap_or_default();
            filled = filled.replace(&places[0], &running.address).replace(&places[1], port);
        }
        Ok(filled)
    }
}

/// Where what a backing service printed is put: all of it, and the port of an address.
fn places(service: &str) -> [String; 2] {
    [format!("{{{service}}}"), format!("{{{service}.port}}")]
}

impl Peer {
    pub(crate) fn has(&self, needed: &str) -> bool {
        !self.lacks.iter().any(|lacking| lacking == needed)
    }

    /// Why it cannot run here, if it cannot.
    fn absent(&self, folder: &Path) -> Option<String> {
        let Some(command) = self.run.first() else { return Some("`run` is empty".to_owned()) };
        for program in [Some(command), self.program.as_ref()].into_iter().flatten() {
            let is_there = match program.contains('/') {
                true => folder.join(program).is_file(),
                false => is_on_path(program),
            };
            if !is_there {
                return Some(format!("{program} is missing: {}", self.setup));
            }
        }
        let missing = self.installed.as_ref().filter(|path| !folder.join(path).exists())?;
        Some(format!("{missing} is missing: {}", self.setup))
    }

    fn asks_for(&self, service: &str) -> bool {
        let mut texts = self.run.iter().chain(self.environment.values());
        texts.any(|text| places(service).iter().any(|place| text.contains(place)))
    }

    /// Starts it and waits until it is ready, or `stop` is raised. Blocks.
    pub(crate) fn start(
        &self,
        folder: &Path,
        backing: &BackingServices,
        stop: &Stop,
    ) -> Result<PeerProcess, String> {
        self.start_within(PATIENCE, folder, backing, stop)
    }

    /// Runs it with more words, to its end or until it is `over`; what it printed first. Blocks.
    pub(super) fn run(
        &self,
        words: &[&str],
        folder: &Path,
        backing: &BackingServices,
        over: &dyn Fn() -> bool,
    ) -> Result<String, String> {
        self.spawn(words, folder, backing)?.1.first_line(over)
    }

    /// Its client, of the server at this address.
    pub(super) fn client(&self, address: &str) -> Option<Self> {
        let words = self.client.as_ref()?.iter();
        let run = words.map(|word| word.replace("{address}", address)).collect();
        Some(Self { run, client: None, ..self.clone() })
    }

    pub(super) fn has_client(&self) -> bool {
        self.client.is_some()
    }

    fn start_within(
        &self,
        patience: Duration,
        folder: &Path,
        backing: &BackingServices,
        stop: &Stop,
    ) -> Result<PeerProcess, String> {
        let (port, running) = self.spawn(&[], folder, backing)?;
        match port {
            Some(port) => running.once_it_takes_connections(port, patience, stop),
            None => running.once_it_says_where(patience, stop),
        }
    }

    /// Starts the process, and gives the port that it was told to use.
    fn spawn(
        &self,
        more: &[&str],
        folder: &Path,
        backing: &BackingServices,
    ) -> Result<(Option<u16>, PeerProcess), String> {
        let needs_port = self.run.iter().any(|word| word.contains("{port}"));
        let port =
            if needs_port { Some(free_port().map_err(|error| error.to_string())?) } else { None };
        let scratch = Scratch::new().map_err(|error| format!("no empty folder: {error}"))?;
        let fill = |word: &String| {
            let port = port.unwrap_or_default().to_string();
            let word = word.replace("{port}", &port).replace("{folder}", &scratch.path());
            backing.fill(&word)
        };
        let words = self.run.iter().map(fill).collect::<Result<Vec<_>, _>>()?;
        let environment = self.environment.iter();
        let environment = environment
            .map(|(name, value)| Ok((name, fill(value)?)))
            .collect::<Result<Vec<_>, String>>()?;
        let program = match words[0].contains('/') {
            true => folder.join(&words[0]).canonicalize().map_err(|error| error.to_string())?,
            false => PathBuf::from(&words[0]),
        };
        let mut command = Command::new(program);
        command.args(&words[1..]).args(more).envs(environment).current_dir(folder);
        Ok((port, PeerProcess::spawn(command, scratch)?))
    }
}

fn is_on_path(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
}

/// A port that nobody listens at, out of those that the system gives to nobody.
fn free_port() -> std::io::Result<u16> {
    static TURN: AtomicU32 = AtomicU32::new(0);
    // Where each process begins: two of them seldom take the same one.
    let begin = std::process::id().wrapping_mul(257);
    loop {
        let turn = begin.wrapping_add(TURN.fetch_add(1, Ordering::Relaxed));
        let port = 11_000 + (turn % 9_000) as u16;
        match TcpListener::bind(("127.0.0.1", port)) {
            Err(error) if error.kind() == std::io::ErrorKind::AddrInUse => {}
            bound => return Ok(bound?.local_addr()?.port()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::suite::SUITES;

    #[test]
    fn every_suite_has_its_peers_in_the_repository_and_tidewire_is_the_first() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../bench/peers");
        for suite in SUITES {
            let peers = Peers::read(&folder, suite.name).unwrap();
            assert_eq!(peers.found[0].peer.name, "tidewire", "{}", suite.name);
            for peer in peers.found.iter().map(|found| &found.peer) {
                let known = |lack: &String| suite.cases.iter().any(|case| case.needs == lack);
                assert!(peer.lacks.iter().all(known), "{}: {:?}", peer.name, peer.lacks);
                assert!(suite.cases.iter().any(|case| peer.has(case.needs)), "{}", peer.name);
            }
        }
    }
}
