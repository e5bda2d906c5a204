//! A type of another crate that ours hides stands in no signature that users see.
//!
//! `tidewire_service::Headers` hides `http::HeaderMap`, so that its inside may change without a
//! change of a user's code. The one bridge is [`From`], in both directions.

use proc_macro2::{TokenStream, TokenTree};
use quote::ToTokens;
use syn::Visibility;
use syn::visit::{self, Visit};

use crate::tree::{Finding, Tree};

const HIDDEN: &str = "HeaderMap";
const INSTEAD: &str = "Headers";
/// The crates whose public items users name.
const CRATES: &[&str] = &["service", "client", "tidewire"];

/// Public signatures, fields and implementations that name a hidden type.
pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (file, rust) in tree.rust() {
        if !file.crate_name().is_some_and(|name| CRATES.contains(&name)) {
            continue;
        }
        let mut walk = Walk::default();
        walk.visit_file(&rust.syntax);
        let lines = walk.lines.into_iter().filter(|line| !tree.is_test_line(file, *line));
        findings.extend(lines.map(|line| {
            let text = format!("`{HIDDEN}` is public here; name `{INSTEAD}`, which hides it");
            Finding::error(&file.path, line, text)
        }));
    }
    findings
}

/// The lines that name it in public.
#[derive(Default)]
struct Walk {
    lines: Vec<usize>,
}

impl Walk {
    fn look_at(&mut self, visibility: &Visibility, part: &impl ToTokens) {
        if matches!(visibility, Visibility::Public(_)) {
            self.look(part.to_token_stream());
        }
    }

    fn look(&mut self, tokens: TokenStream) {
        for token in tokens {
            match token {
                TokenTree::Group(group) => self.look(group.stream()),
                TokenTree::Ident(name) if name == HIDDEN => {
                    self.lines.push(name.span().start().line);
                }
                _ => {}
            }
        }
    }
}

impl<'ast> Visit<'ast> for Walk {
    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        self.look_at(&item.vis, &item.sig);
    }

    fn visit_item_struct(&mut self, item: &'ast syn::ItemStruct) {
        self.look_at(&item.vis, &item.generics);
        item.fields.iter().for_each(|field| self.look_at(&field.vis, &field.ty));
    }

    fn visit_item_enum(&mut self, item: &'ast syn::ItemEnum) {
        for variant in &item.variants {
            variant.fields.iter().for_each(|field| self.look_at(&item.vis, &field.ty));
        }
    }

    fn visit_item_trait(&mut self, item: &'ast syn::ItemTrait) {
        self.look_at(&item.vis, &item.supertraits);
        for member in &item.items {
            match member {
                syn::TraitItem::Fn(function) => self.look_at(&item.vis, &function.sig),
                other => self.look_at(&item.vis, other),
            }
        }
    }

    fn visit_item_type(&mut self, item: &'ast syn::ItemType) {
        self.look_at(&item.vis, &item.ty);
    }

    fn visit_item_const(&mut self, item: &'ast syn::ItemConst) {
        self.look_at(&item.vis, &item.ty);
    }

    fn visit_item_static(&mut self, item: &'ast syn::ItemStatic) {
        self.look_at(&item.vis, &item.ty);
    }

    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        self.look_at(&item.vis, &item.tree);
    }

    fn visit_item_impl(&mut self, item: &'ast syn::ItemImpl) {
        let Some((path, _)) = &item.trait_ else {
            return visit::visit_item_impl(self, item);
        };
        let is_bridge = path.segments.last().is_some_and(|segment| segment.ident == "From");
        if !is_bridge {
            self.look(path.to_token_stream());
            self.look(item.self_ty.to_token_stream());
        }
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        self.look_at(&item.vis, &item.sig);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(path: &str, text: &str) -> Vec<usize> {
        check(&Tree::of(&[(path, text)])).iter().map(|finding| finding.line).collect()
    }

    #[test]
    fn a_hidden_type_in_public_is_a_finding() {
        for bad in [
            "pub fn f(headers: &http::HeaderMap) {}",
            "pub fn f() -> Option<HeaderMap> { None }",
            "impl A {\n pub fn f(&self) -> &HeaderMap { &self.0 } }",
            "pub struct A { pub headers: HeaderMap }",
            "pub struct A(pub HeaderMap);",
            "pub enum A { B { headers: HeaderMap } }",
            "pub trait A { fn f(&self, headers: HeaderMap); }",
            "pub trait A { type B: Into<HeaderMap>; }",
            "pub type A = HeaderMap;",
            "pub use http::HeaderMap;",
            "impl AsRef<HeaderMap> for A { fn as_ref(&self) -> &HeaderMap { &self.0 } }",
            "impl A for HeaderMap {}",
        ] {
            let found = lines("crates/service/src/a.rs", bad);
            assert_eq!(found, [1 + bad.matches("\n").count()], "{bad}");
            assert_eq!(lines("crates/wire/src/a.rs", bad), [0_usize; 0], "{bad}");
        }
    }

    #[test]
    fn what_is_private_and_the_bridge_are_free() {
        for good in [
            "use http::HeaderMap;",
            "pub struct A(HeaderMap);",
            "pub(crate) fn f(headers: HeaderMap) {}",
            "pub fn f() { let headers = HeaderMap::new(); }",
            "impl From<HeaderMap> for A { fn from(map: HeaderMap) -> Self { Self(map) } }",
            "impl From<A> for HeaderMap { fn from(a: A) -> Self { a.0 } }",
            "#[cfg(test)]\nmod tests { pub fn f() -> HeaderMap { HeaderMap::new() } }",
        ] {
            assert_eq!(lines("crates/service/src/a.rs", good), [0_usize; 0], "{good}");
        }
    }
}
