//! What surrounds a call: headers, deadline, peer, protocol, and whatever layers attached.
//!
//! A context is data. The deadline is a point in time set by whoever received the call; asking how
//! much is left takes the present as an argument, since this room reads no clock. Generated clients
//! take a context too, so a handler passes on what it was given:
//! `client.get(context.outgoing(), request)`.

use core::net::SocketAddr;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use http::header::AsHeaderName;
use http::{Extensions, HeaderMap, HeaderValue};

/// What surrounds a call.
#[derive(Debug, Clone, Default)]
pub struct Context {
    headers: HeaderMap,
    deadline: Option<Instant>,
    peer: Option<Arc<Peer>>,
    protocol: Option<Protocol>,
    extensions: Extensions,
}

/// The protocol that a call arrived by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Protocol {
    /// Connect.
    Connect,
    /// gRPC.
    Grpc,
    /// gRPC-Web.
    GrpcWeb,
    /// REST, transcoded by `google.api.http`.
    Rest,
    /// Plain HTTP.
    Http,
    /// Tidewire's live protocol.
    Live,
}

/// The other side of the connection that a call arrived by.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Peer {
    /// Its address; `None` for a Unix socket or a call within the process.
    pub address: Option<SocketAddr>,
    /// Its TLS certificate chain in DER, leaf first; empty without client authentication.
    pub certificates: Vec<Vec<u8>>,
}

impl Context {
    /// A context with these headers, and nothing else known.
    #[inline]
    pub fn new(headers: HeaderMap) -> Self {
        Self { headers, ..Self::default() }
    }

    /// Sets the point in time after which no answer is wanted.
    #[must_use]
    #[inline]
    pub fn with_deadline(mut self, deadline: impl Into<Option<Instant>>) -> Self {
        self.deadline = deadline.into();
        self
    }

    /// Sets the other side of the connection.
    #[must_use]
    #[inline]
    pub fn with_peer(mut self, peer: impl Into<Option<Arc<Peer>>>) -> Self {
        self.peer = peer.into();
        self
    }

    /// Sets the protocol that the call arrived by.
    #[must_use]
    #[inline]
    pub fn with_protocol(mut self, protocol: Protocol) -> Self {
        self.protocol = Some(protocol);
        self
    }

    /// Sets what travels with the request inside the process.
    #[must_use]
    #[inline]
    pub fn with_extensions(mut self, extensions: Extensions) -> Self {
        self.extensions = extensions;
        self
    }

    /// Request headers; duplicates and their order are kept.
    pub fn headers(&self) -> &HeaderMap {
        &self.headers
    }

    /// Request headers, to be changed by a layer or before an outgoing call.
    pub fn headers_mut(&mut self) -> &mut HeaderMap {
        &mut self.headers
    }

    /// The first value of a header.
    pub fn header(&self, name: impl AsHeaderName) -> Option<&HeaderValue> {
        self.headers.get(name)
    }

    /// The point in time after which no answer is wanted.
    pub fn deadline(&self) -> Option<Instant> {
        self.deadline
    }

    /// What is left until the deadline at `now`; zero when it passed, `None` without one.
    pub fn remaining(&self, now: Instant) -> Option<Duration> {
        self.deadline.map(|deadline| deadline.saturating_duration_since(now))
    }

    /// The other side of the connection; `None` for a call within the process.
    pub fn peer(&self) -> Option<&Peer> {
        self.peer.as_deref()
    }

    /// The protocol that the call arrived by; `None` for a call within the process.
    pub fn protocol(&self) -> Option<Protocol> {
        self.protocol
    }

    /// What travels with the request inside the process.
    pub fn extensions(&self) -> &Extensions {
        &self.extensions
    }

    /// Extensions, to be changed by a layer.
    pub fn extensions_mut(&mut self) -> &mut Extensions {
        &mut self.extensions
    }

    /// The headers and extensions, taken out.
    pub fn into_parts(self) -> (HeaderMap, Extensions) {
        (self.headers, self.extensions)
    }

    /// A context for a call made on behalf of this one: the same deadline, nothing else.
    ///
    /// Headers are not passed on by themselves, since they may hold the caller's credentials.
    #[must_use]
    pub fn outgoing(&self) -> Self {
        Self { deadline: self.deadline, ..Self::default() }
    }
}

impl Peer {
    /// A peer with an address and no certificates.
    pub fn new(address: impl Into<Option<SocketAddr>>) -> Self {
        Self { address: address.into(), certificates: Vec::new() }
    }

    /// Sets the certificate chain in DER, leaf first.
    #[must_use]
    pub fn with_certificates(mut self, certificates: Vec<Vec<u8>>) -> Self {
        self.certificates = certificates;
        self
    }
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Connect => "connect",
            Self::Grpc => "grpc",
            Self::GrpcWeb => "grpc-web",
            Self::Rest => "rest",
            Self::Http => "http",
            Self::Live => "live",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outgoing_call_keeps_the_deadline_and_drops_credentials() {
        let now = Instant::now();
        let mut headers = HeaderMap::new();
        headers.insert("authorization", HeaderValue::from_static("Bearer secret"));
        let context = Context::new(headers).with_deadline(now + Duration::from_secs(3));
        let outgoing = context.outgoing();
        assert_eq!(outgoing.remaining(now), Some(Duration::from_secs(3)));
        assert_eq!(outgoing.remaining(now + Duration::from_secs(9)), Some(Duration::ZERO));
        assert!(outgoing.headers().is_empty());
    }
}
