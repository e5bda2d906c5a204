//! What programs do to a path before they look at it, each step alone. A step that some programs do
//! in one place and not in the next does it in the first place: taken again, it goes on.

/// What a step makes of a path; `None` where it finds nothing to do.
type Step = fn(&str) -> Option<String>;

/// All steps, in no order: each is taken after each.
pub(super) const STEPS: [Step; 22] = [
    // Express and others; frameworks that decode a segment once it is one; parsers of URLs
    // (`decodeURI`, RFC 3986 section 6.2.2.2).
    |path| decoded_where(path, |_| true),
    |path| decoded_where(path, |byte| !matches!(byte, b'/' | b'\\')),
    |path| decoded_where(path, |byte| !b";/?:@&=+$,#".contains(&byte)),
    |path| decoded_where(path, |byte| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte)),
    // C ends all of it at a NUL, or each name; who has decoded a URL ends it at its query, and a
    // pattern that ends with `$` before a line feed.
    |path| cut(path, &['\0']),
    |path| of_names(path, |name| name.split('\0').next().unwrap_or_default()),
    |path| cut(path, &['?', '#']),
    |path| cut(path, &['\n', '\r']),
    |path| cut(path, &[';']),
    without_first_parameters,
    with_backslashes_turned,
    without_line_feeds,
    with_first_slashes_merged,
    without_host,
    with_dots_resolved,
    without_first_climb,
    // Some file systems leave out dots and spaces at the end of a name, or of the last one.
    |path| of_names(path, without_dots),
    |path| of_names(path, without_blank),
    with_bare_end,
    without_spaces,
    |path| of_names(path, trimmed),
    // Express and others.
    |path| without_slash(path).map(str::to_owned),
];

/// A path decoded once.
pub(super) fn decoded(path: &str) -> String {
    decoded_where(path, |_| true).unwrap_or_else(|| path.to_owned())
}

/// A path in which those bytes are decoded, and others left as they are.
fn decoded_where(path: &str, is_decoded: impl Fn(u8) -> bool) -> Option<String> {
    let (before, encoded) = path.split_at(path.find('%')?);
    let mut found = before.as_bytes().to_vec();
    let mut rest = encoded.as_bytes();
    while let [first, behind @ ..] = rest {
        let digit = |at: usize| behind.get(at).and_then(|byte| char::from(*byte).to_digit(16));
        let byte =
            digit(0).zip(digit(1)).and_then(|(high, low)| u8::try_from(16 * high + low).ok());
        match byte.filter(|byte| *first == b'%' && is_decoded(*byte)) {
            Some(byte) => {
                found.push(byte);
                rest = &behind[2..];
            }
            None => {
                found.push(*first);
                rest = behind;
            }
        }
    }
    changed(path, String::from_utf8_lossy(&found).into_owned())
}

fn changed(path: &str, read: String) -> Option<String> {
    (read != path).then_some(read)
}

/// A path without what is behind the first of some characters.
fn cut(path: &str, ends: &[char]) -> Option<String> {
    path.split_once(ends).map(|(before, _)| before.to_owned())
}

/// A path in which something is done to each name.
fn of_names(path: &str, read: impl Fn(&str) -> &str) -> Option<String> {
    if path.split('/').all(|name| read(name).len() == name.len()) {
        return None;
    }
    Some(path.split('/').map(read).collect::<Vec<_>>().join("/"))
}

/// A path as servlet containers read it: they take `;x=1` off each segment, before they decode it.
fn without_first_parameters(path: &str) -> Option<String> {
    let (before, rest) = path.split_once(';')?;
    let behind = rest.find('/').map_or("", |end| &rest[end..]);
    Some(format!("{before}{behind}"))
}

fn with_backslashes_turned(path: &str) -> Option<String> {
    path.contains('\\').then(|| path.replace('\\', "/"))
}

/// A path as a parser of URLs reads it, which leaves out tabs and line feeds wherever they are
/// (WHATWG URL, basic URL parser).
fn without_line_feeds(path: &str) -> Option<String> {
    const LEFT_OUT: [char; 3] = ['\t', '\n', '\r'];
    path.contains(LEFT_OUT).then(|| path.replace(LEFT_OUT, ""))
}

/// A path in which the first slashes in a row are one. Some programs do it where the path begins,
/// or where it begins once the prefix of its route is taken off; others everywhere.
fn with_first_slashes_merged(path: &str) -> Option<String> {
    let (before, rest) = path.split_once("//")?;
    Some(format!("{before}/{}", rest.trim_start_matches('/')))
}

/// A path without `//HOST`, as who resolves it against the URL of the server reads it (WHATWG URL,
/// relative slash state; any number of slashes comes before a host there). Only the first two
/// slashes in a row count: they begin the path, or do so once the prefix of its route is taken off.
fn without_host(path: &str) -> Option<String> {
    let (before, rest) = path.split_once("//")?;
    let behind = rest.trim_start_matches('/').split_once('/').map_or("", |(_, behind)| behind);
    Some(format!("{before}/{behind}"))
}

/// A path without `.` and `..`. An empty segment is one (RFC 3986, section 5.2.4).
fn with_dots_resolved(path: &str) -> Option<String> {
    if !path.contains("/.") {
        return None;
    }
    let mut segments = vec![];
    let mut rest = path.split('/').skip(1).peekable();
    while let Some(segment) = rest.next() {
        match segment {
            ".." => drop(segments.pop()),
            "." => {}
            segment => segments.push(segment),
        }
        if rest.peek().is_none() && matches!(segment, "." | "..") {
            segments.push("");
        }
    }
    changed(path, format!("/{}", segments.join("/")))
}

/// A path without the first `..`, which leads nowhere once the prefix of a route is taken off.
fn without_first_climb(path: &str) -> Option<String> {
    let is_name = |at: &usize| matches!(path.as_bytes().get(at + 3), None | Some(b'/'));
    let at = path.match_indices("/..").map(|(at, _)| at).find(is_name)?;
    let read = format!("{}{}", &path[..at], &path[at + 3..]);
    Some(if read.is_empty() { "/".to_owned() } else { read })
}

/// A name without dots at its end. What is nothing but dots leads elsewhere.
fn without_dots(name: &str) -> &str {
    let bare = name.trim_end_matches('.');
    if bare.trim_end().is_empty() { name } else { bare }
}

/// No name for one that is nothing but dots and spaces, and does not lead elsewhere.
fn without_blank(name: &str) -> &str {
    let is_blank = name.trim_end_matches(['.', ' ']).is_empty() && !matches!(name, "." | "..");
    if is_blank { "" } else { name }
}

/// A path without the dots and spaces at its end.
fn with_bare_end(path: &str) -> Option<String> {
    let bare = path.trim_end_matches(['.', ' ']);
    (bare.len() < path.len() && !bare.ends_with('/')).then(|| bare.to_owned())
}

/// A path without spaces at the end of names, and within those that have only dots beside them.
fn without_spaces(path: &str) -> Option<String> {
    if !path.contains(' ') {
        return None;
    }
    let names = path.split('/').map(|name| match name.trim_end_matches(['.', ' ']) {
        "" => name.replace(' ', ""),
        _ => name.trim_end_matches(' ').to_owned(),
    });
    changed(path, names.collect::<Vec<_>>().join("/"))
}

/// A name as who trims it reads it: without spaces of any kind, NUL, a byte order mark, and bytes
/// that are not UTF-8, since they may be a space in another encoding.
fn trimmed(name: &str) -> &str {
    name.trim_matches(|c: char| {
        c.is_whitespace() || c.is_control() || matches!(c, '\u{feff}' | '\u{fffd}')
    })
}

/// A path that has a slash at its end, and more than that, without it.
pub(super) fn without_slash(path: &str) -> Option<&str> {
    path.strip_suffix('/').filter(|bare| !bare.is_empty())
}
