//! Whether the program takes calls, for whoever sends it some: yes or no, and nothing else.

use http::StatusCode;
use tidewire_service::{Error, Reply, Result};

/// The answer of `/readyz`.
pub(crate) fn ready(is_ready: bool) -> Result<Reply> {
    if is_ready {
        return Ok(Reply::text("ready\n"));
    }
    let status = StatusCode::SERVICE_UNAVAILABLE;
    Err(Error::unavailable("the server drains").with_http_status(status))
}
