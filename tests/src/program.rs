//! Foreign programs: where `make setup` puts them, and running them.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// The repository.
pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the package is in a folder")
}

/// A program that `make setup` installs.
///
/// # Panics
/// When it is not there: a test that needs it fails, it is never skipped.
pub fn tool(name: &str) -> PathBuf {
    let path = root().join(".tools/bin").join(name);
    assert!(path.exists(), "{name} is not installed; run `make setup` once");
    path
}

/// The browser, by the names that systems have for Chromium.
///
/// # Panics
/// When there is none: a test that needs it fails, it is never skipped.
pub fn browser() -> PathBuf {
    const NAMES: [&str; 3] = ["chromium", "chromium-browser", "google-chrome"];
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .flat_map(|folder| NAMES.map(|name| folder.join(name)))
        .find(|program| program.exists())
        .expect("there is no chromium in the PATH; run `make setup` once")
}

/// Runs a program to its end off the async threads.
///
/// # Panics
/// When it cannot be started.
pub async fn run(program: impl Into<PathBuf>, arguments: &[&str]) -> Output {
    let program = program.into();
    let arguments: Vec<String> = arguments.iter().map(ToString::to_string).collect();
    let output = tokio::task::spawn_blocking(move || {
        Command::new(&program)
            .args(arguments)
            .current_dir(root())
            .output()
            .unwrap_or_else(|error| panic!("{} cannot be started: {error}", program.display()))
    });
    output.await.expect("the program's thread does not panic")
}

/// [`run`], and its standard output; panics with all output when it fails.
///
/// # Panics
/// When it cannot be started, or ends with another exit code than 0.
pub async fn succeed(program: impl Into<PathBuf>, arguments: &[&str]) -> String {
    let output = run(program, arguments).await;
    let (stdout, stderr) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{}\n{stdout}\n{stderr}", output.status);
    stdout.into_owned()
}
