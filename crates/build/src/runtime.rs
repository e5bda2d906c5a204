//! Putting the runtime path into generated code.
//!
//! `buffa`'s generator writes `::buffa::…`, `::serde::…` and so on, ours [`SERVICE`]; a user's
//! crate depends on none of them. Here each becomes a path below the runtime path, in code and in
//! the strings of `#[serde(…)]`, and serde's derives are told where serde is.

use proc_macro2::{Delimiter, Group, Literal, Spacing, TokenStream, TokenTree};
use quote::{ToTokens, quote};

use crate::Error;

/// How our own generator writes the crate `tidewire-service`, before the path is put in.
pub(crate) const SERVICE: &str = "__tidewire_service";

/// Crates as generators write them, and the name each has below the runtime path.
const CRATES: [(&str, &str); 5] = [
    ("buffa", "buffa"),
    ("buffa_types", "buffa_types"),
    ("buffa_descriptor", "buffa_descriptor"),
    ("serde", "serde"),
    (SERVICE, "service"),
];

/// The path below which generated code finds all it names.
pub(crate) struct Runtime {
    text: String,
    path: syn::Path,
}

impl Runtime {
    pub(crate) fn parse(path: &str) -> Result<Self, Error> {
        let parsed = syn::parse_str::<syn::Path>(path).ok();
        let anchored = path.starts_with("::") || path == "crate" || path.starts_with("crate::");
        match parsed.filter(|_| anchored) {
            Some(parsed) => Ok(Self { text: path.to_owned(), path: parsed }),
            None => Err(Error::generate(format!(
                "runtime_path {path:?} is not a path that begins with `::` or `crate::`"
            ))),
        }
    }

    /// `code` with the runtime path in it, formatted. Code that is `at_root`, in no module of its
    /// own, has each item exempt from lints, and leaves `register_types` to the root.
    pub(crate) fn put_into(&self, code: &str, at_root: bool) -> Result<String, Error> {
        let wrong = |error: &dyn std::fmt::Display| {
            Error::generate(format!("the generated code is not Rust, which is a bug: {error}"))
        };
        let tokens = code.parse::<TokenStream>().map_err(|error| wrong(&error))?;
        let tokens = self.rewrite(tokens, TokenPosition::Code);
        let mut file = syn::parse2::<syn::File>(tokens).map_err(|error| wrong(&error))?;
        if at_root {
            file.items.retain(|item| !re_exports(item, "register_types"));
            file.items.iter_mut().for_each(exempt);
        }
        Ok(prettyplease::unparse(&file))
    }

    fn rewrite(&self, tokens: TokenStream, place: TokenPosition) -> TokenStream {
        let mut out: Vec<TokenTree> = Vec::new();
        for token in tokens {
            match token {
                TokenTree::Ident(ident) if is_anchored(&out) => {
                    match runtime_path(&ident.to_string()) {
                        Some(name) => {
                            out.truncate(out.len() - 2);
                            let name = quote::format_ident!("{name}");
                            let path = &self.path;
                            out.extend(quote!(#path::#name));
                        }
                        None => out.push(TokenTree::Ident(ident)),
                    }
                }
                TokenTree::Group(group) => {
                    let inside = place.inside(&out);
                    let stream = self.rewrite(group.stream(), inside);
                    let derives_serde = is_attribute(&out, &group)
                        && ["Serialize", "Deserialize"].iter().any(|name| derives(&group, name));
                    out.push(Group::new(group.delimiter(), stream).into());
                    if derives_serde {
                        let serde = format!("{}::serde", self.text);
                        out.extend(quote!(#[serde(crate = #serde)]));
                    }
                }
                TokenTree::Literal(literal) if place == TokenPosition::Serde => {
                    out.push(self.rewrite_string(literal).into());
                }
                other => out.push(other),
            }
        }
        out.into_iter().collect()
    }

    /// A path in a string: `"::buffa::json_helpers::int64"`.
    fn rewrite_string(&self, literal: Literal) -> Literal {
        let parsed = syn::parse2::<syn::LitStr>(TokenTree::from(literal.clone()).into());
        let Ok(value) = parsed.map(|string| string.value()) else { return literal };
        let mut rewritten = value.clone();
        for (written, name) in CRATES {
            let path = format!("{}::{name}::", self.text);
            rewritten = rewritten.replace(&format!("::{written}::"), &path);
        }
        if rewritten == value { literal } else { Literal::string(&rewritten) }
    }
}

/// Where tokens are.
#[derive(Clone, Copy, PartialEq, Eq)]
enum TokenPosition {
    Code,
    /// Inside `#[serde(…)]`, where strings are paths.
    Serde,
}

impl TokenPosition {
    /// Where the tokens of a group are that comes after `before`.
    fn inside(self, before: &[TokenTree]) -> Self {
        match before.last() {
            Some(TokenTree::Ident(name)) if name == "serde" => Self::Serde,
            _ => self,
        }
    }
}

/// Whether `before` ends with a `::` that begins a path.
fn is_anchored(before: &[TokenTree]) -> bool {
    let is_colon = |token: &TokenTree| matches!(token, TokenTree::Punct(p) if p.as_char() == ':');
    let is_joint = |token: &TokenTree| matches!(token, TokenTree::Punct(p) if p.as_char() == ':' && p.spacing() == Spacing::Joint);
    let [rest @ .., first, second] = before else { return false };
    is_joint(first)
        && is_colon(second)
        && match rest.last() {
            Some(TokenTree::Ident(ident)) => is_keyword(&ident.to_string()),
            // `A<B>::c` goes on with a path, `impl<A> ::b` and `=> ::b` begin one.
            Some(TokenTree::Punct(punct)) => {
                punct.as_char() != '>' || punct.spacing() == Spacing::Alone
            }
            _ => true,
        }
}

/// Keywords after which a path may begin.
fn is_keyword(ident: &str) -> bool {
    matches!(
        ident,
        "as" | "break"
            | "const"
            | "dyn"
            | "else"
            | "for"
            | "if"
            | "impl"
            | "in"
            | "match"
            | "move"
            | "mut"
            | "pub"
            | "ref"
            | "return"
            | "use"
            | "where"
            | "while"
    )
}

fn runtime_path(name: &str) -> Option<&'static str> {
    CRATES.iter().find(|(written, _)| *written == name).map(|(_, known)| *known)
}

fn is_attribute(before: &[TokenTree], group: &Group) -> bool {
    let hash = matches!(before.last(), Some(TokenTree::Punct(p)) if p.as_char() == '#');
    hash && group.delimiter() == Delimiter::Bracket
}

/// Whether `group` is `[derive(…)]` with `name` in it.
fn derives(group: &Group, name: &str) -> bool {
    let mut tokens = group.stream().into_iter();
    let is_derive = matches!(tokens.next(), Some(TokenTree::Ident(ident)) if ident == "derive");
    let Some(TokenTree::Group(list)) = tokens.next().filter(|_| is_derive) else { return false };
    list.stream().into_iter().any(|token| matches!(token, TokenTree::Ident(ident) if ident == name))
}

/// Whether `item` is `use …::name;`.
fn re_exports(item: &syn::Item, name: &str) -> bool {
    let syn::Item::Use(item) = item else { return false };
    let last = item.tree.to_token_stream().into_iter().last();
    matches!(last, Some(TokenTree::Ident(ident)) if ident == name)
}

/// Exempts `item` from lints, as [`modules::ALLOW`](crate::modules::ALLOW) does for a module.
fn exempt(item: &mut syn::Item) {
    let attrs = match item {
        syn::Item::Const(item) => &mut item.attrs,
        syn::Item::Enum(item) => &mut item.attrs,
        syn::Item::Fn(item) => &mut item.attrs,
        syn::Item::Impl(item) => &mut item.attrs,
        syn::Item::Mod(item) => &mut item.attrs,
        syn::Item::Static(item) => &mut item.attrs,
        syn::Item::Struct(item) => &mut item.attrs,
        syn::Item::Trait(item) => &mut item.attrs,
        syn::Item::Type(item) => &mut item.attrs,
        syn::Item::Use(item) => &mut item.attrs,
        _ => return,
    };
    let lints =
        crate::modules::ALLOW.iter().filter_map(|lint| syn::parse_str::<syn::Path>(lint).ok());
    let lints = lints.map(ToTokens::into_token_stream);
    attrs.insert(0, syn::parse_quote!(#[allow(#(#lints),*)]));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_paths_that_begin_with_a_known_crate_are_rewritten() {
        let runtime = Runtime::parse("crate::rt").expect("a path");
        let check = |code: &str, expected: &str| {
            let code = runtime.put_into(code, false).expect("Rust");
            let code = code.split_whitespace().collect::<Vec<_>>().join(" ");
            assert_eq!(code, expected);
        };
        check("type A = ::buffa::B;", "type A = crate::rt::buffa::B;");
        check("type A = a::buffa::B;", "type A = a::buffa::B;");
        check("type A = <u8 as a::T>::buffa;", "type A = <u8 as a::T>::buffa;");
        check("type A = ::core::buffa::B;", "type A = ::core::buffa::B;");
        check("use ::serde::ser as _;", "use crate::rt::serde::ser as _;");
        check("impl ::buffa::A for B {}", "impl crate::rt::buffa::A for B {}");
        check("impl<A> ::buffa::A for B<A> {}", "impl<A> crate::rt::buffa::A for B<A> {}");
        check("type A = V<::buffa_types::B>;", "type A = V<crate::rt::buffa_types::B>;");
        check("type A = ::__tidewire_service::B;", "type A = crate::rt::service::B;");
        check("#[doc = \" ::buffa::A\"] struct A;", "/// ::buffa::A struct A;");
        check(
            "struct A { #[serde(with = \"::buffa::json\")] a: u8 }",
            "struct A { #[serde(with = \"crate::rt::buffa::json\")] a: u8, }",
        );
        check(
            "#[derive(Clone, ::serde::Serialize)] struct A;",
            "#[derive(Clone, crate::rt::serde::Serialize)] #[serde(crate = \"crate::rt::serde\")] struct A;",
        );
    }

    #[test]
    fn a_path_that_depends_on_the_place_is_refused() {
        for path in ["tidewire", "super::rt", "::", "", "a b"] {
            assert!(Runtime::parse(path).is_err(), "{path}");
        }
    }
}
