//! Writing the code: a file a package, the descriptor set, and one file that includes them.
//!
//! ```text
//! tidewire.rs            DESCRIPTOR_SET, register_types, pub mod shop { pub mod v1 { include!(…) } }
//! tidewire.binpb         the descriptor set
//! tidewire/shop.v1.rs    the code of a package
//! ```
//!
//! A file that is already as it should be is left alone, so that nothing that depends on it is
//! built again.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use buffa_codegen::idents::escape_mod_ident;

use crate::Error;
use crate::messages::Package;

/// Lints that generated code is exempt from.
pub(crate) const ALLOW: &[&str] = &[
    "clippy::all",
    "clippy::nursery",
    "clippy::pedantic",
    "clippy::unwrap_used",
    "dead_code",
    "deprecated",
    "elided_lifetimes_in_paths",
    "missing_debug_implementations",
    "missing_docs",
    "non_camel_case_types",
    "rustdoc::all",
    "unreachable_pub",
    "unused_imports",
    "unused_qualifications",
];

/// All that is written.
#[derive(Debug)]
pub(crate) struct GeneratedFiles {
    /// The code of each package.
    pub(crate) packages: Vec<Package>,
    /// The encoded descriptor set.
    pub(crate) descriptor_set: Vec<u8>,
    /// The path below which generated code finds all it names.
    pub(crate) runtime_path: String,
}

/// Writes all of it below `folder`. In `OUT_DIR` (`in_out_dir`) files are included by that
/// variable, elsewhere relative to each other.
pub(crate) fn write(
    folder: &Path,
    name: &str,
    in_out_dir: bool,
    generated: &GeneratedFiles,
) -> Result<(), Error> {
    if name.is_empty() || !name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') {
        let message =
            format!("the name {name:?} has characters other than letters, digits and `_`");
        return Err(Error::generate(message));
    }
    let include = |macro_name: &str, file: &str| match in_out_dir {
        true => format!("{macro_name}!(concat!(env!(\"OUT_DIR\"), \"/{file}\"))"),
        false => format!("{macro_name}!({file:?})"),
    };
    let mut root = Module::default();
    for package in &generated.packages {
        let file =
            format!("{name}/{}.rs", if package.name.is_empty() { "_" } else { &package.name });
        write_file(&folder.join(&file), format!("{HEADER}{}", package.code).as_bytes())?;
        root.at(&package.name).include = Some(include("include", &file));
    }
    let set = format!("{name}.binpb");
    write_file(&folder.join(&set), &generated.descriptor_set)?;
    let mut code = format!(
        "{HEADER}/// The encoded `google.protobuf.FileDescriptorSet` of everything here, imports \
         included.\n#[allow({})]\npub const DESCRIPTOR_SET: &[u8] = {};\n",
        ALLOW.join(", "),
        include("include_bytes", &set)
    );
    code.push_str(&register_types(generated));
    root.print(&mut code, 0);
    write_file(&folder.join(format!("{name}.rs")), code.as_bytes())
}

/// The function that makes every message known to `google.protobuf.Any`.
fn register_types(generated: &GeneratedFiles) -> String {
    let runtime = &generated.runtime_path;
    let allow = ALLOW.join(", ");
    let mut code = format!(
        "/// Tells `registry` of every message here and of the well-known types, so that a \
         `google.protobuf.Any` in JSON can hold them.\n\
         #[allow({allow})]\n\
         pub fn register_types(registry: &mut {runtime}::buffa::type_registry::TypeRegistry) {{\n\
         \x20   {runtime}::buffa_types::register_wkt_types(registry);\n"
    );
    let with_types = generated.packages.iter().filter(|p| p.code.contains("fn register_types("));
    for package in with_types {
        let names = package.name.split('.').filter(|name| !name.is_empty());
        let path = names.map(|name| format!("{}::", escape_mod_ident(name))).collect::<String>();
        let _ = writeln!(code, "    self::{path}__buffa::register_types(registry);");
    }
    code.push_str("}\n");
    code
}

/// The module of a package, and those below it.
#[derive(Debug, Default)]
struct Module {
    include: Option<String>,
    below: BTreeMap<String, Self>,
}

impl Module {
    fn at(&mut self, package: &str) -> &mut Self {
        let names = package.split('.').filter(|name| !name.is_empty());
        names.fold(self, |module, name| module.below.entry(name.to_owned()).or_default())
    }

    fn print(&self, code: &mut String, depth: usize) {
        let indent = "    ".repeat(depth);
        if let Some(include) = &self.include {
            let _ = writeln!(code, "{indent}{include};");
        }
        for (name, module) in &self.below {
            let _ = writeln!(code, "{indent}#[allow({})]", ALLOW.join(", "));
            let _ = writeln!(code, "{indent}pub mod {} {{", escape_mod_ident(name));
            module.print(code, depth + 1);
            let _ = writeln!(code, "{indent}}}");
        }
    }
}

fn write_file(path: &Path, content: &[u8]) -> Result<(), Error> {
    if fs::read(path).is_ok_and(|present| present == content) {
        return Ok(());
    }
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).map_err(|error| Error::write(folder, error))?;
    }
    fs::write(path, content).map_err(|error| Error::write(path, error))
}

const HEADER: &str = "// @generated by tidewire-build. Do not edit.\n";
