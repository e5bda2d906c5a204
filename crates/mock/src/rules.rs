//! A set of rule files, compiled for a schema.
//!
//! | a file | is |
//! |---|---|
//! | `shop.v1.cart.getprice.yaml` (`.yml`, `.json`) | the rules of `shop.v1.Cart/GetPrice`, in any folder, whatever its case |
//! | one with `method: shop.v1.Cart/GetPrice` in it | the rules of that, whatever its name |
//! | `_common.yaml` | read only where another file says `include: _common.yaml` |
//!
//! A file that cannot be read as it is does not keep others from being served: it is a finding, and
//! calls of its method are told so. Of two files for one method the later one by name stands.

#[cfg(test)]
mod editors;
pub(crate) mod yaml;

use std::collections::{BTreeMap, HashMap};
use std::hash::BuildHasher as _;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use foldhash::quality::FixedState;
use serde_json::Value as Json;
use tidewire_schema::{Diagnostic, Schema};
use tidewire_service::Method;

use crate::body::meant;
use crate::compile::finding::Finding;
use crate::compile::{Compiler, diagnostic, file_of};
use crate::rule::{MethodRule, Response};
use crate::value::node::{Node, ObjectMember, Tree};

/// The most bytes one rule file may have: 64 MiB.
pub const RULE_FILE_BYTES_MAX: u64 = 64 << 20;

/// The JSON Schema of a rule file, for editors.
pub const RULE_SCHEMA: &str = include_str!("../rules.schema.json");

/// How many files may include one another.
const INCLUDE_DEPTH_MAX: usize = 8;

/// Rule files as text, by path: what a mock makes rules of.
///
/// ```
/// use tidewire_mock::RuleFiles;
/// let files = RuleFiles::new().with("shop.v1.cart.getprice.yaml", "responses: [{body: {price: 9}}]");
/// assert_eq!(files.len(), 1);
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RuleFiles {
    files: BTreeMap<PathBuf, Result<Arc<str>, String>>,
}

impl RuleFiles {
    /// None yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a file.
    #[must_use]
    pub fn with(mut self, path: impl Into<PathBuf>, text: impl Into<Arc<str>>) -> Self {
        self.add(path, text);
        self
    }

    /// Adds a file, or puts another text in its place.
    pub fn add(&mut self, path: impl Into<PathBuf>, text: impl Into<Arc<str>>) {
        self.files.insert(path.into(), Ok(text.into()));
    }

    /// Adds a file that could not be read, and why.
    pub fn add_unreadable(&mut self, path: impl Into<PathBuf>, why: impl Into<String>) {
        self.files.insert(path.into(), Err(why.into()));
    }

    /// Adds all of others.
    pub fn extend(&mut self, others: Self) {
        self.files.extend(others.files);
    }

    /// Adds the files that those here include and that are missing, as `read` gives them: the text,
    /// or why it cannot be read; and nothing where there is no such file.
    pub fn add_included(&mut self, mut read: impl FnMut(&Path) -> Option<Result<String, String>>) {
        let mut waiting: Vec<PathBuf> = self.files.keys().cloned().collect();
        while let Some(path) = waiting.pop() {
            let Some(Ok(text)) = self.files.get(&path) else { continue };
            for target in included_by(&path, text) {
                if self.files.contains_key(&target) {
                    continue;
                }
                let Some(file) = read(&target) else { continue };
                self.files.insert(target.clone(), file.map(Arc::from));
                waiting.push(target);
            }
        }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.files.len()
    }

    /// Whether a file is there and has no text: as it is for a moment while it is saved in place.
    pub(crate) fn is_blank(&self, path: &str) -> bool {
        let file = self.files.get(Path::new(path));
        file.is_some_and(|file| file.as_ref().is_ok_and(|text| text.trim().is_empty()))
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.files.is_empty()
    }

    /// Their paths.
    pub fn paths(&self) -> impl Iterator<Item = &Path> {
        self.files.keys().map(PathBuf::as_path)
    }

    /// The text of a file, or why it cannot be read; `None` where there is no such file.
    pub fn text(&self, path: &Path) -> Option<Result<&str, &str>> {
        self.files.get(path).map(|file| file.as_deref().map_err(String::as_str))
    }

    /// Takes a file away.
    pub fn remove(&mut self, path: &Path) {
        self.files.remove(path);
    }

    /// Whether a file of this name holds rules, by its end: `.yaml`, `.yml` or `.json`.
    pub fn is_rule_file(path: &Path) -> bool {
        let end = path.extension().and_then(|end| end.to_str()).unwrap_or_default();
        ["yaml", "yml", "json"].iter().any(|known| end.eq_ignore_ascii_case(known))
    }

    /// The calls that were recorded in them: responses whose `when` says what all of the request
    /// is, `request: {equals: ...}`, or `request.items` of a stream.
    pub fn recorded(&self, schema: &Schema) -> Vec<RecordedCall> {
        let methods = methods_of(schema);
        let mut calls = Vec::new();
        for (path, found) in compile(self, schema, &methods).rules {
            let Ok(rule) = &found.rule else { continue };
            let streams = methods.iter().any(|one| *one.path == *path && one.kind.client_streams());
            for response in &rule.responses {
                // What has further conditions may be answered otherwise by a call without headers.
                let Some([one]) = response.when.as_deref() else { continue };
                let equal = one.expected.get("equals").map(crate::value::view::plain_json);
                let requests = match (&*one.key, equal) {
                    ("request", Some(one)) if !streams => vec![one],
                    ("request.items", Some(Json::Array(all))) if streams => all,
                    _ => continue,
                };
                let method = path.trim_start_matches('/').to_owned();
                let file = rule.file.to_string();
                let line = response.place.line;
                calls.push(RecordedCall { method, file, line, requests });
            }
        }
        calls.sort_by(|a, b| (&a.file, a.line).cmp(&(&b.file, b.line)));
        calls
    }

    /// Where a response says `upstream: true`: its calls have nobody to answer them unless there is
    /// a real service, which the files cannot know.
    pub fn passed_on(&self, schema: &Schema) -> Vec<Diagnostic> {
        let compiled = compile(self, schema, &methods_of(schema));
        let rules = compiled.rules.values().filter_map(|found| found.rule.as_deref().ok());
        let mut places: Vec<_> = rules.flat_map(passed_on).collect();
        places.sort();
        places.dedup();
        places
    }

    /// What is wrong with them, for a schema.
    pub fn check(&self, schema: &Schema) -> Vec<Finding> {
        let methods = methods_of(schema);
        let mut findings = compile(self, schema, &methods).findings;
        findings.sort();
        findings.dedup();
        findings
    }
}

/// The responses of a rule that leave their calls to a real service.
pub(crate) fn passed_on(rule: &MethodRule) -> impl Iterator<Item = Diagnostic> {
    let is_passed_on =
        |response: &&Response| response.answers.iter().any(|answer| answer.is_upstream);
    rule.responses.iter().filter(is_passed_on).map(|response| {
        let file = file_of(&rule.file, &rule.included, response.place);
        diagnostic(file, response.place, NO_UPSTREAM)
    })
}

/// What is wrong with `upstream: true` where there is no real service.
pub(crate) const NO_UPSTREAM: &str =
    "upstream: true has nobody to answer: there is no real service (--upstream)";

/// A call whose answer is in a rule file.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct RecordedCall {
    /// `shop.v1.Cart/GetPrice`.
    pub method: String,
    /// The rule file.
    pub file: String,
    /// The line of the response.
    pub line: u32,
    /// The messages.
    pub requests: Vec<Json>,
}

/// What names the content of a rule file: other texts have another one.
pub fn etag(text: &str) -> String {
    let half = |seed| FixedState::with_seed(seed).hash_one(text.as_bytes());
    format!("{:016x}{:016x}", half(1), half(2))
}

/// All methods of a schema whose services make sense.
pub(crate) fn methods_of(schema: &Schema) -> Vec<Method> {
    let interfaces = schema.services().filter_map(|name| schema.interface(name).ok().flatten());
    interfaces.flat_map(|interface| interface.methods().to_vec()).collect()
}

/// Compiled rules.
#[derive(Debug, Default)]
pub(crate) struct CompiledRules {
    /// By the path of the method.
    pub(crate) rules: HashMap<String, MethodResponses>,
    pub(crate) findings: Vec<Finding>,
}

/// What there is for a method.
#[derive(Debug, Clone)]
pub(crate) struct MethodResponses {
    pub(crate) rule: Result<Arc<MethodRule>, Diagnostic>,
    /// The texts that it was made of: equal texts make equal rules.
    pub(crate) sources: Vec<Arc<str>>,
}

pub(crate) fn compile(files: &RuleFiles, schema: &Schema, methods: &[Method]) -> CompiledRules {
    let mut by_key = HashMap::new();
    for method in methods {
        by_key.insert(key_of(method), method);
    }
    let mut compiled = CompiledRules::default();
    for path in files.files.keys() {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if !name.starts_with('_') {
            one(files, path, name, schema, &by_key, &mut compiled);
        }
    }
    compiled
}

/// `shop.v1.cart.getprice`.
fn key_of(method: &Method) -> String {
    format!("{}.{}", method.service, method.method).to_lowercase()
}

fn one(
    files: &RuleFiles,
    path: &Path,
    name: &str,
    schema: &Schema,
    by_key: &HashMap<String, &Method>,
    compiled: &mut CompiledRules,
) {
    let shown = path.display().to_string();
    let stem = Path::new(name).file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
    let mut reader = RuleReader { files, sources: Vec::new(), included: Vec::new() };
    let read = reader.root(path, 0);
    let RuleReader { sources, included, .. } = reader;
    let named = read
        .as_ref()
        .ok()
        .and_then(|root| root.as_ref()?.get("method")?.as_text().map(str::to_owned));
    let key = match &named {
        Some(method) => method.trim_start_matches('/').replace('/', ".").to_lowercase(),
        None => stem.to_lowercase(),
    };
    let Some(method) = by_key.get(&key) else {
        let known: Vec<_> = by_key.keys().map(String::as_str).collect();
        let why = format!(
            "no method is called {}, so this file is dead{}",
            named.as_deref().unwrap_or(stem),
            meant(&key, &known)
        );
        compiled.findings.push(Finding::warning(diagnostic(
            &shown,
            crate::value::node::Position::default(),
            why,
        )));
        if let Err(fault) = read {
            compiled.findings.push(Finding::error(fault));
        }
        return;
    };
    let rule = match read {
        // A file without a document is not a rule.
        Ok(None) => return,
        Ok(Some(root)) => {
            let vars = root.get("vars").cloned();
            let mut compiler = Compiler {
                schema,
                method,
                file: shown.clone().into(),
                included: included.into(),
                findings: &mut compiled.findings,
                is_rendered: false,
            };
            if !matches!(root.value, Tree::Object(_) | Tree::List(_)) {
                compiler.rule(&root, None);
                return;
            }
            Ok(Arc::new(compiler.rule(&root, vars)))
        }
        Err(fault) => {
            compiled.findings.push(Finding::error(fault.clone()));
            Err(fault)
        }
    };
    let found = MethodResponses { rule, sources };
    if let Some(before) = compiled.rules.insert(method.path.to_string(), found)
        && let Ok(before) = before.rule
    {
        let why = format!("never read: {shown} is for the same method and comes later");
        let place = crate::value::node::Position::default();
        compiled.findings.push(Finding::warning(diagnostic(&before.file, place, why)));
    }
}

/// Reads a file and those that it includes.
struct RuleReader<'f> {
    files: &'f RuleFiles,
    sources: Vec<Arc<str>>,
    /// The names of those that are included.
    included: Vec<Arc<str>>,
}

impl RuleReader<'_> {
    fn root(&mut self, path: &Path, depth: usize) -> Result<Option<Node>, Diagnostic> {
        let shown = path.display().to_string();
        let text = match self.files.files.get(path) {
            Some(Ok(text)) => Arc::clone(text),
            Some(Err(why)) => return Err(Diagnostic::new(shown, why.clone())),
            None => return Err(Diagnostic::new(shown, "there is no such file")),
        };
        self.sources.push(Arc::clone(&text));
        let root =
            parse(path, &text).map_err(|fault| diagnostic(&shown, fault.place, fault.message))?;
        let Some(mut root) = root else { return Ok(None) };
        if depth > 0 {
            self.included.push(shown.clone().into());
            root.set_file(u32::try_from(self.included.len()).unwrap_or(0));
        }
        check_form(&shown, &root, depth > 0)?;
        let Some(include) = root.get("include").cloned() else { return Ok(Some(root)) };
        if depth == INCLUDE_DEPTH_MAX {
            let why = format!("files include one another more than {INCLUDE_DEPTH_MAX} deep");
            return Err(diagnostic(&shown, include.place, why));
        }
        for name in included_names(&include) {
            let Some(target) = name.as_text() else {
                return Err(diagnostic(
                    &shown,
                    name.place,
                    "include names files, relative to this one",
                ));
            };
            let target = beside(path, target);
            if !self.files.files.contains_key(&target) {
                let why = format!("{} is not among the rule files", target.display());
                return Err(diagnostic(&shown, name.place, why));
            }
            if let Some(other) = self.root(&target, depth + 1)? {
                include_into(&mut root, other);
            }
        }
        Ok(Some(root))
    }
}

fn parse(path: &Path, text: &str) -> Result<Option<Node>, yaml::Fault> {
    match path.extension().is_some_and(|end| end.eq_ignore_ascii_case("json")) {
        true => yaml::parse_json(text),
        false => yaml::parse(text),
    }
}

fn included_names(include: &Node) -> Vec<&Node> {
    match &include.value {
        Tree::List(items) => items.iter().collect(),
        _ => vec![include],
    }
}

/// The files that a text includes; none where it cannot be read.
fn included_by(path: &Path, text: &str) -> Vec<PathBuf> {
    let root = parse(path, text).ok().flatten();
    let include = root.as_ref().and_then(|root| root.get("include"));
    let names = include.map_or_else(Vec::new, included_names);
    names.iter().filter_map(|name| Some(beside(path, name.as_text()?))).collect()
}

/// What a file has to be for others to include it, and for its variables to be known.
fn check_form(shown: &str, root: &Node, is_included: bool) -> Result<(), Diagnostic> {
    let fault = |node: &Node, why: String| Err(diagnostic(shown, node.place, why));
    if let Some(vars) = root.get("vars")
        && !matches!(vars.value, Tree::Object(_) | Tree::Null)
    {
        return fault(vars, format!("vars is {}; write an object", vars.kind()));
    }
    if !is_included {
        return Ok(());
    }
    if !matches!(root.value, Tree::Object(_) | Tree::List(_)) {
        let why = format!("an included file is an object or a list, and this is {}", root.kind());
        return fault(root, why);
    }
    match root.get("responses") {
        Some(node) if !matches!(node.value, Tree::List(_) | Tree::Null) => {
            fault(node, format!("responses is {}; write a list", node.kind()))
        }
        _ => Ok(()),
    }
}

/// A path relative to a file, without `..` in it.
fn beside(file: &Path, name: &str) -> PathBuf {
    let mut path = file.parent().map(Path::to_owned).unwrap_or_default();
    for part in Path::new(name).components() {
        match part {
            Component::ParentDir => drop(path.pop()),
            Component::Normal(part) => path.push(part),
            _ => {}
        }
    }
    path
}

/// Adds what an included file says: its responses after the own ones, its variables under them.
fn include_into(root: &mut Node, other: Node) {
    let responses = match &other.value {
        Tree::List(items) => items.clone(),
        _ => other.get("responses").map_or_else(Vec::new, |node| node.items().to_vec()),
    };
    let place = root.place;
    let Tree::Object(members) = &mut root.value else { return };
    let mut member = |key: &str, empty: Tree| -> usize {
        members.iter().position(|one| one.key == key).unwrap_or_else(|| {
            let value = Node { value: empty, place };
            members.push(ObjectMember { key: key.to_owned(), place, value });
            members.len() - 1
        })
    };
    let at_responses = member("responses", Tree::List(Vec::new()));
    let at_vars = member("vars", Tree::Object(Vec::new()));
    if let Tree::List(items) = &mut members[at_responses].value.value {
        items.extend(responses);
    }
    if let Tree::Object(vars) = &mut members[at_vars].value.value {
        for one in other.get("vars").map_or(&[][..], Node::members) {
            if !vars.iter().any(|known| known.key == one.key) {
                vars.push(one.clone());
            }
        }
    }
}
