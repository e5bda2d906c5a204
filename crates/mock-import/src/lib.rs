//! Stubs of other mock servers to rule files.
//!
//! ```text
//! stub files ─▶ document::parse ─▶ gripmock | wiremock | fauxrpc ─▶ Stub ─▶ rules_out ─▶ rule files
//!                                   matching (schema) ─▶ conditions ┘
//! ```
//!
//! Two principles. A stub whose conditions cannot be said as rules is left out as a whole: without
//! them it would answer calls that it never answered. Of an answer only the part that cannot be
//! said is left out. Either way a [`Finding`] names the file, the line, the key and why.
//!
//! This crate opens no file: texts come in, texts go out. Names of rule files come from the
//! descriptors of methods and from nothing that a stub says.

#![doc = include_str!("../README.md")]

mod cel;
mod fauxrpc;
mod finding;
mod gripmock;
mod matching;
mod methods;
mod nodes;
mod regexes;
mod rules_out;
mod stub;
mod templates;
mod wiremock;

use tidewire_mock::RuleFiles;
use tidewire_mock::document::{Fault, Node, parse, parse_json};
use tidewire_schema::Schema;

pub use finding::Finding;

use crate::finding::Findings;
use crate::methods::Methods;
use crate::stub::Stub;

/// A program whose stubs are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Program {
    /// Stubs of <https://github.com/bavix/gripmock>, JSON or YAML.
    GripMock,
    /// Mappings of WireMock, also those of its gRPC extension.
    WireMock,
    /// Stub files of FauxRPC.
    FauxRpc,
}

/// A stub file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StubFile {
    /// Its path, for findings.
    pub name: String,
    /// What is in it.
    pub text: String,
}

/// A rule file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RuleFile {
    /// `shop.v1.cart.getprice.yaml`.
    pub name: String,
    /// What it says.
    pub text: String,
}

/// What an import made of stub files.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ImportReport {
    /// One file for each method that has stubs.
    pub files: Vec<RuleFile>,
    /// How many stubs were read, and how many of them are in the rules.
    pub stubs_read: usize,
    /// Stubs that are in the rules.
    pub stubs_written: usize,
    /// What could not be carried over, in the order of the files.
    pub findings: Vec<Finding>,
}

/// Makes rule files of stub files, for a schema.
///
/// ```
/// use tidewire_mock_import::{Program, StubFile, import};
/// use tidewire_schema::Schema;
/// # let folder = tempfile::tempdir()?;
/// # std::fs::write(folder.path().join("shop.proto"), r#"syntax = "proto3"; package shop.v1;
/// # service Cart { rpc GetPrice(Item) returns (Item); } message Item { string sku = 1; }"#)?;
/// let schema = Schema::from_folder(folder.path())?;
/// let text = "service: shop.v1.Cart\nmethod: GetPrice\ninput: {equals: {sku: tea}}\noutput: {data: {sku: TEA}}";
/// let stub = StubFile { name: "tea.yaml".to_owned(), text: text.to_owned() };
/// let imported = import(Program::GripMock, &[stub], &schema);
/// assert_eq!(imported.files[0].name, "shop.v1.cart.getprice.yaml");
/// assert!(imported.findings.is_empty());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn import(program: Program, files: &[StubFile], schema: &Schema) -> ImportReport {
    let methods = Methods::new(schema);
    let mut findings = Findings::default();
    let mut stubs: Vec<Stub> = Vec::new();
    let mut imported = ImportReport::default();
    for file in files {
        findings.file(&file.name);
        let root = match read(program, file) {
            Ok(Some(root)) => root,
            Ok(None) => continue,
            Err(fault) => {
                findings.at(fault.place, "", fault.message);
                continue;
            }
        };
        let before = stubs.len();
        imported.stubs_read += match program {
            Program::GripMock => gripmock::read(&root, schema, &methods, &mut findings, &mut stubs),
            Program::WireMock => wiremock::read(&root, schema, &methods, &mut findings, &mut stubs),
            Program::FauxRpc => fauxrpc::read(&root, schema, &methods, &mut findings, &mut stubs),
        };
        for stub in &mut stubs[before..] {
            stub.file.clone_from(&file.name);
        }
    }
    let mut written: Vec<_> = stubs.iter().map(|stub| (&stub.file, stub.place)).collect();
    written.sort();
    written.dedup();
    imported.stubs_written = written.len();
    imported.files = rules_out::files(program, stubs, &mut findings);
    check(&imported.files, schema, &mut findings);
    imported.findings = findings.into_list();
    imported
}

/// The document of a file; in JSON with comments those are blanked, so that places stay.
fn read(program: Program, file: &StubFile) -> Result<Option<Node>, Fault> {
    let end = file.name.rsplit('.').next().unwrap_or_default().to_ascii_lowercase();
    match end.as_str() {
        "jsonc" if program == Program::FauxRpc => parse(&nodes::without_comments(&file.text)),
        "json" => parse_json(&file.text),
        _ => parse(&file.text),
    }
}

/// What is found in the rules that were written: nothing is served that is not what was meant.
fn check(files: &[RuleFile], schema: &Schema, findings: &mut Findings) {
    let mut rules = RuleFiles::new();
    for file in files {
        rules.add(&file.name, file.text.as_str());
    }
    for found in rules.check(schema) {
        let told = &found.diagnostic;
        // What another stub hides was hidden from its own program too.
        if told.message.starts_with("never answers") {
            continue;
        }
        findings.add(Finding {
            file: told.file.clone(),
            line: told.line.unwrap_or(0),
            key: String::new(),
            why: format!("in the rule file that was made: {}", told.message),
        });
    }
}
