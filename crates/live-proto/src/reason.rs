//! Why a connection ended: the numbers of `goaway`, and the violation that a decoder reports.

use std::borrow::Cow;
use std::fmt;

macro_rules! reasons {
    ($($name:ident = $number:literal $text:literal $doc:literal;)*) => {
        /// Why a connection ends. Numbers and names are those of the specification, section 8.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        #[repr(u8)]
        pub enum Reason {$(
            #[doc = concat!($doc, ".")]
            $name = $number,
        )*}

        impl Reason {
            /// Every reason, in numeric order.
            pub const ALL: &[Self] = &[$(Self::$name),*];

            /// The name in the specification.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$name => $text),* }
            }
        }
    };
}

reasons! {
    Drain = 0 "drain" "Going away in good order";
    Magic = 1 "magic" "The first bytes are not a hello";
    Version = 2 "version" "The two sides share no version";
    Feature = 3 "feature" "A required feature is missing, or one not in force was used";
    TooLarge = 4 "too_large" "A payload, a body or an item is over the limit";
    Malformed = 5 "malformed" "Bytes that do not fit the specification";
    MetadataMax = 6 "metadata_max" "Metadata is over the limit";
    Unexpected = 7 "unexpected" "A frame that the state does not allow";
    UnknownStream = 8 "unknown_stream" "An answer to a call that is not open";
    StreamInUse = 9 "stream_in_use" "A request on an open stream number";
    StreamNumber = 10 "stream_number" "A stream number of the wrong parity or over the bound";
    CallsMax = 11 "calls_max" "More open calls than allowed";
    Credit = 12 "credit" "Items without credit, or credit for bytes never sent";
    UnknownMethod = 13 "unknown_method" "A method number that was never named";
    MethodsMax = 14 "methods_max" "A method numbered out of turn or over the limit";
    CommandId = 15 "command_id" "A command id that is zero, too far ahead, or runs already";
    Compression = 16 "compression" "A payload that does not decompress";
    HandshakeTimeout = 17 "handshake_timeout" "No hello in time";
    KeepAlive = 18 "keep_alive" "Nothing was received for too long";
    Unauthenticated = 19 "unauthenticated" "The credential of the connection is refused";
    InitFailed = 20 "init_failed" "A hosted process cannot start";
    Internal = 21 "internal" "A bug";
    Bye = 22 "bye" "The peer is done with the session";
    TakenOver = 23 "taken_over" "Another connection resumed the session";
}

impl Reason {
    /// Whether the session of a connection that ends for this is parked, not over.
    pub(crate) fn ends_connection_only(self) -> bool {
        matches!(self, Self::HandshakeTimeout | Self::KeepAlive | Self::TakenOver)
    }

    /// The number on the wire.
    pub const fn number(self) -> u8 {
        self as u8
    }

    /// The reason with this number; unknown numbers are [`Reason::Internal`].
    pub fn from_number(number: u64) -> Self {
        usize::try_from(number)
            .ok()
            .and_then(|index| Self::ALL.get(index))
            .copied()
            .unwrap_or(Self::Internal)
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The peer broke the protocol, or one side ends the connection: a reason and a text for the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// Which rule.
    pub reason: Reason,
    /// What was seen; names the limit where there is one.
    pub message: Cow<'static, str>,
    /// Milliseconds after which to come back, 0 when it does not say.
    pub after_ms: u64,
}

impl Violation {
    /// A violation with a text.
    pub fn new(reason: Reason, message: impl Into<Cow<'static, str>>) -> Self {
        Self { reason, message: message.into(), after_ms: 0 }
    }

    pub(crate) fn malformed(message: &'static str) -> Self {
        Self::new(Reason::Malformed, message)
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.reason, self.message)
    }
}

impl std::error::Error for Violation {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_dense_and_lead_back() {
        for (index, reason) in Reason::ALL.iter().enumerate() {
            assert_eq!(usize::from(reason.number()), index);
            assert_eq!(Reason::from_number(index as u64), *reason);
        }
        assert_eq!(Reason::from_number(99), Reason::Internal);
    }
}
