//! What requests have to be, in the schemas of their messages.
//!
//! A message that is in a reply too keeps the schema of its type: a rule is for requests, and a
//! client would refuse replies by it. Walks go by a list, not by the stack: a schema can be one
//! chain of thousands of messages.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use buffa_descriptor::{DescriptorPool, FieldKind, MessageIndex, SingularKind};
use serde_json::{Map, Value};

use crate::binding::Binding;
use crate::describe::{Describe, FieldRules};
use crate::options::printed_name;

/// Writes the rules of all messages that are in requests alone.
pub(super) fn apply(
    schemas: &mut BTreeMap<String, Value>,
    bindings: &[Arc<Binding>],
    describe: &dyn Describe,
) {
    let mut replies = BTreeSet::new();
    for binding in bindings {
        if let Some(method) = binding.method_descriptor() {
            walk(binding.request.schema.pool(), method.output(), &mut replies);
        }
    }
    let mut requests = BTreeSet::new();
    for binding in bindings {
        let schema = &binding.request.schema;
        let root = binding.request.index;
        let pool = schema.pool();
        for index in walk(pool, root, &mut requests) {
            let message = pool.message(index);
            let name = message.full_name();
            let Some(of_message) = schemas.get_mut(name).filter(|_| !replies.contains(name)) else {
                continue;
            };
            let mut required = Vec::new();
            for rules in describe.rules(schema, name) {
                let Some(field) = message.field(rules.number) else { continue };
                let name = printed_name(field, binding.json);
                add(&mut of_message["properties"][name], &rules);
                if rules.is_required {
                    required.push(name);
                }
            }
            if !required.is_empty() {
                of_message["required"] = required.into();
            }
        }
    }
}

/// Adds the rules of a field to its schema.
pub(super) fn add(schema: &mut Value, rules: &FieldRules) {
    let FieldRules { keywords, items, .. } = rules;
    merge(schema, keywords);
    if !items.is_empty() && schema.get("items").is_some() {
        merge(&mut schema["items"], items);
    }
}

fn merge(schema: &mut Value, keywords: &Map<String, Value>) {
    if let Value::Object(schema) = schema {
        schema.extend(keywords.iter().map(|(name, value)| (name.clone(), value.clone())));
    }
}

/// The messages at and below one that were not met before.
fn walk(
    pool: &DescriptorPool,
    root: MessageIndex,
    met: &mut BTreeSet<String>,
) -> Vec<MessageIndex> {
    let mut waiting = vec![root];
    let mut found = Vec::new();
    while let Some(index) = waiting.pop() {
        let message = pool.message(index);
        if !met.insert(message.full_name().to_owned()) {
            continue;
        }
        found.push(index);
        for field in message.fields() {
            let (FieldKind::Singular(kind)
            | FieldKind::List(kind)
            | FieldKind::Map { value: kind, .. }) = field.kind();
            if let SingularKind::Message(index) = kind {
                waiting.push(index);
            }
        }
    }
    found
}
