//! Text that a regular expression matches.

use regex_syntax::hir::{Class, Hir, HirKind};

use crate::random::Random;

/// How often something that may be repeated for ever is, beyond what it has to be.
const EXTRA_MAX: u32 = 3;
/// What no text exceeds.
const LENGTH_MAX: usize = 4096;

/// Such a text; `None` for a pattern that does not compile.
pub(super) fn text(pattern: &str, random: &mut Random) -> Option<String> {
    let hir = regex_syntax::parse(pattern).ok()?;
    let mut out = String::new();
    push(&hir, random, &mut out);
    Some(out)
}

fn push(hir: &Hir, random: &mut Random, out: &mut String) {
    if out.len() > LENGTH_MAX {
        return;
    }
    match hir.kind() {
        HirKind::Empty | HirKind::Look(_) => {}
        HirKind::Literal(literal) => out.push_str(&String::from_utf8_lossy(&literal.0)),
        HirKind::Class(Class::Unicode(class)) => {
            let ranges: Vec<_> = class.iter().map(|range| (range.start(), range.end())).collect();
            out.extend(one_of(&ranges, random));
        }
        HirKind::Class(Class::Bytes(class)) => {
            let ranges: Vec<_> = class
                .iter()
                .map(|range| (char::from(range.start()), char::from(range.end())))
                .collect();
            out.extend(one_of(&ranges, random));
        }
        HirKind::Repetition(repetition) => {
            let most =
                repetition.max.unwrap_or(u32::MAX).min(repetition.min.saturating_add(EXTRA_MAX));
            let spread = usize::try_from(most - repetition.min).unwrap_or(0) + 1;
            let count = repetition.min as usize + random.below(spread);
            for _ in 0..count.min(LENGTH_MAX) {
                push(&repetition.sub, random, out);
            }
        }
        HirKind::Capture(capture) => push(&capture.sub, random, out),
        HirKind::Concat(parts) => parts.iter().for_each(|part| push(part, random, out)),
        HirKind::Alternation(parts) => {
            if let Some(part) = parts.get(random.below(parts.len())) {
                push(part, random, out);
            }
        }
    }
}

/// A character of a class, one that people type where there is any.
fn one_of(ranges: &[(char, char)], random: &mut Random) -> Option<char> {
    let typed: Vec<_> = ranges
        .iter()
        .map(|(from, to)| ((*from).max(' '), (*to).min('~')))
        .filter(|(from, to)| from <= to)
        .collect();
    // Letters and digits rather than signs.
    let plain: Vec<char> = typed
        .iter()
        .flat_map(|(from, to)| *from..=*to)
        .filter(char::is_ascii_alphanumeric)
        .collect();
    if !plain.is_empty() {
        return plain.get(random.below(plain.len())).copied();
    }
    let (from, to) = typed.first().or_else(|| ranges.first()).copied()?;
    let width = u32::from(to) - u32::from(from) + 1;
    let offset = u32::try_from(random.below(width as usize)).unwrap_or(0);
    char::from_u32(u32::from(from) + offset).or(Some(from))
}
