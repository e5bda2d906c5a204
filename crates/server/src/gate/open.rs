//! What the gates of a program never see: whoever probes has no credential, and a gate that asks
//! for one would have a healthy server restarted.
//!
//! | request for | is open |
//! |---|---|
//! | the health service | unless a rule asks who calls |
//! | reflection, `/openapi.json`, `/docs` | if [`AccessRules::reflection`] says that everybody may |
//!
//! The bounds of the server hold for all of them.
//!
//! [`AccessRules::reflection`]: super::access::AccessRules::reflection

use std::sync::Arc;

use tidewire_service::{Gate, Target};

use super::access::AccessGate;
use super::own_targets::{DOCUMENT, HEALTH, REFLECTION, is_of_docs};

/// Which targets are open, and the gates that they have: bounds alone.
pub(crate) struct OpenTargets {
    health: bool,
    reflection: bool,
    /// Whether `/openapi.json` is the document, and is open.
    pub(crate) document: bool,
    /// Whether `/docs` is the docs page, and is open.
    pub(crate) docs: bool,
    pub(crate) gates: Vec<Arc<dyn Gate>>,
}

impl OpenTargets {
    /// Those of a server with these bounds; its schema is open or not.
    pub(crate) fn new(
        is_schema_open: bool,
        access: Option<&AccessGate>,
        bounds: Vec<Arc<dyn Gate>>,
    ) -> Self {
        Self {
            health: !access.is_some_and(AccessGate::asks_of_health),
            reflection: is_schema_open,
            document: is_schema_open,
            docs: is_schema_open,
            gates: bounds,
        }
    }

    /// Whether everybody may ask for it, whatever the gates of the program say.
    #[inline]
    pub(crate) fn has(&self, target: &Target) -> bool {
        match target {
            Target::Method(method) if self.health && method.service == HEALTH => true,
            Target::Method(method) => self.reflection && REFLECTION.contains(&&*method.service),
            Target::Http(http) => {
                let path = http.uri.path();
                self.document && path == DOCUMENT || self.docs && is_of_docs(path)
            }
            _ => false,
        }
    }
}
