//! What `/openapi.json` says beside what descriptors do: who may call, and the rules that requests
//! are checked by.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;

use tidewire_rest::{Describe, FieldRules};
use tidewire_schema::Schema;
use tidewire_service::{Access, Spec};
use tidewire_validate::{FieldDescription, RuleSet};

use crate::gate::access::AccessGate;

/// What a server knows of its requests, while a document is made.
pub(super) struct RequestRules<'a> {
    access: Option<&'a AccessGate>,
    /// Whether requests are checked.
    validates: bool,
    /// Rules by the descriptors that they are of.
    rules: RefCell<HashMap<usize, Option<RuleSet>>>,
}

impl<'a> RequestRules<'a> {
    pub(super) fn new(access: Option<&'a AccessGate>, validates: bool) -> Self {
        Self { access, validates, rules: RefCell::default() }
    }
}

impl Describe for RequestRules<'_> {
    fn access(&self, method: &Spec) -> Access {
        self.access.map_or(Access::Anonymous, |gate| gate.of_method(method).clone())
    }

    fn rules(&self, schema: &Schema, message: &str) -> Vec<FieldRules> {
        if !self.validates {
            return Vec::new();
        }
        let mut rules = self.rules.borrow_mut();
        let rules = rules
            .entry(Arc::as_ptr(schema.pool()).addr())
            .or_insert_with(|| RuleSet::new(schema).ok());
        let described = rules.as_ref().map(|rules| rules.describe(message)).unwrap_or_default();
        described.into_iter().map(field_rules).collect()
    }
}

fn field_rules(described: FieldDescription) -> FieldRules {
    let FieldDescription { number, is_required, keywords, items, .. } = described;
    FieldRules { number, is_required, keywords, items }
}
