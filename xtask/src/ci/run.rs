//! The order of steps, what runs beside what, and what each took.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use super::{Outcome, STEPS, build, without_cargo_variables};

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
    let run_stage = |stage| run_stage(root, &program, stage);
    let setup =
        Child::start("setup".to_owned(), Command::new("bash").arg("scripts/setup.sh"), root)?;
    let before = run_stage(Stage::BeforeSetup)?;
    let is_set_up = setup.end()?;
    if !before || !is_set_up || !run_stage(Stage::Tests)? {
        return Ok(ExitCode::FAILURE);
    }
    // Whoever compiles holds the lock of target/, so that the others may not ask for it.
    let is_built = build(root, "--bins --example judge --example oracle")?.passed();
    let passed = is_built && run_stage(Stage::Clients)? && run_stage(Stage::Guides)?;
    Ok(if passed { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Runs all lanes of a stage to their ends, or to the first failure of each.
fn run_stage(root: &Path, program: &Path, stage: Stage) -> Result<bool> {
    let of_lane = |lane| chosen(|step| step.stage == stage && step.lane == lane);
    let mut beside = Vec::new();
    for lane in [Lane::Runs, Lane::RunsToo] {
        let names: Vec<_> = of_lane(lane).iter().map(|step| step.name).collect();
        if !names.is_empty() {
            let mut runs = Command::new(program);
            runs.arg("ci").args(&names).env(IS_BUILT, "1");
            beside.push(Child::start(names.join("-"), &mut runs, root)?);
        }
    }
    let mut passed = run_in_order(root, &of_lane(Lane::Compiles))? == ExitCode::SUCCESS;
    for child in beside {
        passed &= child.end()?;
    }
    Ok(passed)
}

/// Set for steps that run beside a build: what they would build is there.
pub(super) const IS_BUILT: &str = "XTASK_IS_BUILT";

fn chosen(is_chosen: impl Fn(&Step) -> bool) -> Vec<&'static Step> {
    STEPS.iter().filter(|step| is_chosen(step)).collect()
}

/// A process that runs beside steps; what it prints is shown when it has ended.
struct Child {
    what: String,
    process: std::process::Child,
    printed: PathBuf,
}

impl Child {
    fn start(what: String, command: &mut Command, root: &Path) -> Result<Self> {
        let folder = root.join("target");
        std::fs::create_dir_all(&folder)?;
        let printed = folder.join(format!("ci-{what}.log"));
        let file = File::create(&printed)?;
        command.current_dir(root).stdin(Stdio::null()).stderr(file.try_clone()?).stdout(file);
        without_cargo_variables(command);
        let process = command.spawn().with_context(|| format!("{what} cannot be started"))?;
        Ok(Self { what, process, printed })
    }

    /// Waits for it, prints what it printed, and returns whether it succeeded.
    fn end(mut self) -> Result<bool> {
        let status = self.process.wait()?;
        println!("── beside these, {}:", self.what);
        std::io::copy(&mut File::open(&self.printed)?, &mut std::io::stdout())?;
        Ok(status.success())
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
