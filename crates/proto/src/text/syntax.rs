//! Looking at the first statement of a `.proto`, before the parser does.
//!
//! The parser knows `syntax = …` only. Here an `edition = …` is met first: 2023 is written for the
//! parser in another way, by [`edition`](crate::text::edition), and others are refused.

/// An `edition = "…"` statement.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Edition<'a> {
    /// What is between the quotes.
    pub(crate) name: &'a str,
    /// The byte at which the statement begins.
    pub(crate) offset: usize,
}

/// The edition that `source` declares, when its first statement is one.
pub(crate) fn edition(source: &str) -> Option<Edition<'_>> {
    let statement = skip_blank(source);
    let offset = source.len() - statement.len();
    let rest = skip_blank(statement.strip_prefix("edition")?);
    let rest = skip_blank(rest.strip_prefix('=')?);
    let name = rest.split(['"', '\'']).nth(1).unwrap_or_default();
    Some(Edition { name, offset })
}

/// `text` from its first character that is neither blank nor comment.
fn skip_blank(mut text: &str) -> &str {
    loop {
        text = text.trim_start();
        let rest = if text.starts_with("//") {
            text.split_once('\n').map_or("", |(_, rest)| rest)
        } else if text.starts_with("/*") {
            text.split_once("*/").map_or("", |(_, rest)| rest)
        } else {
            return text;
        };
        text = rest;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_edition_is_found_behind_comments_only_as_first_statement() {
        let check = |source, expected: Option<(&str, usize)>| {
            let expected = expected.map(|(name, offset)| Edition { name, offset });
            assert_eq!(edition(source), expected, "{source}");
        };
        check("edition = \"2023\";", Some(("2023", 0)));
        check("// a\n/* b */ edition='2024';", Some(("2024", 13)));
        check("edition /* c */ = \"2023\";", Some(("2023", 0)));
        check("syntax = \"proto3\";\nmessage edition {}", None);
        check("message A { int32 edition = 1; }", None);
        check("/* never closed", None);
        check("", None);
    }
}
