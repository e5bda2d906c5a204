//! What is logged where a service says that it changed something and nobody hears it.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use parking_lot::Mutex;
use tidewire_service::LogLimit;

/// When it was logged last, for each service.
#[derive(Debug, Default)]
pub(super) struct IgnoredChanges(Mutex<HashMap<Arc<str>, LogLimit>>);

impl IgnoredChanges {
    /// Logs it, once a minute for each service.
    pub(super) fn log(&self, service: &Arc<str>, target: &str, now: Instant) {
        let line = {
            let mut limits = self.0.lock();
            let limit = limits.entry(Arc::clone(service)).or_insert_with(LogLimit::one_a_minute);
            limit.line(now)
        };
        if let Some(left_out) = line {
            let path = target.split('?').next().unwrap_or_default();
            tracing::warn!(%service, path, left_out, "{IGNORED}");
        }
    }
}

const IGNORED: &str = "Tidewire-Changed is ignored here, and no page ends: only commands (POST, PUT, PATCH, DELETE and \
                       other unsafe methods) change things";
