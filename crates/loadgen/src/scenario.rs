//! Multi-step scenarios in TOML.
//!
//! ```toml
//! [[feeder]]
//! file = "contacts.csv"        # columns become variables
//!
//! [[step]]
//! name = "create"
//! method = "POST"
//! path = "/contacts"
//! headers = { content-type = "application/json" }
//! body = '{"firstName":"{{firstName}}"}'
//! expect = { status = [201], body_contains = ['"id":'] }
//! extract = { id = "$.id" }
//!
//! [[step]]
//! name = "delete"
//! method = "DELETE"
//! path = "/contacts/{{id}}"
//! ```

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;

use serde::Deserialize;
use toml::Spanned;

use crate::accepted::AcceptedStatus;
use crate::check::{Check, Extract};
use crate::error::Error;
use crate::feeder::{Feeder, Order};
use crate::request::{Body, Request};
use crate::template::{Names, Template};
use crate::workload::Step;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    feeder: Vec<FeederTable>,
    step: Vec<StepTable>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct FeederTable {
    file: String,
    #[serde(default)]
    order: OrderName,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
enum OrderName {
    #[default]
    Sequential,
    Random,
}

type Text = Spanned<String>;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct StepTable {
    name: Option<String>,
    method: Option<String>,
    path: Text,
    #[serde(default)]
    headers: BTreeMap<String, Text>,
    body: Option<Text>,
    #[serde(default)]
    expect: Expect,
    #[serde(default)]
    extract: BTreeMap<String, Text>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Expect {
    #[serde(default)]
    status: Vec<u16>,
    #[serde(default)]
    headers: BTreeMap<String, Text>,
    body: Option<Text>,
    #[serde(default)]
    body_contains: Vec<Text>,
}

/// What a scenario file describes.
#[derive(Debug)]
pub struct Scenario {
    /// The steps of every iteration, in order.
    pub steps: Vec<Step>,
    /// Where variables come from.
    pub feeders: Vec<Feeder>,
}

impl Scenario {
    /// Reads a scenario. Feeders of the command line are known in `names` already.
    pub fn read(path: &Path, names: &mut Names) -> Result<Self, Error> {
        let text = std::fs::read_to_string(path)
            .map_err(|error| Error::usage(format!("scenario {}: {error}", path.display())))?;
        let folder = path.parent().unwrap_or_else(|| Path::new("."));
        parse(&text, folder, names).map_err(|flaw| {
            let Position { line, column } = position(&text, flaw.at);
            Error::usage(format!("{}:{line}:{column}: {}", path.display(), flaw.what))
        })
    }
}

/// What is wrong, and at which byte.
#[derive(Debug)]
struct Flaw {
    at: usize,
    what: String,
}

impl Flaw {
    fn new(span: &Range<usize>, what: impl Into<String>) -> Self {
        Self { at: span.start, what: what.into() }
    }
}

fn parse(text: &str, folder: &Path, names: &mut Names) -> Result<Scenario, Flaw> {
    let file: File = toml::from_str(text).map_err(|error| {
        let at = error.span().map_or(0, |span| span.start);
        Flaw { at, what: error.message().to_owned() }
    })?;
    if file.step.is_empty() {
        return Err(Flaw { at: 0, what: "a scenario needs at least one [[step]]".to_owned() });
    }
    let mut feeders = Vec::new();
    for table in &file.feeder {
        let order = match table.order {
            OrderName::Sequential => Order::Sequential,
            OrderName::Random => Order::Random,
        };
        let feeder = Feeder::read(&folder.join(&table.file), order, names)
            .map_err(|error| Flaw { at: 0, what: error.to_string() })?;
        feeders.push(feeder);
    }
    let mut steps = Vec::new();
    for (index, table) in file.step.iter().enumerate() {
        steps.push(step(index, table, names)?);
    }
    Ok(Scenario { steps, feeders })
}

fn step(index: usize, table: &StepTable, names: &mut Names) -> Result<Step, Flaw> {
    let request = Request {
        method: table
            .method
            .clone()
            .unwrap_or_else(|| if table.body.is_some() { "POST" } else { "GET" }.to_owned()),
        path: path(&table.path, names)?,
        headers: pairs(&table.headers, names)?,
        body: match &table.body {
            Some(body) => Body::Template(template(body, names)?),
            None => Body::Bytes(Vec::new()),
        },
        messages: None,
    };
    let mut extracts = Vec::new();
    for (name, origin) in &table.extract {
        let parsed = Extract::parse_origin(origin.get_ref()).ok_or_else(|| {
            let text = "write $.field, a JSON pointer like /a/0, or header:name";
            Flaw::new(&origin.span(), text)
        })?;
        extracts.push((name, parsed));
    }
    // Checks of this step may use what it extracts only in later steps: parse them first.
    let checks = checks(&table.expect, names)?;
    let extracts = extracts
        .into_iter()
        .map(|(name, origin)| Extract { name: name.clone(), variable: names.intern(name), origin })
        .collect();
    let name = table.name.clone().unwrap_or_else(|| format!("step {}", index + 1));
    Ok(Step { name, request, checks, extracts })
}

fn path(text: &Text, names: &Names) -> Result<Template, Flaw> {
    if !text.get_ref().starts_with('/') {
        return Err(Flaw::new(&text.span(), "a path starts with /"));
    }
    template(text, names)
}

fn checks(expect: &Expect, names: &Names) -> Result<Vec<Check>, Flaw> {
    let mut checks = Vec::new();
    if !expect.status.is_empty() {
        let accepted = expect.status.iter().copied().map(AcceptedStatus::Http);
        checks.push(Check::Status(accepted.collect()));
    }
    for (name, text) in pairs(&expect.headers, names)? {
        checks.push(Check::Header(name, text));
    }
    if let Some(text) = &expect.body {
        checks.push(Check::BodyEquals(template(text, names)?));
    }
    for text in &expect.body_contains {
        checks.push(Check::BodyContains(template(text, names)?));
    }
    Ok(checks)
}

fn pairs(table: &BTreeMap<String, Text>, names: &Names) -> Result<Vec<(String, Template)>, Flaw> {
    table.iter().map(|(name, text)| Ok((name.clone(), template(text, names)?))).collect()
}

fn template(text: &Text, names: &Names) -> Result<Template, Flaw> {
    Template::parse(text.get_ref(), names).map_err(|what| Flaw::new(&text.span(), what))
}

/// A place in a file, both from 1.
#[derive(Debug, PartialEq)]
struct Position {
    line: usize,
    column: usize,
}

/// Where a byte is.
fn position(text: &str, at: usize) -> Position {
    let before = text.get(..at).unwrap_or(text);
    let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
    let line = before.matches('\n').count() + 1;
    Position { line, column: before[line_start..].chars().count() + 1 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_pass_values_on() {
        let text = r#"
            [[step]]
            name = "create"
            path = "/contacts"
            body = "{{seq}}"
            expect = { status = [201], headers = { content-type = "json" } }
            extract = { id = "$.id" }
            [[step]]
            path = "/contacts/{{id}}"
        "#;
        let scenario = parse(text, Path::new("."), &mut Names::default()).unwrap();
        assert_eq!(scenario.steps[0].request.method, "POST");
        assert_eq!(
            (scenario.steps[0].checks.len(), scenario.steps[1].name.as_str()),
            (2, "step 2")
        );
    }

    #[track_caller]
    fn check(text: &str, line: usize, column: usize, needle: &str) {
        let flaw = parse(text, Path::new("."), &mut Names::default()).unwrap_err();
        assert_eq!(position(text, flaw.at), Position { line, column }, "{}", flaw.what);
        assert!(flaw.what.contains(needle), "{}", flaw.what);
    }

    #[test]
    fn a_malformed_scenario_is_named_by_line_and_column() {
        check("[[step]]\npath = \n", 2, 8, "value");
        check("[[step]]\npath = \"/\"\nspeed = 1\n", 3, 1, "unknown field `speed`");
        check("[[step]]\npath = \"/{{id}}\"\n", 2, 8, "{{id}}");
        check("[[step]]\npath = \"x\"\n", 2, 8, "starts with /");
        check("[[step]]\npath = \"/\"\nextract = { id = \"id\" }\n", 3, 18, "$.field");
    }
}
