//! What goes wrong with every answer, or with those of one method, whatever its rule: set while the
//! mock runs.

use std::collections::BTreeMap;
use std::sync::Arc;

use tidewire_service::{Error, Method, Result};

use super::Mock;
use crate::compile::Compiler;
use crate::random::Random;
use crate::rule::{Delay, FaultRule};
use crate::rules::yaml;
use crate::select::plan::Plan;
use crate::value::node::Tree;

/// By method; the empty name is every method.
pub(crate) type FaultsByMethod = BTreeMap<String, Arc<GlobalFaults>>;

/// What goes wrong, and the text that says so.
#[derive(Debug)]
pub(crate) struct GlobalFaults {
    text: String,
    delay: Option<Delay>,
    faults: Vec<FaultRule>,
}

impl Mock {
    /// Lets answers misbehave from now on: `delay` and `fault` as in a response of a rule file, in
    /// YAML or JSON. With a method only its answers do, else all; an empty text ends it. What the
    /// rules say themselves holds too.
    ///
    /// # Errors
    /// When there is no such method, or the text makes no sense.
    pub fn set_faults(&self, method: Option<&str>, text: &str) -> Result<()> {
        let key = method.map(|name| self.method_named(name)).transpose()?.unwrap_or_default();
        let said = yaml::parse(text).map_err(|fault| Error::invalid_argument(fault.message))?;
        let Some(said) = said.filter(|said| said.value != Tree::Null) else {
            self.0.faults.write().remove(&key);
            return Ok(());
        };
        if !said.is_object() {
            let why = format!("this is {}; write {{delay: 80ms}}", said.kind());
            return Err(Error::invalid_argument(why));
        }
        let set = self.set();
        let path = format!("/{key}");
        let any = set.methods.get(&path).or_else(|| set.methods.values().next());
        let any = any.ok_or_else(|| Error::failed_precondition("this mock has no methods"))?;
        let mut findings = Vec::new();
        let mut compiler = Compiler {
            schema: &set.schema,
            method: &any.method,
            file: "the faults".into(),
            included: Arc::default(),
            findings: &mut findings,
            is_rendered: true,
        };
        compiler.unknown_keys(&said, &["delay", "delay_ms", "fault"], "what is set");
        let delay = compiler.delay(&said);
        let faults = compiler.faults(&said);
        // What is not known would be passed over in a file, and somebody waits for it here.
        if let Some(found) = findings.into_iter().next() {
            return Err(Error::invalid_argument(found.diagnostic.to_string()));
        }
        let text = text.to_owned();
        self.0.faults.write().insert(key, Arc::new(GlobalFaults { text, delay, faults }));
        Ok(())
    }

    /// What is set: methods, of which the empty one means all, and the text for each.
    pub fn faults(&self) -> Vec<(String, String)> {
        let faults = self.0.faults.read();
        faults.iter().map(|(key, one)| (key.clone(), one.text.clone())).collect()
    }

    /// Adds what is set to a plan.
    pub(super) fn apply_faults(&self, method: &Method, plan: &mut Plan, random: &mut Random) {
        let faults = self.0.faults.read();
        if faults.is_empty() {
            return;
        }
        for key in ["", method.path.trim_start_matches('/')] {
            let Some(set) = faults.get(key) else { continue };
            if let Some(delay) = set.delay {
                plan.delay = plan.delay.saturating_add(delay.sample(random));
            }
            plan.add_faults(&set.faults, random);
        }
    }
}
