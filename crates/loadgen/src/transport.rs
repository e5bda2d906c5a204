//! One socket with its codec, its TLS session if it has one, and the bytes not yet written.

use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::{AddressFamily, SendFlags, SocketAddrUnix, SocketFlags, SocketType, sockopt};

use crate::codec::Codec;
use crate::failure::Failure;
use crate::run_clock::{Nanos, SECOND};
use crate::target::Address;
use crate::tls::{Session, Tls};

const BACKOFF_FIRST: Nanos = SECOND / 100;
const BACKOFF_MAX: Nanos = SECOND;

/// What a connection is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    Closed,
    Connecting,
    /// Connected; TLS, if there is any, is being negotiated.
    Greeting,
    Open,
}

/// A connection to the target, or the place for one.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) state: State,
    pub(crate) codec: Codec,
    pub(crate) out: Vec<u8>,
    /// Not before this time is it opened (again).
    pub(crate) opens_at: Nanos,
    pub(crate) opened_at: Nanos,
    /// It stands in the engine's line of connections with room.
    pub(crate) in_line: bool,
    fd: Option<OwnedFd>,
    tls: Option<Box<Session>>,
    written: usize,
    backoff: Nanos,
}

impl Connection {
    pub(crate) fn new(codec: Codec, opens_at: Nanos) -> Self {
        Self {
            state: State::Closed,
            codec,
            out: Vec::new(),
            opens_at,
            opened_at: 0,
            in_line: false,
            fd: None,
            tls: None,
            written: 0,
            backoff: BACKOFF_FIRST,
        }
    }

    /// Starts connecting; the socket is the caller's to register.
    pub(crate) fn open(
        &mut self,
        address: &Address,
        tls: Option<&Tls>,
        now: Nanos,
    ) -> Result<&OwnedFd, Failure> {
        self.tls = tls.map(Tls::session).transpose()?.map(Box::new);
        let fd = connect(address).map_err(Failure::Connect)?;
        self.state = State::Connecting;
        self.opened_at = now;
        Ok(self.fd.insert(fd))
    }

    /// The socket has news while the connection is not open yet; true once it is.
    pub(crate) fn proceed(&mut self) -> Result<bool, Failure> {
        let Some(fd) = &self.fd else { return Err(Failure::Connect(Errno::NOTCONN)) };
        if self.state == State::Connecting {
            sockopt::socket_error(fd).and_then(|inner| inner).map_err(Failure::Connect)?;
            self.state = State::Greeting;
        }
        if let Some(tls) = &mut self.tls
            && !tls.greet(fd)?
        {
            return Ok(false);
        }
        self.state = State::Open;
        self.backoff = BACKOFF_FIRST;
        Ok(true)
    }

    /// Reads what is there; 0 is the end, less than `buffer` holds means that nothing is left.
    pub(crate) fn read(&mut self, buffer: &mut [u8]) -> Result<usize, Failure> {
        match (&self.fd, &mut self.tls) {
            (None, _) => Err(Failure::Broken(Errno::AGAIN)),
            (Some(fd), None) => rustix::io::read(fd, buffer).map_err(Failure::Broken),
            (Some(fd), Some(tls)) => tls.read(fd, buffer),
        }
    }

    /// Writes what is queued, as far as the socket takes it.
    pub(crate) fn flush(&mut self) -> Result<(), Errno> {
        let Some(fd) = self.fd.as_ref().filter(|_| self.state == State::Open) else {
            return Ok(());
        };
        if let Some(tls) = &mut self.tls {
            tls.send(fd)?;
        }
        while self.written < self.out.len() {
            let rest = &self.out[self.written..];
            let sent = match &mut self.tls {
                None => rustix::net::send(fd, rest, SendFlags::NOSIGNAL),
                Some(tls) => tls.write(fd, rest),
            };
            match sent {
                Ok(count) => self.written += count,
                Err(Errno::AGAIN) => return Ok(()),
                Err(Errno::INTR) => {}
                Err(errno) => return Err(errno),
            }
        }
        self.out.clear();
        self.written = 0;
        Ok(())
    }

    /// Closes at once; a reset spares both sides the wait for stray packets.
    pub(crate) fn close(&mut self, codec: Codec) {
        if let Some(fd) = self.fd.take() {
            let _ = sockopt::set_socket_linger(&fd, Some(Duration::ZERO));
        }
        self.tls = None;
        self.state = State::Closed;
        self.codec = codec;
        self.out.clear();
        self.written = 0;
    }

    /// Waits longer after every failure in a row.
    pub(crate) fn back_off(&mut self, now: Nanos) {
        self.opens_at = now + self.backoff;
        self.backoff = (self.backoff * 2).min(BACKOFF_MAX);
    }
}

fn connect(address: &Address) -> Result<OwnedFd, Errno> {
    let family = match address {
        Address::Tcp(address) if address.is_ipv4() => AddressFamily::INET,
        Address::Tcp(_) => AddressFamily::INET6,
        Address::Unix(_) => AddressFamily::UNIX,
    };
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let fd = rustix::net::socket_with(family, SocketType::STREAM, flags, None)?;
    let connected = match address {
        Address::Tcp(address) => {
            sockopt::set_tcp_nodelay(&fd, true)?;
            rustix::net::connect(&fd, address)
        }
        Address::Unix(path) => rustix::net::connect(&fd, &SocketAddrUnix::new(path)?),
    };
    match connected {
        Ok(()) | Err(Errno::INPROGRESS) => Ok(fd),
        Err(errno) => Err(errno),
    }
}
