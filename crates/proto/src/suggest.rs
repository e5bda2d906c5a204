//! Which name was probably meant by one that is not there.
//!
//! | not there | candidates |
//! |---|---|
//! | a type or an option in parentheses | scalars; messages, enums and extensions of every file that is compiled or built in |
//! | a field of an option | the fields of the message it names, or else of every options message |
//! | an import | the files that are compiled or built in, by name or by the end of it |
//!
//! Runs only when something is wrong. A candidate that is not near is worse than none, so likeness
//! has to be high.

use prost_reflect::prost_types::{DescriptorProto, EnumDescriptorProto};

use crate::builtin;
use crate::diagnostics::Diagnostic;
use crate::unit::{Unit, built_in};

/// The candidate most like `name`, if one is near enough to be meant.
pub(crate) fn near<'a>(
    name: &str,
    candidates: impl IntoIterator<Item = &'a str>,
) -> Option<&'a str> {
    let wanted = name.to_lowercase();
    let likeness = |known: &str| strsim::jaro_winkler(&wanted, &known.to_lowercase());
    candidates
        .into_iter()
        .map(|known| (likeness(known), known))
        .filter(|(likeness, _)| *likeness >= NEAR)
        .max_by(|one, other| one.0.total_cmp(&other.0))
        .map(|(_, known)| known)
}

/// The import that was probably meant by `import`: one of the same last part, or a near one.
pub(crate) fn import<'a>(
    import: &str,
    known: impl Iterator<Item = &'a str> + Clone,
) -> Option<&'a str> {
    let below = format!("/{import}");
    let same_end = |name: &&str| name.ends_with(&below) || import.ends_with(&format!("/{name}"));
    known
        .clone()
        .chain(builtin::names())
        .find(same_end)
        .or_else(|| near(import, known.chain(builtin::names())))
}

/// Everything that a name in a source can mean.
pub(crate) struct Names {
    declared: Vec<Declaration>,
    option_fields: Vec<(String, String)>,
}

struct Declaration {
    full_name: String,
    file: String,
}

impl Names {
    /// The names of `units` and of built-in files.
    pub(crate) fn of(units: &[Unit]) -> Self {
        let mut names = Self { declared: Vec::new(), option_fields: Vec::new() };
        for unit in units {
            names.add(unit);
        }
        for name in builtin::names().filter(|name| !units.iter().any(|unit| unit.name == *name)) {
            if let Some(unit) = built_in(name) {
                names.add(&unit);
            }
        }
        names
    }

    fn add(&mut self, unit: &Unit) {
        let file = &unit.name;
        let package = unit.descriptor.package();
        for message in &unit.descriptor.message_type {
            self.add_message(file, package, message);
        }
        for of_enum in &unit.descriptor.enum_type {
            self.add_enum(file, package, of_enum);
        }
        for extension in &unit.descriptor.extension {
            self.declare(file, &join(package, extension.name()));
        }
    }

    fn add_message(&mut self, file: &str, scope: &str, message: &DescriptorProto) {
        let full_name = join(scope, message.name());
        self.declare(file, &full_name);
        for inner in &message.nested_type {
            self.add_message(file, &full_name, inner);
        }
        for of_enum in &message.enum_type {
            self.add_enum(file, &full_name, of_enum);
        }
        if full_name.ends_with("Options") || full_name == "google.api.HttpRule" {
            let fields = message.field.iter().map(|field| field.name().to_owned());
            self.option_fields.extend(fields.map(|field| (full_name.clone(), field)));
        }
    }

    fn add_enum(&mut self, file: &str, scope: &str, of_enum: &EnumDescriptorProto) {
        self.declare(file, &join(scope, of_enum.name()));
    }

    fn declare(&mut self, file: &str, full_name: &str) {
        let declared = Declaration { full_name: full_name.to_owned(), file: file.to_owned() };
        self.declared.push(declared);
    }

    /// The diagnostic about `unit` with the name that was probably meant.
    pub(crate) fn improve(&self, diagnostic: Diagnostic, unit: &Unit) -> Diagnostic {
        let message = diagnostic.message.clone();
        if let Some(name) = quoted(&message, "option field '") {
            return with_suggestion(diagnostic, near(name, self.fields(None)));
        }
        if let Some(name) = quoted(&message, "field '").filter(|_| message.contains("not found")) {
            let of = quoted(&message, "for message '");
            return with_suggestion(diagnostic, near(name, self.fields(of)));
        }
        match quoted(&message, "name '") {
            Some(name) if message.ends_with("is not defined") => {
                self.of_name(diagnostic, name, unit)
            }
            _ => diagnostic,
        }
    }

    fn fields(&self, message: Option<&str>) -> impl Iterator<Item = &str> {
        let wanted = move |of: &str| message.is_none_or(|message| message == of);
        self.option_fields.iter().filter(move |(of, _)| wanted(of)).map(|(_, field)| &**field)
    }

    fn of_name(&self, diagnostic: Diagnostic, name: &str, unit: &Unit) -> Diagnostic {
        let imported = |file: &str| {
            file == unit.name || unit.descriptor.dependency.iter().any(|import| import == file)
        };
        if let Some(declared) = self.declared.iter().find(|known| known.full_name == name)
            && !imported(&declared.file)
        {
            return diagnostic.help(format!("add `import \"{}\";`", declared.file));
        }
        // As many parts of each candidate as were written.
        let parts = name.split('.').count();
        let ends = self.declared.iter().map(|known| (end(&known.full_name, parts), known));
        let scalars = SCALARS.iter().copied().filter(|_| parts == 1);
        let best = near(name, ends.clone().map(|(end, _)| end).chain(scalars));
        let Some(best) = best else { return diagnostic };
        let found = ends.filter(|(end, _)| *end == best).map(|(_, known)| known);
        // Of several, rather one that can be seen already.
        let Some(found) = found.min_by_key(|known| !imported(&known.file)) else {
            return with_suggestion(diagnostic, Some(best));
        };
        let in_package = format!("{}.", unit.descriptor.package());
        let shown = found.full_name.strip_prefix(&in_package).unwrap_or(&found.full_name);
        let diagnostic = with_suggestion(diagnostic, Some(shown));
        if imported(&found.file) {
            return diagnostic;
        }
        diagnostic.help(format!("correct the name, and add `import \"{}\";`", found.file))
    }
}

fn with_suggestion(mut diagnostic: Diagnostic, meant: Option<&str>) -> Diagnostic {
    if let Some(meant) = meant {
        diagnostic.message = format!("{}; did you mean '{meant}'?", diagnostic.message);
    }
    diagnostic
}

/// What is between `before` and the next quote.
fn quoted<'a>(message: &'a str, before: &str) -> Option<&'a str> {
    let (_, rest) = message.split_once(before)?;
    rest.split_once('\'').map(|(name, _)| name)
}

/// The last `parts` parts of a dotted name.
fn end(full_name: &str, parts: usize) -> &str {
    let dots = full_name.rmatch_indices('.');
    dots.map(|(at, _)| at + 1).nth(parts - 1).map_or(full_name, |at| &full_name[at..])
}

fn join(scope: &str, name: &str) -> String {
    if scope.is_empty() { name.to_owned() } else { format!("{scope}.{name}") }
}

/// How alike two names have to be, of 1.
const NEAR: f64 = 0.88;

const SCALARS: [&str; 15] = [
    "double", "float", "int32", "int64", "uint32", "uint64", "sint32", "sint64", "fixed32",
    "fixed64", "sfixed32", "sfixed64", "bool", "string", "bytes",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_near_name_is_taken() {
        let check = |name, expected| {
            assert_eq!(
                near(name, ["Contact", "ContactList", "string", "int32"]),
                expected,
                "{name}"
            );
        };
        check("Contct", Some("Contact"));
        check("contact", Some("Contact"));
        check("strng", Some("string"));
        check("String", Some("string"));
        check("Foo", None);
        check("", None);
    }

    #[test]
    fn an_import_is_found_by_its_end() {
        let known = ["shop/v1/shop.proto", "shop/v1/item.proto"];
        let check = |name, expected| {
            assert_eq!(import(name, known.into_iter()), expected, "{name}");
        };
        check("shop.proto", Some("shop/v1/shop.proto"));
        check("protos/shop/v1/item.proto", Some("shop/v1/item.proto"));
        check("shop/v1/itm.proto", Some("shop/v1/item.proto"));
        check("google/protobuf/timestmp.proto", Some("google/protobuf/timestamp.proto"));
        check("nothing/like/it.proto", None);
    }
}
