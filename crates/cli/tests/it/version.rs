//! What `tidewire --version` says, and that it can be built where there is no commit to name.

use std::path::Path;
use std::process::Command;

use crate::program::{folder, run};

const PACKAGE: &str = env!("CARGO_MANIFEST_DIR");

#[test]
fn a_version_names_release_commit_target_and_features() {
    let here = folder(&[]);
    let said = run(here.path(), &["--version"]);
    let lines: Vec<&str> = said.stdout.lines().collect();
    let [version, commit, target, features] = lines[..] else { panic!("{said:?}") };
    assert_eq!(version, concat!("tidewire ", env!("CARGO_PKG_VERSION")));
    assert_eq!(commit.strip_prefix("commit ").unwrap().trim_end_matches("+changes"), commit_here());
    assert!(target.starts_with("target ") && target.split('-').count() >= 3, "{target}");
    assert_eq!(
        features,
        if cfg!(feature = "jemalloc") { "features jemalloc" } else { "features " }
    );
    assert_eq!(run(here.path(), &["version"]).stdout, said.stdout);
    run(here.path(), &["-V"]).check(0, &[&format!("{version}\n")]);
    run(here.path(), &["serve", "--version"]).check(0, &[commit]);
}

/// The commit of the repository that the test is built from; of an archive it is unknown.
fn commit_here() -> String {
    let root = Path::new(PACKAGE).parent().unwrap().parent().unwrap();
    let git = Command::new("git").arg("-C").arg(root).args(["rev-parse", "HEAD"]).output().unwrap();
    if root.join(".git").exists() && git.status.success() {
        return String::from_utf8(git.stdout).unwrap()[..12].to_owned();
    }
    "unknown".to_owned()
}

#[test]
fn a_build_from_an_archive_or_without_git_says_that_the_commit_is_unknown() {
    let archive = folder(&[("crates/cli/Cargo.toml", "")]);
    let script = archive.path().join("script");
    let built = Command::new(std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()))
        .args(["--edition", "2024", concat!(env!("CARGO_MANIFEST_DIR"), "/build.rs"), "-o"])
        .arg(&script)
        .output()
        .unwrap();
    assert!(built.status.success(), "{built:?}");
    let says = |package: &Path, path: &str| {
        let mut command = Command::new(&script);
        command.env_clear().env("CARGO_MANIFEST_DIR", package).env("PATH", path);
        let ran = command.env("CARGO_FEATURE_DEFAULT", "1").env("CARGO_FEATURE_B", "1").output();
        let ran = ran.unwrap();
        assert!(ran.status.success(), "{ran:?}");
        String::from_utf8(ran.stdout).unwrap()
    };
    let path = std::env::var("PATH").unwrap();
    let unknown = "cargo::rustc-env=BUILD_COMMIT=unknown\n";
    let package = archive.path().join("crates/cli");
    assert!(says(&package, &path).contains(unknown), "an archive");
    assert!(says(Path::new(PACKAGE), "/nowhere").contains(unknown), "no git");
    assert!(says(&package, &path).contains("BUILD_FEATURES=b\n"));
    // Unpacked inside of another repository, which has its own commit.
    let git = |arguments: &[&str]| {
        let ran = Command::new("git").arg("-C").arg(archive.path()).args(arguments).output();
        assert!(ran.unwrap().status.success(), "{arguments:?}");
    };
    git(&["init", "--quiet"]);
    git(&[
        "-c",
        "user.name=a",
        "-c",
        "user.email=a@b",
        "commit",
        "--quiet",
        "--allow-empty",
        "-m",
        "a",
    ]);
    let commit = "cargo::rustc-env=BUILD_COMMIT=";
    assert!(!says(&package, &path).contains(unknown), "its own repository has a commit");
    let inner = archive.path().join("vendor/tidewire/crates/cli");
    std::fs::create_dir_all(&inner).unwrap();
    let said = says(&inner, &path);
    assert!(said.contains(commit) && said.contains(unknown), "{said}");
}
