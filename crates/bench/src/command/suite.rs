//! `tidewire bench suite`: a named set of cases with peers in the same run.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use tidewire_loadgen::{Error, Stop};

use super::{Outcome, command_line};
use crate::console::Console;
use crate::html;
use crate::suite::{self, Peers, SUITES, Settings, Suite, SuiteResult};
use crate::{machine, quantity};

/// Measure a set of cases with Tidewire and its peers, in interleaved rounds.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  tidewire bench suite --list
  bash bench/peers/setup.sh && tidewire bench suite web
  tidewire bench suite web --only JSON --only axum --quick")]
pub struct SuiteArgs {
    /// The suite; --list names them.
    #[arg(required_unless_present = "list")]
    name: Option<String>,
    /// List the suites.
    #[arg(long)]
    list: bool,
    /// Number of rounds; use 5 or more for a ratio that is quoted.
    #[arg(long, value_name = "COUNT", default_value_t = 3)]
    rounds: usize,
    /// Length of each measurement [default: 4s; stacks 300s, in which its clients are added].
    #[arg(long, value_name = "DURATION", short = 'z', value_parser = quantity::duration)]
    duration: Option<Duration>,
    /// One short round, to see whether everything works; its figures are not to be quoted.
    #[arg(long, conflicts_with_all = ["rounds", "duration"])]
    quick: bool,
    /// Servers may use N cores, and clients that are their own processes have N connections
    /// [default: 1 of each]. The load has the other cores, or all of them where none is left.
    #[arg(long, value_name = "N", value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(1..))]
    capped: Option<usize>,
    /// Only measurements whose case or peer has this in its name; may be repeated, all have to
    /// match.
    #[arg(long, value_name = "TEXT")]
    only: Vec<String>,
    /// The folder with the peers and their peers.toml.
    #[arg(long, value_name = "FOLDER", default_value = "bench/peers")]
    peers: PathBuf,
    /// Where NAME.md, NAME-summary.md, NAME.json and NAME.html are written.
    #[arg(long, value_name = "FOLDER", default_value = ".")]
    out: PathBuf,
}

pub(super) async fn run(
    args: &SuiteArgs,
    console: &mut Console<'_>,
    stop: &Stop,
) -> Result<Outcome, Error> {
    let Some(name) = args.name.as_ref().filter(|_| !args.list) else {
        for suite in SUITES {
            console.text(&format!("{:<12} {}\n", suite.name, suite.about))?;
        }
        return Ok(Outcome::Done);
    };
    let suite = SUITES.iter().find(|suite| suite.name == name).ok_or_else(|| {
        let known: Vec<&str> = SUITES.iter().map(|suite| suite.name).collect();
        Error::usage(format!("no suite {name:?}; there are: {}", known.join(", ")))
    })?;
    if args.rounds == 0 || args.duration.is_some_and(|duration| duration.is_zero()) {
        return Err(Error::usage("--rounds and --duration must be above 0"));
    }
    writable(&args.out)?;
    let peers = Peers::read(&args.peers, suite.name)?;
    let result = suite::run(
        suite,
        &peers,
        &settings(suite, args),
        machine::context(command_line()),
        console,
        stop,
    )
    .await?;
    if result.measurements.iter().all(|one| one.figures.is_none()) {
        console.text("nothing was measured\n")?;
        return Ok(if result.interrupted {
            Outcome::Interrupted
        } else {
            Outcome::NothingAnswered
        });
    }
    let text = suite::markdown(suite, &result);
    console.text(&format!("\n{text}\n"))?;
    let path = write_all(suite, args, &result, &text)?;
    console.text(&format!("written to {}, .json and .html\n", path.display()))?;
    Ok(if result.interrupted { Outcome::Interrupted } else { Outcome::Done })
}

/// Writes every file of a result. What was there before stays until all of its successor is.
fn write_all(
    suite: &Suite,
    args: &SuiteArgs,
    result: &SuiteResult,
    text: &str,
) -> Result<PathBuf, Error> {
    let json = serde_json::to_string(result)
        .map_err(|error| Error::system(format!("the result cannot be written: {error}")))?;
    let page = html::suite(suite, result)
        .map_err(|error| Error::system(format!("the report cannot be written: {error}")))?;
    write(suite, &args.out, ".json", &json)?;
    write(suite, &args.out, ".html", &page)?;
    write(suite, &args.out, "-summary.md", &suite::summary(suite, result))?;
    write(suite, &args.out, ".md", text)
}

fn settings(suite: &Suite, args: &SuiteArgs) -> Settings {
    let (rounds, duration) = match args.quick {
        true => (1, suite.quick),
        false => (args.rounds, args.duration.unwrap_or(suite.duration)),
    };
    let warm_up = (duration / 4).min(Duration::from_secs(1));
    Settings { rounds, warm_up, duration, capped: args.capped, only: args.only.clone() }
}

/// Minutes of load are not lost to a folder that cannot be written.
fn writable(folder: &Path) -> Result<(), Error> {
    let fault = |error| Error::system(format!("{} cannot be written: {error}", folder.display()));
    std::fs::create_dir_all(folder).map_err(fault)?;
    let probe = folder.join(format!(".tidewire-{}", std::process::id()));
    std::fs::write(&probe, b"").map_err(fault)?;
    std::fs::remove_file(&probe).map_err(fault)
}

fn write(suite: &Suite, folder: &Path, ending: &str, text: &str) -> Result<PathBuf, Error> {
    let path = folder.join(format!("{}{ending}", suite.name));
    let new = folder.join(format!(".{}{ending}.new", suite.name));
    let written = std::fs::write(&new, text).and_then(|()| std::fs::rename(&new, &path));
    written.map_err(|error| {
        let _ = std::fs::remove_file(&new);
        Error::system(format!(
            "{} cannot be written: {error}; what was measured is printed above",
            path.display()
        ))
    })?;
    Ok(path)
}
