//! `tidewire bench` as a library: arguments in, words through a writer, an outcome back.

use clap::{Args, Subcommand};

use crate::console::Console;
use tidewire_loadgen::{Error, Stop};
use tidewire_schema::Schema;

mod compare;
mod index;
mod run;
mod suite;

pub use compare::CompareArgs;
pub use index::IndexArgs;
pub(crate) use index::IndexedRun;
pub use run::{ReflectionTarget, RunArgs};
pub use suite::SuiteArgs;

/// The arguments of `tidewire bench`.
#[derive(Debug, Args)]
pub struct BenchArgs {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    Run(Box<RunArgs>),
    Compare(CompareArgs),
    Suite(SuiteArgs),
    Index(IndexArgs),
}

/// How a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// It did what it was asked to.
    Done,
    /// A threshold did not hold.
    ThresholdFailed,
    /// Not one request was answered well: there is nothing to report.
    NothingAnswered,
    /// A figure got worse by more than was allowed.
    Regressed,
    /// A limit was given, and there was nothing that it could be held against.
    NothingCompared,
    /// The generator or the machine made figures of one side; the difference says nothing.
    NotComparable,
    /// It was stopped by hand; what was measured so far was reported.
    Interrupted,
}

impl Outcome {
    /// The exit code a shell should see.
    #[must_use]
    pub fn exit_code(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::ThresholdFailed
            | Self::NothingAnswered
            | Self::Regressed
            | Self::NothingCompared => 1,
            Self::NotComparable => 6,
            Self::Interrupted => 130,
        }
    }
}

impl BenchArgs {
    /// The server whose schema the command needs: [`run`] wants it then.
    #[must_use]
    pub fn reflects(&self) -> Option<ReflectionTarget<'_>> {
        match &self.verb {
            Verb::Run(args) => args.reflects(),
            Verb::Compare(_) | Verb::Suite(_) | Verb::Index(_) => None,
        }
    }
}

/// Runs one command, with the schema of the server that [`BenchArgs::reflects`] names. Raising
/// `stop` ends a run early with the figures so far.
///
/// # Errors
///
/// When the command could not be done at all; [`Error::kind`] says who has to act.
pub async fn run(
    args: &BenchArgs,
    schema: Option<Schema>,
    console: &mut Console<'_>,
    stop: &Stop,
) -> Result<Outcome, Error> {
    match &args.verb {
        Verb::Run(args) => run::run(args, schema, console, stop).await,
        Verb::Compare(args) => compare::run(args, console),
        Verb::Suite(args) => suite::run(args, console, stop).await,
        Verb::Index(args) => index::run(args, console),
    }
}

/// The command line, with the program's own name in place of its path.
fn command_line() -> String {
    let mut words = vec!["tidewire".to_owned()];
    words.extend(std::env::args().skip(1).map(|word| {
        let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=,%@+".contains(c);
        if !word.is_empty() && word.chars().all(plain) { word } else { format!("'{word}'") }
    }));
    words.join(" ")
}
