//! The server that an admin listener belongs to, as its caller by hand and its load reach it.
//!
//! Both run on the machine of the server and have its certificate from the server itself. So they
//! accept exactly that certificate: whoever signed it, whatever names it has, and no other.

use std::path::PathBuf;
use std::sync::Arc;

use tidewire_server::{Address, Handle};
use tidewire_service::{Error, Result};

/// What a server shows in its handshakes.
#[derive(Debug, Clone)]
pub(crate) struct ServerCertificate {
    /// Its chain.
    pub(crate) pem: Arc<[u8]>,
    /// The file with that chain, where it is in one.
    pub(crate) file: Option<PathBuf>,
}

/// Where calls to it go: its first address.
///
/// # Errors
/// It does not listen yet.
pub(crate) fn address(handle: &Handle) -> Result<Address> {
    let nowhere = || Error::failed_precondition("this server does not listen yet");
    handle.addresses().first().map(reachable).ok_or_else(nowhere)
}

/// What it shows at this address; nothing where it does not speak TLS there.
///
/// # Errors
/// It takes no client without a certificate, and there is none here.
pub(crate) fn certificate(handle: &Handle, address: &Address) -> Result<Option<ServerCertificate>> {
    let Address::Tcp(_) = address else { return Ok(None) };
    let Some(identity) = handle.identity() else { return Ok(None) };
    if identity.requires_client_certificate {
        return Err(Error::failed_precondition(CLIENT_CERTIFICATE));
    }
    let absolute = |file: PathBuf| std::path::absolute(&file).unwrap_or(file);
    let file = identity.certificate_file.map(absolute);
    Ok(Some(ServerCertificate { pem: identity.certificate, file }))
}

/// Why it cannot be called from here, if it cannot.
pub(crate) fn problem(handle: &Handle) -> Option<&'static str> {
    let is_tcp = matches!(handle.addresses().first(), Some(Address::Tcp(_)));
    let identity = handle.identity().filter(|_| is_tcp)?;
    identity.requires_client_certificate.then_some(CLIENT_CERTIFICATE)
}

/// Who listens everywhere is called on this machine; a process in another folder finds a socket.
fn reachable(address: &Address) -> Address {
    match address {
        Address::Tcp(at) if at.ip().is_unspecified() => {
            let mut at = *at;
            at.set_ip(match at.ip() {
                std::net::IpAddr::V4(_) => std::net::Ipv4Addr::LOCALHOST.into(),
                std::net::IpAddr::V6(_) => std::net::Ipv6Addr::LOCALHOST.into(),
            });
            Address::Tcp(at)
        }
        Address::Unix(socket) => {
            Address::Unix(std::path::absolute(socket).unwrap_or_else(|_| socket.clone()))
        }
        other => other.clone(),
    }
}

const CLIENT_CERTIFICATE: &str = "this server takes no client without a certificate, and the console has none; call it in a \
     terminal, with tidewire call --cert FILE --key FILE";
