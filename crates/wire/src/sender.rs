//! Whose bytes are wrong: the code and the text of an error follow from it.
//!
//! What a caller sends wrongly is `invalid_argument`; what a server answers wrongly is `internal`,
//! with the name of the server, since whoever made the call cannot mend it. The server did not say
//! such an error itself, and what it did is not known.

use tidewire_service::{Code, Error, Outcome};

/// Who sent the bytes that are being read.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Sender<'a> {
    /// A client: this is a server.
    Client,
    /// A server, by its name: this is a client.
    Server(&'a str),
}

impl Sender<'_> {
    /// The error for what it did: `what` goes on after its name.
    pub(crate) fn malformed(self, what: &str) -> Error {
        match self {
            Self::Client => Error::invalid_argument(format!("the caller {what}")),
            Self::Server(host) => unreadable(Error::internal(format!("{host} {what}"))),
        }
    }

    /// The error for what breaks the protocol itself: `internal` on both sides, as in gRPC.
    pub(crate) fn broke_protocol(self, what: &str) -> Error {
        self.with_code(Code::Internal, what)
    }

    /// The error for other than one message where one is expected: gRPC's `unimplemented`.
    pub(crate) fn miscounted(self, what: &str) -> Error {
        self.with_code(Code::Unimplemented, what)
    }

    fn with_code(self, code: Code, what: &str) -> Error {
        match self {
            Self::Client => Error::new(code, format!("the caller {what}")),
            Self::Server(host) => unreadable(Error::new(code, format!("{host} {what}"))),
        }
    }

    /// The error for a message over the limit.
    pub(crate) fn too_large(self, bytes_max: usize) -> Error {
        match self {
            Self::Client => Error::resource_exhausted(format!(
                "a message of the request is larger than limits.message_bytes_max = {bytes_max} \
                 bytes; send less or raise the limit"
            )),
            Self::Server(host) => unreadable(Error::resource_exhausted(format!(
                "the reply of {host} is larger than limits.message_bytes_max = {bytes_max}; raise \
                 the limit or ask for less"
            ))),
        }
    }
}

/// The error of a reply that came and cannot be read.
pub(crate) fn unreadable(error: Error) -> Error {
    error.with_outcome(Outcome::Unknown)
}
