//! Asking the other implementation, and comparing.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::generate::varint;
use crate::known_differences;

/// What an implementation says of a message.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Verdict {
    Valid,
    /// Each encoded without its text, in order.
    Violations(Vec<Vec<u8>>),
    /// A rule in CEL has no value.
    NoValue(String),
    /// A rule does not compile.
    NoRules,
    /// The bytes are not a message.
    NoMessage,
}

impl Verdict {
    /// The violations in an encoded `buf.validate.Violations`.
    pub(crate) fn violations(encoded: &[u8]) -> Self {
        let without_text = |violation: &[u8]| {
            fields(violation)
                .into_iter()
                .filter(|field| field.number != 3)
                .flat_map(|field| field.with_tag.to_vec())
                .collect()
        };
        let mut all: Vec<Vec<u8>> =
            fields(encoded).into_iter().map(|field| without_text(field.bytes)).collect();
        all.sort();
        Self::Violations(all)
    }

    fn is_same(&self, other: &Self) -> bool {
        matches!((self, other), (Self::NoValue(_), Self::NoValue(_))) || self == other
    }
}

/// A field of a message of ours.
struct Field<'a> {
    number: u64,
    bytes: &'a [u8],
    with_tag: &'a [u8],
}

fn fields(message: &[u8]) -> Vec<Field<'_>> {
    let mut found = Vec::new();
    let mut at = 0;
    let number = |at: &mut usize| {
        let mut value = 0_u64;
        let mut shift = 0;
        while let Some(byte) = message.get(*at) {
            *at += 1;
            value |= u64::from(byte & 0x7f) << shift;
            shift += 7;
            if *byte < 0x80 {
                break;
            }
        }
        value
    };
    while at < message.len() {
        let start = at;
        let tag = number(&mut at);
        let length = number(&mut at) as usize;
        let bytes = if tag & 7 == 2 {
            at += length;
            &message[at - length..at]
        } else {
            &[]
        };
        found.push(Field { number: tag >> 3, bytes, with_tag: &message[start..at] });
    }
    found
}

/// A message, and what this crate says of it.
pub(crate) struct Question {
    pub(crate) name: String,
    pub(crate) message: Vec<u8>,
    pub(crate) ours: Verdict,
}

/// Asks protovalidate-go for its verdicts.
pub(crate) fn ask(judge: &Path, set: &Path, questions: &[Question]) -> Result<Vec<Verdict>> {
    let mut asked = Command::new(judge)
        .arg("judge")
        .arg(set)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .with_context(|| format!("{}; run `make setup`", judge.display()))?;
    let mut input = asked.stdin.take().context("its input")?;
    let mut encoded = Vec::new();
    for Question { name, message, .. } in questions {
        let mut any = Vec::new();
        let url = format!("type.googleapis.com/{name}");
        for (number, bytes) in [(1, url.as_bytes()), (2, message)] {
            varint(&mut any, number << 3 | 2);
            varint(&mut any, bytes.len() as u64);
            any.extend(bytes);
        }
        encoded.extend((any.len() as u32).to_be_bytes());
        encoded.extend(any);
    }
    let mut output = asked.stdout.take().context("its output")?;
    let mut answers = Vec::new();
    std::thread::scope(|scope| {
        let written = scope.spawn(move || input.write_all(&encoded));
        let read = output.read_to_end(&mut answers);
        written.join().map(|written| written.and(read))
    })
    .map_err(|_| anyhow::anyhow!("the writing thread panicked"))??;
    if !asked.wait()?.success() {
        bail!("{} failed", judge.display());
    }
    let mut verdicts = Vec::new();
    let mut rest = &answers[..];
    while let Some((length, after)) = rest.split_first_chunk::<4>() {
        let (answer, after) = after.split_at(u32::from_be_bytes(*length) as usize);
        verdicts.push(match answer.split_first() {
            Some((b'0', _)) => Verdict::Valid,
            Some((b'V', found)) => Verdict::violations(found),
            Some((b'R', why)) => Verdict::NoValue(String::from_utf8_lossy(why).into_owned()),
            Some((b'M', _)) => Verdict::NoMessage,
            _ => Verdict::NoRules,
        });
        rest = after;
    }
    Ok(verdicts)
}

/// Figures of a comparison.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    pub(crate) messages: usize,
    values: usize,
    verdicts: BTreeMap<&'static str, usize>,
    known: BTreeMap<&'static str, usize>,
    unknown: BTreeMap<String, usize>,
}

impl Tally {
    pub(crate) fn count(&mut self, name: &str, message: &[u8], ours: &Verdict, theirs: &Verdict) {
        self.values += 1;
        let kind = match theirs {
            Verdict::Valid => "valid",
            Verdict::Violations(_) => "violations",
            Verdict::NoValue(_) => "a rule without a value",
            Verdict::NoRules => "a rule that does not compile",
            Verdict::NoMessage => "not a message",
        };
        *self.verdicts.entry(kind).or_default() += 1;
        if ours.is_same(theirs) {
            return;
        }
        if let Some(reason) = known_differences::reason(name, message, ours, theirs) {
            *self.known.entry(reason).or_default() += 1;
            return;
        }
        let count = self.unknown.entry(name.to_owned()).or_default();
        *count += 1;
        if *count == 1 {
            println!("DIFFERENCE in {name}, message {}", hex(message));
            println!("  ours:   {}\n  theirs: {}", show(ours), show(theirs));
        }
    }

    /// Prints the figures; whether every difference is known.
    pub(crate) fn report(&self, seed: u64) -> bool {
        println!("{} values of {} messages, seed {seed}", self.values, self.messages);
        for (kind, count) in &self.verdicts {
            println!("  {count:>7} {kind}");
        }
        for (reason, count) in &self.known {
            println!("  {count:>7} known differences: {reason}");
        }
        let unknown: usize = self.unknown.values().sum();
        println!("  {unknown:>7} other differences, in {} messages", self.unknown.len());
        unknown == 0 && self.values > 0
    }
}

fn show(verdict: &Verdict) -> String {
    match verdict {
        Verdict::Violations(all) => {
            let all: Vec<_> = all.iter().map(|one| one.escape_ascii().to_string()).collect();
            format!("{} violations: {}", all.len(), all.join(" | "))
        }
        other => format!("{other:?}"),
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
