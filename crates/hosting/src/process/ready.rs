//! Where a program listens, and how it is found out that it does.
//!
//! | how it listens | it can be called |
//! |---|---|
//! | at an inherited socket | once it accepts a connection (`accept_state.rs`) |
//! | at a port | the same; tried after 1 ms, then after twice as long, up to 25 ms |
//! | at a path, of a program of `pipe-json` | once the system says that a socket listens there: a connection would be a request |
//! | at a path | once the system says that the socket is there, and it accepts a connection |
//! | any of these, with a path that says whether it is ready | once that answers, too (`instance.rs`) |
//! | not at all, as it speaks the live protocol | once it says so (`native/session.rs`) |
//!
//! A port is a free one when the program is started (`free_port.rs`). Should another program
//! take it until it listens, it fails and is started again with another one. Each program has
//! its own folder for its socket, which only this user may enter, or the user that the program
//! runs as: such a program may put there what leads elsewhere, such as to a socket that only
//! this user may use, so that it is called at its own socket or not at all.

use parking_lot::Mutex;
use std::borrow::Cow;
use std::fs::Permissions;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream as UnixSocket};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rustix::fs::{FileType, Mode, OFlags, inotify};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use tidewire_proxy::UpgradeAddress;
use tokio::net::unix::pipe::Receiver;
use tokio::net::{TcpStream, UnixStream};

use crate::process::accept_state::{self, PendingConnection};
use crate::process::free_port::free_port;
use crate::process::program::Listen;
use crate::supervisor::message::User;

/// Where one instance listens.
#[derive(Debug)]
pub(crate) enum ListenPlace {
    Port(u16),
    /// Whose socket it has to be, where the program runs as another user.
    Path(PathBuf, Option<u32>),
    /// The same, of a program of `pipe-json`.
    PipeJson(PathBuf, Option<u32>),
    Inherited(PathBuf),
    /// The gateway's end of a socket pair, until the session has it.
    Native(Mutex<Option<UnixSocket>>),
}

/// Where a program of plain HTTP can be called.
#[derive(Debug, Clone)]
pub(crate) enum Address {
    Port(SocketAddr),
    Unix(Socket),
}

/// A socket of a program.
#[derive(Debug, Clone)]
pub(crate) enum Socket {
    /// Whatever is at this path.
    At(PathBuf),
    /// Itself, whatever is at its path by now.
    Itself(Arc<OwnedFd>),
}

impl Address {
    /// As clients write it.
    pub(crate) fn url(&self) -> String {
        match self {
            Self::Port(address) => format!("http://{address}"),
            Self::Unix(socket) => format!("unix:{}", socket.path().display()),
        }
    }

    /// Where a connection that is taken over goes to.
    pub(crate) fn of_upgrade(&self) -> UpgradeAddress<'_> {
        match self {
            Self::Port(address) => UpgradeAddress::Tcp(address.to_string().into()),
            Self::Unix(socket) => UpgradeAddress::Unix(socket.path()),
        }
    }
}

impl Socket {
    /// Where it can be connected to.
    pub(crate) fn path(&self) -> Cow<'_, Path> {
        match self {
            Self::At(path) => path.into(),
            Self::Itself(socket) => {
                PathBuf::from(format!("/proc/self/fd/{}", socket.as_raw_fd())).into()
            }
        }
    }

    /// The one at this path, which has to be of this user if one is named.
    fn of(path: &Path, user: Option<u32>) -> Option<Self> {
        match user {
            Some(user) => Self::of_user(path, user),
            None => Some(Self::At(path.to_owned())),
        }
    }

    /// The one at this path, if it is one of this user.
    fn of_user(path: &Path, user: u32) -> Option<Self> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let socket = rustix::fs::open(path, flags, Mode::empty()).ok()?;
        let found = rustix::fs::fstat(&socket).ok()?;
        let is_socket = FileType::from_raw_mode(found.st_mode) == FileType::Socket;
        (is_socket && found.st_uid == user).then(|| Self::Itself(Arc::new(socket)))
    }
}

impl ListenPlace {
    /// A place for an instance, and the socket that it inherits.
    ///
    /// # Errors
    /// When there is no more room for sockets.
    pub(crate) fn new(
        listen: Listen,
        sockets: &Path,
        id: u64,
        user: Option<&User>,
    ) -> io::Result<(Self, Option<OwnedFd>)> {
        let folder = sockets.join(format!("{id}.sock"));
        Ok(match listen {
            Listen::Port => (Self::Port(free_port()?), None),
            Listen::Unix => (Self::Path(place_of(user, folder)?, user.map(|user| user.uid)), None),
            Listen::PipeJson => {
                (Self::PipeJson(place_of(user, folder)?, user.map(|user| user.uid)), None)
            }
            Listen::Inherited => {
                let path = place_of(None, folder)?;
                let listener = UnixListener::bind(&path)?;
                (Self::Inherited(path), Some(listener.into()))
            }
            Listen::Native => {
                let (ours, theirs) = session_sockets()?;
                (Self::Native(Mutex::new(Some(ours))), Some(theirs))
            }
        })
    }

    /// What the program is told, by variable.
    pub(crate) fn environment_variable(&self) -> Option<(&'static str, String)> {
        match self {
            Self::Port(port) => Some(("PORT", port.to_string())),
            Self::Path(path, _) => Some(("SOCKET", path.display().to_string())),
            Self::PipeJson(path, _) => Some(("PIPE_ADDRESS", path.display().to_string())),
            Self::Inherited(_) => None,
            // Where the supervisor puts it (`supervisor/spawn.rs`).
            Self::Native(_) => Some(("TIDEWIRE_FD", "3".to_owned())),
        }
    }

    /// Whether it is the socket of a session, on which a process can be greeted before it runs.
    pub(crate) fn is_native(&self) -> bool {
        matches!(self, Self::Native(_))
    }

    /// The socket of a session, once.
    pub(crate) fn take_socket(&self) -> Option<UnixSocket> {
        match self {
            Self::Native(socket) => socket.lock().take(),
            _ => None,
        }
    }

    /// Waits until it can be called, and says where; `listens` hears once something listens there.
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub(crate) async fn until_open(&self, listens: &(dyn Fn() + Sync)) -> Address {
        let mut wait = FIRST_WAIT;
        let arrivals = match self {
            Self::Path(path, _) | Self::PipeJson(path, _) => Arrivals::watch(path).ok(),
            _ => None,
        };
        loop {
            if let Some(address) = self.address(listens).await {
                return address;
            }
            match (&arrivals, self) {
                // One that is there is listened on in a moment.
                (Some(arrivals), Self::Path(path, _) | Self::PipeJson(path, _))
                    if !path.exists() =>
                {
                    arrivals.next().await;
                }
                _ => {
                    tokio::time::sleep(wait).await;
                    wait = (wait * 2).min(LONGEST_WAIT);
                }
            }
        }
    }

    async fn address(&self, listens: &(dyn Fn() + Sync)) -> Option<Address> {
        match self {
            Self::Inherited(path) => {
                let _stream = UnixStream::connect(path).await.ok()?;
                listens();
                PendingConnection::Unix(path).until_accepted().await;
                Some(Address::Unix(Socket::At(path.clone())))
            }
            Self::PipeJson(path, user) => {
                let socket = Socket::of(path, *user)?;
                path.symlink_metadata().ok()?;
                let listens = match accept_state::listens_at(path).await {
                    Some(listens) => listens,
                    None => UnixStream::connect(socket.path()).await.is_ok(),
                };
                listens.then_some(Address::Unix(socket))
            }
            Self::Path(path, user) => {
                let socket = Socket::of(path, *user)?;
                let _stream = UnixStream::connect(socket.path()).await.ok()?;
                listens();
                PendingConnection::Unix(path).until_accepted().await;
                Some(Address::Unix(socket))
            }
            Self::Native(_) => None,
            Self::Port(port) => {
                let both: [SocketAddr; 2] =
                    [(Ipv4Addr::LOCALHOST, *port).into(), (Ipv6Addr::LOCALHOST, *port).into()];
                for address in both {
                    let Ok(stream) = TcpStream::connect(address).await else { continue };
                    listens();
                    if let Ok(from) = stream.local_addr() {
                        PendingConnection::Tcp { from: from.port(), to: *port }
                            .until_accepted()
                            .await;
                    }
                    return Some(Address::Port(address));
                }
                None
            }
        }
    }
}

impl Drop for ListenPlace {
    fn drop(&mut self) {
        if let Self::Path(path, _) | Self::PipeJson(path, _) | Self::Inherited(path) = self {
            // The program may have removed it.
            let _ = std::fs::remove_file(&path);
            let _ = path.parent().map(std::fs::remove_dir);
        }
    }
}

/// Both ends of the socket of a session: the gateway's, and that which the process inherits.
///
/// # Errors
/// When there are no more.
fn session_sockets() -> io::Result<(UnixSocket, OwnedFd)> {
    let (ours, theirs) =
        socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    Ok((ours.into(), theirs))
}

/// Where a program may make its socket: in its own folder that nobody but its user, or this one,
/// may enter.
fn place_of(user: Option<&User>, folder: PathBuf) -> io::Result<PathBuf> {
    std::fs::DirBuilder::new().mode(0o700).create(&folder)?;
    if let Some(user) = user {
        if let Some(sockets) = folder.parent() {
            // To go through it, and to see nothing of it.
            std::fs::set_permissions(sockets, Permissions::from_mode(0o711))?;
        }
        std::os::unix::fs::chown(&folder, Some(user.uid), Some(user.gid))?;
    }
    Ok(folder.join(OWN_NAME))
}

/// Files that appear beside a path.
struct Arrivals(Receiver);

impl Arrivals {
    fn watch(path: &Path) -> io::Result<Self> {
        let flags = inotify::CreateFlags::NONBLOCK | inotify::CreateFlags::CLOEXEC;
        let notices = inotify::init(flags)?;
        let events = inotify::WatchFlags::CREATE | inotify::WatchFlags::MOVED_TO;
        inotify::add_watch(&notices, path.parent().unwrap_or(path), events)?;
        // It is read as a pipe is.
        Ok(Self(Receiver::from_owned_fd_unchecked(notices)?))
    }

    /// Waits until there may be another.
    async fn next(&self) {
        // What they say is not looked at: whoever asked looks for itself.
        let _ = self.0.readable().await;
        let _ = self.0.try_read(&mut [0; 4096]);
    }
}

/// What the socket is called in its own folder.
const OWN_NAME: &str = "socket";
const FIRST_WAIT: Duration = Duration::from_millis(1);
const LONGEST_WAIT: Duration = Duration::from_millis(25);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_else_may_enter_the_folder_of_a_socket_whatever_may_be_done_above_it() {
        let sockets = std::env::temp_dir().join(format!("tidewire-place-{}", std::process::id()));
        std::fs::create_dir(&sockets).unwrap();
        std::fs::set_permissions(&sockets, Permissions::from_mode(0o711)).unwrap();
        for (id, listen) in [(1, Listen::Unix), (2, Listen::Inherited)] {
            let (place, _) = ListenPlace::new(listen, &sockets, id, None).unwrap();
            let (ListenPlace::Path(path, _) | ListenPlace::Inherited(path)) = &place else {
                panic!("it has a path")
            };
            let folder = path.parent().unwrap().to_owned();
            assert_eq!(folder.parent(), Some(&*sockets));
            assert_eq!(std::fs::metadata(&folder).unwrap().permissions().mode() & 0o777, 0o700);
            drop(place);
            assert!(!folder.exists(), "it goes with its program");
        }
        std::fs::remove_dir(&sockets).unwrap();
    }
}
