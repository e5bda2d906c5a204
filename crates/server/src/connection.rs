//! One connection from its acceptance to its end, over HTTP/1.1 or HTTP/2.

pub(crate) mod acceptor;
pub(crate) mod driver;
pub(crate) mod http1;
pub(crate) mod http2;
pub(crate) mod serve;
