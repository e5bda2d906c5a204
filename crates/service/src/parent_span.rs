//! The span of the caller, for observers that make spans.
//!
//! The server gives a request its own span in the header `traceparent`, for the calls on its
//! behalf; whose child that is would be lost with what stood there. Only servers that trace insert
//! it.

/// The span that a request was made in by its caller, as sixteen digits: among the extensions of
/// its context, where it came with one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ParentSpan(pub [u8; 16]);
