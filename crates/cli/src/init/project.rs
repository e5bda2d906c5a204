//! A new project in Rust.
//!
//! Its sources are those of the example `hello`, which is built and tested with everything else;
//! only `Cargo.toml` is written for the folder. It takes Tidewire from a clone or from a
//! repository.

use std::fs;
use std::path::Path;

use anyhow::{Context, bail};

/// The files of the project, `Cargo.toml` apart.
const FILES: [(&str, &str); 4] = [
    ("build.rs", include_str!("../../../../examples/hello/build.rs")),
    ("proto/hello.proto", include_str!("../../../../examples/hello/proto/hello.proto")),
    ("src/main.rs", include_str!("../../../../examples/hello/src/main.rs")),
    (".gitignore", "/target\n"),
];

/// The clone that this program was built from.
const BUILT_FROM: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// Writes a project into an empty folder; what to say of it.
pub(crate) fn write(folder: &Path, tidewire: Option<&str>) -> anyhow::Result<Vec<String>> {
    let manifest = manifest(folder, &origin(tidewire)?)?;
    let files = FILES.iter().copied().chain([("Cargo.toml", manifest.as_str())]);
    for (name, text) in files {
        let path = folder.join(name);
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent)
                .with_context(|| format!("cannot make {}", parent.display()))?;
        }
        fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
    }
    let there = if folder == Path::new(".") {
        "cargo run".to_owned()
    } else {
        format!("cd {} && cargo run", folder.display())
    };
    Ok(vec![
        format!(
            "made a project in {}: a service in proto/hello.proto, its code in src/main.rs",
            folder.display()
        ),
        format!("next: {there}"),
        "then: curl http://127.0.0.1:8080/hello/Ada".to_owned(),
    ])
}

/// Where crates come from, as a dependency says it.
enum Origin {
    Clone(String),
    Repository(String),
}

fn origin(tidewire: Option<&str>) -> anyhow::Result<Origin> {
    match tidewire {
        Some(url) if url.contains("://") || url.starts_with("git@") => {
            Ok(Origin::Repository(url.to_owned()))
        }
        Some(path) => match clone(Path::new(path)) {
            Some(found) => Ok(Origin::Clone(found)),
            None => bail!("{path} is not a clone of Tidewire: it has no crates/tidewire"),
        },
        None => match clone(Path::new(BUILT_FROM)) {
            Some(found) => Ok(Origin::Clone(found)),
            None => bail!(
                "the clone that this program was built from is gone; say where Tidewire is: \
                 --tidewire PATH, or --tidewire URL of its repository"
            ),
        },
    }
}

/// The full path of a clone, if there is one.
fn clone(path: &Path) -> Option<String> {
    let path = path.canonicalize().ok()?;
    path.join("crates/tidewire/Cargo.toml").exists().then(|| path.display().to_string())
}

fn manifest(folder: &Path, origin: &Origin) -> anyhow::Result<String> {
    let name = package_name(&std::path::absolute(folder)?);
    let from = |krate: &str| match origin {
        Origin::Clone(path) => format!("path = {:?}", format!("{path}/crates/{krate}")),
        Origin::Repository(url) => format!("git = {url:?}"),
    };
    Ok(format!(
        "[package]\nname = {name:?}\nversion = \"0.1.0\"\nedition = \"2024\"\n\n\
         [dependencies]\ntidewire = {{ {} }}\n\
         tokio = {{ version = \"1\", features = [\"macros\", \"rt-multi-thread\"] }}\n\n\
         [build-dependencies]\ntidewire-build = {{ {} }}\n\n\
         # Builds faster; backtraces still name lines.\n\
         [profile.dev]\ndebug = \"line-tables-only\"\n",
        from("tidewire"),
        from("build"),
    ))
}

/// The folder's name as that of a package.
fn package_name(folder: &Path) -> String {
    let name = folder.file_name().map(|name| name.to_string_lossy().to_lowercase());
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    let name = name.unwrap_or_default().replace(|c| !is_allowed(c), "-");
    match name.starts_with(|c: char| c.is_ascii_alphabetic()) {
        // The crates that it depends on keep their names.
        true if !["tidewire", "tokio", "test", "build"].contains(&&*name) => name,
        _ => format!("service-{}", name.trim_matches('-')).trim_end_matches('-').to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_of_any_name_is_a_package() {
        let check =
            |folder: &str, name| assert_eq!(package_name(Path::new(folder)), name, "{folder}");
        check("/a/greeter", "greeter");
        check("/a/My Shop", "my-shop");
        check("/a/2nd", "service-2nd");
        check("/a/tokio", "service-tokio");
        check("/", "service");
    }
}
