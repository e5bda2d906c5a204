//! Repository chores: `cargo xtask tidy`, `cargo xtask ci`, `cargo xtask tables`.
//!
//! `tidy` checks the rules that neither the compiler nor clippy knows; `ci` is the whole sequence
//! behind `make test`; `tables` fills the marked tables of the documents from the committed
//! benchmark runs. Nothing here is part of what a user builds.

#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "this program's output is its purpose"
)]

mod ci;
mod foreign;
mod rust_file;
mod sbom;
mod tables;
mod tidy;
mod tree;

use std::process::ExitCode;

use anyhow::Result;

use crate::tree::Tree;

const USAGE: &str = "\
usage: cargo xtask COMMAND

  tidy               check the rules of CONTRIBUTING.md
  ci                 run every step of continuous integration
  ci STEP...         run only these steps
  ci --list          list the steps
  tables             fill the tables between `<!-- bench:NAME -->` markers from bench-runs/
  sbom TARGET        print what the program `tidewire` is made of for a target, as CycloneDX
  foreign [ADDRESS]  run the foreign clients against ADDRESS, or their own foreign server and a mock
";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match run(&arguments) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &[String]) -> Result<ExitCode> {
    let root = tree::root()?;
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["tidy"] => tidy::run(&root),
        ["ci", "--list"] => Ok(ci::list()),
        ["ci", steps @ ..] => ci::run(&root, steps),
        ["tables"] => tables::write(&root, &Tree::read(&root)?),
        ["sbom", target] => {
            println!("{:#}", sbom::document(&root, target)?);
            Ok(ExitCode::SUCCESS)
        }
        ["foreign"] => foreign::run(&root, None),
        ["foreign", address] => foreign::run(&root, Some(address)),
        _ => {
            eprint!("{USAGE}");
            Ok(ExitCode::from(2))
        }
    }
}
