//! A new project in Rust.
//!
//! Its sources are those of the example `hello`, which is built and tested with everything else;
//! only `Cargo.toml` is written for the folder. It takes Tidewire from a repository: the one that
//! this program's manifest names, or the one that is asked for; or from a clone that is asked for.
//! It never takes it from where this program was built, which may be another machine.

use std::fs;
use std::path::{Component, Path, PathBuf};

use anyhow::{Context, bail};

/// The files of the project, `Cargo.toml` apart.
const FILES: [(&str, &str); 4] = [
    ("build.rs", include_str!("../../../../examples/hello/build.rs")),
    ("proto/hello.proto", include_str!("../../../../examples/hello/proto/hello.proto")),
    ("src/main.rs", include_str!("../../../../examples/hello/src/main.rs")),
    (".gitignore", "/target\n"),
];

/// The repository that the manifest of this program names; empty where it is not published.
const REPOSITORY: &str = env!("CARGO_PKG_REPOSITORY");

/// Writes a project into an empty folder; what to say of it.
pub(crate) fn write(folder: &Path, tidewire: Option<&str>) -> anyhow::Result<Vec<String>> {
    let manifest = manifest(folder, &origin(folder, tidewire, REPOSITORY)?)?;
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
    Clone(PathBuf),
    Repository(String),
}

fn origin(folder: &Path, tidewire: Option<&str>, published: &str) -> anyhow::Result<Origin> {
    match tidewire {
        Some(url) if url.contains("://") || url.starts_with("git@") => {
            Ok(Origin::Repository(url.to_owned()))
        }
        Some(path) => match clone(Path::new(path)) {
            Some(found) if Path::new(path).is_absolute() => Ok(Origin::Clone(found)),
            Some(found) => Ok(Origin::Clone(relative(&found, folder)?)),
            None => bail!("{path} is not a clone of Tidewire: it has no crates/tidewire"),
        },
        None if !published.is_empty() => Ok(Origin::Repository(published.to_owned())),
        None => {
            let near = ["tidewire", "../tidewire", "."]
                .into_iter()
                .find(|path| clone(Path::new(path)).is_some());
            let example = near.map_or_else(
                || "--tidewire PATH of a clone, or --tidewire URL of a git repository".to_owned(),
                |path| format!("--tidewire {path} for the clone that is there"),
            );
            bail!(
                "this build of Tidewire names no repository that a project could take it from; say \
                 where it is: {example}"
            )
        }
    }
}

/// The full path of a clone, if there is one.
fn clone(path: &Path) -> Option<PathBuf> {
    let path = path.canonicalize().ok()?;
    path.join("crates/tidewire/Cargo.toml").exists().then_some(path)
}

/// A path as the manifest of a project in `folder`, which may not be there yet, writes it.
fn relative(clone: &Path, folder: &Path) -> anyhow::Result<PathBuf> {
    let folder = match folder.canonicalize() {
        Ok(folder) => folder,
        Err(_) => std::env::current_dir()?.join(folder),
    };
    let same = clone.components().zip(folder.components()).take_while(|(a, b)| a == b).count();
    let up = folder.components().skip(same).map(|_| Component::ParentDir);
    Ok(up.chain(clone.components().skip(same)).collect())
}

fn manifest(folder: &Path, origin: &Origin) -> anyhow::Result<String> {
    let name = package_name(&std::path::absolute(folder)?);
    let from = |krate: &str| match origin {
        Origin::Clone(path) => format!("path = {:?}", path.join("crates").join(krate)),
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
pub(super) fn package_name(folder: &Path) -> String {
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

    #[test]
    fn a_repository_is_named_or_asked_for_and_is_never_where_this_was_built() {
        let of = |tidewire, published| match origin(Path::new("a"), tidewire, published) {
            Ok(Origin::Repository(url)) => url,
            Ok(Origin::Clone(path)) => path.display().to_string(),
            Err(error) => error.to_string(),
        };
        let url = "https://example.org/tidewire.git";
        assert_eq!(of(None, url), url);
        assert_eq!(of(Some("git@example.org:tidewire"), url), "git@example.org:tidewire");
        assert!(of(None, "").starts_with("this build of Tidewire names no repository"));
        assert!(of(Some("/nowhere"), url).contains("is not a clone of Tidewire"));
    }

    #[test]
    fn a_clone_that_is_named_relatively_is_written_so() {
        let check = |clone: &str, folder: &str, expected: &str| {
            let found = relative(Path::new(clone), Path::new(folder)).unwrap();
            assert_eq!(found, Path::new(expected));
        };
        check("/none/tidewire", "/none/greeter", "../tidewire");
        check("/none/tidewire", "/none/tidewire/x/greeter", "../..");
        check("/none/tidewire", "/other", "../none/tidewire");
    }
}
