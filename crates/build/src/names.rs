//! Rust names that clash neither with what a package has nor with keywords.
//!
//! The rule is one: a name that is taken gets a `_` at its end, and another until it is free.

use std::collections::BTreeSet;

use buffa_codegen::context::CodeGenContext;
use buffa_codegen::idents::{make_field_ident, to_shouty_snake_case};
use proc_macro2::Ident;

use crate::messages::Corpus;

/// Names that are taken in one scope.
#[derive(Debug, Default, Clone)]
pub(crate) struct NameScope(BTreeSet<String>);

impl NameScope {
    /// What `package` has before any service: messages, enums, the modules of nested types, and
    /// packages below it. The names of the prelude that message code uses bare are taken too.
    pub(crate) fn in_package(package: &str, corpus: &Corpus, context: &CodeGenContext<'_>) -> Self {
        let mut taken = Self::of(PRELUDE);
        for file in &corpus.files {
            let of = file.package.as_deref().unwrap_or_default();
            if of == package {
                for name in file.message_type.iter().filter_map(|item| item.name.as_deref()) {
                    taken.0.insert(name.to_owned());
                    taken.0.insert(context.nested_module_name(package, name));
                }
                let enums = file.enum_type.iter().filter_map(|item| item.name.clone());
                taken.0.extend(enums);
                taken.0.extend(file.service.iter().filter_map(|item| item.name.clone()));
            }
            let below = match package {
                "" => Some(of),
                _ => of.strip_prefix(package).and_then(|rest| rest.strip_prefix('.')),
            };
            let below = below.and_then(|rest| rest.split('.').next());
            taken.0.extend(below.map(str::to_owned));
        }
        taken
    }

    /// The given names.
    pub(crate) fn of(names: &[&str]) -> Self {
        Self(names.iter().map(|name| (*name).to_owned()).collect())
    }

    /// Takes `name`, or the first free one after it.
    pub(crate) fn take(&mut self, name: &str) -> Ident {
        let mut name = name.to_owned();
        while self.0.contains(&make_field_ident(&name).to_string()) || self.0.contains(&name) {
            name.push('_');
        }
        let ident = make_field_ident(&name);
        self.0.insert(name);
        ident
    }

    /// Takes the name of a service, which is in the set because the package declares it.
    pub(crate) fn take_own(&mut self, name: &str) -> Ident {
        if PRELUDE.contains(&name) {
            return self.take(name);
        }
        make_field_ident(name)
    }
}

/// `GetContact` as `get_contact`.
pub(crate) fn snake(name: &str) -> String {
    to_shouty_snake_case(name).to_lowercase()
}

/// `GetContact` as `GET_CONTACT`.
pub(crate) fn shouty(name: &str) -> String {
    to_shouty_snake_case(name)
}

/// Names that the code of messages uses without a path.
const PRELUDE: &[&str] = &[
    "__buffa",
    "Box",
    "Clone",
    "Debug",
    "Default",
    "Err",
    "None",
    "Ok",
    "Option",
    "PartialEq",
    "Result",
    "Some",
    "String",
    "Vec",
    "bool",
    "f32",
    "f64",
    "i32",
    "i64",
    "str",
    "u32",
    "u64",
    "u8",
    "usize",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_cut_into_words_and_made_usable() {
        let check = |name: &str, expected: &str| {
            assert_eq!(NameScope::default().take(&snake(name)).to_string(), expected);
        };
        check("GetContact", "get_contact");
        check("getHTTPStatus", "get_http_status");
        check("V2Get", "v2_get");
        check("Type", "r#type");
        check("Await", "r#await");
        check("Self", "self_");
        check("already_snake", "already_snake");
        assert_eq!(shouty("GetContact"), "GET_CONTACT");
    }

    #[test]
    fn a_taken_name_gets_underscores() {
        let mut taken = NameScope::of(&["new", "type"]);
        assert_eq!(taken.take("new").to_string(), "new_");
        assert_eq!(taken.take("new").to_string(), "new__");
        assert_eq!(taken.take("type").to_string(), "type_");
        assert_eq!(taken.take("other").to_string(), "other");
    }
}
