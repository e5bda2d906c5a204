//! What is mounted below a prefix, and the path that it sees: the prefix is taken off.

use std::borrow::Cow;
use std::sync::Arc;

use http::Uri;
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

/// The URI that what is mounted sees.
pub(super) fn without_prefix(uri: &Uri, prefix: usize) -> Uri {
    let whole = uri.path_and_query().map_or("/", |whole| whole.as_str());
    let rest = whole.get(prefix..).unwrap_or_default();
    let rest = if rest.starts_with('/') { Cow::Borrowed(rest) } else { format!("/{rest}").into() };
    rest.parse().unwrap_or_else(|_| Uri::from_static("/"))
}
