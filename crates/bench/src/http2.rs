//! The HTTP/2 client side, without a socket.

pub(crate) mod hpack;
