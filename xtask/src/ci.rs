//! `cargo xtask ci`: every step of continuous integration, in order, on any machine.
//!
//! Each step prints its name, its commands, the time it took and the processor time that its
//! commands used (where `/proc` tells). The first failure stops the run and names the command that
//! repeats just that step. Cheap steps come first. Where all steps are run, what needs no compiler
//! runs beside what compiles, and the lines that say what failed are printed once more at the end.
//! What takes longer than it proves per run (Miri, fuzzing, ten minutes of stress, cargo-deny) is
//! in `make proof`.

mod failure;
mod hung;
mod run;
mod test_programs;

use std::path::Path;
use std::process::{Command, ExitCode};
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result};

pub(crate) use run::{list, run};

use run::{IS_BUILT, Lane, Stage, Step};

use crate::{foreign, tidy};

pub(crate) enum Outcome {
    Passed,
    Failed,
    /// Nothing to do yet, and why.
    Nothing(&'static str),
}

const STEPS: &[Step] = &[
    Step {
        name: "fmt",
        stage: Stage::BeforeSetup,
        lane: Lane::Compiles,
        about: "the code is formatted",
        work: fmt,
    },
    Step {
        name: "tidy",
        stage: Stage::BeforeSetup,
        lane: Lane::Compiles,
        about: "the rules of CONTRIBUTING.md hold",
        work: tidy,
    },
    Step {
        name: "clippy",
        stage: Stage::BeforeSetup,
        lane: Lane::Compiles,
        about: "no warning in any target",
        work: clippy,
    },
    Step {
        name: "build",
        stage: Stage::BeforeSetup,
        lane: Lane::Compiles,
        about: "tests and the programs that they run compile",
        work: test_programs::compile,
    },
    Step {
        name: "test",
        stage: Stage::Tests,
        lane: Lane::Compiles,
        about: "unit and integration tests",
        work: test_programs::run,
    },
    Step {
        name: "doctest",
        stage: Stage::Clients,
        lane: Lane::Compiles,
        about: "examples in documentation",
        work: doctest,
    },
    Step {
        name: "docs",
        stage: Stage::Clients,
        lane: Lane::Compiles,
        about: "documentation builds without a warning",
        work: docs,
    },
    Step {
        name: "demo",
        stage: Stage::Clients,
        lane: Lane::Compiles,
        about: "what `make demo` builds compiles by itself",
        work: demo,
    },
    Step {
        name: "snippets",
        stage: Stage::Guides,
        lane: Lane::Compiles,
        about: "commands in README and guide work",
        work: snippets,
    },
    Step {
        name: "foreign",
        stage: Stage::Clients,
        lane: Lane::Runs,
        about: "foreign clients agree with a foreign server, and with a mock",
        work: foreign,
    },
    Step {
        name: "conformance",
        stage: Stage::Guides,
        lane: Lane::Runs,
        about: "the Connect conformance suite",
        work: conformance,
    },
    Step {
        name: "validation",
        stage: Stage::Guides,
        lane: Lane::Runs,
        about: "rules agree with protovalidate-go on made-up messages",
        work: validation,
    },
    Step {
        name: "schemathesis",
        stage: Stage::Clients,
        lane: Lane::Runs,
        about: "no request made up from /openapi.json ends in a 500",
        work: schemathesis,
    },
    Step {
        name: "python",
        stage: Stage::Guides,
        lane: Lane::Runs,
        about: "the live protocol in Python agrees with its fixtures",
        work: python,
    },
    Step {
        name: "sdk",
        stage: Stage::Clients,
        lane: Lane::RunsToo,
        about: "what hosted programs import agrees with the fixtures, and withstands its gateway",
        work: sdk,
    },
    Step {
        name: "mock-clients",
        stage: Stage::Clients,
        lane: Lane::RunsToo,
        about: "mocks for tests in Node, Python, Go and Java, from the tree and as users get them",
        work: mock_clients,
    },
    Step {
        name: "typescript",
        stage: Stage::Clients,
        lane: Lane::Runs,
        about: "the browser client: fixtures, schedules, a real server, packages as users get them",
        work: typescript,
    },
    Step {
        name: "board",
        stage: Stage::Clients,
        lane: Lane::Runs,
        about: "the example page, built by Vite, in Chromium",
        work: board,
    },
    Step {
        name: "console",
        stage: Stage::Clients,
        lane: Lane::RunsToo,
        about: "the console in Chromium: pages, guard, policy, axe; assistants by the official client",
        work: console,
    },
    Step {
        name: "models",
        stage: Stage::Clients,
        lane: Lane::Compiles,
        about: "schedules of the models of memo",
        work: models,
    },
    Step {
        name: "stress",
        stage: Stage::Clients,
        lane: Lane::Compiles,
        about: "a minute of randomized stress on memo",
        work: stress,
    },
    Step {
        name: "oplog",
        stage: Stage::Guides,
        lane: Lane::Runs,
        about: "three hosts on one PostgreSQL, and faults",
        work: oplog,
    },
];

fn fmt(root: &Path) -> Result<Outcome> {
    cargo(root, "fmt --all --check", &[])
}

fn tidy(root: &Path) -> Result<Outcome> {
    Ok(Outcome::of(tidy::run(root)? == ExitCode::SUCCESS))
}

fn clippy(root: &Path) -> Result<Outcome> {
    cargo(root, "clippy --workspace --all-targets -- -D warnings", &[])
}

fn doctest(root: &Path) -> Result<Outcome> {
    cargo(root, "test --workspace --doc --no-fail-fast", &[])
}

/// Of the libraries that users read. Those of tests, examples and programs took 40 % of the time.
fn docs(root: &Path) -> Result<Outcome> {
    let words = "doc --workspace --lib --no-deps --exclude tidewire-tests --exclude contacts \
                 --exclude replica --exclude tidewire-build-fixture";
    cargo(root, words, &[("RUSTDOCFLAGS", "-D warnings")])
}

/// The features of dependencies are fewer than those of the workspace. README.md is run with the
/// programs of the workspace, which are built already.
fn demo(root: &Path) -> Result<Outcome> {
    cargo(root, "check --package contacts --no-default-features", &[])
}

/// The hook for commands quoted in documents: `docs/guide/run-snippets.sh` runs them and fails when
/// one does.
fn snippets(root: &Path) -> Result<Outcome> {
    let script = "docs/guide/run-snippets.sh";
    if !root.join(script).exists() {
        return Ok(Outcome::Nothing("no docs/guide/run-snippets.sh yet"));
    }
    execute(Command::new("bash").arg(script).current_dir(root))
}

/// Every case of the suite: our server with our generated service, with a mock that plays it by
/// rules, then our client.
fn conformance(root: &Path) -> Result<Outcome> {
    let built = build(root, "--bin tidewire-conformance --bin tidewire-conformance-client")?;
    if !matches!(built, Outcome::Passed) {
        return Ok(built);
    }
    let suite = |arguments: &[&str]| {
        let mut suite = Command::new(root.join(".tools/bin/connectconformance"));
        execute(suite.args(arguments).current_dir(root))
    };
    let server = suite(&["--mode", "server", "--", "target/debug/tidewire-conformance"])?;
    if !matches!(server, Outcome::Passed) {
        return Ok(server);
    }
    // The same by rules of a mock, and nothing else.
    let mocked = suite(&[
        "--mode",
        "server",
        "--",
        "target/debug/tidewire-conformance",
        "--mock",
        ".tools/conformance-proto",
        "tests/fixtures/mock/conformance",
    ])?;
    if !matches!(mocked, Outcome::Passed) {
        return Ok(mocked);
    }
    suite(&[
        "--mode",
        "client",
        "--conf",
        "conformance/client.yaml",
        "--known-failing",
        "@conformance/client-unsupported.txt",
        "--",
        "target/debug/tidewire-conformance-client",
    ])
}

fn foreign(root: &Path) -> Result<Outcome> {
    Ok(Outcome::of(foreign::run(root, None)? == ExitCode::SUCCESS))
}

/// The cases of protovalidate with made-up values, judged by protovalidate-go as well.
fn validation(root: &Path) -> Result<Outcome> {
    let built = build(root, "--example judge")?;
    if !matches!(built, Outcome::Passed) {
        return Ok(built);
    }
    // The same values each time: a run is red by a change, and not by chance.
    let judge = root.join("target/debug/examples/judge");
    execute(Command::new(judge).args(["60", "1795891438"]).current_dir(root))
}

/// The reference application against requests made up from its own document.
fn schemathesis(root: &Path) -> Result<Outcome> {
    let built = build(root, "--bin contacts")?;
    if !matches!(built, Outcome::Passed) {
        return Ok(built);
    }
    execute(Command::new("bash").arg("scripts/schemathesis.sh").current_dir(root))
}

/// A second implementation of the live protocol, written from its specification.
fn python(root: &Path) -> Result<Outcome> {
    execute(Command::new("python3").arg("tests/live_py/test_fixtures.py").current_dir(root))
}

/// The folder of each language; its behaviour behind a gateway is a test of `process`.
fn sdk(root: &Path) -> Result<Outcome> {
    for (program, words, folder) in [
        ("python3", "tests/test_fixtures.py", "sdk/python"),
        ("node", "tests/fixtures.js", "sdk/node"),
        ("go", "test -count=1 ./...", "sdk/go"),
        ("go", "test -count=1 ./...", "sdk/go/protobuf"),
        ("python3", "tests/test_fixtures.py", "sdk/dotnet"),
        // Gateways that misbehave, against all of them.
        ("python3", "tests/test_attacks.py", "sdk"),
        // Programs that say more than there is room for.
        ("python3", "tests/test_answers.py", "sdk"),
        // What a user installs.
        ("python3", "tests/test_packages.py", "sdk"),
    ] {
        let mut command = Command::new(program);
        command.args(words.split(' ')).current_dir(root.join(folder));
        if let Outcome::Failed = execute(&mut command)? {
            return Ok(Outcome::Failed);
        }
    }
    Ok(Outcome::Passed)
}

/// The packages of clients/mock, each by its usual runner, with the program that this tree builds.
fn mock_clients(root: &Path) -> Result<Outcome> {
    let built = build(root, "--bin tidewire")?;
    if !matches!(built, Outcome::Passed) {
        return Ok(built);
    }
    let command = |program: &str, words: &str, folder: &str| {
        let mut command = Command::new(program);
        command.args(words.split(' ')).current_dir(root.join("clients/mock").join(folder));
        command.env("TIDEWIRE", root.join("target/debug/tidewire"));
        command
    };
    // Java's own tests and what a user installs of it take as long as all the others.
    let mut java = command("python3", "tests/test_packages.py Java", "").spawn()?;
    let python = root.join(".tools/mock-clients/bin/python");
    let mut passed = true;
    for (program, words, folder) in [
        ("npm", "run --silent test", "node"),
        (&*python.to_string_lossy(), "-m pytest --quiet -p no:cacheprovider tests", "python"),
        ("go", "test -count=1 ./...", "go"),
        ("go", "test -count=1 ./...", "go/protobuf"),
        ("python3", "tests/test_packages.py Packages", ""),
    ] {
        passed &= matches!(execute(&mut command(program, words, folder))?, Outcome::Passed);
    }
    Ok(Outcome::of(java.wait()?.success() && passed))
}

/// The packages of clients/ts, against the server that this tree builds.
fn typescript(root: &Path) -> Result<Outcome> {
    let built = build(root, "--bin live-client-server")?;
    if !matches!(built, Outcome::Passed) {
        return Ok(built);
    }
    execute(
        Command::new("npm").args(["run", "--silent", "check"]).current_dir(root.join("clients/ts")),
    )
}

/// The board of examples/, with packages that the step before has built.
fn board(root: &Path) -> Result<Outcome> {
    let built = build(root, "--bin board")?;
    if !matches!(built, Outcome::Passed) {
        return Ok(built);
    }
    for (folder, script) in
        [("clients/ts", "build"), ("examples/board/web", "build"), ("examples/board/web", "test")]
    {
        let mut command = Command::new("npm");
        command.args(["run", "--silent", script]).current_dir(root.join(folder));
        if let Outcome::Failed = execute(&mut command)? {
            return Ok(Outcome::Failed);
        }
    }
    Ok(Outcome::Passed)
}

/// The console and the tools for assistants, against the programs that this tree builds.
fn console(root: &Path) -> Result<Outcome> {
    let built = build(root, "--bin tidewire --bin contacts")?;
    if !matches!(built, Outcome::Passed) {
        return Ok(built);
    }
    for script in ["vendored", "types", "test"] {
        let mut command = Command::new("npm");
        command.args(["run", "--silent", script]).current_dir(root.join("tests/console"));
        if let Outcome::Failed = execute(&mut command)? {
            return Ok(Outcome::Failed);
        }
    }
    Ok(Outcome::Passed)
}

/// The models of memo. The checker's flag changes every crate, hence its own target folder.
fn models(root: &Path) -> Result<Outcome> {
    let variables = [("RUSTFLAGS", "--cfg shuttle"), ("CARGO_TARGET_DIR", "target/shuttle")];
    let variables = [&variables[..], &QUICK_RELEASE].concat();
    cargo(root, "test --package tidewire-memo --release --test model", &variables)
}

/// Nobody is given an old value while hosts, connections and the database fail.
fn oplog(root: &Path) -> Result<Outcome> {
    // Deliberate faults that no longer apply find nothing.
    for faults in ["scripts/memo-mutants.py", "scripts/oplog-mutants.py"] {
        let applied = execute(Command::new("python3").args([faults, "--check"]).current_dir(root))?;
        if !matches!(applied, Outcome::Passed) {
            return Ok(applied);
        }
    }
    let built = build(root, "--example oracle")?;
    if !matches!(built, Outcome::Passed) {
        return Ok(built);
    }
    let mut oracle = Command::new(root.join("target/debug/examples/oracle"));
    execute(oracle.args(["--seconds", "15"]).current_dir(root))
}

fn stress(root: &Path) -> Result<Outcome> {
    // Another walk each time; the command line printed has the seed to repeat it.
    let seed = SystemTime::now().duration_since(UNIX_EPOCH).context("the clock")?.as_secs();
    let words = format!(
        "run --release --package tidewire-memo --example stress -- --seconds 60 --seed {seed}"
    );
    cargo(root, &words, &QUICK_RELEASE)
}

/// A release build that takes a fraction of the time: nothing is measured with it.
const QUICK_RELEASE: [(&str, &str); 2] =
    [("CARGO_PROFILE_RELEASE_LTO", "off"), ("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "16")];

/// Builds programs of the workspace.
///
/// The features of a dependency are those that all packages and their tests ask for: with
/// `--package` they would be those of one package, and most dependencies would be built anew. So
/// the whole workspace is named, and an example, with which dependencies of tests count.
pub(crate) fn build(root: &Path, targets: &str) -> Result<Outcome> {
    if std::env::var_os(IS_BUILT).is_some() {
        return Ok(Outcome::Passed);
    }
    cargo(root, &format!("build --workspace {targets} --example gateway"), &[])
}

impl Outcome {
    const fn of(passed: bool) -> Self {
        if passed { Self::Passed } else { Self::Failed }
    }

    const fn passed(self) -> bool {
        !matches!(self, Self::Failed)
    }
}

/// Runs cargo with words and environment variables.
fn cargo(root: &Path, words: &str, variables: &[(&str, &str)]) -> Result<Outcome> {
    let mut command = cargo_command(root, words);
    let mut shown = String::new();
    for (name, value) in variables {
        command.env(name, value);
        shown += &format!("{name}='{value}' ");
    }
    println!("$ {shown}cargo {words}");
    execute(&mut command)
}

fn cargo_command(root: &Path, words: &str) -> Command {
    let program = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(program);
    command.current_dir(root).args(words.split(' '));
    // Debug information doubles the size of target/; incremental files help only a second build.
    command.env("CARGO_PROFILE_DEV_DEBUG", "0").env("CARGO_PROFILE_TEST_DEBUG", "0");
    // Steps and tests look for programs there.
    command.env("CARGO_TARGET_DIR", root.join("target"));
    if std::env::var_os("CI").is_some() {
        command.env("CARGO_INCREMENTAL", "0");
    }
    set_environment(&mut command);
    command
}

fn execute(command: &mut Command) -> Result<Outcome> {
    set_environment(command);
    let status = command.status().with_context(|| format!("{command:?} cannot be started"))?;
    Ok(Outcome::of(status.success()))
}

/// Servers on this machine are asked without a proxy, as registries may be behind one. What cargo
/// says of this program is not for others: build scripts that read it (that of ring) would run
/// again, and all above them be built again, whenever cargo is run without it.
fn set_environment(command: &mut Command) {
    for name in ["no_proxy", "NO_PROXY"] {
        let given = std::env::var(name).map(|given| format!("{given},")).unwrap_or_default();
        command.env(name, format!("{given}127.0.0.1,localhost,::1"));
    }
    for (name, _) in std::env::vars_os() {
        if ["CARGO_PKG_", "CARGO_MANIFEST_"].iter().any(|it| name.to_string_lossy().starts_with(it))
        {
            command.env_remove(name);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_that_does_not_exist_is_refused_with_the_way_to_list_them() {
        let error = run(Path::new("."), &["fmt", "lint"]).expect_err("there is no such step");
        assert_eq!(error.to_string(), "`lint` is not a step; `cargo xtask ci --list` names them");
    }

    #[test]
    fn steps_have_different_names() {
        let mut names: Vec<&str> = STEPS.iter().map(|step| step.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), STEPS.len());
    }
}
