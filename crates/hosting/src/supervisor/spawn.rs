//! From the supervisor to a program: what happens between clone and exec.
//!
//! The child shares the supervisor's memory until it execs, and the supervisor waits for that (as
//! `vfork` has it): no page table is copied and no page after it. So all that needs memory is made
//! before, and the child makes system calls alone; what goes wrong it leaves in [`Child::errno`].
//!
//! The order is that of the traps it avoids. Signals are blocked until none has a handler, which
//! would run on the supervisor's memory. It joins its cgroups before its user changes, who may not
//! write them. The user changes before the death signal is armed, since a
//! change of user disarms it; whoever lost its parent before it was armed notices and gives up; the
//! socket is moved to descriptor 3 after the standard streams; all other descriptors are marked to
//! be closed.
//!
//! This is the one file of the crate with `unsafe`: the standard library has no such start. Which
//! signals the supervisor hears of its children is set here too.

#![expect(unsafe_code, reason = "what runs between clone and exec")]

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::ffi::{CString, c_char, c_int, c_void};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::ptr;

use rustix::io::Errno;
use rustix::process::{Gid, Pid, Resource, Rlimit, Signal, Uid, WaitOptions, getrlimit, setrlimit};

use super::cgroups::Groups;
use super::watch;
use crate::supervisor::message::{BoundEnforcement, Bounds, Enforcement, Start};
use crate::supervisor::process_mark::{self, Owner, ProcessMark};

/// The descriptor that a child finds its socket at, as `LISTEN_FDS` has it.
const SOCKET: RawFd = 3;

const SIGNAL_MAX: c_int = 64;

/// What `execvp` looks through where there is no `PATH`.
const PATH: &str = "/bin:/usr/bin";

/// The child's stack. Of a script without `#!` all arguments are laid there once more; what is not
/// touched takes no memory.
const STACK_BYTES: usize = 1 << 20;

/// Starts a process of the supervisor `itself`; `fds` are its standard output, its standard error
/// and perhaps a socket.
///
/// # Errors
/// That of the system, of whichever step.
pub(super) fn spawn(
    start: &Start,
    fds: &[OwnedFd],
    itself: Owner,
    (groups, bounded): (&Groups, &BoundEnforcement),
) -> io::Result<Pid> {
    let mut child = Child::new(start, fds, ProcessMark { supervisor: itself, instance: start.id })?;
    child.doors = groups.doors();
    child.limits = limits(&start.bounds, bounded, child.user.map(|(user, _)| user));
    let mut stack = Vec::<MaybeUninit<u128>>::with_capacity(STACK_BYTES / size_of::<u128>());
    let top = stack.spare_capacity_mut().as_mut_ptr_range().end;
    let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD;
    // SAFETY: they are sets of signals, filled by the calls; the stack grows down from its end, and
    // it and the child are there until the clone has left them, which CLONE_VFORK waits for.
    let pid = unsafe {
        let mut all = MaybeUninit::uninit();
        let mut before = MaybeUninit::uninit();
        libc::sigfillset(all.as_mut_ptr());
        libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), before.as_mut_ptr());
        let pid = libc::clone(run, top.cast(), flags, (&raw mut child).cast());
        let pid = if pid < 0 { Err(io::Error::last_os_error()) } else { Ok(pid) };
        libc::pthread_sigmask(libc::SIG_SETMASK, before.as_ptr(), ptr::null_mut());
        pid?
    };
    let pid = Pid::from_raw(pid).ok_or(Errno::SRCH)?;
    match child.errno {
        0 => Ok(pid),
        errno => {
            // It has ended, or is about to.
            let _ = rustix::process::waitpid(Some(pid), WaitOptions::empty());
            Err(io::Error::from_raw_os_error(errno))
        }
    }
}

/// Lets the supervisor be signalled when a child ends, and not when one is stopped or goes on,
/// which it does itself: it would look through its children for nothing.
///
/// # Errors
/// That of the system.
pub(super) fn hear_of_ends_alone() -> io::Result<()> {
    let mut action = MaybeUninit::<libc::sigaction>::uninit();
    // SAFETY: the action is filled by the first call, and set again with its handler and one more
    // flag.
    unsafe {
        if libc::sigaction(libc::SIGCHLD, ptr::null(), action.as_mut_ptr()) != 0 {
            return Err(io::Error::last_os_error());
        }
        (*action.as_mut_ptr()).sa_flags |= libc::SA_NOCLDSTOP;
        if libc::sigaction(libc::SIGCHLD, action.as_ptr(), ptr::null_mut()) != 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

/// What a clone of the supervisor begins with; what it returns is its exit code.
extern "C" fn run(child: *mut c_void) -> c_int {
    // SAFETY: it is what `spawn` passes, which does nothing with it meanwhile.
    let child = unsafe { &mut *child.cast::<Child>() };
    let Err(errno) = child.become_program();
    child.errno = errno.raw_os_error();
    127
}

/// A program as system calls take it.
struct Child {
    supervisor: Pid,
    instance: u64,
    output: RawFd,
    errors: RawFd,
    socket: Option<RawFd>,
    user: Option<(Uid, Gid)>,
    /// By which it joins its cgroups.
    doors: Vec<RawFd>,
    limits: Vec<(Resource, u64)>,
    folder: Option<CString>,
    /// Where the program may be, in the order in which it is looked for.
    places: Vec<CString>,
    arguments: Strings,
    environment: Strings,
    /// The place of the process id in the environment.
    listen_pid: Option<usize>,
    /// Why it did not become the program.
    errno: i32,
}

/// Texts that end with a zero, and their addresses, which end with one too.
struct Strings {
    texts: Vec<Vec<u8>>,
    addresses: Vec<*const c_char>,
}

impl Child {
    fn new(start: &Start, fds: &[OwnedFd], mark: ProcessMark) -> io::Result<Self> {
        let [output, errors, socket @ ..] = fds else {
            return Err(io::ErrorKind::InvalidInput.into());
        };
        let socket = socket.first().map(AsRawFd::as_raw_fd);
        let mark = mark.value();
        let environment = start.environment.iter();
        let environment = environment.map(|(name, value)| (name.as_str(), value.as_str()));
        let mut environment: BTreeMap<_, _> = environment.collect();
        environment.insert(process_mark::VARIABLE, &mark);
        let listens = start.listens && socket.is_some();
        if listens {
            environment.extend([("LISTEN_FDS", "1"), (LISTEN_PID, ROOM)]);
        }
        let path = environment.get("PATH").copied().unwrap_or(PATH);
        let places = places(start.command.first().map_or("", String::as_str), path)?;
        let listen_pid = environment.keys().position(|name| listens && *name == LISTEN_PID);
        let folder = start.folder.as_ref().map(|folder| folder.as_os_str().as_bytes());
        Ok(Self {
            supervisor: rustix::process::getpid(),
            instance: start.id,
            output: output.as_raw_fd(),
            errors: errors.as_raw_fd(),
            socket,
            user: start
                .user
                .as_ref()
                .map(|user| (Uid::from_raw(user.uid), Gid::from_raw(user.gid))),
            doors: Vec::new(),
            limits: Vec::new(),
            folder: folder.map(CString::new).transpose()?,
            places,
            arguments: Strings::new(start.command.iter().cloned())?,
            environment: Strings::new(
                environment.iter().map(|(name, value)| format!("{name}={value}")),
            )?,
            listen_pid,
            errno: 0,
        })
    }

    /// Makes the process what the program is to find, and then the program. It may not use the
    /// allocator: the memory is the supervisor's.
    fn become_program(&mut self) -> Result<Infallible, Errno> {
        rustix::process::setsid()?;
        restore_signals();
        process_mark::limit(self.instance);
        for door in &self.doors {
            join(*door)?;
        }
        for (resource, most) in &self.limits {
            let maximum = getrlimit(*resource).maximum;
            let most = maximum.map_or(*most, |maximum| maximum.min(*most));
            setrlimit(*resource, Rlimit { current: Some(most), maximum: Some(most) })?;
        }
        let nothing = open_nothing()?;
        for (from, to) in [(nothing, 0), (self.output, 1), (self.errors, 2)] {
            move_to(from, to)?;
        }
        if let Some((uid, gid)) = self.user {
            rustix::thread::set_thread_groups(&[])?;
            rustix::thread::set_thread_res_gid(gid, gid, gid)?;
            rustix::thread::set_thread_res_uid(uid, uid, uid)?;
        }
        rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
        if rustix::process::getppid() != Some(self.supervisor) {
            return Err(Errno::SRCH);
        }
        match self.socket {
            None => close_on_exec(SOCKET),
            Some(socket) => {
                // 3 is the supervisor's place holder.
                move_to(socket, SOCKET)?;
                close_on_exec(SOCKET + 1);
            }
        }
        if let Some(at) = self.listen_pid {
            let pid = rustix::process::getpid().as_raw_nonzero().get();
            write_number(&mut self.environment.texts[at][LISTEN_PID.len() + 1..], pid);
        }
        if let Some(folder) = &self.folder {
            rustix::process::chdir(folder)?;
        }
        Err(self.exec())
    }

    /// Runs the first that can be run of all places; returns why none can.
    fn exec(&self) -> Errno {
        let arguments = &self.arguments.addresses;
        let environment = &self.environment.addresses;
        let mut why = Errno::NOENT;
        for place in &self.places {
            // SAFETY: texts and lists end with a zero. Of a path with a slash nothing is looked up;
            // a script without `#!` is given to the shell.
            unsafe { libc::execvpe(place.as_ptr(), arguments.as_ptr(), environment.as_ptr()) };
            match last_errno() {
                Errno::ACCESS => why = Errno::ACCESS,
                Errno::NOENT | Errno::NOTDIR | Errno::STALE | Errno::NODEV | Errno::TIMEDOUT => {}
                other => return other,
            }
        }
        why
    }
}

impl Strings {
    fn new(texts: impl Iterator<Item = String>) -> io::Result<Self> {
        let texts = texts.map(|text| Ok(CString::new(text)?.into_bytes_with_nul()));
        let texts: Vec<_> = texts.collect::<io::Result<_>>()?;
        let addresses =
            texts.iter().map(|text| text.as_ptr().cast()).chain([ptr::null()]).collect();
        Ok(Self { texts, addresses })
    }
}

/// Where a program may be: itself if it is a path, else in each folder of `path`.
fn places(program: &str, path: &str) -> io::Result<Vec<CString>> {
    let folder = |folder| if str::is_empty(folder) { "." } else { folder };
    let places: Vec<_> = match program {
        "" => Vec::new(),
        _ if program.contains('/') => vec![program.to_owned()],
        _ => path.split(':').map(|at| format!("{}/{program}", folder(at))).collect(),
    };
    Ok(places.into_iter().map(CString::new).collect::<Result<_, _>>()?)
}

/// Lets the process unblocked signals with their defaults: one that the gateway ignores, as behind
/// `nohup`, would stay ignored, and one with a handler would run it on the supervisor's memory.
fn restore_signals() {
    for signal in 1..=SIGNAL_MAX {
        // SAFETY: it sets no function. It fails for those that nobody may set.
        unsafe { libc::signal(signal, libc::SIG_DFL) };
    }
    let mut none = MaybeUninit::uninit();
    // SAFETY: it is a set of signals, filled by the first call.
    unsafe {
        libc::sigemptyset(none.as_mut_ptr());
        libc::pthread_sigmask(libc::SIG_SETMASK, none.as_ptr(), ptr::null_mut());
    }
}

/// Joins the cgroup whose file `cgroup.procs` this is.
fn join(door: RawFd) -> Result<(), Errno> {
    let itself = b"0";
    // SAFETY: it is one byte of static memory.
    match unsafe { libc::write(door, itself.as_ptr().cast(), itself.len()) } {
        -1 => Err(last_errno()),
        _ => Ok(()),
    }
}

/// What bounds one process where no cgroup bounds all. The system counts the processes of the user
/// together, so those of others are let be.
fn limits(bounds: &Bounds, bounded: &BoundEnforcement, user: Option<Uid>) -> Vec<(Resource, u64)> {
    let is_watched = |means| means == Some(Enforcement::Watched);
    let memory = bounds.memory.filter(|_| is_watched(bounded.memory));
    let processes = bounds.processes.filter(|_| is_watched(bounded.processes));
    let memory = memory.map(|bytes| (Resource::Data, bytes));
    let processes = processes.map(|most| {
        let others = watch::threads_of(user.unwrap_or_else(rustix::process::geteuid));
        (Resource::Nproc, others as u64 + u64::from(most))
    });
    memory.into_iter().chain(processes).collect()
}

/// A descriptor of `/dev/null`, that is closed on exec.
fn open_nothing() -> Result<RawFd, Errno> {
    // SAFETY: the path ends with a zero.
    match unsafe { libc::open(c"/dev/null".as_ptr(), libc::O_RDWR | libc::O_CLOEXEC) } {
        -1 => Err(last_errno()),
        number => Ok(number),
    }
}

/// Copies a descriptor to a number, which nothing refers to in the child.
fn move_to(from: RawFd, to: RawFd) -> Result<(), Errno> {
    // SAFETY: no memory is passed.
    match unsafe { libc::dup2(from, to) } {
        -1 => Err(last_errno()),
        _ => Ok(()),
    }
}

fn last_errno() -> Errno {
    Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(Errno::INVAL)
}

/// Marks all descriptors from `first` on, so that the program has none that nobody meant it to
/// have.
fn close_on_exec(first: RawFd) {
    // The call itself, since musl has no function for it.
    let call = libc::SYS_close_range;
    let last = libc::c_uint::MAX;
    // SAFETY: it marks descriptors and closes none. Before Linux 5.11 it fails, and marks nothing.
    unsafe { libc::syscall(call, first, last, libc::CLOSE_RANGE_CLOEXEC) };
}

/// Writes a number and a zero behind it.
fn write_number(room: &mut [u8], number: i32) {
    let digits = number.checked_ilog10().unwrap_or_default() + 1;
    let mut rest = number;
    for digit in room.iter_mut().take(digits as usize).rev() {
        *digit = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    room[digits as usize] = 0;
}

const LISTEN_PID: &str = "LISTEN_PID";
/// As many digits as a process id may have.
const ROOM: &str = "0000000000";
