//! What is wrong with a rule of access.

use std::fmt;

use tidewire_service::Spec;

/// A rule for what is not there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccessError {
    pub(super) rule: String,
    pub(super) why: String,
}

impl AccessError {
    pub(super) fn find<'a>(
        rule: &str,
        served: impl Iterator<Item = &'a Spec> + Clone,
    ) -> Result<(), Self> {
        let (service, method) = rule.split_once('/').unwrap_or((rule, ""));
        let mut of_service = served.filter(|spec| spec.service == service).peekable();
        let is_served = match method {
            "*" => of_service.peek().is_some(),
            method => of_service.clone().any(|spec| spec.method == method),
        };
        if is_served {
            return Ok(());
        }
        let others: Vec<_> = of_service.map(|spec| spec.path.trim_start_matches('/')).collect();
        let why = match &others[..] {
            [] => "which is not served; write the full name of a method, such as \
                   shop.v1.Items/Get, or shop.v1.Items/* for all of a service"
                .to_owned(),
            others => format!("which is not served; there is {}", others.join(", ")),
        };
        Err(Self { rule: format!("auth.methods has {rule:?}"), why })
    }
}

impl fmt::Display for AccessError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, {}", self.rule, self.why)
    }
}

impl std::error::Error for AccessError {}
