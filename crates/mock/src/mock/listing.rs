//! What there is for each method of a mock, for whoever looks from outside.

use std::collections::BTreeMap;

use tidewire_service::{Error, Result};

use super::Mock;
use crate::compile::finding::Finding;
use crate::rules::RuleFiles;
use crate::value::view::View;

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
    /// How many stubs it has; they go before the responses of the file.
    pub stubs: usize,
    /// Why the file cannot be served, with its place.
    pub fault: Option<String>,
}

/// What calls of one session left behind.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct SessionInfo {
    /// What the header says; empty for calls without it.
    pub name: String,
    /// How many of its calls are in the log.
    pub calls: u64,
    /// What rules have set, each value as text.
    pub state: BTreeMap<String, String>,
}

impl Mock {
    /// The sessions that there are, in the order of names.
    pub fn list_sessions(&self) -> Vec<SessionInfo> {
        let mut all: BTreeMap<String, SessionInfo> = BTreeMap::new();
        let session = |name: &str| SessionInfo { name: name.to_owned(), ..SessionInfo::default() };
        for call in self.log().calls() {
            all.entry(call.session.clone()).or_insert_with(|| session(&call.session)).calls += 1;
        }
        for (name, known) in self.sessions().iter() {
            let told = all.entry(name.to_owned()).or_insert_with(|| session(name));
            let text = |value| View::Rule(value).text().into_owned();
            told.state = known.state.iter().map(|(key, at)| (key.clone(), text(at))).collect();
        }
        all.into_values().collect()
    }

    /// The method that a name means: `shop.v1.Cart/GetPrice`, or the end of that where only one
    /// method ends so.
    ///
    /// # Errors
    /// When no method has the name, or several have.
    pub fn method_named(&self, name: &str) -> Result<String> {
        let set = self.set();
        let wanted = name.trim_start_matches('/');
        let known: Vec<&str> =
            set.methods.keys().map(|path| path.trim_start_matches('/')).collect();
        if known.contains(&wanted) {
            return Ok(wanted.to_owned());
        }
        let ends = |path: &&&str| {
            let before = path.strip_suffix(wanted).filter(|_| !wanted.is_empty());
            before.is_some_and(|before| before.ends_with(['.', '/']))
        };
        let mut found: Vec<_> = known.iter().filter(ends).copied().collect();
        found.sort_unstable();
        match &found[..] {
            [one] => Ok((*one).to_owned()),
            [] => {
                let meant = crate::body::meant(wanted, &known);
                Err(Error::not_found(format!("no method is called {wanted:?}{meant}")))
            }
            several => {
                let several = several.join(", ");
                let why = format!("several methods are called {wanted:?}: {several}");
                Err(Error::invalid_argument(why))
            }
        }
    }

    /// A mock of the same schema with other rules, and what was found in them: it shares nothing
    /// with this one, so a preview of rules that are not in effect can be made with it.
    pub fn draft(&self, files: &RuleFiles) -> (Self, Vec<Finding>) {
        let shared = &self.0;
        let mut builder =
            Self::builder(self.schema(), ClockOf(std::sync::Arc::clone(&shared.timer)))
                .rules(files.clone())
                .seed(shared.seed)
                .violate(shared.violate)
                .missing(shared.missing)
                .now_millis(self.now_millis());
        for mocked in self.set().methods.values() {
            for stub in mocked.stubs.iter() {
                builder =
                    super::Respond::respond(builder, &mocked.method.path, stub.response.clone());
            }
        }
        builder.build()
    }

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
                    stubs: mocked.stubs.len(),
                    fault: None,
                };
                match mocked.file_rules.as_ref().map(|file| &file.rule) {
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

/// The clock of another mock.
struct ClockOf(std::sync::Arc<dyn tidewire_service::Clock>);

impl tidewire_service::Clock for ClockOf {
    fn now(&self) -> std::time::Instant {
        self.0.now()
    }

    fn sleep_until(
        &self,
        at: std::time::Instant,
    ) -> std::pin::Pin<Box<dyn Future<Output = ()> + Send>> {
        self.0.sleep_until(at)
    }
}
