//! The order of steps, what runs beside what, and what each took.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use super::{Outcome, STEPS, build, failure, set_environment};

/// One step: its name, what it shows, and how it is done.
pub(super) struct Step {
    pub(super) name: &'static str,
    pub(super) about: &'static str,
    pub(super) stage: Stage,
    pub(super) lane: Lane,
    pub(super) work: fn(&Path) -> Result<Outcome>,
}

/// When a step is run, where all are. Steps of one stage may use the same folders only if they are
/// in one lane.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    /// Beside `scripts/setup.sh`: it needs the Rust toolchain only.
    BeforeSetup,
    /// Then by itself.
    Tests,
    /// Then; clients and SDKs of other languages are built in their folders.
    Clients,
    /// Then; pages of the guide use these folders too.
    Guides,
}

/// What is run one by one, beside the other lanes of the stage. Most that waits for browsers,
/// servers and other languages leaves half of a machine idle, and so do the last crates of a build.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Lane {
    /// It compiles, or holds the lock of `target/` otherwise.
    Compiles,
    /// It uses what was built before, and is run by a process of this program.
    Runs,
    /// The same, beside it.
    RunsToo,
}

/// Prints the steps.
pub(crate) fn list() -> ExitCode {
    for Step { name, about, .. } in STEPS {
        println!("{name:<12} {about}");
    }
    ExitCode::SUCCESS
}

/// Runs the named steps in the order of the list, or all of them.
///
/// # Errors
/// When a name is not a step, or a command cannot be started.
pub(crate) fn run(root: &Path, names: &[&str]) -> Result<ExitCode> {
    for name in names {
        if !STEPS.iter().any(|step| step.name == *name) {
            bail!("`{name}` is not a step; `cargo xtask ci --list` names them");
        }
    }
    if !names.is_empty() {
        return run_in_order(root, &chosen(|step| names.contains(&step.name)));
    }
    // Asked now: a build puts a new file in the place of this program's, after which its path is
    // not known.
    let program = std::env::current_exe().context("this program's path")?;
    let failed = run_all(root, &program)?;
    for log in &failed {
        println!("── what failed in {}:", log.display());
        for line in failure::reasons(&String::from_utf8_lossy(&std::fs::read(log)?)) {
            println!("{line}");
        }
    }
    Ok(if failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Runs the stages in order, up to the first that fails: the logs of what failed.
fn run_all(root: &Path, program: &Path) -> Result<Vec<PathBuf>> {
    let setup =
        Child::start("setup".to_owned(), Command::new("bash").arg("scripts/setup.sh"), root)?;
    let mut failed = run_stage(root, program, Stage::BeforeSetup)?;
    failed.extend(setup.end()?);
    if failed.is_empty() {
        failed = run_stage(root, program, Stage::Tests)?;
    }
    if !failed.is_empty() {
        return Ok(failed);
    }
    // Whoever compiles holds the lock of target/, so that the others may not ask for it.
    if !build(root, "--bins --example judge --example oracle")?.passed() {
        bail!("the programs that clients are tested with do not compile; see above");
    }
    for stage in [Stage::Clients, Stage::Guides] {
        failed = run_stage(root, program, stage)?;
        if !failed.is_empty() {
            break;
        }
    }
    Ok(failed)
}

/// Runs all lanes of a stage to their ends, or to the first failure of each: the logs of lanes that
/// failed.
fn run_stage(root: &Path, program: &Path, stage: Stage) -> Result<Vec<PathBuf>> {
    let mut lanes = Vec::new();
    for lane in [Lane::Compiles, Lane::Runs, Lane::RunsToo] {
        let steps = chosen(|step| step.stage == stage && step.lane == lane);
        let names: Vec<_> = steps.iter().map(|step| step.name).collect();
        if !names.is_empty() {
            let mut runs = Command::new(program);
            runs.arg("ci").args(&names);
            if lane != Lane::Compiles {
                runs.env(IS_BUILT, "1");
            }
            lanes.push(Child::start(names.join("-"), &mut runs, root)?);
        }
    }
    let mut failed = Vec::new();
    for lane in lanes {
        println!("── steps {}:", lane.what);
        failed.extend(lane.end()?);
    }
    Ok(failed)
}

/// Set for steps that run beside a build: what they would build is there.
pub(super) const IS_BUILT: &str = "XTASK_IS_BUILT";

fn chosen(is_chosen: impl Fn(&Step) -> bool) -> Vec<&'static Step> {
    STEPS.iter().filter(|step| is_chosen(step)).collect()
}

/// A process with its own log that runs beside others: a lane's steps, or the setup.
struct Child {
    what: String,
    process: std::process::Child,
    /// All that it prints; a pipe would be open for as long as any program that it leaves behind.
    log: PathBuf,
}

impl Child {
    fn start(what: String, command: &mut Command, root: &Path) -> Result<Self> {
        let folder = root.join("target");
        std::fs::create_dir_all(&folder)?;
        let log = folder.join(format!("ci-{what}.log"));
        let file = File::create(&log)?;
        command.current_dir(root).stdin(Stdio::null()).stderr(file.try_clone()?).stdout(file);
        set_environment(command);
        let process = command.spawn().with_context(|| format!("{what} cannot be started"))?;
        Ok(Self { what, process, log })
    }

    /// Shows what it prints until it ends, and returns its log if it failed.
    fn end(mut self) -> Result<Option<PathBuf>> {
        let mut printed = File::open(&self.log)?;
        let mut shown = std::io::stdout();
        let status = loop {
            let ended = self.process.try_wait()?;
            std::io::copy(&mut printed, &mut shown)?;
            if let Some(status) = ended {
                break status;
            }
            std::thread::sleep(Duration::from_millis(100));
        };
        Ok((!status.success()).then_some(self.log))
    }
}

/// Runs steps one by one, until one fails.
fn run_in_order(root: &Path, steps: &[&Step]) -> Result<ExitCode> {
    let mut times: Vec<Time> = Vec::new();
    for Step { name, about, work, .. } in steps.iter().copied() {
        println!("── {name}: {about}");
        let started = Instant::now();
        let used = processor_time_of_children();
        let outcome = work(root).with_context(|| format!("step {name}"));
        let wall = started.elapsed();
        let processor = processor_time_of_children() - used;
        let note = match outcome {
            Ok(Outcome::Passed) => "",
            Ok(Outcome::Nothing(why)) => why,
            Ok(Outcome::Failed) => "FAILED",
            Err(error) => {
                println!("{error:#}");
                "FAILED"
            }
        };
        times.push(Time { name, wall, processor, note });
        if note == "FAILED" {
            summary(&times);
            println!("ci: {name} failed; run just this step again with: cargo xtask ci {name}");
            return Ok(ExitCode::FAILURE);
        }
        println!("── {name}: {:.1} s {note}", wall.as_secs_f64());
    }
    summary(&times);
    Ok(ExitCode::SUCCESS)
}

/// What a step took.
struct Time {
    name: &'static str,
    wall: Duration,
    /// Of its commands and of what they waited for, in user and system mode.
    processor: Duration,
    note: &'static str,
}

fn summary(times: &[Time]) {
    let line = |name: &str, wall: Duration, processor: Duration, note: &str| {
        let wall = wall.as_secs_f64();
        let processor = processor.as_secs_f64();
        println!("{name:<12} {wall:>7.1} s {processor:>7.1} s of processor  {note}");
    };
    println!("── times");
    for time in times {
        line(time.name, time.wall, time.processor, time.note);
    }
    line(
        "all",
        times.iter().map(|it| it.wall).sum(),
        times.iter().map(|it| it.processor).sum(),
        "",
    );
}

/// The processor time of ended children of this process, and of those that they waited for; zero
/// without `/proc`. `proc_pid_stat(5)`: fields 16 and 17, in hundredths of a second on Linux.
fn processor_time_of_children() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // The second field is the program's name in parentheses, and may hold spaces.
    let after_name = stat.rsplit(')').next().unwrap_or_default();
    let ticks = after_name.split_whitespace().skip(13).take(2);
    Duration::from_millis(10 * ticks.filter_map(|it| it.parse::<u64>().ok()).sum::<u64>())
}
