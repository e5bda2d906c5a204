//! Comments of a `.proto` as doc comments that `rustdoc` shows as they were written.
//!
//! A proto comment is text, not Markdown for Rust: indented lines would become doctests, brackets
//! links to Rust items that do not exist, angle brackets HTML. Code spans stay as they are; fenced
//! and indented blocks become `text`.

use buffa_codegen::generated::descriptor::FileDescriptorProto;
use proc_macro2::TokenStream;
use quote::quote;

/// The comment at `path` of `file`: the one before it, or else the one after it.
pub(crate) fn at<'a>(file: &'a FileDescriptorProto, path: &[i32]) -> Option<&'a str> {
    let info = file.source_code_info.as_option()?;
    let place = info.location.iter().find(|place| place.path == path)?;
    let comment = place.leading_comments.as_deref().or(place.trailing_comments.as_deref());
    comment.filter(|comment| !comment.trim().is_empty())
}

/// `#[doc = …]` for each line of `comment`, or of `otherwise` where there is none.
pub(crate) fn doc(comment: Option<&str>, otherwise: &str) -> TokenStream {
    let lines = match comment {
        Some(comment) => lines(comment),
        None => vec![otherwise.to_owned()],
    };
    let lines = lines.iter().map(|line| match line.as_str() {
        "" => String::new(),
        line => format!(" {line}"),
    });
    quote! { #(#[doc = #lines])* }
}

/// `code` with every fenced block in its doc comments marked as `text`.
///
/// The generator of messages leaves fences as the author of the `.proto` wrote them, and `rustdoc`
/// takes one without a language, or with Rust's, for a test.
pub(crate) fn without_doctests(code: &str) -> String {
    let mut out = String::with_capacity(code.len());
    let mut open = None;
    for line in code.lines() {
        let comment = line.trim_start().strip_prefix("///");
        let mark = comment.and_then(fence);
        let bare = comment.is_some_and(is_bare);
        out.push_str(line);
        match (mark, open) {
            _ if comment.is_none() => open = None,
            (Some(mark), Some(opened)) if mark == opened && bare => open = None,
            (Some(mark), None) => {
                let start = line.find(mark).unwrap_or(line.len());
                let info = line[start..].trim_start_matches(mark).len();
                out.truncate(out.len() - info);
                out.push_str("text");
                open = Some(mark);
            }
            _ => {}
        }
        out.push('\n');
    }
    out
}

/// The lines of a comment, made harmless.
fn lines(comment: &str) -> Vec<String> {
    let mut lines = Vec::new();
    let mut block = Block::None;
    for line in comment.trim_end().lines() {
        let line = line.strip_prefix(' ').unwrap_or(line).trim_end();
        let fence = fence(line);
        match (block, fence) {
            (Block::Fenced(open), Some(mark)) if mark == open && is_bare(line) => {
                lines.push(FENCE_END.to_owned());
                block = Block::None;
                continue;
            }
            (Block::Fenced(_), _) => {
                lines.push(line.replace(FENCE_END, "```"));
                continue;
            }
            _ => {}
        }
        let starts = lines.last().is_none_or(|last: &String| last.is_empty());
        if is_indented(line) && (starts || block == Block::Indented) {
            if block == Block::None {
                lines.push(FENCE_START.to_owned());
                block = Block::Indented;
            }
            lines.push(unindented(line).replace(FENCE_END, "```"));
            continue;
        }
        if block == Block::Indented {
            lines.push(FENCE_END.to_owned());
            block = Block::None;
        }
        if let Some(mark) = fence {
            lines.push(FENCE_START.to_owned());
            block = Block::Fenced(mark);
        } else {
            lines.push(prose(line));
        }
    }
    if block != Block::None {
        lines.push(FENCE_END.to_owned());
    }
    lines
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Block {
    None,
    Indented,
    Fenced(char),
}

/// The character of the fence that `line` opens or closes.
fn fence(line: &str) -> Option<char> {
    let line = line.trim_start();
    ['`', '~'].into_iter().find(|mark| line.starts_with(&mark.to_string().repeat(3)))
}

fn is_bare(line: &str) -> bool {
    line.trim().chars().all(|c| c == '`' || c == '~')
}

fn is_indented(line: &str) -> bool {
    line.starts_with("    ") || line.starts_with('\t')
}

fn unindented(line: &str) -> &str {
    line.strip_prefix("    ").or_else(|| line.strip_prefix('\t')).unwrap_or(line)
}

/// One line of prose: what Markdown would read as a link, HTML or an escape is escaped.
fn prose(line: &str) -> String {
    // Indented this far it would be code after a blank line; a list needs no more than two.
    let text = line.trim_start();
    let indent = (line.len() - text.len()).min(2);
    let mut out = " ".repeat(indent);
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        if let Some(span) = code_span(rest) {
            out.push_str(span);
            rest = &rest[span.len()..];
            continue;
        }
        if let Some(url) = url(rest) {
            out.push_str(&format!("<{url}>"));
            rest = &rest[url.len()..];
            continue;
        }
        if "[]<>\\`".contains(c) {
            out.push('\\');
        }
        out.push(c);
        rest = &rest[c.len_utf8()..];
    }
    out
}

/// The code span that `text` begins with, backticks included.
fn code_span(text: &str) -> Option<&str> {
    let ticks = text.len() - text.trim_start_matches('`').len();
    if ticks == 0 {
        return None;
    }
    let end = text[ticks..].find(&text[..ticks])? + 2 * ticks;
    Some(&text[..end])
}

/// The address that `text` begins with.
fn url(text: &str) -> Option<&str> {
    if !text.starts_with("http://") && !text.starts_with("https://") {
        return None;
    }
    let end = text.find(|c: char| c.is_whitespace() || "<>()[]`\"'\\".contains(c));
    let url = text[..end.unwrap_or(text.len())].trim_end_matches(['.', ',', ';', ':', '!', '?']);
    (url.len() > "https://".len()).then_some(url)
}

const FENCE_START: &str = "````text";
const FENCE_END: &str = "````";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_fence_stays_a_doctest() {
        let check = |code: &str, expected: &str| assert_eq!(without_doctests(code), expected);
        check("/// ```\n/// a\n/// ```\nfn a() {}\n", "/// ```text\n/// a\n/// ```\nfn a() {}\n");
        check("  ///~~~~rust,no_run\n", "  ///~~~~text\n");
        check("/// ```text\n/// ~~~\n/// ```\n", "/// ```text\n/// ~~~\n/// ```\n");
        check("/// ```\nfn a() {}\n/// ```rust\n", "/// ```text\nfn a() {}\n/// ```text\n");
    }

    #[test]
    fn comments_are_shown_as_they_were_written() {
        let check = |comment: &str, expected: &[&str]| assert_eq!(lines(comment), expected);
        check(" Gets it.\n\n At once.\n", &["Gets it.", "", "At once."]);
        check(" See [Foo] and <b>.", &["See \\[Foo\\] and \\<b\\>."]);
        check(" Code `a[0] <b>` stays, ` does not.", &["Code `a[0] <b>` stays, \\` does not."]);
        check(
            " For example:\n\n     let a = 1;\n\n Done.",
            &["For example:", "", "````text", "let a = 1;", "````", "", "Done."],
        );
        check(" - one\n     more of it", &["- one", "  more of it"]);
        check(" ```rust\n panic!()\n ```\n Done.", &["````text", "panic!()", "````", "Done."]);
        check(" ~~~\n never closed", &["````text", "never closed", "````"]);
        check(" See https://a.b/c?d[1].", &["See <https://a.b/c?d>\\[1\\]."]);
        check(" C:\\dir", &["C:\\\\dir"]);
    }
}
