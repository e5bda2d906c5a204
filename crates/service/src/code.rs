//! The sixteen error codes shared by gRPC and Connect, and their mapping to HTTP statuses.
//!
//! Numbers follow gRPC's status codes, names and HTTP statuses the Connect protocol
//! specification ("Error codes" table). A successful call has no code: it has a reply.

use std::fmt;
use std::str::FromStr;

use http::StatusCode;

/// Why a call failed, as seen by the caller.
///
/// ```
/// # use tidewire_service as tidewire;
/// use tidewire::Code;
///
/// assert_eq!(Code::NotFound.as_str(), "not_found");
/// assert_eq!("not_found".parse(), Ok(Code::NotFound));
/// // Over REST and plain HTTP, and over gRPC:
/// assert_eq!(Code::NotFound.http_status(), 404);
/// assert_eq!(Code::NotFound.number(), 5);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Code {
    /// The caller gave up.
    Canceled = 1,
    /// Nothing better is known, for example an error from a peer without a code.
    Unknown = 2,
    /// The request is wrong whatever the state of the system.
    InvalidArgument = 3,
    /// The deadline passed before the answer was there.
    DeadlineExceeded = 4,
    /// What was asked for does not exist.
    NotFound = 5,
    /// What should be created exists already.
    AlreadyExists = 6,
    /// The caller is known and may not do this.
    PermissionDenied = 7,
    /// A quota, limit or size bound is reached.
    ResourceExhausted = 8,
    /// The system is not in the state that the request needs.
    FailedPrecondition = 9,
    /// A conflict, such as a failed transaction: try again from a higher level.
    Aborted = 10,
    /// The request went past the valid range.
    OutOfRange = 11,
    /// The method is not there or not switched on.
    Unimplemented = 12,
    /// An invariant is broken: a bug.
    Internal = 13,
    /// Temporarily not there: try again with backoff.
    Unavailable = 14,
    /// Data is lost or corrupt for good.
    DataLoss = 15,
    /// The caller is not known.
    Unauthenticated = 16,
}

impl Code {
    /// Every code, in numeric order.
    pub const ALL: [Self; 16] = [
        Self::Canceled,
        Self::Unknown,
        Self::InvalidArgument,
        Self::DeadlineExceeded,
        Self::NotFound,
        Self::AlreadyExists,
        Self::PermissionDenied,
        Self::ResourceExhausted,
        Self::FailedPrecondition,
        Self::Aborted,
        Self::OutOfRange,
        Self::Unimplemented,
        Self::Internal,
        Self::Unavailable,
        Self::DataLoss,
        Self::Unauthenticated,
    ];

    /// The number used by gRPC's `grpc-status`.
    pub const fn number(self) -> u8 {
        self as u8
    }

    /// The code with this gRPC number; `None` for 0 (success) and unknown numbers.
    pub fn from_number(number: u32) -> Option<Self> {
        let index = usize::try_from(number).ok()?.checked_sub(1)?;
        Self::ALL.get(index).copied()
    }

    /// The name used by Connect, such as `invalid_argument`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Canceled => "canceled",
            Self::Unknown => "unknown",
            Self::InvalidArgument => "invalid_argument",
            Self::DeadlineExceeded => "deadline_exceeded",
            Self::NotFound => "not_found",
            Self::AlreadyExists => "already_exists",
            Self::PermissionDenied => "permission_denied",
            Self::ResourceExhausted => "resource_exhausted",
            Self::FailedPrecondition => "failed_precondition",
            Self::Aborted => "aborted",
            Self::OutOfRange => "out_of_range",
            Self::Unimplemented => "unimplemented",
            Self::Internal => "internal",
            Self::Unavailable => "unavailable",
            Self::DataLoss => "data_loss",
            Self::Unauthenticated => "unauthenticated",
        }
    }

    /// The HTTP status that Connect and REST answer with.
    pub const fn http_status(self) -> StatusCode {
        match self {
            Self::Canceled => match StatusCode::from_u16(499) {
                Ok(status) => status,
                Err(_) => StatusCode::BAD_REQUEST,
            },
            Self::InvalidArgument | Self::FailedPrecondition | Self::OutOfRange => {
                StatusCode::BAD_REQUEST
            }
            Self::DeadlineExceeded => StatusCode::GATEWAY_TIMEOUT,
            Self::NotFound => StatusCode::NOT_FOUND,
            Self::AlreadyExists | Self::Aborted => StatusCode::CONFLICT,
            Self::PermissionDenied => StatusCode::FORBIDDEN,
            Self::ResourceExhausted => StatusCode::TOO_MANY_REQUESTS,
            Self::Unimplemented => StatusCode::NOT_IMPLEMENTED,
            Self::Unknown | Self::Internal | Self::DataLoss => StatusCode::INTERNAL_SERVER_ERROR,
            Self::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
            Self::Unauthenticated => StatusCode::UNAUTHORIZED,
        }
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Code {
    type Err = UnknownCode;

    fn from_str(name: &str) -> Result<Self, UnknownCode> {
        Self::ALL.into_iter().find(|code| code.as_str() == name).ok_or(UnknownCode)
    }
}

/// The text names no code; names are lower case with underscores, such as `not_found`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UnknownCode;

impl fmt::Display for UnknownCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("not an error code; codes are lower case with underscores, such as not_found")
    }
}

impl std::error::Error for UnknownCode {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_numbers_lead_back_to_the_code() {
        for code in Code::ALL {
            assert_eq!(code.as_str().parse(), Ok(code));
            assert_eq!(Code::from_number(code.number().into()), Some(code));
        }
        assert_eq!(Code::from_number(0), None);
        assert_eq!(Code::from_number(17), None);
        assert_eq!("NotFound".parse::<Code>(), Err(UnknownCode));
        assert_eq!(Code::Canceled.http_status().as_u16(), 499);
    }
}
