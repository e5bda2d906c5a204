//! A tuple whose parts a reader has to guess becomes a struct whose fields have names.
//!
//! ```text
//! | written | instead |
//! |---|---|
//! | three parts or more in a signature, a field or an alias | a struct |
//! | two parts of one type there, as `(usize, usize)` | a struct, or a range |
//! | `let (a, b) = (c, d);`, unless `d` names `a` | one `let` each |
//! ```
//!
//! Pairs of one type inside a list, a map or an iterator are free: they are names with values, or
//! keys with values. Free are also pairs of two types, patterns of closures, test code, and what a
//! trait asks for (the signatures in `impl Trait for Type`). What was written before this rule is
//! in `tuples_old.txt`, one file or one folder (with a `/` at the end) a line. The list only
//! shrinks: an entry without a finding is an error.

use quote::ToTokens;
use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::{Expr, Pat, Type};

use crate::rust_file::{Token, flatten};
use crate::tree::{Finding, Tree};

/// Files that were written before this rule.
const OLD: &str = "xtask/src/tidy/tuples_old.txt";
const OUTSIDE: &[&str] = &["bench/peers/", "tests/", "fuzz/"];
/// What has many pairs: their first part is a name or a key, and their second its value.
const LISTS: &[&str] = &[
    "Vec",
    "VecDeque",
    "BTreeMap",
    "BTreeSet",
    "HashMap",
    "HashSet",
    "Iterator",
    "IntoIterator",
    "ExactSizeIterator",
    "DoubleEndedIterator",
    "Stream",
    "SmallVec",
];

/// Tuples in files that are not on the list, and entries that nothing needs.
pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let old: Vec<(usize, &str)> = (1..).zip(tree.text(OLD).unwrap_or_default().lines()).collect();
    let mut is_needed = vec![false; old.len()];
    let mut findings = Vec::new();
    for (file, rust) in tree.rust() {
        if file.is_generated() || OUTSIDE.iter().any(|folder| file.path.starts_with(folder)) {
            continue;
        }
        let mut walk = Walk::default();
        walk.visit_file(&rust.syntax);
        let of_file = walk
            .findings
            .into_iter()
            .filter(|(line, _)| !tree.is_test_line(file, *line))
            .map(|(line, text)| Finding::error(&file.path, line, text));
        let of_file: Vec<Finding> = of_file.collect();
        match old.iter().position(|(_, entry)| is_of(&file.path, entry)) {
            Some(entry) => is_needed[entry] |= !of_file.is_empty(),
            None => findings.extend(of_file),
        }
    }
    for ((line, entry), _) in old.iter().zip(is_needed).filter(|(_, is_needed)| !is_needed) {
        let text = format!("`{entry}` has no finding any longer; remove this line");
        findings.push(Finding::error(OLD, *line, text));
    }
    findings
}

fn is_of(path: &str, entry: &str) -> bool {
    path == entry || entry.ends_with('/') && path.starts_with(entry)
}

#[derive(Default)]
struct Walk {
    findings: Vec<(usize, String)>,
    is_in_list: bool,
}

impl Walk {
    fn signature(&mut self, signature: &syn::Signature) {
        for input in &signature.inputs {
            if let syn::FnArg::Typed(input) = input {
                self.visit_type(&input.ty);
            }
        }
        self.visit_return_type(&signature.output);
    }
}

impl<'ast> Visit<'ast> for Walk {
    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        self.signature(&item.sig);
        self.visit_block(&item.block);
    }

    fn visit_trait_item_fn(&mut self, item: &'ast syn::TraitItemFn) {
        self.signature(&item.sig);
        if let Some(block) = &item.default {
            self.visit_block(block);
        }
    }

    fn visit_item_impl(&mut self, item: &'ast syn::ItemImpl) {
        for member in &item.items {
            match member {
                syn::ImplItem::Fn(function) => {
                    if item.trait_.is_none() {
                        self.signature(&function.sig);
                    }
                    self.visit_block(&function.block);
                }
                _ if item.trait_.is_some() => {}
                other => self.visit_impl_item(other),
            }
        }
    }

    /// The type of a `let` and of a closure's parameter says what an expression is anyway.
    fn visit_block(&mut self, block: &'ast syn::Block) {
        let mut body = Body { walk: self };
        visit::visit_block(&mut body, block);
    }

    fn visit_type_tuple(&mut self, tuple: &'ast syn::TypeTuple) {
        let line = tuple.span().start().line;
        let parts: Vec<String> = tuple.elems.iter().map(part).collect();
        if parts.len() > 2 {
            let text =
                format!("a tuple of {} parts; write a struct with named fields", parts.len());
            self.findings.push((line, text));
        } else if let [first, second] = &*parts
            && first == second
            && !self.is_in_list
        {
            let text = format!("two parts that are both `{first}`; write a struct, or a range");
            self.findings.push((line, text));
        }
        visit::visit_type_tuple(self, tuple);
    }

    fn visit_path_segment(&mut self, segment: &'ast syn::PathSegment) {
        let before = self.is_in_list;
        self.is_in_list |= LISTS.iter().any(|list| segment.ident == list);
        visit::visit_path_segment(self, segment);
        self.is_in_list = before;
    }

    fn visit_type_slice(&mut self, slice: &'ast syn::TypeSlice) {
        let before = std::mem::replace(&mut self.is_in_list, true);
        visit::visit_type_slice(self, slice);
        self.is_in_list = before;
    }

    fn visit_type_array(&mut self, array: &'ast syn::TypeArray) {
        let before = std::mem::replace(&mut self.is_in_list, true);
        visit::visit_type_array(self, array);
        self.is_in_list = before;
    }
}

/// What is inside of functions: their `let`s, and the items that are declared there.
struct Body<'a> {
    walk: &'a mut Walk,
}

impl<'ast> Visit<'ast> for Body<'_> {
    fn visit_item(&mut self, item: &'ast syn::Item) {
        self.walk.visit_item(item);
    }

    fn visit_local(&mut self, local: &'ast syn::Local) {
        if let Pat::Tuple(names) = pattern(&local.pat)
            && let Some(init) = &local.init
            && let Expr::Tuple(values) = &*init.expr
            && init.diverge.is_none()
            && names.elems.len() == values.elems.len()
            && !names_earlier(names, values)
        {
            let line = local.span().start().line;
            self.walk
                .findings
                .push((line, "a `let` of a tuple of values; write one `let` each".to_owned()));
        }
        visit::visit_local(self, local);
    }
}

/// Does a value use a name that is bound before it, as in `let (a, b) = (b, a);`?
fn names_earlier(names: &syn::PatTuple, values: &syn::ExprTuple) -> bool {
    let mut bound: Vec<Token> = Vec::new();
    for (name, value) in names.elems.iter().zip(&values.elems) {
        let mut used = Vec::new();
        flatten(value.to_token_stream(), &mut used);
        let is_bound = |token: &Token| bound.iter().any(|name| name.text == token.text);
        if used.iter().any(|token| is_name(&token.text) && is_bound(token)) {
            return true;
        }
        flatten(name.to_token_stream(), &mut bound);
    }
    false
}

fn is_name(token: &str) -> bool {
    token.starts_with(|first: char| first.is_alphabetic() || first == '_')
        && !matches!(token, "mut" | "ref")
}

fn pattern(pattern: &Pat) -> &Pat {
    match pattern {
        Pat::Type(typed) => &typed.pat,
        other => other,
    }
}

/// A part as it is compared with another.
fn part(part: &Type) -> String {
    part.to_token_stream().to_string().replace(' ', "")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(path: &str, text: &str) -> Vec<String> {
        check(&Tree::of(&[(path, text)])).iter().map(Finding::to_string).collect()
    }

    #[test]
    fn a_tuple_of_three_or_of_one_type_is_a_finding_in_signatures_fields_and_aliases() {
        for bad in [
            "fn f() -> (u8, &'static str, bool) { g() }",
            "fn f((a, b, c): (u8, u16, u32)) {}",
            "fn f() -> Vec<(u8, u16, u32)> { g() }",
            "fn f() -> Option<(usize, usize)> { g() }",
            "trait T { fn f(&self) -> (String, String); }",
            "impl T { fn f(&self) -> (String, String) { g() } }",
            "struct S { range: (u64, u64) }",
            "enum E { A { range: (u64, u64) } }",
            "type Range = (u64, u64);",
            "const FILES: [(&str, u8, u16); 1] = g();",
            "fn f() { fn h() -> (u8, u8) { g() } }",
        ] {
            assert_eq!(findings("crates/wire/src/a.rs", bad).len(), 1, "{bad}");
            assert_eq!(findings("crates/wire/tests/a.rs", bad), [""; 0], "{bad}");
            let test = format!("#[cfg(test)]\nmod tests {{ {bad} }}");
            assert_eq!(findings("crates/wire/src/a.rs", &test), [""; 0], "{bad}");
        }
    }

    #[test]
    fn a_let_of_values_is_a_finding_unless_it_needs_to_be_one() {
        let body = |text: &str| findings("crates/wire/src/a.rs", &format!("fn f() {{ {text} }}"));
        assert_eq!(
            body("let (mut a, b): (u8, u16) = (1, 2);"),
            ["crates/wire/src/a.rs:1: a `let` of a tuple of values; write one `let` each"]
        );
        assert_eq!(body("let f = || { let (a, b) = (c, d); };").len(), 1);
        for good in [
            "let (a, b) = (b, a);",
            "let (a, b) = g();",
            "let (Some(a), Some(b)) = (c, d) else { return };",
        ] {
            assert_eq!(body(good), [""; 0], "{good}");
        }
    }

    #[test]
    fn pairs_that_a_reader_understands_pass() {
        for good in [
            "fn f(header: (Name, Value)) {}",
            "fn f(headers: &[(String, String)]) -> Vec<(String, String)> { g() }",
            "fn f() -> impl Iterator<Item = (&str, &str)> { g() }",
            "impl Tr for T { fn f(&self) -> (String, String) { g() } }",
            "fn f() { h.map(|(a, b): (u8, u8)| a + b); }",
        ] {
            assert_eq!(findings("crates/wire/src/a.rs", good), [""; 0], "{good}");
        }
    }

    #[test]
    fn an_old_file_is_left_alone_until_it_is_clean() {
        let bad = "type Range = (u64, u64);";
        let files = [
            (OLD, "crates/memo/\ncrates/wire/src/a.rs\n"),
            ("crates/memo/src/a.rs", bad),
            ("crates/wire/src/a.rs", "fn f() {}"),
        ];
        let found: Vec<_> = check(&Tree::of(&files)).iter().map(Finding::to_string).collect();
        assert_eq!(
            found,
            [
                "xtask/src/tidy/tuples_old.txt:2: `crates/wire/src/a.rs` has no finding any longer; remove this line"
            ]
        );
    }
}
