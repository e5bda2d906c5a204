//! A parsed Rust file, in the three views that the rules need.
//!
//! `syntax` for what is public, `tokens` for what is mentioned (macro bodies included, comments and
//! doc comments left out), `imports` for paths that a nested `use` spells in pieces. Each token and
//! import has its line, and [`RustFile::is_test_line`] tells test code from the rest.

use std::ops::RangeInclusive;
use std::str::FromStr;

use proc_macro2::{Delimiter, Spacing, TokenStream, TokenTree};
use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::{Attribute, Item, UseTree};

/// A parsed Rust file.
pub(crate) struct RustFile {
    pub(crate) syntax: syn::File,
    pub(crate) tokens: Vec<Token>,
    pub(crate) imports: Vec<Import>,
    /// Names of the modules in other files that are declared under `#[cfg(test)]`.
    pub(crate) test_modules: Vec<String>,
    inline_modules: Vec<InlineModule>,
    test_lines: Vec<RangeInclusive<usize>>,
}

/// A module whose body stands in its parent's file.
struct InlineModule {
    lines: RangeInclusive<usize>,
    name: String,
}

/// One token; `::` is one token.
#[derive(Debug)]
pub(crate) struct Token {
    pub(crate) line: usize,
    pub(crate) text: String,
}

/// One name brought in by a `use`.
#[derive(Debug)]
pub(crate) struct Import {
    pub(crate) line: usize,
    /// The full path, as `std::net::TcpListener`; a glob ends in `*`.
    pub(crate) path: String,
    /// The name that others find here, if this is a `pub use`; a glob is `*`.
    pub(crate) export: Option<String>,
}

impl RustFile {
    /// Parses a file.
    ///
    /// # Errors
    /// The line and the parser's message.
    pub(crate) fn parse(text: &str) -> Result<Self, (usize, String)> {
        let stream = TokenStream::from_str(text)
            .map_err(|error| (error.span().start().line, error.to_string()))?;
        let syntax: syn::File = syn::parse2(stream.clone())
            .map_err(|error| (error.span().start().line, error.to_string()))?;
        let mut tokens = Vec::new();
        flatten(stream, &mut tokens);
        let mut walk = Walk::default();
        walk.visit_file(&syntax);
        let Walk { imports, test_modules, inline_modules, test_lines } = walk;
        Ok(Self { syntax, tokens, imports, test_modules, inline_modules, test_lines })
    }

    /// The modules of this file that a line is inside of, the outermost first.
    pub(crate) fn modules_around(&self, line: usize) -> impl Iterator<Item = &str> {
        let around = self.inline_modules.iter().filter(move |module| module.lines.contains(&line));
        around.map(|module| module.name.as_str())
    }

    /// Does this line belong to an item under `#[cfg(test)]`?
    pub(crate) fn is_test_line(&self, line: usize) -> bool {
        self.test_lines.iter().any(|range| range.contains(&line))
    }

    /// The lines where the tokens of `path` follow each other, as in `Instant::now`, and those
    /// where a `use` names it.
    pub(crate) fn mentions(&self, path: &str) -> Vec<usize> {
        let parts = path_tokens(path);
        let in_tokens = self
            .tokens
            .windows(parts.len())
            .filter(|window| window.iter().zip(&parts).all(|(token, part)| token.text == *part))
            .map(|window| window[0].line);
        let in_imports = self
            .imports
            .iter()
            .filter(|import| {
                import.path == path
                    || import.path.strip_prefix(path).is_some_and(|rest| rest.starts_with("::"))
            })
            .map(|import| import.line);
        let mut lines: Vec<usize> = in_tokens.chain(in_imports).collect();
        lines.sort_unstable();
        lines.dedup();
        lines
    }
}

/// `Instant::now` as `Instant`, `::`, `now`.
fn path_tokens(path: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    for (index, name) in path.split("::").enumerate() {
        if index > 0 {
            parts.push("::");
        }
        parts.push(name);
    }
    parts
}

/// Appends the tokens of `stream`, groups opened, doc comments dropped.
pub(crate) fn flatten(stream: TokenStream, tokens: &mut Vec<Token>) {
    let mut trees = stream.into_iter().peekable();
    while let Some(tree) = trees.next() {
        let line = tree.span().start().line;
        match tree {
            TokenTree::Punct(punct) if punct.as_char() == '#' => {
                let inner = matches!(trees.peek(), Some(TokenTree::Punct(p)) if p.as_char() == '!');
                if inner {
                    trees.next();
                }
                if matches!(trees.peek(), Some(TokenTree::Group(group)) if is_doc(group)) {
                    trees.next();
                } else {
                    tokens.push(Token { line, text: "#".to_owned() });
                }
            }
            TokenTree::Punct(punct)
                if punct.as_char() == ':' && punct.spacing() == Spacing::Joint =>
            {
                trees.next();
                tokens.push(Token { line, text: "::".to_owned() });
            }
            TokenTree::Group(group) => {
                let (open, close) = match group.delimiter() {
                    Delimiter::Parenthesis => ("(", ")"),
                    Delimiter::Brace => ("{", "}"),
                    Delimiter::Bracket => ("[", "]"),
                    Delimiter::None => ("", ""),
                };
                tokens.push(Token { line, text: open.to_owned() });
                flatten(group.stream(), tokens);
                let line = group.span_close().start().line;
                tokens.push(Token { line, text: close.to_owned() });
            }
            other => tokens.push(Token { line, text: other.to_string() }),
        }
    }
}

fn is_doc(group: &proc_macro2::Group) -> bool {
    matches!(group.stream().into_iter().next(), Some(TokenTree::Ident(name)) if name == "doc")
}

/// Collects imports and test code.
#[derive(Default)]
struct Walk {
    imports: Vec<Import>,
    test_modules: Vec<String>,
    inline_modules: Vec<InlineModule>,
    test_lines: Vec<RangeInclusive<usize>>,
}

impl<'ast> Visit<'ast> for Walk {
    fn visit_item(&mut self, item: &'ast Item) {
        if attributes(item).iter().any(is_cfg_test) {
            let span = item.span();
            self.test_lines.push(span.start().line..=span.end().line);
            if let Item::Mod(module) = item
                && module.content.is_none()
            {
                self.test_modules.push(module.ident.to_string());
            }
        }
        if let Item::Mod(module) = item
            && module.content.is_some()
        {
            let span = item.span();
            let lines = span.start().line..=span.end().line;
            self.inline_modules.push(InlineModule { lines, name: module.ident.to_string() });
        }
        visit::visit_item(self, item);
    }

    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        let start = self.imports.len();
        collect_imports(&item.tree, "", &mut self.imports);
        if matches!(item.vis, syn::Visibility::Inherited) {
            for import in &mut self.imports[start..] {
                import.export = None;
            }
        }
    }
}

fn collect_imports(tree: &UseTree, prefix: &str, imports: &mut Vec<Import>) {
    let join = |name: &str| {
        if prefix.is_empty() { name.to_owned() } else { format!("{prefix}::{name}") }
    };
    let line = tree.span().start().line;
    match tree {
        UseTree::Path(path) => {
            collect_imports(&path.tree, &join(&path.ident.to_string()), imports);
        }
        UseTree::Group(group) => {
            for tree in &group.items {
                collect_imports(tree, prefix, imports);
            }
        }
        UseTree::Glob(_) => {
            imports.push(Import { line, path: join("*"), export: Some("*".to_owned()) });
        }
        UseTree::Name(name) => imports.push(import(line, prefix, &name.ident, None)),
        UseTree::Rename(name) => {
            imports.push(import(line, prefix, &name.ident, Some(&name.rename)));
        }
    }
}

/// `use a::b::{self}` names `a::b`; each name counts as exported here.
fn import(line: usize, prefix: &str, name: &syn::Ident, alias: Option<&syn::Ident>) -> Import {
    let path = match (name == "self", prefix.is_empty()) {
        (true, _) => prefix.to_owned(),
        (false, true) => name.to_string(),
        (false, false) => format!("{prefix}::{name}"),
    };
    let last = path.rsplit("::").next().unwrap_or_default();
    let export = Some(alias.map_or_else(|| last.to_owned(), ToString::to_string));
    Import { line, path, export }
}

/// Is this `#[cfg(test)]` or `#[cfg(all(test, …))]`?
fn is_cfg_test(attribute: &Attribute) -> bool {
    let Ok(list) = attribute.meta.require_list() else { return false };
    if !list.path.is_ident("cfg") {
        return false;
    }
    let mut tokens = Vec::new();
    flatten(list.tokens.clone(), &mut tokens);
    let words: Vec<&str> = tokens.iter().map(|token| token.text.as_str()).collect();
    words == ["test"]
        || (words.first() == Some(&"all") && !words.contains(&"not") && words.contains(&"test"))
}

fn attributes(item: &Item) -> &[Attribute] {
    match item {
        Item::Const(item) => &item.attrs,
        Item::Enum(item) => &item.attrs,
        Item::Fn(item) => &item.attrs,
        Item::Impl(item) => &item.attrs,
        Item::Macro(item) => &item.attrs,
        Item::Mod(item) => &item.attrs,
        Item::Static(item) => &item.attrs,
        Item::Struct(item) => &item.attrs,
        Item::Trait(item) => &item.attrs,
        Item::Type(item) => &item.attrs,
        Item::Use(item) => &item.attrs,
        _ => &[],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_found_in_code_in_macros_and_in_nested_imports_but_not_in_comments() {
        let text = "//! std::net is not used\nuse std::{fmt, net::TcpListener};\n/// std::net\nfn f() {\n    let _ = vec![std::net::x()];\n}\n";
        let file = RustFile::parse(text).expect("it parses");
        assert_eq!(file.mentions("std::net"), [2, 5]);
        assert_eq!(file.mentions("std::net::TcpListener"), [2]);
        assert_eq!(file.mentions("std::env"), [0_usize; 0]);
    }

    #[test]
    fn an_alias_keeps_the_path_it_stands_for() {
        let file = RustFile::parse("use a::{self as z, b::{self, c as d}};").expect("it parses");
        let seen: Vec<_> = file.imports.iter().map(|import| import.path.as_str()).collect();
        assert_eq!(seen, ["a", "a::b", "a::b::c"]);
    }

    #[test]
    fn test_items_are_told_from_the_rest() {
        let file = RustFile::parse(
            "fn a() {}\n#[cfg(all(test, unix))]\nmod b {\n}\n#[cfg(not(test))]\nfn c() {}\n",
        )
        .expect("it parses");
        let lines: Vec<usize> = (1..=6).filter(|line| file.is_test_line(*line)).collect();
        assert_eq!(lines, [2, 3, 4]);
    }

    #[test]
    fn a_broken_file_names_the_line() {
        assert_eq!(RustFile::parse("fn a() {}\nfn {\n").err().map(|(line, _)| line), Some(2));
    }
}
