//! What gateway and supervisor say to each other: one JSON text a packet, with file descriptors
//! beside it.
//!
//! The socket is of type SEQPACKET, so packets keep their bounds and a packet of no bytes is the
//! end. What does not fit into a packet (arguments and environment of 128 KiB) is refused by the
//! sender.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;

use libc::{SIGHUP, SIGINT, SIGKILL, SIGTERM};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// What the gateway wants.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Order {
    /// Start a process; its standard output, standard error and perhaps a socket come along.
    Start(Start),
    /// Send a signal to the process group of an instance.
    Signal {
        /// The instance.
        id: u64,
        /// The number of the signal.
        signal: i32,
    },
}

/// A process to be started.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Start {
    /// What the gateway calls the instance.
    pub(crate) id: u64,
    /// The program and its arguments.
    pub(crate) command: Vec<String>,
    /// Its whole environment.
    pub(crate) environment: Vec<(String, String)>,
    /// Its working folder; that of the gateway without one.
    pub(crate) folder: Option<PathBuf>,
    /// Whom it runs as; as the gateway without one.
    pub(crate) user: Option<User>,
    /// Whether its socket is one to listen on, of which systemd's variables tell.
    pub(crate) listens: bool,
    /// What it may have.
    pub(crate) bounds: Bounds,
}

/// What an instance and all that it starts may have.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Bounds {
    /// In bytes.
    pub(crate) memory: Option<u64>,
    /// Threads counted.
    pub(crate) processes: Option<u32>,
    /// Of one core.
    pub(crate) cpu_percent: Option<u32>,
    /// Whether cgroups may be used.
    pub(crate) cgroups: bool,
}

/// What keeps each of these bounds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct BoundEnforcement {
    pub(crate) memory: Option<Enforcement>,
    pub(crate) processes: Option<Enforcement>,
    pub(crate) cpu: Option<Enforcement>,
}

/// What keeps a bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Enforcement {
    Cgroup2,
    Cgroup1,
    /// A look each second, beside an rlimit.
    Watched,
    /// Nothing can.
    Nothing,
}

impl std::fmt::Display for BoundEnforcement {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let all = [("memory", self.memory), ("processes", self.processes), ("cpu", self.cpu)];
        let mut all = all.into_iter().filter_map(|(what, means)| Some((what, means?)));
        let say = |(what, means)| match means {
            Enforcement::Cgroup2 => format!("{what} by cgroup v2"),
            Enforcement::Cgroup1 => format!("{what} by cgroup v1"),
            Enforcement::Watched if what == "memory" => {
                format!("{what} by RLIMIT_DATA and polling")
            }
            Enforcement::Watched => format!("{what} by RLIMIT_NPROC and polling"),
            Enforcement::Nothing => format!("{what} not limited, since no cgroup can be written"),
        };
        let first = all.next().map(say).unwrap_or_default();
        f.write_str(&all.map(say).fold(first, |text, next| format!("{text}, {next}")))
    }
}

/// A user as the kernel knows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct User {
    pub(crate) name: String,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    /// The home folder.
    pub(crate) home: String,
}

/// What the supervisor says.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum SupervisorNotice {
    /// It runs.
    Started {
        /// The instance.
        id: u64,
        /// Its process, which leads its own session and group.
        pid: i32,
        /// What keeps its bounds.
        bounded: BoundEnforcement,
        /// The file that counts what was killed of it for memory.
        memory_kills: Option<PathBuf>,
    },
    /// It could not be started.
    NotStarted {
        /// The instance.
        id: u64,
        /// The error of the system.
        errno: i32,
    },
    /// It is over.
    Ended {
        /// The instance.
        id: u64,
        /// How.
        end: End,
    },
}

/// How a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum End {
    /// By itself, with this exit code.
    Code(i32),
    /// By this signal.
    Signal(i32),
    /// It had more memory than so many bytes.
    OutOfMemory(u64),
    /// It had more processes and threads than so many.
    TooManyProcesses(u32),
    /// With the supervisor.
    Lost,
}

impl End {
    /// Whether a process ends so by what it does itself: not by a signal that others send.
    pub(crate) fn is_own_doing(self) -> bool {
        match self {
            Self::Code(_) | Self::OutOfMemory(_) | Self::TooManyProcesses(_) => true,
            Self::Signal(signal) => ![SIGHUP, SIGINT, SIGKILL, SIGTERM].contains(&signal),
            Self::Lost => false,
        }
    }
}

impl std::fmt::Display for End {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Code(code) => write!(f, "it ended with exit code {code}"),
            Self::Signal(signal) => write!(f, "it was ended by signal {signal}"),
            Self::OutOfMemory(bytes) => {
                write!(f, "it ran out of memory: memory_max = {bytes} bytes")
            }
            Self::TooManyProcesses(most) => {
                write!(f, "it had more processes and threads than processes_max = {most}")
            }
            Self::Lost => f.write_str("it ended with the supervisor"),
        }
    }
}

/// Sends one message and the file descriptors that go with it.
///
/// # Errors
/// `WouldBlock` where the socket does not wait; `E2BIG` for what is too long.
pub(crate) fn send(
    socket: impl AsFd,
    message: &impl Serialize,
    fds: &[BorrowedFd<'_>],
) -> io::Result<()> {
    let text = serde_json::to_vec(message)?;
    if text.len() > PACKET_BYTES_MAX {
        return Err(rustix::io::Errno::TOOBIG.into());
    }
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FDS_MAX))];
    let mut beside = SendAncillaryBuffer::new(&mut space);
    if !fds.is_empty() && !beside.push(SendAncillaryMessage::ScmRights(fds)) {
        return Err(rustix::io::Errno::TOOBIG.into());
    }
    sendmsg(socket, &[IoSlice::new(&text)], &mut beside, SendFlags::NOSIGNAL)?;
    Ok(())
}

/// Receives one message and its file descriptors, by way of `text`, which is kept from one to the
/// next; `None` is the end.
///
/// # Errors
/// `WouldBlock` where the socket does not wait and nothing is there; a packet that makes no sense.
pub(crate) fn receive<T: DeserializeOwned>(
    socket: impl AsFd,
    text: &mut Vec<u8>,
) -> io::Result<Option<(T, Vec<OwnedFd>)>> {
    text.resize(PACKET_BYTES_MAX, 0);
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FDS_MAX))];
    let mut beside = RecvAncillaryBuffer::new(&mut space);
    let received =
        recvmsg(socket, &mut [IoSliceMut::new(text)], &mut beside, RecvFlags::CMSG_CLOEXEC)?;
    let mut fds = Vec::new();
    for message in beside.drain() {
        if let RecvAncillaryMessage::ScmRights(received) = message {
            fds.extend(received);
        }
    }
    if received.bytes == 0 {
        return Ok(None);
    }
    if received.flags.intersects(ReturnFlags::TRUNC | ReturnFlags::CTRUNC) {
        return Err(io::Error::other("a packet was cut off"));
    }
    Ok(Some((serde_json::from_slice(&text[..received.bytes])?, fds)))
}

const PACKET_BYTES_MAX: usize = 128 << 10;

/// Standard output, standard error, a socket.
const FDS_MAX: usize = 3;
