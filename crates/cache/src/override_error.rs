//! What is wrong with what an operator says of methods.

use std::fmt;

use tidewire_service::Spec;

use crate::method_override::{MethodOverride, method_name};
use crate::settings::Settings;

/// Terms for what is not a method whose answers could be kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OverrideError {
    method: String,
    why: String,
}

impl OverrideError {
    /// The method that was named, `shop.v1.Items/Get`.
    pub fn method(&self) -> &str {
        &self.method
    }

    /// What is wrong with what is set for `name`, if anything is, where `served` is what there is.
    pub(crate) fn find<'a>(
        name: &str,
        terms: &MethodOverride,
        settings: &Settings,
        mut served: impl Iterator<Item = &'a Spec> + Clone,
    ) -> Option<Self> {
        let error = |why: String| Some(Self { method: name.to_owned(), why });
        let service = name.split('/').next().unwrap_or_default();
        let mut queries = served.clone().filter(|spec| spec.service == service && spec.is_query());
        let is_service = name.ends_with("/*");
        if is_service && queries.clone().next().is_none() {
            return error(
                "which is not a served service with queries; write its full name, such as \
                          shop.v1.Items/*, or that of a query, shop.v1.Items/Get"
                    .to_owned(),
            );
        }
        if !is_service {
            let Some(spec) = served.find(|spec| method_name(spec) == name) else {
                let others: Vec<_> = queries.map(|spec| method_name(spec).to_owned()).collect();
                return error(match &others[..] {
                    [] => "which is not served; write the full name of a query, such as \
                           shop.v1.Items/Get"
                        .to_owned(),
                    others => format!("which is not served; there is {}", others.join(", ")),
                });
            };
            if !spec.is_query() {
                return error(
                    "which is a command: its replies are never cached; mark it in its .proto with \
                     idempotency_level = NO_SIDE_EFFECTS if it changes nothing, or remove this"
                        .to_owned(),
                );
            }
        }
        let is_cached = |spec: &Spec| settings.of(spec).scope(spec).is_cached();
        let refinement = terms.refinement().filter(|_| {
            !queries.any(|spec| (is_service || method_name(spec) == name) && is_cached(spec))
        })?;
        error(format!(
            "which sets {refinement} and is not cached; add cache = \"public\", \"caller\" or a \
             list of request headers, or remove {refinement}"
        ))
    }
}

impl fmt::Display for OverrideError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "memo.methods has {:?}, {}", self.method, self.why)
    }
}

impl std::error::Error for OverrideError {}
