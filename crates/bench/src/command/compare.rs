//! `tidewire bench compare`: did it get faster, slower, or neither?

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use clap::Args;
use serde::Serialize;

use super::Outcome;
use crate::compare::{self, Method, Ratio, Row};
use crate::console::Console;
use crate::html;
use crate::measure;
use crate::result::{FORMAT, RunResult};
use crate::suite::{self, SuiteResult};
use tidewire_loadgen::Error;

/// Compare two results, or two sets of them, with confidence intervals.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  tidewire bench compare before.json after.json
  tidewire bench compare before.json after.json --fail-above 5% --markdown report.md
  tidewire bench compare before-*.json --new after-*.json
  tidewire bench compare bench-runs/monday/web.json bench-runs/today/web.json")]
pub struct CompareArgs {
    /// Result files: the base and the new one; or, with --new, all of the base.
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// Result files of the new side; seven and more on each side are compared as rounds.
    #[arg(long, value_name = "FILE", num_args = 1..)]
    new: Vec<PathBuf>,
    /// Exit with 1 when a figure is shown to be worse by more than this. Runs that cannot be
    /// compared, since the generator made the figures of one, exit with 6 in any case.
    #[arg(long, value_parser = percent, value_name = "PERCENT")]
    fail_above: Option<f64>,
    /// Write the table as Markdown, for a pull request.
    #[arg(long, value_name = "FILE")]
    markdown: Option<PathBuf>,
    /// Write one HTML file with the table and charts of both sides.
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Write the comparison of two runs as JSON; `-` writes it in place of the text.
    #[arg(long, value_name = "FILE", conflicts_with = "fail_above")]
    json: Option<PathBuf>,
    /// Seed of the bootstrap.
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    seed: u64,
}

/// What `--json` writes.
#[derive(Serialize)]
struct Comparison<'a> {
    format: &'static str,
    rows: Vec<ComparedFigure>,
    /// How the intervals were made.
    intervals: String,
    /// What else differs than what is compared.
    notes: &'a [String],
    /// Why the ratios say nothing of the server; empty where they do.
    not_comparable: &'a [String],
    /// What is printed without `--json`.
    text: &'a str,
}

#[derive(Serialize)]
struct ComparedFigure {
    name: String,
    base: f64,
    new: f64,
    /// Both as people read them.
    base_text: String,
    new_text: String,
    /// `new / base` with its 95 % interval; absent where there are too few samples.
    ratio: Option<Ratio>,
    verdict: &'static str,
}

impl ComparedFigure {
    fn new(row: &Row) -> Self {
        Self {
            name: row.name.clone(),
            base: row.base,
            new: row.new,
            base_text: (row.show)(row.base),
            new_text: (row.show)(row.new),
            ratio: row.ratio,
            verdict: row.verdict(),
        }
    }
}

const COMPARISON_FORMAT: &str = "tidewire-bench-comparison/1";
const NOT_COMPARABLE: &str = "not comparable: measure again with a core for the generator alone, \
                              on a machine that does nothing else\n";

fn percent(text: &str) -> Result<f64, String> {
    let digits = text.strip_suffix('%').unwrap_or(text);
    match digits.trim().parse::<f64>() {
        Ok(value) if value >= 0.0 => Ok(value / 100.0),
        _ => Err(format!("{text:?} is not a percentage; write 5%")),
    }
}

pub(super) fn run(args: &CompareArgs, console: &mut Console<'_>) -> Result<Outcome, Error> {
    if let ([base, new], []) = (args.files.as_slice(), args.new.as_slice())
        && let (Some(base), Some(new)) = (read_suite(base)?, read_suite(new)?)
    {
        return suites(args, &base, &new, console);
    }
    let (base, new) = match (args.files.as_slice(), args.new.as_slice()) {
        ([base, new], []) => (vec![read(base)?], vec![read(new)?]),
        (_, []) => return Err(Error::usage("name two files, or put the new ones after --new")),
        (base, new) => (read_all(base)?, read_all(new)?),
    };
    let (method, rows) = compare::compare(&base, &new, args.seed);
    let mut notes = differences(&base, &new);
    let spoiled = spoiled(&base, &new);
    let mut said = text(method, &rows);
    for note in notes.iter().chain(&spoiled) {
        let _ = writeln!(said, "note: {note}");
    }
    if !spoiled.is_empty() {
        said += NOT_COMPARABLE;
    }
    let comparison = Comparison {
        format: COMPARISON_FORMAT,
        rows: rows.iter().map(ComparedFigure::new).collect(),
        intervals: method_text(method),
        notes: &notes,
        not_comparable: &spoiled,
        text: &said,
    };
    match &args.json {
        None => console.text(&said)?,
        Some(path) => {
            let document = serde_json::to_string_pretty(&comparison)
                .map_err(|error| Error::system(format!("the comparison as JSON: {error}")))?;
            if path.as_os_str() == "-" {
                console.text(&(document + "\n"))?;
            } else {
                std::fs::write(path, document)
                    .map_err(|error| Error::system(format!("{}: {error}", path.display())))?;
                console.text(&said)?;
            }
        }
    }
    notes.extend(spoiled.iter().cloned());
    if let Some(path) = &args.html {
        let told: Vec<_> = rows.iter().map(|row| (row, cells(row))).collect();
        let page = html::comparison(
            &html::Sides { base: &base, new: &new },
            &told,
            &notes,
            &method_text(method),
        )
        .map_err(|error| Error::system(format!("the report cannot be written: {error}")))?;
        std::fs::write(path, page)
            .map_err(|error| Error::system(format!("{}: {error}", path.display())))?;
    }
    if let Some(path) = &args.markdown {
        std::fs::write(path, markdown(method, &rows))
            .map_err(|error| Error::system(format!("{}: {error}", path.display())))?;
    }
    if !spoiled.is_empty() {
        return Ok(Outcome::NotComparable);
    }
    verdict(args, &rows, console)
}

/// Runs whose figures say more of the generator, or of what else ran, than of the server.
fn spoiled(base: &[RunResult], new: &[RunResult]) -> Vec<String> {
    let sides = [("base", base), ("new", new)];
    let all = sides.iter().flat_map(|(side, runs)| runs.iter().map(move |run| (side, run)));
    all.filter_map(|(side, run)| {
        let why = measure::generator_note(run)?;
        Some(format!("{side}, of {}: {why}", run.load.target))
    })
    .collect()
}

/// Two runs of a suite.
fn suites(
    args: &CompareArgs,
    base: &SuiteResult,
    new: &SuiteResult,
    console: &mut Console<'_>,
) -> Result<Outcome, Error> {
    if base.suite != new.suite {
        let base = &base.suite;
        let new = &new.suite;
        return Err(Error::usage(format!("these are runs of two suites, {base} and {new}")));
    }
    if args.html.is_some() {
        return Err(Error::usage(
            "--html is for results of bench run; each suite has its own page",
        ));
    }
    if args.json.is_some() {
        return Err(Error::usage("--json is for results of bench run"));
    }
    let (method, rows) = compare::suites(base, new, args.seed);
    console.text(&format!(
        "CPU per request over Tidewire's of the same round: more is Tidewire cheaper\n{}",
        text(method, &rows)
    ))?;
    let same = rows.iter().filter(|row| row.ratio.is_some() && !row.differs()).count();
    console.text(&format!("{same} of {} rows show no difference\n", rows.len()))?;
    if let Some(path) = &args.markdown {
        std::fs::write(path, markdown(method, &rows))
            .map_err(|error| Error::system(format!("{}: {error}", path.display())))?;
    }
    verdict(args, &rows, console)
}

/// What `--fail-above` makes of the rows.
fn verdict(args: &CompareArgs, rows: &[Row], console: &mut Console<'_>) -> Result<Outcome, Error> {
    let Some(limit) = args.fail_above else { return Ok(Outcome::Done) };
    if rows.iter().all(|row| row.ratio.is_none()) {
        console.text(
            "nothing could be compared, so nothing is known to be within the limit: run each side \
             for at least 5 s with answers, or give 7 rounds a side (5 of a suite)\n",
        )?;
        return Ok(Outcome::NothingCompared);
    }
    let worst = rows.iter().max_by(|a, b| a.worse_by().total_cmp(&b.worse_by()));
    match worst.filter(|row| row.worse_by() > limit) {
        None => Ok(Outcome::Done),
        Some(row) => {
            let by = row.worse_by() * 100.0;
            let limit = limit * 100.0;
            console.text(&format!("{} is worse by {by:.1} %, over {limit} %\n", row.name))?;
            Ok(Outcome::Regressed)
        }
    }
}

fn read_all(paths: &[PathBuf]) -> Result<Vec<RunResult>, Error> {
    paths.iter().map(|path| read(path)).collect()
}

/// What a file has, if it is the result of a suite.
fn read_suite(path: &Path) -> Result<Option<SuiteResult>, Error> {
    let text = std::fs::read_to_string(path)
        .map_err(|error| Error::usage(format!("{}: {error}", path.display())))?;
    let result = serde_json::from_str::<SuiteResult>(&text).ok();
    Ok(result.filter(|result| result.format == suite::FORMAT))
}

fn read(path: &Path) -> Result<RunResult, Error> {
    let shown = path.display();
    let text =
        std::fs::read_to_string(path).map_err(|error| Error::usage(format!("{shown}: {error}")))?;
    let result: RunResult = serde_json::from_str(&text)
        .map_err(|error| Error::usage(format!("{shown}: not a result of bench run: {error}")))?;
    if result.format != FORMAT {
        let found = &result.format;
        return Err(Error::usage(format!("{shown}: format {found:?}, this reads {FORMAT:?}")));
    }
    Ok(result)
}

/// What else differs than what is compared.
fn differences(base: &[RunResult], new: &[RunResult]) -> Vec<String> {
    let target = |run: &RunResult| run.load.target.clone();
    let shape = |run: &RunResult| {
        let load = &run.load;
        format!("{} {} {}×{}", load.protocol, load.shape, load.connections, load.depth)
    };
    let kinds = |runs: &[RunResult], of: &dyn Fn(&RunResult) -> String| -> Vec<String> {
        let found: BTreeSet<String> = runs.iter().map(of).collect();
        found.into_iter().collect()
    };
    let differ = |what: &str, of: &dyn Fn(&RunResult) -> String| {
        let base = kinds(base, of);
        let new = kinds(new, of);
        let is_one = base == new && base.len() == 1;
        (!is_one).then(|| format!("the {what} differ: {} and {}", base.join(", "), new.join(", ")))
    };
    differ("targets", &target).into_iter().chain(differ("loads", &shape)).collect()
}

fn method_text(method: Method) -> String {
    match method {
        Method::Blocks { seconds } => format!(
            "95 % intervals from a block bootstrap of per-second samples (blocks of {seconds} s); \
             they cannot know what differs from run to run"
        ),
        Method::Rounds { base, new } => {
            format!("95 % intervals from a bootstrap of {base} and {new} rounds")
        }
    }
}

fn cells(row: &Row) -> [String; 5] {
    let show = row.show;
    let ratio = row.ratio.map_or_else(
        || "–".to_owned(),
        |Ratio { value, low, high }| format!("{value:.3} ({low:.3}–{high:.3})"),
    );
    [row.name.clone(), show(row.base), show(row.new), ratio, row.verdict().to_owned()]
}

fn text(method: Method, rows: &[Row]) -> String {
    let wide = rows.iter().map(|row| row.name.chars().count() + 1).fold(24, usize::max);
    let mut out =
        format!("{:<wide$}{:>11} {:>11}  new/base (95 % interval)\n", "figure", "base", "new");
    for row in rows {
        let [name, base, new, ratio, verdict] = cells(row);
        let _ = writeln!(out, "{name:<wide$}{base:>11} {new:>11}  {ratio:<24} {verdict}");
    }
    let _ = writeln!(out, "{}", method_text(method));
    out
}

fn markdown(method: Method, rows: &[Row]) -> String {
    let mut out =
        String::from("| figure | base | new | new/base (95 %) | |\n|---|--:|--:|--:|---|\n");
    for row in rows {
        let _ = writeln!(out, "| {} |", cells(row).join(" | "));
    }
    let _ = writeln!(out, "\n{}.", method_text(method));
    out
}
