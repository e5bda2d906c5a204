//! Another schema, or other rules, in place of those that answer.
//!
//! The change is one exchange of a pointer: a call sees all of the old or all of the new. A file
//! whose text is the same keeps its compiled rules, so a reload costs what changed. A file that is
//! broken keeps the rules that it had, where it had any.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use tidewire_schema::Schema;
use tidewire_service::Signal;

use super::{Mock, Set, build};
use crate::compile::finding::Finding;
use crate::rules::{MethodResponses, RuleFiles};

/// What a reload did.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct ReloadReport {
    /// The paths of the methods that are answered otherwise now.
    pub changed: Vec<String>,
    /// The rule files that are broken, whose earlier rules stay.
    pub kept: Vec<String>,
    /// What was found in the rules.
    pub findings: Vec<Finding>,
}

impl Mock {
    /// Puts a schema and rules in the place of those that answer.
    ///
    /// Services and methods may come and go: a server that was given the mock as an
    /// [`ServiceSource`](tidewire_service::ServiceSource) follows at once.
    pub fn reload(&self, schema: Schema, files: &RuleFiles) -> ReloadReport {
        let (mut set, mut findings) = build::set(schema, files, self.0.seed, self.0.violate);
        if self.0.upstream.is_none() {
            findings.extend(build::calls_of_nobody(&set));
        }
        let mut reloaded = ReloadReport { findings, ..ReloadReport::default() };
        let mut fired = Vec::new();
        let mut is_same = true;
        self.change(|old| {
            is_same = same_schema(&old.schema, &set.schema);
            for (path, mocked) in &mut set.methods {
                let Some(before) = old.methods.get(path) else {
                    reloaded.changed.push(path.clone());
                    continue;
                };
                mocked.stubs = before.stubs.clone();
                if !is_same && !mocked.stubs.is_empty() {
                    // Stubs are of the messages that there are now.
                    reloaded.findings.extend(mocked.recompile_stubs(&set.schema));
                }
                keep_broken(mocked, before, &mut reloaded.kept);
                keep_blank(mocked, before, files, &mut reloaded);
                if is_same && same_rules(mocked.file_rules.as_ref(), before.file_rules.as_ref()) {
                    mocked.file_rules = before.file_rules.clone();
                    mocked.changed = before.changed.clone();
                    continue;
                }
                reloaded.changed.push(path.clone());
                fired.push(before.changed.clone());
            }
            let gone = old.methods.iter().filter(|(path, _)| !set.methods.contains_key(*path));
            fired.extend(gone.map(|(_, mocked)| mocked.changed.clone()));
            std::mem::swap(old, &mut set);
        });
        if !is_same {
            self.0.edition.fetch_add(1, Ordering::Release);
        }
        let mut sessions = self.sessions();
        reloaded.changed.sort_unstable();
        for path in &reloaded.changed {
            sessions.forget_uses(path);
        }
        drop(sessions);
        fired.iter().for_each(Signal::fire);
        reloaded
    }

    /// Changes what answers, at once.
    pub(super) fn change<T>(&self, change: impl FnOnce(&mut Set) -> T) -> T {
        let mut current = self.0.current.write();
        let mut set = (**current).clone();
        let done = change(&mut set);
        *current = Arc::new(set);
        done
    }
}

/// A broken file keeps the rules that it had.
fn keep_broken(
    mocked: &mut super::MockedMethod,
    before: &super::MockedMethod,
    kept: &mut Vec<String>,
) {
    let Some(MethodResponses { rule: Err(fault), .. }) = &mocked.file_rules else { return };
    if let Some(MethodResponses { rule: Ok(_), .. }) = &before.file_rules {
        kept.push(fault.file.clone());
        mocked.file_rules = before.file_rules.clone();
    }
}

/// A file without a text keeps the rules that it had: it may be being saved.
fn keep_blank(
    mocked: &mut super::MockedMethod,
    before: &super::MockedMethod,
    files: &RuleFiles,
    reloaded: &mut ReloadReport,
) {
    let (None, Some(MethodResponses { rule: Ok(rule), .. })) =
        (&mocked.file_rules, &before.file_rules)
    else {
        return;
    };
    if files.is_blank(&rule.file) {
        let why = "the file is empty, so its earlier rules stay; delete it to have none";
        let place = crate::value::node::Position::default();
        let told = crate::compile::diagnostic(&rule.file, place, why);
        reloaded.findings.push(Finding::warning(told));
        reloaded.kept.push(rule.file.to_string());
        mocked.file_rules = before.file_rules.clone();
    }
}

/// Whether two schemas are of the same descriptors.
fn same_schema(one: &Schema, other: &Schema) -> bool {
    let descriptors = |schema: &Schema| {
        let first = schema.services().next()?.to_owned();
        Some(schema.interface(&first).ok()??.descriptors().to_vec())
    };
    Arc::ptr_eq(one.pool(), other.pool()) || descriptors(one) == descriptors(other)
}

fn same_rules(one: Option<&MethodResponses>, other: Option<&MethodResponses>) -> bool {
    match (one, other) {
        (None, None) => true,
        (Some(one), Some(other)) => {
            one.sources == other.sources && one.rule.is_ok() == other.rule.is_ok()
        }
        _ => false,
    }
}
