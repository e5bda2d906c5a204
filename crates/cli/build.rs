//! What `tidewire --version` says: the commit, the target and the features of this build.
//!
//! Of an archive, or where there is no git, the commit is `unknown`; `+changes` follows it where
//! the sources of the program are not those of the commit. A folder inside of somebody else's
//! repository does not borrow its commit. The variables are not called `TIDEWIRE_…`: cargo hands
//! them on to what it runs, and such a variable is a setting.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

fn main() {
    let package = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it"));
    let root = package.join("../..");
    let commit = commit(&root).unwrap_or_else(|| "unknown".to_owned());
    println!("cargo::rustc-env=BUILD_COMMIT={commit}");
    println!("cargo::rustc-env=BUILD_TARGET={}", env::var("TARGET").unwrap_or_default());
    println!("cargo::rustc-env=BUILD_FEATURES={}", features().join(", "));
}

/// The commit of the sources, and whether they are as it has them; none without a repository.
fn commit(root: &Path) -> Option<String> {
    let top = PathBuf::from(git(root, &["rev-parse", "--show-toplevel"])?);
    if top.canonicalize().ok()? != root.canonicalize().ok()? {
        return None;
    }
    let head = git(root, &["rev-parse", "HEAD"])?;
    watch(root);
    let changes =
        git(root, &["status", "--porcelain", "--", "crates", "Cargo.toml", "Cargo.lock"])?;
    Some(format!("{}{}", head.get(..12)?, if changes.is_empty() { "" } else { "+changes" }))
}

/// Builds this again when the commit or the sources of the program are others.
fn watch(root: &Path) {
    for name in ["HEAD", "packed-refs"]
        .map(str::to_owned)
        .into_iter()
        .chain(git(root, &["symbolic-ref", "HEAD"]))
    {
        if let Some(path) = git(root, &["rev-parse", "--git-path", &name]) {
            let path = root.join(path);
            // A file that is not there would have this run at every build.
            if path.exists() {
                println!("cargo::rerun-if-changed={}", path.display());
            }
        }
    }
    println!("cargo::rerun-if-changed={}", root.join("Cargo.lock").display());
    let crates = root.join("crates").read_dir().into_iter().flatten().flatten();
    for folder in crates {
        println!("cargo::rerun-if-changed={}", folder.path().join("src").display());
    }
}

fn git(root: &Path, arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").arg("-C").arg(root).args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_owned())
}

/// The features of the package that are on, by name.
fn features() -> Vec<String> {
    let mut names: Vec<String> = env::vars()
        .filter_map(|(name, _)| name.strip_prefix("CARGO_FEATURE_").map(str::to_lowercase))
        .filter(|name| name != "default")
        .collect();
    names.sort();
    names
}
