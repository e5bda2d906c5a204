//! `--json` of commands that list something: for other programs.

use serde::Serialize;

use crate::call::printable::printable_json;
use crate::failure::Failure;

/// Whether JSON is asked for.
#[derive(Debug, Clone, Copy, clap::Args)]
pub(crate) struct JsonFlag {
    /// Print JSON, one value per line, in place of a table.
    #[arg(long)]
    pub(crate) json: bool,
}

/// One value on one line. Characters that would steer a terminal are escaped.
pub(crate) fn line(value: &impl Serialize) -> Result<String, Failure> {
    Ok(printable_json(&serde_json::to_string(value)?) + "\n")
}
