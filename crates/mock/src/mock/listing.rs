//! What there is for each method of a mock, for whoever looks from outside.

use super::Mock;

/// What answers a method.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct MethodRules {
    /// `shop.v1.Cart/GetPrice`.
    pub method: String,
    /// The rule file; empty where there is none.
    pub file: String,
    /// The responses of that file: the line of each, and what it is called.
    pub responses: Vec<(u32, String)>,
    /// How many responses a program said; they go before those of the file.
    pub said: usize,
    /// Why the file cannot be served, with its place.
    pub fault: Option<String>,
}

impl Mock {
    /// What answers each method, in the order of names. A method without rules is answered as
    /// [`missing`](super::MockBuilder::missing) says.
    pub fn rules(&self) -> Vec<MethodRules> {
        let set = self.set();
        let mut all: Vec<_> = set
            .methods
            .values()
            .map(|mocked| {
                let mut rules = MethodRules {
                    method: mocked.method.path.trim_start_matches('/').to_owned(),
                    file: String::new(),
                    responses: Vec::new(),
                    said: mocked.said.len(),
                    fault: None,
                };
                match mocked.found.as_ref().map(|found| &found.rule) {
                    Some(Ok(rule)) => {
                        rules.file = rule.file.to_string();
                        let responses = rule.responses.iter().map(|response| {
                            (response.place.line, response.name.clone().unwrap_or_default())
                        });
                        rules.responses = responses.collect();
                    }
                    Some(Err(fault)) => rules.fault = Some(fault.to_string()),
                    None => {}
                }
                rules
            })
            .collect();
        all.sort_by(|a, b| a.method.cmp(&b.method));
        all
    }
}
