//! Names say what a thing is about. A drawer name (`utils`, `Manager`) says only that its author
//! had nowhere to put it, and `get_` says nothing at all.
//!
//! A participle alone (`told`, `Kept`) says that something happened, and neither what nor to what.
//!
//! Looked at: files, folders and modules (any word of the name, and one that is a participle),
//! types (the last word, and one that is a participle), public functions (`get_`), functions that
//! are a participle. Test code may name itself as it likes, except for its files.

use syn::visit::{self, Visit};
use syn::{Ident, Visibility};

use crate::tree::{Finding, Tree};

const BANNED: &[&str] =
    &["utils", "util", "common", "helpers", "helper", "manager", "managers", "misc", "impl"];

/// Names that private words were made of; standard ones, as `started` of a callback, are free.
const PARTICIPLES: &[&str] = &[
    "told", "known", "kept", "found", "heard", "asked", "said", "seen", "shown", "made", "taken",
    "wanted", "answered", "refused", "offered", "held", "given", "noted", "lent", "begun",
];
/// Participles that name no type and no module, though functions and fields may have the name.
const PARTICIPLES_OF_TYPES: &[&str] = &[
    "allowed",
    "applied",
    "arrived",
    "bounded",
    "captured",
    "checking",
    "compared",
    "connecting",
    "described",
    "encoded",
    "escaping",
    "fetching",
    "followed",
    "following",
    "imported",
    "inherited",
    "isolated",
    "looking",
    "noting",
    "opened",
    "queued",
    "registered",
    "replaced",
    "served",
    "settled",
    "typed",
    "unchecked",
    "unfinished",
    "unseen",
    "waiting",
    "watched",
    "watching",
    "worn",
];
/// Files that were written before this rule; the list only shrinks.
const PARTICIPLES_OLD: &[&str] = &[
    "bench/peers/overhead/src/measure.rs",
    "bench/peers/rpc/src/load.rs",
    "crates/memo/examples/stress.rs",
    "crates/memo/src/compute/attempt.rs",
    "crates/memo/src/compute/get.rs",
    "crates/memo/src/compute/publish.rs",
    "crates/memo/src/graph/flight.rs",
    "crates/memo/src/memory/line.rs",
    "crates/memo/src/methods.rs",
    "crates/memo/src/store/table.rs",
    "crates/memo/src/tooling/stuck.rs",
];

/// Files, modules, types and functions with a banned name.
pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (file, rust) in tree.rust() {
        if file.is_generated() {
            continue;
        }
        for part in file.path.split('/') {
            if let Some(word) = banned_word(part.trim_end_matches(".rs")) {
                let text =
                    format!("`{part}` has `{word}` in its name; name it after what it is about");
                findings.push(Finding::error(&file.path, 1, text));
            }
        }
        let is_old = PARTICIPLES_OLD.contains(&&*file.path);
        let mut walk = Walk { findings: Vec::new(), is_old };
        walk.visit_file(&rust.syntax);
        let outside_tests =
            walk.findings.into_iter().filter(|(line, _)| !tree.is_test_line(file, *line));
        findings.extend(outside_tests.map(|(line, text)| Finding::error(&file.path, line, text)));
    }
    findings
}

/// The banned word in a name in snake case.
fn banned_word(name: &str) -> Option<&'static str> {
    name.split(['_', '-']).find_map(|word| BANNED.iter().find(|banned| **banned == word).copied())
}

/// The banned word at the end of a name in camel case.
fn banned_ending(name: &str) -> Option<&'static str> {
    let start = name.rfind(char::is_uppercase)?;
    let last = name[start..].to_lowercase();
    BANNED.iter().find(|banned| **banned == last).copied()
}

struct Walk {
    findings: Vec<(usize, String)>,
    is_old: bool,
}

impl Walk {
    fn find(&mut self, name: &Ident, text: String) {
        self.findings.push((name.span().start().line, text));
    }

    fn type_name(&mut self, name: &Ident) {
        if let Some(word) = banned_ending(&name.to_string()) {
            self.find(
                name,
                format!("the type `{name}` ends in `{word}`; name it after what it is"),
            );
        }
        self.participle(name);
        self.participle_of_type(name);
    }

    fn participle_of_type(&mut self, name: &Ident) {
        if PARTICIPLES_OF_TYPES.contains(&&*name.to_string().to_lowercase()) {
            self.find(name, format!("`{name}` is a participle; name it after what it is"));
        }
    }

    fn participle(&mut self, name: &Ident) {
        if !self.is_old && PARTICIPLES.contains(&&*name.to_string().to_lowercase()) {
            self.find(name, format!("`{name}` is a participle; name it after what it is or does"));
        }
    }

    fn public_function(&mut self, name: &Ident) {
        // The standard library says `get_mut`, and the crate `http` says `get_all`.
        if let Some(rest) = name.to_string().strip_prefix("get_")
            && !matches!(rest, "mut" | "all")
        {
            self.find(
                name,
                format!("the public function `{name}` starts with `get_`; call it `{rest}`"),
            );
        }
    }
}

impl<'ast> Visit<'ast> for Walk {
    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        if let Some(word) = banned_word(&item.ident.to_string()) {
            let text = format!(
                "the module `{}` has `{word}` in its name; name it after what it is about",
                item.ident
            );
            self.find(&item.ident, text);
        }
        self.participle(&item.ident);
        self.participle_of_type(&item.ident);
        visit::visit_item_mod(self, item);
    }

    fn visit_item_struct(&mut self, item: &'ast syn::ItemStruct) {
        self.type_name(&item.ident);
    }

    fn visit_item_enum(&mut self, item: &'ast syn::ItemEnum) {
        self.type_name(&item.ident);
    }

    fn visit_item_type(&mut self, item: &'ast syn::ItemType) {
        self.type_name(&item.ident);
    }

    fn visit_item_trait(&mut self, item: &'ast syn::ItemTrait) {
        self.type_name(&item.ident);
        for member in &item.items {
            if let syn::TraitItem::Fn(function) = member {
                self.participle(&function.sig.ident);
                if matches!(item.vis, Visibility::Public(_)) {
                    self.public_function(&function.sig.ident);
                }
            }
        }
        visit::visit_item_trait(self, item);
    }

    fn visit_item_impl(&mut self, item: &'ast syn::ItemImpl) {
        for member in &item.items {
            if let syn::ImplItem::Fn(function) = member
                && item.trait_.is_none()
            {
                self.participle(&function.sig.ident);
            }
        }
        visit::visit_item_impl(self, item);
    }

    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        self.participle(&item.sig.ident);
        if matches!(item.vis, Visibility::Public(_)) {
            self.public_function(&item.sig.ident);
        }
        visit::visit_item_fn(self, item);
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        if matches!(item.vis, Visibility::Public(_)) {
            self.public_function(&item.sig.ident);
        }
        visit::visit_impl_item_fn(self, item);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(path: &str, text: &str) -> Vec<String> {
        check(&Tree::of(&[(path, text)])).iter().map(Finding::to_string).collect()
    }

    #[test]
    fn drawer_names_of_files_folders_modules_and_types_are_findings() {
        for (path, text, start) in [
            (
                "crates/live-proto/src/utils.rs",
                "",
                "crates/live-proto/src/utils.rs:1: `utils.rs` has `utils`",
            ),
            (
                "crates/live-proto/src/frame_helpers.rs",
                "",
                "crates/live-proto/src/frame_helpers.rs:1: ",
            ),
            (
                "crates/live-proto/src/common/a.rs",
                "",
                "crates/live-proto/src/common/a.rs:1: `common` has",
            ),
            (
                "crates/live-proto/src/a.rs",
                "\nmod misc {}",
                "crates/live-proto/src/a.rs:2: the module `misc`",
            ),
            (
                "crates/live-proto/src/a.rs",
                "struct SessionManager;",
                "crates/live-proto/src/a.rs:1: the type `SessionManager`",
            ),
            (
                "crates/live-proto/src/a.rs",
                "enum Helper {}",
                "crates/live-proto/src/a.rs:1: the type `Helper`",
            ),
            (
                "crates/live-proto/src/a.rs",
                "type CallImpl = ();",
                "crates/live-proto/src/a.rs:1: the type `CallImpl`",
            ),
        ] {
            let findings = findings(path, text);
            assert!(findings.len() == 1 && findings[0].starts_with(start), "{path}: {findings:?}");
        }
    }

    #[test]
    fn a_get_prefix_is_a_finding_where_it_is_public() {
        let text = "pub fn get_a() {}\nfn get_b() {}\nstruct C;\nimpl C {\n    pub fn get_d(&self) {}\n}\npub trait E {\n    fn get_f();\n}\nimpl E for C {\n    fn get_f() {}\n}\n";
        let findings = findings("crates/live-proto/src/a.rs", text);
        let lines: Vec<&str> = findings.iter().filter_map(|f| f.split(':').nth(1)).collect();
        assert_eq!(lines, ["1", "5", "8"], "{findings:?}");
    }

    #[test]
    fn a_participle_is_a_finding_unless_a_trait_asks_for_it() {
        for bad in [
            "struct Told;",
            "enum Kept {}",
            "type Known = u8;",
            "fn found() {}",
            "impl A { fn said(&self) {} }",
            "trait A { fn held(&self); }",
            "struct Settled;",
            "mod served;",
            "mod told;",
        ] {
            let text = format!("struct A;\n{bad}");
            let found = findings("crates/live-proto/src/a.rs", &text);
            assert!(found.len() == 1 && found[0].contains("is a participle"), "{bad}: {found:?}");
        }
        let good = "struct CachedReply;\nimpl B for A { fn held(&self) {} }\nfn started() {}\nfn settled() {}\n";
        assert_eq!(findings("crates/live-proto/src/a.rs", good), [""; 0]);
    }

    #[test]
    fn good_names_and_test_code_pass() {
        let text = "struct CommonName;\npub fn get(key: &str) {}\nstruct Simplest;\n#[cfg(test)]\nmod tests {\n    struct Helper;\n}\n";
        assert_eq!(findings("crates/live-proto/src/implicit.rs", text), [""; 0]);
    }
}
