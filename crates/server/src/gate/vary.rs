//! `Vary` in a response as hyper has it; for [`Headers`](tidewire_service::Headers) there is
//! [`tidewire_service::vary`].

use http::HeaderMap;
use http::header::{HeaderValue, VARY};
use tidewire_service::vary_line;

/// Adds a name to `Vary` unless it is there, and leaves one line of it.
pub(crate) fn vary(headers: &mut HeaderMap, name: &'static str) {
    let name = HeaderValue::from_static(name);
    if !headers.contains_key(VARY) {
        headers.insert(VARY, name);
        return;
    }
    if let Some(line) = vary_line(|| headers.get_all(VARY).iter(), &name) {
        headers.insert(VARY, line);
    }
}
