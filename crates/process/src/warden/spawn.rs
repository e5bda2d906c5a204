//! From the warden to a program: what happens between fork and exec.
//!
//! The order is that of the traps it avoids. The user changes before the death signal is armed, since a
//! change of user disarms it; whoever lost its parent before it was armed notices and gives up; the
//! socket is moved to descriptor 3 after the standard streams; all other descriptors are marked to be
//! closed. Then the child execs through [`Command`], which empties the signal mask and restores SIGPIPE.
//!
//! This is the one file of the room with `unsafe`: [`Command::pre_exec`] asks for code that is sound in
//! a forked child, and descriptor 3 has no owner that Rust knows of.

#![expect(unsafe_code, reason = "what runs between fork and exec")]

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use rustix::process::{Gid, Pid, Signal, Uid};
use rustix::stdio::{dup2_stderr, dup2_stdout};

use crate::mark::{self, Mark, Owner};
use crate::message::Start;

/// The descriptor that a child finds its socket at, as `LISTEN_FDS` has it.
const SOCKET: i32 = 3;

const SIGNAL_MAX: i32 = 64;

/// Starts a process of the warden `itself`; `fds` are its standard output, its standard error and perhaps a socket.
///
/// # Errors
/// That of the system, of whichever step.
pub(super) fn spawn(start: &Start, fds: Vec<OwnedFd>, itself: Owner) -> io::Result<Pid> {
    let (warden, start) = (rustix::process::getpid(), start.clone());
    let mark = Mark { warden: itself, instance: start.id };
    // What it would run is never run: the closure becomes the program itself.
    let mut fork = Command::new("/proc/self/exe");
    fork.stdin(Stdio::null());
    // SAFETY: the warden has one thread, so that no lock is held by a thread that the child has not got;
    // memory may be allocated in the child as before the fork.
    unsafe {
        fork.pre_exec(move || match prepare(&start, &fds, warden, mark) {
            Ok(mut program) => Err(program.exec()),
            Err(error) => Err(error),
        });
    }
    let child = fork.spawn()?;
    Ok(Pid::from_child(&child))
}

/// Makes the forked child what the program shall find; only exec is left.
fn prepare(start: &Start, fds: &[OwnedFd], warden: Pid, mark: Mark) -> io::Result<Command> {
    let [output, errors, socket @ ..] = fds else { return Err(io::ErrorKind::InvalidInput.into()) };
    rustix::process::setsid()?;
    restore_signals();
    dup2_stdout(output)?;
    dup2_stderr(errors)?;
    if let Some(user) = &start.user {
        let (uid, gid) = (Uid::from_raw(user.uid), Gid::from_raw(user.gid));
        rustix::thread::set_thread_groups(&[])?;
        rustix::thread::set_thread_res_gid(gid, gid, gid)?;
        rustix::thread::set_thread_res_uid(uid, uid, uid)?;
    }
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
    if rustix::process::getppid() != Some(warden) {
        return Err(rustix::io::Errno::SRCH.into());
    }
    let mut program = Command::new(start.command.first().map_or("", String::as_str));
    program.args(start.command.iter().skip(1)).env_clear();
    program.envs(start.environment.iter().map(|(name, value)| (name, value)));
    program.env(mark::VARIABLE, mark.value());
    if let Some(folder) = &start.folder {
        program.current_dir(folder);
    }
    match socket.first() {
        None => close_on_exec(SOCKET),
        Some(socket) => {
            // SAFETY: 3 is the warden's place holder, which nothing refers to in the child.
            if unsafe { libc::dup2(socket.as_raw_fd(), SOCKET) } < 0 {
                return Err(io::Error::last_os_error());
            }
            close_on_exec(SOCKET + 1);
            if start.listens {
                let pid = rustix::process::getpid().as_raw_nonzero().to_string();
                program.env("LISTEN_FDS", "1").env("LISTEN_PID", pid);
            }
        }
    }
    Ok(program)
}

/// Gives every signal its default: one that the gateway ignores, as behind `nohup`, would stay ignored.
fn restore_signals() {
    for signal in 1..=SIGNAL_MAX {
        // SAFETY: it sets no function. It fails for those that nobody may set.
        unsafe { libc::signal(signal, libc::SIG_DFL) };
    }
}

/// Marks all descriptors from `first` on, so that the program has none that nobody meant it to have.
fn close_on_exec(first: i32) {
    let first = libc::c_uint::try_from(first).expect("descriptors are not negative");
    // The call itself, since musl has no function for it.
    let (call, last) = (libc::SYS_close_range, libc::c_uint::MAX);
    // SAFETY: it marks descriptors and closes none. Before Linux 5.11 it fails, and marks nothing.
    unsafe { libc::syscall(call, first, last, libc::CLOSE_RANGE_CLOEXEC) };
}
