//! How pages of one service are kept.

use std::time::Duration;

/// How pages of one service are kept.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct PageSettings {
    /// The largest body that is stored; 1 MiB unless set. Larger ones pass through.
    pub page_bytes_max: usize,
    /// How long a page may be fresh that says nothing but when it was modified; a day unless set.
    pub heuristic_max: Duration,
    /// Whether responses with `Set-Cookie` are stored, with the cookie; not unless set.
    pub set_cookie: bool,
    /// How much longer than it says a page is used while the service fails; only as it says itself
    /// unless set.
    pub stale_if_error: Option<Duration>,
    /// How much longer a page that says nothing of errors is used while the service cannot be
    /// reached (RFC 9111, section 4.2.4); a minute unless set.
    pub stale_if_unreachable: Duration,
    /// How many pages one URL may have, by their `Vary` and callers; 64 unless set.
    pub variants_max: usize,
}

impl Default for PageSettings {
    fn default() -> Self {
        Self {
            page_bytes_max: 1 << 20,
            heuristic_max: Duration::from_secs(24 * 60 * 60),
            set_cookie: false,
            stale_if_error: None,
            stale_if_unreachable: Duration::from_secs(60),
            variants_max: 64,
        }
    }
}
