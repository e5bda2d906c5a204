//! Which methods keep the keys of their commands, so that a command whose session is lost may come
//! again over the live protocol (specification 6.5) and runs once all the same.

use std::collections::BTreeSet;
use std::time::Duration;

use tidewire_service::{Idempotency, Method, StreamKind};

/// The methods that keep keys, and for how long.
#[derive(Debug, Clone, Default)]
pub(crate) struct CommandKeys {
    methods: BTreeSet<String>,
    kept: Option<Duration>,
}

impl CommandKeys {
    /// These methods keep keys for at least `kept`, as `pkg.Service/Method`.
    pub(crate) fn add(&mut self, methods: impl Iterator<Item = String>, kept: Duration) {
        self.methods.extend(methods.map(|method| format!("/{}", method.trim_start_matches('/'))));
        self.kept = Some(self.kept.map_or(kept, |before| before.min(kept)));
    }

    /// For how long keys are kept, where any are.
    pub(crate) fn kept(&self) -> Option<Duration> {
        self.kept
    }

    /// Whether a command of this method may be sent again under its key.
    pub(crate) fn holds(&self, method: &Method) -> bool {
        method.idempotency == Idempotency::Idempotent || self.methods.contains(&*method.path)
    }

    /// The first that is not one of these commands.
    pub(crate) fn misfit<'a>(&self, served: impl Iterator<Item = &'a Method>) -> Option<String> {
        let is_command = |method: &&Method| method.kind == StreamKind::Unary && !method.is_query();
        let commands: BTreeSet<_> = served.filter(is_command).map(|m| m.path.to_string()).collect();
        self.methods.iter().find(|method| !commands.contains(*method)).cloned()
    }
}
