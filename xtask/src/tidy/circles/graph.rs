//! Which file of a crate imports which, and the circles among them.

use std::collections::{BTreeMap, HashMap};

use crate::rust_file::{RustFile, Token};
use crate::tree::File;

/// More re-exports of re-exports than anyone writes.
const EXPORTS_MAX: usize = 8;

/// The files of a crate and their imports; a file is its index.
pub(crate) struct Graph<'a> {
    files: Vec<&'a File>,
    /// For each file the files that it imports, and where first.
    imports: Vec<BTreeMap<usize, usize>>,
}

/// One step of a chain: `from` names `to` on `line`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Step {
    pub(crate) from: usize,
    pub(crate) line: usize,
}

/// The modules of a crate by their paths, and where their `pub use`s lead.
#[derive(Default)]
struct Modules {
    /// The file of each module, those inside of a file included.
    files: HashMap<Vec<String>, usize>,
    exports: HashMap<Vec<String>, HashMap<String, Vec<String>>>,
}

impl<'a> Graph<'a> {
    /// The graph of the files of one crate.
    pub(crate) fn new(files: &[&'a File]) -> Self {
        let mut modules = Modules::default();
        for (index, file) in files.iter().enumerate() {
            modules.add(index, file);
        }
        let imports = (0..files.len())
            .map(|index| {
                let mut found = BTreeMap::new();
                for mention in mentions(files[index]) {
                    let to = modules.absolute(&mention.module, &mention.path);
                    if let Some(to) = to.and_then(|path| modules.resolve(path))
                        && to != index
                    {
                        let line = found.entry(to).or_insert(mention.line);
                        *line = mention.line.min(*line);
                    }
                }
                found
            })
            .collect();
        Self { files: files.to_vec(), imports }
    }

    /// The path of a file.
    pub(crate) fn path(&self, file: usize) -> &'a str {
        &self.files[file].path
    }

    /// The circles, each as its files in order: what is reached from a file and reaches it.
    pub(crate) fn circles(&self) -> Vec<Vec<usize>> {
        let reach: Vec<Vec<bool>> = (0..self.files.len()).map(|file| self.reach(file)).collect();
        let mut circles: Vec<Vec<usize>> = Vec::new();
        for (file, reached) in reach.iter().enumerate() {
            let circle: Vec<usize> = (0..self.files.len())
                .filter(|other| reached[*other] && reach[*other][file])
                .collect();
            if circle.first() == Some(&file) {
                circles.push(circle);
            }
        }
        circles
    }

    /// Which files are reached from one by imports.
    fn reach(&self, file: usize) -> Vec<bool> {
        let mut reached = vec![false; self.files.len()];
        let mut open = vec![file];
        while let Some(next) = open.pop() {
            for to in self.imports[next].keys() {
                if !std::mem::replace(&mut reached[*to], true) {
                    open.push(*to);
                }
            }
        }
        reached
    }

    /// The shortest chain from a file of the circle back to itself.
    pub(crate) fn chain(&self, circle: &[usize]) -> Vec<Step> {
        let chains = circle.iter().filter_map(|file| self.chain_from(*file));
        chains.min_by_key(Vec::len).unwrap_or_default()
    }

    fn chain_from(&self, start: usize) -> Option<Vec<Step>> {
        let mut before: HashMap<usize, Step> = HashMap::new();
        let mut open = vec![start];
        while !open.is_empty() && !before.contains_key(&start) {
            let mut next = Vec::new();
            for from in open {
                for (to, line) in &self.imports[from] {
                    before.entry(*to).or_insert_with(|| {
                        next.push(*to);
                        Step { from, line: *line }
                    });
                }
            }
            open = next;
        }
        let mut chain = vec![*before.get(&start)?];
        while chain[0].from != start {
            chain.insert(0, *before.get(&chain[0].from)?);
        }
        Some(chain)
    }
}

impl Modules {
    fn add(&mut self, index: usize, file: &File) {
        let Some(rust) = &file.rust else { return };
        let base = module_of(file);
        self.files.insert(base.clone(), index);
        for import in &rust.imports {
            let module = module_at(&base, rust, import.line);
            self.files.entry(module.clone()).or_insert(index);
            if let Some(name) = &import.export
                && !rust.is_test_line(import.line)
            {
                let path = import.path.split("::").map(str::to_owned).collect();
                self.exports.entry(module).or_default().insert(name.clone(), path);
            }
        }
    }

    /// A path as it is from the root of the crate; `None` for a path into another crate.
    fn absolute(&self, module: &[String], path: &[String]) -> Option<Vec<String>> {
        let first = path.first()?;
        let mut full = module.to_vec();
        let mut rest = path;
        match first.as_str() {
            "crate" => return Some(path[1..].to_vec()),
            "self" => rest = &path[1..],
            "super" => {
                while let Some((first, others)) = rest.split_first()
                    && first == "super"
                {
                    full.pop();
                    rest = others;
                }
            }
            child => {
                full.push(child.to_owned());
                let is_child = self.files.contains_key(&full);
                full.pop();
                if !is_child {
                    return None;
                }
            }
        }
        full.extend_from_slice(rest);
        Some(full)
    }

    /// The file that defines what a path names.
    fn resolve(&self, mut path: Vec<String>) -> Option<usize> {
        for _ in 0..EXPORTS_MAX {
            let known =
                (0..=path.len()).rev().find(|end| self.files.contains_key(&path[..*end]))?;
            let (module, rest) = path.split_at(known);
            let export = rest
                .split_first()
                .and_then(|(name, rest)| Some((self.exports.get(module)?.get(name)?, rest)));
            let next = export.and_then(|(target, rest)| {
                let mut target = self.absolute(module, target)?;
                target.extend_from_slice(rest);
                Some(target)
            });
            match next {
                Some(next) => path = next,
                None => return self.files.get(module).copied(),
            }
        }
        None
    }
}

/// A path that a file writes.
struct Mention {
    /// The module that writes it.
    module: Vec<String>,
    path: Vec<String>,
    line: usize,
}

/// The paths that a file imports or names, tests and `pub use` left out.
fn mentions(file: &File) -> Vec<Mention> {
    let Some(rust) = &file.rust else { return Vec::new() };
    let base = module_of(file);
    let imports = rust.imports.iter().filter(|import| import.export.is_none()).map(|import| {
        let path = import.path.split("::").map(str::to_owned).collect();
        Mention { module: module_at(&base, rust, import.line), path, line: import.line }
    });
    let inline = inline_paths(&rust.tokens).into_iter().map(|(line, path)| {
        let module = module_at(&base, rust, line);
        Mention { module, path, line }
    });
    imports.chain(inline).filter(|mention| !rust.is_test_line(mention.line)).collect()
}

/// Paths outside of `use` that start with `crate`, `super` or `self`, with their lines.
fn inline_paths(tokens: &[Token]) -> Vec<(usize, Vec<String>)> {
    let text = |index: usize| tokens.get(index).map_or("", |token| token.text.as_str());
    let mut paths = Vec::new();
    let mut rest = tokens.iter().enumerate();
    while let Some((start, token)) = rest.next() {
        match token.text.as_str() {
            // `use<'a>` is what a type captures.
            "use" if text(start + 1) != "<" => {
                rest.find(|(_, token)| token.text == ";");
            }
            "crate" | "super" | "self" if text(start + 1) == "::" && !is_scope(tokens, start) => {
                let parts = (start..)
                    .step_by(2)
                    .take_while(|at| *at == start || text(*at - 1) == "::" && is_name(text(*at)));
                let path = parts.map(|at| text(at).to_owned()).collect();
                paths.push((token.line, path));
            }
            _ => {}
        }
    }
    paths
}

/// Whether the path at a token opens to a module, as `pub(in crate::a)` does, goes on from others,
/// or is written where a macro is expanded: `$crate`.
fn is_scope(tokens: &[Token], start: usize) -> bool {
    let before =
        |steps: usize| start.checked_sub(steps).map_or("", |index| tokens[index].text.as_str());
    matches!(before(1), "$" | "::") || before(1) == "in" && before(2) == "("
}

fn is_name(token: &str) -> bool {
    token.starts_with(|first: char| first.is_alphabetic() || first == '_')
}

/// The module that a file is: `["graph", "core"]` for `crates/memo/src/graph/core.rs`.
fn module_of(file: &File) -> Vec<String> {
    let inside = file.path.split_once("/src/").map_or("", |(_, inside)| inside);
    match inside.trim_end_matches(".rs") {
        "lib" | "main" => Vec::new(),
        module => module.split('/').map(str::to_owned).collect(),
    }
}

/// The module that a line of a file is in.
fn module_at(base: &[String], rust: &RustFile, line: usize) -> Vec<String> {
    base.iter().map(String::as_str).chain(rust.modules_around(line)).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::Tree;

    /// What each file imports, as `a -> b`.
    fn imports(files: &[(&str, &str)]) -> Vec<String> {
        let files: Vec<(String, &str)> = files
            .iter()
            .map(|(name, text)| (format!("crates/wire/src/{name}.rs"), *text))
            .collect();
        let files: Vec<(&str, &str)> =
            files.iter().map(|(path, text)| (path.as_str(), *text)).collect();
        let tree = Tree::of(&files);
        let files: Vec<&File> = tree.files.iter().collect();
        let graph = Graph::new(&files);
        let name = |file: usize| module_of(graph.files[file]).join("/");
        let mut lines = Vec::new();
        for (from, found) in graph.imports.iter().enumerate() {
            lines.extend(found.keys().map(|to| format!("{} -> {}", name(from), name(*to))));
        }
        lines
    }

    #[test]
    fn a_re_export_leads_to_the_file_that_defines_the_name() {
        let lib = "mod a;\nmod b;\npub use b::{B as Other, c::C};\n";
        let found = imports(&[
            ("lib", lib),
            ("a", "use crate::{C, Other};\n"),
            ("b", "mod c;\npub(crate) use self::c::C;\npub struct B;\n"),
            ("b/c", "pub struct C;\n"),
        ]);
        assert_eq!(found, ["a -> b", "a -> b/c"]);
    }

    #[test]
    fn a_path_starts_at_the_module_that_writes_it() {
        let found = imports(&[
            ("lib", "mod a;\nmod b;\npub mod inside {\n    pub use crate::b::B;\n}\n"),
            ("a", "mod inner {\n    fn f() { super::c::f(); super::super::b::f() }\n}\nmod c;\n"),
            ("a/c", "fn f() { crate::inside::B::new(); for x in crate::a::all() {} }\n"),
            ("b", "pub(in crate::a) fn f() -> impl Sized + use<'_> { self::g() }\n"),
        ]);
        assert_eq!(found, ["a -> a/c", "a -> b", "a/c -> a", "a/c -> b"]);
    }

    #[test]
    fn a_child_is_found_without_a_prefix_and_another_crate_is_not() {
        let found = imports(&[
            ("lib", "mod a;\nuse a::A;\nuse bytes::Bytes;\n"),
            ("a", "use std::fmt;\nuse a::B;\n"),
        ]);
        assert_eq!(found, [" -> a"]);
    }
}
