//! Running the program, and files for it to read.

use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

/// What a run came to.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// The program with these arguments, in a folder, without settings in its environment: cargo tells
/// tests what `build.rs` told it, in variables that begin as ours do.
pub(crate) fn command(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tidewire"));
    command.args(arguments).current_dir(folder).stdin(Stdio::null());
    // Programs of one user find each other; those of other tests are not to be found.
    command.env("XDG_RUNTIME_DIR", folder.join(".run"));
    let names = std::env::vars_os().map(|(name, _)| name);
    for name in names.filter(|name| name.to_string_lossy().starts_with("TIDEWIRE_")) {
        command.env_remove(name);
    }
    command
}

/// Runs the program to its end.
pub(crate) fn run(folder: &Path, arguments: &[&str]) -> Ran {
    ran(command(folder, arguments).output().unwrap())
}

pub(crate) fn ran(output: Output) -> Ran {
    Ran {
        code: output.status.code().unwrap_or(-1),
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8(output.stderr).unwrap(),
    }
}

impl Ran {
    /// Asserts the exit code and that the output holds each text.
    #[track_caller]
    pub(crate) fn check(&self, code: i32, parts: &[&str]) -> &Self {
        assert_eq!(self.code, code, "{}{}", self.stdout, self.stderr);
        for part in parts {
            let found = self.stdout.contains(part) || self.stderr.contains(part);
            assert!(found, "{part:?} is not in\n{}{}", self.stdout, self.stderr);
        }
        self
    }
}

/// A folder with these files.
pub(crate) fn folder(files: &[(&str, &str)]) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in files {
        let path = folder.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    folder
}

/// Comes back once it is so.
#[track_caller]
pub(crate) fn until(mut is_so: impl FnMut() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < HANG, "it never is what is waited for here");
    }
}

/// After so long what is waited for never comes, however slow a machine is.
pub(crate) const HANG: Duration = Duration::from_secs(120);
