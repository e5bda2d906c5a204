//! Which methods keep the keys of their commands, so that a command whose session is lost may come
//! again over the live protocol (specification 6.5) and runs once all the same.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use tidewire_service::{Idempotency, Interface, Method, Service, ServiceSource, StreamKind};

/// The methods that keep keys, and for how long.
#[derive(Debug, Clone, Default)]
pub(crate) struct CommandKeys {
    methods: BTreeSet<String>,
    kept: Option<Duration>,
}

impl CommandKeys {
    /// These methods keep keys for at least `kept`, as `pkg.Service/Method`.
    pub(crate) fn add(&mut self, methods: &[impl AsRef<str>], kept: Duration) {
        let paths = methods.iter().map(|method| method.as_ref().trim_start_matches('/'));
        self.methods.extend(paths.map(|path| format!("/{path}")));
        self.kept = Some(self.kept.map_or(kept, |before| before.min(kept)));
    }

    /// For how long keys are kept, where any are.
    pub(crate) fn lifetime(&self) -> Option<Duration> {
        self.kept
    }

    /// Whether a command of this method may be sent again under its key.
    pub(crate) fn holds(&self, method: &Method) -> bool {
        method.idempotency == Idempotency::Idempotent || self.methods.contains(&*method.path)
    }

    /// Whether they are all unary commands of these services.
    ///
    /// # Errors
    /// The path of one that is not.
    pub(crate) fn check(
        &self,
        services: &[(Interface, Arc<dyn Service>)],
        offer: Option<&dyn ServiceSource>,
    ) -> Result<(), String> {
        let mut commands = BTreeSet::new();
        let mut serve = |interface: &Interface| {
            let is_command =
                |method: &&Method| method.kind == StreamKind::Unary && !method.is_query();
            let served = interface.methods().iter().filter(is_command);
            commands.extend(served.map(|method| method.path.to_string()));
        };
        services.iter().for_each(|(interface, _)| serve(interface));
        let offered = offer.map(ServiceSource::services).unwrap_or_default();
        offered.iter().for_each(|(interface, _)| serve(interface));
        let misfit = self.methods.difference(&commands).next();
        misfit.map_or(Ok(()), |method| Err(method.clone()))
    }
}
