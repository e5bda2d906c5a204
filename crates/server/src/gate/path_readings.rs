//! The ways in which programs read a path: a rule of [`access`](super::access) for a path has to
//! hold however the program behind it reads what was asked for.
//!
//! A program reads a path by a few [steps](super::path_steps), and no two programs do the same ones
//! in the same order. So all are asked for: what any step makes of the path, and any step of that,
//! until nothing new comes. Of what is encoded within, or may be read as a host, no list is
//! complete: such a path is [unclear](is_unclear). So is one with more readings than the limits.

use std::collections::HashSet;

use foldhash::fast::RandomState;

use super::path_steps::{STEPS, decoded, without_slash};

/// How many readings of one path are asked about.
const READINGS_MAX: usize = 128;

/// How long all readings of one path may be together: as long as the longest path that comes. Each
/// costs work before it is known who asks.
const READINGS_BYTES_MAX: usize = 64 * 1024;

/// A path as programs may read it, each reading once, without the path as it is. `None` if nobody
/// can list what programs make of it, or that is more than the limits: every rule is asked then.
pub(super) fn readings(path: &str) -> Option<Vec<String>> {
    if is_plain(path) {
        return Some(without_slash(path).map(str::to_owned).into_iter().collect());
    }
    if is_unclear(path) {
        return None;
    }
    let mut found = vec![path.to_owned()];
    let mut seen: HashSet<String, RandomState> = found.iter().cloned().collect();
    let mut bytes = 0;
    let mut next = 0;
    while let Some(last) = found.get(next).cloned() {
        for read in STEPS.iter().filter_map(|step| step(&last)) {
            if seen.contains(&read) {
                continue;
            }
            bytes += read.len();
            if found.len() > READINGS_MAX || bytes > READINGS_BYTES_MAX || is_unclear(&read) {
                return None;
            }
            seen.insert(read.clone());
            found.push(read);
        }
        next += 1;
    }
    found.swap_remove(0);
    Some(found)
}

/// Whether no step makes anything of a path but to leave out a slash at its end.
fn is_plain(path: &str) -> bool {
    let is_odd =
        |byte: u8| !byte.is_ascii_graphic() || matches!(byte, b'%' | b';' | b'\\' | b'?' | b'#');
    let has_dots = || path.contains("/.") || path.contains("./") || path.ends_with('.');
    !path.bytes().any(is_odd) && !path.contains("//") && !has_dots()
}

/// Whether programs make of a path what nobody can list. It is encoded once more within
/// (`%2541`, `%u0041`), or has slashes before what may be a host and its end (`//u%3f@h/x`).
fn is_unclear(path: &str) -> bool {
    let is_doubtful = path.contains(['%', '\\']) || path.contains("//");
    is_doubtful && {
        // Parsers of URLs leave out tabs and line feeds.
        let decoded = decoded(path).replace('\\', "/").replace(['\t', '\n', '\r'], "");
        let has_host = decoded.contains("//") && decoded.contains(['?', '#', '@', ':']);
        has_host || decoded.split('%').skip(1).any(is_escape)
    }
}

/// Whether this goes on behind a percent sign as an escape does: `41`, `u0041`.
fn is_escape(rest: &str) -> bool {
    let digits = |text: &str, count| {
        text.len() >= count && text.bytes().take(count).all(|byte| byte.is_ascii_hexdigit())
    };
    digits(rest, 2) || rest.strip_prefix(['u', 'U']).is_some_and(|rest| digits(rest, 4))
}

/// A path without case, for programs that compare capitals or small letters of Unicode: `ß`, `ẞ`
/// and `SS` are one, `ſ` and `s`, `K` (Kelvin) and `k`, `İ`, `ı` and `i`.
pub(super) fn folded(path: &str) -> String {
    let lower = path.chars().flat_map(char::to_lowercase);
    let folded = lower.flat_map(char::to_uppercase).flat_map(char::to_lowercase);
    // The small letter of `İ` has its dot as another character.
    folded.collect::<String>().replace("i\u{307}", "i")
}
