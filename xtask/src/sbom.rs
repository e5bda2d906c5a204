//! `cargo xtask sbom TARGET`: what the program `tidewire` is made of, as CycloneDX 1.5.
//!
//! | fact | from |
//! |---|---|
//! | which crates, for this target with its features | `cargo tree` |
//! | licences, and who needs whom | `cargo metadata` |
//! | checksums | `Cargo.lock` |
//!
//! What is compiled in is `required`; what ran when it was compiled, `excluded`. The same sources
//! make the same text: there is no time and no random number in it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

/// A crate: its name and its version.
type Crate = (String, String);

/// The document for a target such as `x86_64-unknown-linux-musl`.
///
/// # Errors
/// When cargo does not know the target, or `Cargo.lock` is not up to date.
pub(crate) fn document(root: &Path, target: &str) -> Result<Value> {
    let compiled_in = tree(root, target, "normal,no-proc-macro")?;
    let all = tree(root, target, "normal,build")?;
    let words = ["metadata", "--locked", "--format-version", "1", "--filter-platform", target];
    let metadata: Value = serde_json::from_str(&cargo(root, &words)?).context("cargo metadata")?;
    let lock = std::fs::read_to_string(root.join("Cargo.lock")).context("Cargo.lock")?;
    let sums = checksums(&lock);

    let packages = metadata["packages"].as_array().context("no packages")?;
    let mut named = BTreeMap::new();
    let mut program = Value::Null;
    let mut components = Vec::new();
    for package in packages {
        let one = (text(&package["name"]), text(&package["version"]));
        if !all.contains(&one) {
            continue;
        }
        named.insert(text(&package["id"]), reference(&one, sums.contains_key(&one)));
        let mut component = component(package, &one, sums.get(&one));
        if one.0 == PROGRAM {
            component["type"] = "application".into();
            program = component;
        } else {
            let is_in = compiled_in.contains(&one);
            component["scope"] = if is_in { "required" } else { "excluded" }.into();
            components.push(component);
        }
    }
    components.sort_by_key(|component| text(&component["bom-ref"]));
    Ok(json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {
            "component": program,
            "properties": [{"name": "cargo:target", "value": target}],
        },
        "components": components,
        "dependencies": dependencies(&metadata, &named),
    }))
}

/// The crates of the program along some kinds of edges.
fn tree(root: &Path, target: &str, edges: &str) -> Result<BTreeSet<Crate>> {
    let words = ["tree", "--locked", "--package", PROGRAM, "--features", FEATURES];
    let of = ["--target", target, "--edges", edges, "--prefix", "none", "--format", "{p}"];
    let lines = cargo(root, &[&words[..], &of].concat())?;
    // `name v1.2.3 (where it is)`
    let crates = lines.lines().filter_map(|line| {
        let (name, rest) = line.split_once(" v")?;
        Some((name.to_owned(), rest.split(' ').next()?.to_owned()))
    });
    Ok(crates.collect())
}

/// The checksums of those that come from the registry.
fn checksums(lock: &str) -> BTreeMap<Crate, String> {
    let value = |block: &str, key: &str| {
        let line = block.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(" = \""));
        line.map(|rest| rest.trim_end_matches('"').to_owned())
    };
    let of = |block| {
        Some(((value(block, "name")?, value(block, "version")?), value(block, "checksum")?))
    };
    lock.split("[[package]]").filter_map(of).collect()
}

fn component(package: &Value, one: &Crate, sum: Option<&String>) -> Value {
    let mut component = json!({
        "type": "library",
        "bom-ref": reference(one, sum.is_some()),
        "name": one.0,
        "version": one.1,
    });
    if let Some(sum) = sum {
        component["purl"] = reference(one, true).into();
        component["hashes"] = json!([{"alg": "SHA-256", "content": sum}]);
    }
    component["licenses"] = match package["license"].as_str() {
        // As crates of old wrote it.
        Some(license) => json!([{"expression": license.replace('/', " OR ")}]),
        None => json!([{"license": {"name": "see the sources"}}]),
    };
    component
}

/// How the document names a crate; those of the registry by the URL for packages.
fn reference((name, version): &Crate, of_registry: bool) -> String {
    // A `+` in a version stands for a space there.
    let version = version.replace('+', "%2B");
    if of_registry { format!("pkg:cargo/{name}@{version}") } else { format!("{name}@{version}") }
}

/// Who needs whom, to be built or to run.
fn dependencies(metadata: &Value, named: &BTreeMap<String, String>) -> Vec<Value> {
    let nodes = metadata["resolve"]["nodes"].as_array().into_iter().flatten();
    let mut all: Vec<(String, Vec<String>)> = nodes
        .filter_map(|node| {
            let needed = node["deps"].as_array()?.iter().filter(|edge| !is_for_tests(edge));
            let mut needed: Vec<String> =
                needed.filter_map(|edge| named.get(edge["pkg"].as_str()?).cloned()).collect();
            needed.sort();
            Some((named.get(node["id"].as_str()?)?.clone(), needed))
        })
        .collect();
    all.sort();
    all.into_iter().map(|(name, needed)| json!({"ref": name, "dependsOn": needed})).collect()
}

fn is_for_tests(edge: &Value) -> bool {
    let kinds = edge["dep_kinds"].as_array();
    kinds.is_some_and(|kinds| kinds.iter().all(|kind| kind["kind"] == "dev"))
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn cargo(root: &Path, words: &[&str]) -> Result<String> {
    let program = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(program).current_dir(root).args(words).output();
    let output = output.with_context(|| format!("cargo {}", words[0]))?;
    if !output.status.success() {
        bail!("cargo {} failed: {}", words[0], String::from_utf8_lossy(&output.stderr));
    }
    String::from_utf8(output.stdout).with_context(|| format!("cargo {}", words[0]))
}

const PROGRAM: &str = "tidewire-cli";
/// What `scripts/dist.sh` builds it with, beside the defaults.
const FEATURES: &str = "otlp";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_compiled_in_is_told_from_what_compiles_and_from_what_is_tested_with() {
        let root = crate::tree::root().expect("a root");
        let bom = document(&root, "x86_64-unknown-linux-gnu").expect("a document");
        let components = bom["components"].as_array().expect("components");
        let scope = |name: &str| {
            let found = components.iter().find(|component| component["name"] == name);
            found.map_or("absent", |component| component["scope"].as_str().unwrap_or_default())
        };
        for (name, expected) in [
            ("rustls", "required"),
            ("ring", "required"),
            ("tidewire-memo", "required"),
            ("tidewire-telemetry", "required"),
            ("tikv-jemallocator", "required"),
            ("syn", "excluded"),
            ("clap_derive", "excluded"),
            ("tidewire-build", "excluded"),
            ("tempfile", "absent"),
            ("rusqlite", "absent"),
            ("windows-sys", "absent"),
        ] {
            assert_eq!(scope(name), expected, "{name}");
        }
        assert_eq!(bom["metadata"]["component"]["name"], PROGRAM);
    }

    #[test]
    fn every_crate_has_a_licence_a_checksum_and_a_place_in_the_graph() {
        let root = crate::tree::root().expect("a root");
        let bom = document(&root, "x86_64-unknown-linux-gnu").expect("a document");
        let edges = bom["dependencies"].as_array().expect("dependencies");
        let mut known = BTreeSet::new();
        for component in bom["components"].as_array().expect("components") {
            let name = text(&component["bom-ref"]);
            let licence = &component["licenses"][0]["expression"];
            assert!(licence.is_string(), "{component}");
            let sum = text(&component["hashes"][0]["content"]);
            assert!(sum.len() == 64 || name.starts_with("tidewire"), "{component}");
            assert!(known.insert(name), "twice: {component}");
        }
        let needed: BTreeSet<String> = edges
            .iter()
            .flat_map(|edge| edge["dependsOn"].as_array().expect("a list"))
            .map(text)
            .collect();
        assert_eq!(
            needed, known,
            "whoever is there is needed by somebody, and the other way round"
        );
        let machine = root.to_string_lossy();
        assert!(!bom.to_string().contains(&*machine), "a path of this machine is in it");
    }

    #[test]
    fn the_container_has_the_program_and_nothing_else() {
        let root = crate::tree::root().expect("a root");
        let read = |name| std::fs::read_to_string(root.join("scripts").join(name)).expect("a file");
        let file = read("Containerfile");
        let lines: Vec<_> = file.lines().filter(|line| !line.starts_with('#')).collect();
        let copied: Vec<_> = lines.iter().filter_map(|line| line.strip_prefix("COPY ")).collect();
        assert_eq!(lines[0], "FROM scratch");
        assert_eq!(copied, ["tidewire-linux-${TARGETARCH} /tidewire"]);
        assert!(!file.contains("\nRUN ") && !file.contains("\nADD "), "{file}");
        assert!(read("dist.sh").contains("dist/tidewire-linux-$1"), "the name that it copies");
    }
}
