//! Validation, compared with protovalidate-go on made-up messages.
//!
//! ```text
//! cases of protovalidate ─▶ values, random and at the edges of rules ─┬▶ RuleSet ──────▶ verdict
//!                                                                     └▶ protovalidate-go ▶ verdict
//! ```
//!
//! `cargo run --package tidewire-validate --example judge -- [VALUES [SEED [MESSAGE]]]`: so many
//! values a message, from this seed, of messages with this in their name. A verdict is the same
//! when both find the message valid, both the same violations (field, rule, name of the rule, key
//! or value; in any order), or both no verdict. Every difference is printed, and one that
//! `known_differences.rs` does not explain makes the exit code 1. `make setup` brings what this
//! needs.

#![allow(clippy::print_stdout, reason = "a judge reports on standard output")]

#[path = "judge/compare.rs"]
mod compare;
#[path = "judge/generate.rs"]
mod generate;
#[path = "judge/known_differences.rs"]
mod known_differences;
#[path = "judge/random.rs"]
mod random;

use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result};
use buffa_descriptor::DescriptorPool;
use tidewire_schema::Schema;
use tidewire_service::Codec;
use tidewire_validate::RuleSet;

use compare::{Tally, Verdict};
use generate::Generator;
use random::Random;

const SET: &str = ".tools/protovalidate-cases.binpb";
const JUDGE: &str = ".tools/bin/foreign-validate";

fn main() -> Result<ExitCode> {
    let mut arguments = std::env::args().skip(1);
    let values: usize = arguments.next().map_or(Ok(60), |text| text.parse()).context("VALUES")?;
    let clock = SystemTime::now().duration_since(UNIX_EPOCH).context("the clock")?.as_secs();
    let seed: u64 = arguments.next().map_or(Ok(clock), |text| text.parse()).context("SEED")?;
    let named = arguments.next().unwrap_or_default();

    let set = std::fs::read(SET).with_context(|| format!("{SET}; run `make setup`"))?;
    let schema = Schema::from_descriptors(set.clone())?;
    let pool = Arc::new(DescriptorPool::decode(&set)?);
    let mut random = Random::new(seed);
    let mut questions = Vec::new();
    let mut tally = Tally::default();
    for name in messages(&pool).filter(|name| name.contains(&named)) {
        let validator = RuleSet::of(&schema, [name.as_str()]);
        let generator = Generator::new(&pool, &name).context("a message of the schema")?;
        for number in 0..values {
            let message = generator.message(&mut random, number);
            let ours = ours(&schema, validator.as_ref().ok(), &name, &message);
            questions.push(compare::Question { name: name.clone(), message, ours });
        }
        tally.messages += 1;
    }
    let theirs = compare::ask(Path::new(JUDGE), Path::new(SET), &questions)?;
    for (compare::Question { name, message, ours }, theirs) in questions.iter().zip(theirs) {
        tally.count(name, message, ours, &theirs);
    }
    Ok(if tally.report(seed) { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The messages of the cases and of the examples.
fn messages(pool: &DescriptorPool) -> impl Iterator<Item = String> + '_ {
    let names = pool.messages().iter().map(|message| message.full_name().to_owned());
    let is_entry = |name: &str| {
        let message = pool.message_by_name(name).and_then(|message| message.options());
        message.is_some_and(|options| options.map_entry == Some(true))
    };
    names.filter(move |name| {
        let published = name.starts_with("google.") || name.starts_with("buf.validate.");
        (name.starts_with("buf.validate.conformance.cases.") || !published) && !is_entry(name)
    })
}

fn ours(schema: &Schema, validator: Option<&RuleSet>, name: &str, message: &[u8]) -> Verdict {
    if schema.decode(name, Codec::Proto, message).is_err() {
        return Verdict::NoMessage;
    }
    let Some(validator) = validator else { return Verdict::NoRules };
    let Some(rules) = validator.rules(name) else { return Verdict::Valid };
    match rules.violations(message) {
        Ok(None) => Verdict::Valid,
        Ok(Some(found)) => Verdict::violations(&found.encode()),
        Err(error) if error.message().starts_with("not a valid") => Verdict::NoMessage,
        Err(error) => Verdict::NoValue(error.message().to_owned()),
    }
}
