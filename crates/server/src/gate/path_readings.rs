//! The ways in which programs read a path: a rule of [`access`](super::access) for a path has to
//! hold however the program behind it reads what was asked for.
//!
//! What is listed here is decoded once. Of what is encoded within, or may be read as a host, no
//! list is complete: such a path is [unclear](is_unclear).

/// A path as lenient programs may read it. Servlet containers take `;x=1` off each segment, then
/// decode; C ends a name at a NUL, and some file systems leave out the dots and spaces at its end.
/// Express and others leave out a slash there. Who reads what was decoded as a URL leaves out line
/// feeds, ends the path at a question mark, and takes what follows two slashes for a host.
pub(super) fn readings(path: &str) -> Vec<String> {
    let is_plain = |path: &str| {
        !path.contains(['%', ';', '\\', '\0']) && !path.contains("//") && !path.contains("/.")
    };
    if is_plain(path) && path.is_ascii() && path == with_bare_names(path) {
        return without_slash(path).map(str::to_owned).into_iter().collect();
    }
    let mut found = Vec::new();
    let whole = decoded(path);
    for read in [without_parameters(&whole), decoded(&without_parameters(path)), whole] {
        for read in [without_host(&as_url(&read)), as_url(&read), read] {
            found.push(resolved(&with_bare_names(&read)));
            found.push(resolved(&with_names_trimmed(&read)));
            found.push(resolved(&read));
        }
    }
    let bare: Vec<_> = found.iter().filter_map(|it| without_slash(it)).map(str::to_owned).collect();
    found.extend(bare);
    found.sort_unstable();
    found.dedup();
    found
}

/// Whether programs make of a path what nobody can list. It is encoded once more within
/// (`%2541`, `%u0041`), or has slashes before what may be a host and its end (`//u%3f@h/x`).
pub(super) fn is_unclear(path: &str) -> bool {
    let is_doubtful = path.contains(['%', '\\']) || path.contains("//");
    is_doubtful && {
        // Parsers of URLs leave out tabs and line feeds.
        let decoded = decoded(path).replace(['\t', '\n', '\r'], "");
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

/// A path that has a slash at its end, and more than that, without it.
pub(super) fn without_slash(path: &str) -> Option<&str> {
    path.strip_suffix('/').filter(|bare| !bare.is_empty())
}

fn with_bare_names(path: &str) -> String {
    let names = path.split('/').map(|name| {
        let name = name.split('\0').next().unwrap_or_default();
        let bare = name.trim_end_matches(['.', ' ']);
        // What is nothing but dots and spaces leads elsewhere, or nowhere.
        if bare.is_empty() { name.replace(' ', "") } else { bare.to_owned() }
    });
    names.collect::<Vec<_>>().join("/")
}

/// A path as who trims each name reads it: of spaces of any kind, NUL, a byte order mark, and bytes
/// that are not UTF-8, since they may be a space in another encoding; and of dots at its end.
fn with_names_trimmed(path: &str) -> String {
    let is_blank =
        |c: char| c.is_whitespace() || c.is_control() || matches!(c, '\u{feff}' | '\u{fffd}');
    let names = path.split('/').map(|name| {
        let name = name.trim_matches(is_blank);
        let bare = name.trim_end_matches(|c| c == '.' || is_blank(c));
        if bare.is_empty() { name } else { bare }
    });
    names.collect::<Vec<_>>().join("/")
}

/// What a parser of URLs takes for the path: it leaves out tabs and line feeds wherever they are
/// (WHATWG URL, basic URL parser), and a pattern that ends with `$` ends before a line feed, too.
fn as_url(path: &str) -> String {
    path.split(['?', '#']).next().unwrap_or_default().replace(['\t', '\n', '\r'], "")
}

/// A path without `//HOST`, as who resolves it against the URL of the server reads it (WHATWG URL,
/// relative slash state; any number of slashes comes before a host there). Only the first two
/// slashes in a row count: they begin the path, or do so once the prefix of its route is taken off.
fn without_host(path: &str) -> String {
    let Some((before, rest)) = path.split_once("//") else { return path.to_owned() };
    let behind = rest.trim_start_matches('/').split_once('/').map_or("", |(_, behind)| behind);
    format!("{before}/{behind}")
}

fn decoded(path: &str) -> String {
    percent_encoding::percent_decode_str(path).decode_utf8_lossy().replace('\\', "/")
}

fn without_parameters(path: &str) -> String {
    let names = path.split('/').map(|segment| segment.split(';').next().unwrap_or_default());
    names.collect::<Vec<_>>().join("/")
}

fn resolved(decoded: &str) -> String {
    let mut segments: Vec<&str> = Vec::new();
    for segment in decoded.split('/') {
        match segment {
            "" | "." => {}
            ".." => {
                segments.pop();
            }
            segment => segments.push(segment),
        }
    }
    let end = if decoded.ends_with('/') && !segments.is_empty() { "/" } else { "" };
    format!("/{}{end}", segments.join("/"))
}

/// A path without case, for programs that compare capitals or small letters of Unicode: `ß`, `ẞ`
/// and `SS` are one, `ſ` and `s`, `K` (Kelvin) and `k`, `İ`, `ı` and `i`.
pub(super) fn folded(path: &str) -> String {
    let lower = path.chars().flat_map(char::to_lowercase);
    let folded = lower.flat_map(char::to_uppercase).flat_map(char::to_lowercase);
    // The small letter of `İ` has its dot as another character.
    folded.collect::<String>().replace("i\u{307}", "i")
}
