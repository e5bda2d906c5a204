//! What is mounted below a prefix, which is taken off the path that it sees
//! ([`without_prefix`](tidewire_service::without_prefix)).

use std::sync::Arc;

use tidewire_service::Service;

use crate::services::routes::{RouteError, RouteTarget, Routes};

impl Routes {
    /// Adds a service for everything at and below a prefix.
    pub(crate) fn mount(
        &mut self,
        prefix: &str,
        service: Arc<dyn Service>,
    ) -> Result<(), RouteError> {
        let prefix = prefix.trim_end_matches('/');
        if prefix.is_empty() {
            self.fallback = Some(service);
            return Ok(());
        }
        let below = format!("{prefix}/{{*_}}");
        for template in [prefix, &format!("{prefix}/"), &below] {
            self.insert(template, RouteTarget::Mount(Arc::clone(&service), prefix.len()))?;
        }
        Ok(())
    }
}
