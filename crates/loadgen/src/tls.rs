//! TLS under any codec: whom the generator trusts, and one connection's session on its socket.
//!
//! The protocol of a run is decided before it starts, so ALPN offers only that one; a target that
//! does not take it ends the handshake with a failure that says so. Sessions are never resumed:
//! with `--new-connections` every request pays for a whole handshake, as a new user's would.
//!
//! | given | trusted |
//! |---|---|
//! | nothing | the authorities of the machine |
//! | `--cacert FILE` | the authorities in that PEM file, and no others |
//! | `--server-cert FILE` | the first certificate in that PEM file, and no other |
//! | `--insecure` | whoever answers |

use std::io::{ErrorKind, Read as _, Write as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::Path;
use std::sync::Arc;

use rustix::io::Errno;
use rustls::client::Resumption;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection};

use crate::error::Error;
use crate::failure::Failure;
use crate::request::Transport;

/// ALPN names.
const H2: &[u8] = b"h2";
const HTTP1: &[u8] = b"http/1.1";

/// Whom to trust.
#[derive(Debug, Clone, Copy)]
pub enum Trust<'a> {
    /// The authorities of the machine.
    Machine,
    /// The authorities in this PEM file.
    File(&'a Path),
    /// The first certificate in this PEM file alone.
    Only(&'a Path),
    /// Whoever answers.
    Anyone,
}

impl Trust<'_> {
    fn config(self) -> Result<ClientConfig, Error> {
        let tls = tidewire_client::Tls::new();
        match self {
            Self::Anyone => tls
                .danger_without_verification()
                .config()
                .map_err(|error| Error::system(error.to_string())),
            Self::Machine => tls.config().map_err(|_| {
                Error::system(
                    "this machine trusts no authorities; name some with --cacert, or use \
                     --insecure",
                )
            }),
            Self::File(path) => std::fs::read(path)
                .map_err(|error| error.to_string())
                .and_then(|pem| tls.authorities(pem).config().map_err(|error| error.to_string()))
                .map_err(|what| Error::usage(format!("--cacert {}: {what}", path.display()))),
            Self::Only(path) => std::fs::read(path)
                .map_err(|error| error.to_string())
                .and_then(|pem| {
                    tls.only_certificate(pem).config().map_err(|error| error.to_string())
                })
                .map_err(|what| Error::usage(format!("--server-cert {}: {what}", path.display()))),
        }
    }
}

/// How every connection of a run speaks TLS.
#[derive(Debug, Clone)]
pub struct Tls {
    config: Arc<ClientConfig>,
    name: ServerName<'static>,
    alpn: &'static [u8],
}

impl Tls {
    /// `host` is the name that the certificate must have; `transport` what to agree on.
    pub fn new(host: &str, transport: Transport, trust: Trust<'_>) -> Result<Self, Error> {
        let name = ServerName::try_from(host.to_owned())
            .map_err(|_| Error::usage(format!("{host:?} cannot be the name in a certificate")))?;
        let mut config = trust.config()?;
        let alpn = if transport == Transport::Http2 { H2 } else { HTTP1 };
        config.alpn_protocols = vec![alpn.to_vec()];
        config.resumption = Resumption::disabled();
        Ok(Self { config: Arc::new(config), name, alpn })
    }

    /// What is spoken below TLS, in words.
    pub fn protocol(&self) -> &'static str {
        if self.alpn == H2 { "HTTP/2 over TLS" } else { "HTTP/1.1 over TLS" }
    }

    /// The session of a fresh connection.
    pub fn session(&self) -> Result<Session, Failure> {
        let client = ClientConnection::new(Arc::clone(&self.config), self.name.clone())
            .map_err(|error| Failure::Tls(error.to_string()))?;
        Ok(Session { client, alpn: self.alpn })
    }
}

/// The TLS state of one connection.
#[derive(Debug)]
pub struct Session {
    client: ClientConnection,
    alpn: &'static [u8],
}

impl Session {
    /// Goes on with the handshake; true once it is done and the protocol agreed on.
    pub fn greet(&mut self, fd: &OwnedFd) -> Result<bool, Failure> {
        loop {
            self.send(fd).map_err(Failure::Broken)?;
            if !self.client.is_handshaking() {
                return self.check_alpn();
            }
            match self.receive(fd)? {
                None => return Ok(false),
                Some(0) => return Err(Failure::Tls("closed during the handshake".to_owned())),
                Some(_) => {}
            }
        }
    }

    /// HTTP/1.1 needs no agreement; a target without ALPN speaks it.
    fn check_alpn(&self) -> Result<bool, Failure> {
        match self.client.alpn_protocol() {
            Some(agreed) if agreed == self.alpn => Ok(true),
            None if self.alpn == HTTP1 => Ok(true),
            _ => {
                let wanted = String::from_utf8_lossy(self.alpn);
                Err(Failure::Tls(format!("the target did not agree to {wanted}")))
            }
        }
    }

    /// Reads until `buffer` is full or nothing more is there; 0 is the end.
    pub fn read(&mut self, fd: &OwnedFd, buffer: &mut [u8]) -> Result<usize, Failure> {
        let mut filled = 0;
        while filled < buffer.len() {
            match self.client.reader().read(&mut buffer[filled..]) {
                Ok(0) => return Ok(filled),
                Ok(count) => filled += count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => match self.receive(fd)? {
                    None if filled == 0 => return Err(Failure::Broken(Errno::AGAIN)),
                    None => return Ok(filled),
                    Some(_) => {}
                },
                // Ends without a goodbye are left to the protocol above, which knows lengths.
                Err(_) => return Ok(filled),
            }
        }
        Ok(filled)
    }

    /// Reads once from the socket; `None` when nothing is there.
    fn receive(&mut self, fd: &OwnedFd) -> Result<Option<usize>, Failure> {
        let count = match self.client.read_tls(&mut Socket(fd)) {
            Ok(count) => count,
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(None),
            Err(error) => return Err(Failure::Broken(errno(&error))),
        };
        if let Err(error) = self.client.process_new_packets() {
            // The alert that says why.
            let _ = self.send(fd);
            return Err(Failure::Tls(error.to_string()));
        }
        Ok(Some(count))
    }

    /// Takes plain bytes, as far as there is room, and writes what is encrypted.
    pub fn write(&mut self, fd: &OwnedFd, plain: &[u8]) -> Result<usize, Errno> {
        self.send(fd)?;
        let taken = self.client.writer().write(plain).map_err(|error| errno(&error))?;
        self.send(fd)?;
        if taken == 0 { Err(Errno::AGAIN) } else { Ok(taken) }
    }

    /// Writes what is encrypted as far as the socket takes it.
    pub fn send(&mut self, fd: &OwnedFd) -> Result<(), Errno> {
        while self.client.wants_write() {
            match self.client.write_tls(&mut Socket(fd)) {
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(errno(&error)),
            }
        }
        Ok(())
    }
}

fn errno(error: &std::io::Error) -> Errno {
    Errno::from_io_error(error).unwrap_or(Errno::IO)
}

/// The socket as rustls wants it.
struct Socket<'a>(&'a OwnedFd);

impl std::io::Read for Socket<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        Ok(rustix::io::retry_on_intr(|| rustix::io::read(self.0, &mut *buffer))?)
    }
}

impl std::io::Write for Socket<'_> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let flags = rustix::net::SendFlags::NOSIGNAL;
        Ok(rustix::io::retry_on_intr(|| rustix::net::send(self.0.as_fd(), bytes, flags))?)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}
