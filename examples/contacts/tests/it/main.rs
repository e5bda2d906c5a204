//! The reference application over the wire.
