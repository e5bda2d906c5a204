//! Unit and integration tests: compiled at once, then two test programs run at a time.
//!
//! `cargo test` runs one program after the other, and most of ours wait for processes and
//! connections: half of the machine would be idle.

use std::collections::VecDeque;
use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use serde_json::Value;

use super::{Outcome, build, cargo, cargo_command, hung, set_environment};

/// How long one program may take: five times what the longest does beside four busy loops. One that
/// hangs would otherwise take the whole run's time and never be named.
const PATIENCE: Duration = Duration::from_mins(25);

/// Compiles what the tests run, and the tests.
///
/// # Errors
/// When cargo cannot be started.
pub(super) fn compile(root: &Path) -> Result<Outcome> {
    // What the tests of `hosting` start: asked for with tests, the gateway would be one itself.
    let programs = build(root, "--bins")?;
    if matches!(programs, Outcome::Failed) {
        return Ok(programs);
    }
    cargo(root, "test --workspace --tests --no-run", &[])
}

/// Compiles and runs the tests, all of them whatever fails.
///
/// # Errors
/// When a program cannot be started.
pub(super) fn run(root: &Path) -> Result<Outcome> {
    let compiled = compile(root)?;
    if matches!(compiled, Outcome::Failed) {
        return Ok(compiled);
    }
    let programs = Mutex::new(VecDeque::from(programs(root)?));
    let libraries = libraries()?;
    let failed = Mutex::new(Vec::new());
    let work = || -> Result<()> {
        loop {
            let Some(program) = programs.lock().expect("no thread panics").pop_front() else {
                return Ok(());
            };
            if !program.run(root, &libraries)? {
                failed.lock().expect("no thread panics").push(program.name);
            }
        }
    };
    std::thread::scope(|scope| {
        let other = scope.spawn(work);
        let here = work();
        let there = other.join().expect("no thread panics");
        here.and(there)
    })?;
    let failed = failed.into_inner().expect("no thread panics");
    for name in &failed {
        println!("failed: {name}");
    }
    Ok(Outcome::of(failed.is_empty()))
}

/// A compiled test program.
#[derive(Debug, PartialEq, Eq)]
struct Program {
    /// `tidewire-memo it`
    name: String,
    executable: PathBuf,
    /// The folder of its package, in which it is run.
    folder: PathBuf,
}

impl Program {
    /// From a message of cargo; `None` for other messages.
    fn from_message(message: &Value) -> Option<Self> {
        let is_test = message["profile"]["test"].as_bool()?;
        let executable = message["executable"].as_str().filter(|_| is_test)?.into();
        let folder = Path::new(message["manifest_path"].as_str()?).parent()?.to_owned();
        let package = folder.file_name()?.to_string_lossy().into_owned();
        let name = format!("{package} {}", message["target"]["name"].as_str()?);
        Some(Self { name, executable, folder })
    }

    /// Runs it, and prints what it printed once it has ended: whether it passed.
    fn run(&self, root: &Path, libraries: &str) -> Result<bool> {
        let printed = root.join("target").join(format!("ci-test-{}", self.name.replace(' ', "-")));
        let file = File::create(&printed)?;
        // Most tests wait for programs and connections more than they compute.
        let threads = std::thread::available_parallelism().map_or(4, |cores| 2 * cores.get());
        let mut command = Command::new(&self.executable);
        set_environment(&mut command);
        command.current_dir(&self.folder).env("CARGO_MANIFEST_DIR", &self.folder);
        command.env("LD_LIBRARY_PATH", libraries).env("RUST_TEST_THREADS", threads.to_string());
        command.stdin(Stdio::null()).stderr(file.try_clone()?).stdout(file);
        let started = Instant::now();
        let mut process =
            command.spawn().with_context(|| format!("{command:?} cannot be started"))?;
        let mut where_it_hung = Vec::new();
        let status = loop {
            if let Some(status) = process.try_wait()? {
                break status;
            }
            if started.elapsed() > PATIENCE {
                where_it_hung = hung::stacks(process.id());
                process.kill()?;
                break process.wait()?;
            }
            std::thread::sleep(Duration::from_millis(20));
        };
        let took = started.elapsed();
        let text = String::from_utf8_lossy(&std::fs::read(&printed)?).into_owned();
        std::fs::remove_file(&printed)?;
        let mut output = std::io::stdout().lock();
        writeln!(output, "── {} ({:.1} s)\n{text}", self.name, took.as_secs_f64())?;
        if took > PATIENCE {
            let tests = hung::unfinished_tests(&text).join(", ");
            let minutes = PATIENCE.as_secs() / 60;
            writeln!(output, "error: {} was ended after {minutes} minutes in: {tests}", self.name)?;
            for line in where_it_hung {
                writeln!(output, "error: {line}")?;
            }
        }
        Ok(status.success())
    }
}

/// The test programs, which are compiled; the largest first, since it takes longest.
fn programs(root: &Path) -> Result<Vec<Program>> {
    let words = "test --workspace --tests --no-run --quiet --message-format=json";
    let output = cargo_command(root, words).stderr(Stdio::inherit()).output()?;
    let messages = output.stdout.split(|&byte| byte == b'\n');
    let mut programs: Vec<_> = messages
        .filter_map(|line| Program::from_message(&serde_json::from_slice(line).ok()?))
        .collect();
    let size = |program: &Program| program.executable.metadata().map_or(0, |file| file.len());
    programs.sort_by_key(|program| std::cmp::Reverse(size(program)));
    Ok(programs)
}

/// Where tests of procedural macros find the standard library, as `cargo test` says it.
fn libraries() -> Result<String> {
    let output = Command::new("rustc").args(["--print", "target-libdir"]).output()?;
    let own = String::from_utf8(output.stdout)?.trim().to_owned();
    // An empty part would be the folder of the package.
    let inherited = std::env::var("LD_LIBRARY_PATH").ok().filter(|it| !it.is_empty());
    Ok(match inherited {
        Some(inherited) => format!("{own}:{inherited}"),
        None => own,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_test_program_is_told_from_other_messages_of_cargo() {
        let mut message = json!({
            "reason": "compiler-artifact", "manifest_path": "/tree/crates/memo/Cargo.toml",
            "target": { "name": "it" }, "profile": { "test": true },
            "executable": "/tree/target/debug/deps/it-1",
        });
        let program = Program {
            name: "memo it".to_owned(),
            executable: "/tree/target/debug/deps/it-1".into(),
            folder: "/tree/crates/memo".into(),
        };
        assert_eq!(Program::from_message(&message), Some(program));
        message["profile"]["test"] = json!(false);
        assert_eq!(Program::from_message(&message), None, "a program");
        assert_eq!(Program::from_message(&json!({ "reason": "build-finished" })), None);
    }
}
