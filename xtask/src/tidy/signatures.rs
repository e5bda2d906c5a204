//! No public signature of the rooms that users meet names `connectrpc`, and neither does any code
//! that `build` writes: the library stays behind our own face and can be replaced.
//!
//! A signature is what a caller sees: arguments and results, public fields, variants, bounds,
//! re-exports, and the head of a trait implementation. Bodies are free. An alias made by `use` does
//! not hide the library. For generated code, every literal and token of `crates/build` is looked at.

use std::collections::HashSet;

use quote::ToTokens;
use syn::{Fields, ImplItem, Item, TraitItem, Visibility};

use crate::rust_file::{self, RustFile, Token};
use crate::tree::{Finding, Tree};

const LIBRARY: &str = "connectrpc";
const ROOMS: &[&str] = &["tidewire", "service", "build"];

/// Public signatures, and templates of generated code, that name the library.
pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (file, rust) in tree.rust() {
        let Some(room) = file.room() else { continue };
        if !ROOMS.contains(&room) || tree.is_test(file) {
            continue;
        }
        for line in signature_lines(rust) {
            let text =
                format!("a public signature names `{LIBRARY}`; wrap it in a type of `service`");
            findings.push(Finding::error(&file.path, line, text));
        }
        if room == "build" {
            for token in rust.tokens.iter().filter(|token| token.text.contains(LIBRARY)) {
                let text = format!(
                    "`build` names `{LIBRARY}`; generated code is written against `service` only"
                );
                findings.push(Finding::error(&file.path, token.line, text));
            }
        }
    }
    findings.retain(|finding| {
        !tree
            .files
            .iter()
            .any(|file| file.path == finding.path && tree.is_test_line(file, finding.line))
    });
    findings
}

/// The lines of public signatures that name the library or something imported from it.
fn signature_lines(rust: &RustFile) -> Vec<usize> {
    let names: HashSet<&str> = rust
        .imports
        .iter()
        .filter(|import| is_library(import.path.split("::").next().unwrap_or_default()))
        .map(|import| import.alias.as_str())
        .collect();
    let mut tokens = Vec::new();
    for item in &rust.syntax.items {
        signature(item, &mut tokens);
    }
    let mut lines: Vec<usize> = tokens
        .iter()
        .filter(|token| is_library(&token.text) || names.contains(token.text.as_str()))
        .map(|token| token.line)
        .collect();
    lines.sort_unstable();
    lines.dedup();
    lines
}

fn is_library(name: &str) -> bool {
    name.starts_with(LIBRARY)
}

fn is_public(visibility: &Visibility) -> bool {
    matches!(visibility, Visibility::Public(_))
}

fn push(part: impl ToTokens, tokens: &mut Vec<Token>) {
    rust_file::flatten(part.to_token_stream(), tokens);
}

/// Appends the tokens of what a caller of this item sees.
fn signature(item: &Item, tokens: &mut Vec<Token>) {
    match item {
        Item::Fn(item) if is_public(&item.vis) => push(&item.sig, tokens),
        Item::Const(item) if is_public(&item.vis) => push(&item.ty, tokens),
        Item::Static(item) if is_public(&item.vis) => push(&item.ty, tokens),
        Item::Type(item) if is_public(&item.vis) => push(item, tokens),
        Item::Use(item) if is_public(&item.vis) => push(&item.tree, tokens),
        Item::Enum(item) if is_public(&item.vis) => {
            push(&item.generics, tokens);
            push(&item.variants, tokens);
        }
        Item::Struct(item) if is_public(&item.vis) => {
            push(&item.generics, tokens);
            fields(&item.fields, tokens);
        }
        Item::Trait(item) if is_public(&item.vis) => {
            push(&item.generics, tokens);
            push(&item.supertraits, tokens);
            for member in &item.items {
                match member {
                    TraitItem::Fn(function) => push(&function.sig, tokens),
                    other => push(other, tokens),
                }
            }
        }
        Item::Impl(item) => implementation(item, tokens),
        Item::Mod(item) => {
            for item in item.content.iter().flat_map(|(_, items)| items) {
                signature(item, tokens);
            }
        }
        Item::Macro(item) if item.attrs.iter().any(|a| a.path().is_ident("macro_export")) => {
            push(&item.mac, tokens);
        }
        _ => {}
    }
}

fn fields(fields: &Fields, tokens: &mut Vec<Token>) {
    for field in fields.iter().filter(|field| is_public(&field.vis)) {
        push(&field.ty, tokens);
    }
}

/// The head, and the members that a caller sees: all of a trait's, the public ones otherwise.
fn implementation(item: &syn::ItemImpl, tokens: &mut Vec<Token>) {
    push(&item.generics, tokens);
    push(&item.self_ty, tokens);
    let of_trait = item.trait_.is_some();
    if let Some((path, _)) = &item.trait_ {
        push(path, tokens);
    }
    for member in &item.items {
        match member {
            ImplItem::Fn(function) if of_trait || is_public(&function.vis) => {
                push(&function.sig, tokens)
            }
            ImplItem::Type(associated) => push(&associated.ty, tokens),
            ImplItem::Const(constant) if of_trait || is_public(&constant.vis) => {
                push(&constant.ty, tokens)
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(path: &str, text: &str) -> Vec<usize> {
        check(&Tree::of(&[(path, text)])).iter().map(|finding| finding.line).collect()
    }

    #[test]
    fn each_kind_of_public_signature_is_looked_at() {
        for bad in [
            "pub fn f(c: connectrpc::Code) {}",
            "pub fn f() -> impl Into<connectrpc::Code> {}",
            "pub struct S(pub connectrpc::Code);",
            "pub struct S<T: connectrpc::Codec>(T);",
            "pub enum E { A(connectrpc::Code) }",
            "pub type T = connectrpc::Code;",
            "pub const C: Option<connectrpc::Code> = None;",
            "pub use connectrpc::Code;",
            "pub use connectrpc_health as health;",
            "pub trait T { fn f(c: connectrpc::Code); }",
            "pub trait T: connectrpc::Codec {}",
            "struct S; impl S { pub fn f(c: connectrpc::Code) {} }",
            "struct S; impl From<connectrpc::Code> for S { fn from(_: X) -> S { S } }",
            "pub mod m { pub fn f(c: connectrpc::Code) {} }",
            "use connectrpc::Code as C; pub fn f(c: C) {}",
        ] {
            assert_eq!(lines("crates/service/src/a.rs", bad), [1], "{bad}");
            assert_eq!(lines("crates/server/src/a.rs", bad), [0_usize; 0], "{bad}");
        }
    }

    #[test]
    fn bodies_private_items_and_comments_are_free() {
        let text = "//! About connectrpc.\nuse connectrpc::Code;\nfn f(c: Code) {}\npub(crate) fn g(c: Code) {}\npub fn h() { f(Code::Ok) }\n#[cfg(test)]\nmod tests { pub fn t(c: super::Code) {} }\n";
        assert_eq!(lines("crates/tidewire/src/a.rs", text), [0_usize; 0]);
    }

    #[test]
    fn templates_of_generated_code_never_name_the_library() {
        assert_eq!(
            lines("crates/build/src/a.rs", "fn f() {\n    w(\"use ::connectrpc::Code;\");\n}"),
            [2]
        );
        assert_eq!(
            lines("crates/build/src/a.rs", "fn f() {\n    quote!(::connectrpc::Code);\n}"),
            [2]
        );
        assert_eq!(lines("crates/build/src/a.rs", "// Not connectrpc.\nfn f() {}"), [0_usize; 0]);
    }
}
