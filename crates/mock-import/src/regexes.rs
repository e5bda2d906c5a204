//! Patterns of other programs as patterns of rules, which are those of JavaScript.
//!
//! | of | fits | what JavaScript does not have |
//! |---|---|---|
//! | Go (RE2) | a part of the text | is said in CEL, whose `matches` is RE2 too |
//! | `path.Match` of Go | all of the text; `*` and `?` no slash | nothing |
//! | Java | all of the text, and `.` also ends of lines | cannot be carried over |

use regex::{Regex, RegexBuilder};
use tidewire_mock::document::Node;

use crate::cel::quote;
use crate::nodes::{object, one, text};

/// A pattern.
#[derive(Debug, Clone)]
pub(crate) struct Pattern {
    /// For RE2.
    re2: String,
    /// For JavaScript.
    javascript: Option<JavaScript>,
    /// To try it; Java has patterns that this library has not.
    compiled: Option<Regex>,
    is_of_go: bool,
}

/// A pattern of JavaScript.
#[derive(Debug, Clone, PartialEq, Eq)]
struct JavaScript {
    pattern: String,
    flags: String,
}

/// The most bytes a compiled pattern may have here.
const COMPILED_MAX: usize = 1 << 20;

fn compile(pattern: &str) -> Result<Regex, String> {
    let built = RegexBuilder::new(pattern).size_limit(COMPILED_MAX).build();
    built.map_err(|why| {
        let last = why.to_string();
        let last = last.lines().last().unwrap_or_default().trim_start_matches("error: ").to_owned();
        format!("the pattern does not compile: {last}")
    })
}

impl Pattern {
    /// A pattern of `regexp` of Go, of which a part of the text is enough.
    pub(crate) fn of_go(pattern: &str) -> Result<Self, String> {
        let compiled = Some(compile(pattern)?);
        let javascript = translate(pattern, false).ok();
        Ok(Self { re2: pattern.to_owned(), javascript, compiled, is_of_go: true })
    }

    /// A pattern of `path.Match` of Go.
    pub(crate) fn of_go_glob(pattern: &str) -> Result<Self, String> {
        let mut out = String::from("^");
        let mut rest = pattern.chars();
        while let Some(c) = rest.next() {
            match c {
                '*' => out.push_str("[^/]*"),
                '?' => out.push_str("[^/]"),
                '\\' => {
                    let c = rest.next().ok_or("the glob ends with a backslash")?;
                    out.push_str(&regex::escape(&c.to_string()));
                }
                '[' => {
                    out.push('[');
                    let class: String = rest.by_ref().take_while(|c| *c != ']').collect();
                    out.push_str(&class);
                    out.push(']');
                }
                c => out.push_str(&regex::escape(&c.to_string())),
            }
        }
        out.push('$');
        let made = Self::of_go(&out)?;
        Ok(Self { compiled: Some(compile(&out)?), ..made })
    }

    /// A pattern of Java that has to fit all of the text.
    pub(crate) fn of_java(pattern: &str) -> Result<Self, String> {
        let JavaScript { pattern: inner, flags } = translate(pattern, true)?;
        let flags = match flags.contains('s') {
            true => flags,
            false => format!("{flags}s"),
        };
        let compiled = compile(&format!("^(?s:{pattern})$")).ok();
        let re2 = format!("^(?s:{pattern})$");
        let javascript = Some(JavaScript { pattern: format!("^(?:{inner})$"), flags });
        Ok(Self { re2, javascript, compiled, is_of_go: false })
    }

    pub(crate) fn is_of_go(&self) -> bool {
        self.is_of_go
    }

    /// The pattern for `matches` of CEL.
    pub(crate) fn re2(&self) -> &str {
        &self.re2
    }

    /// Whether it fits a text.
    ///
    /// # Errors
    /// When this crate cannot try it.
    pub(crate) fn is_match(&self, text: &str) -> Result<bool, String> {
        let compiled = self.compiled.as_ref();
        let compiled = compiled.ok_or("this pattern of Java is only known for texts")?;
        Ok(compiled.is_match(text))
    }

    /// The test of a text.
    pub(crate) fn test(&self) -> Node {
        match &self.javascript {
            Some(JavaScript { pattern, flags }) if flags.is_empty() => {
                one("regex", text(pattern.as_str()))
            }
            Some(JavaScript { pattern, flags }) => object(vec![
                ("regex".to_owned(), text(pattern.as_str())),
                ("flags".to_owned(), text(flags.as_str())),
            ]),
            None => one("cel", text(format!("string(this).matches({})", quote(&self.re2)))),
        }
    }
}

/// A pattern in the syntax of JavaScript, and its flags.
///
/// # Errors
/// What JavaScript does not have.
fn translate(pattern: &str, is_java: bool) -> Result<JavaScript, String> {
    let no = |what: &str| no_counterpart(what);
    let Start { flags, rest } = start(pattern);
    let mut out = String::new();
    let mut chars = rest.chars().peekable();
    let mut in_class = false;
    while let Some(c) = chars.next() {
        match c {
            '\\' => escape(&mut chars, &mut out, &flags, is_java)?,
            '[' if in_class && chars.peek() == Some(&':') => return no("[:name:]"),
            '[' if in_class && is_java => return no("a class within a class"),
            '[' if in_class => out.push_str("\\["),
            '[' => {
                in_class = true;
                out.push('[');
                if chars.peek() == Some(&'^') {
                    out.extend(chars.next());
                }
                // A bracket in the first place is one of its characters.
                if chars.peek() == Some(&']') {
                    chars.next();
                    out.push_str("\\]");
                }
            }
            '&' if in_class && is_java && chars.peek() == Some(&'&') => return no("&&"),
            ']' if in_class => {
                in_class = false;
                out.push(']');
            }
            '(' if !in_class && chars.peek() == Some(&'?') => {
                chars.next();
                out.push_str("(?");
                match chars.peek() {
                    Some(':' | '=' | '!') => {}
                    Some('P') if !is_java => {
                        chars.next();
                        if chars.peek() != Some(&'<') {
                            return no("(?P");
                        }
                    }
                    Some('<') => {}
                    _ => return no("a group with flags within the pattern"),
                }
            }
            '*' | '+' | '?' | '}' if !in_class => {
                out.push(c);
                if is_java && chars.peek() == Some(&'+') {
                    return no("a possessive quantifier");
                }
            }
            c => out.push(c),
        }
    }
    match in_class {
        true => no("a class without its end"),
        false => Ok(JavaScript { pattern: out, flags }),
    }
}

/// What follows a backslash.
fn escape(
    chars: &mut std::iter::Peekable<std::str::Chars<'_>>,
    out: &mut String,
    flags: &str,
    is_java: bool,
) -> Result<(), String> {
    let Some(c) = chars.next() else { return no_counterpart("a backslash at the end") };
    match c {
        'A' if !flags.contains('m') => out.push('^'),
        'z' | 'Z' if !flags.contains('m') && (is_java || c == 'z') => out.push('$'),
        'Q' => {
            let mut quoted = String::new();
            for c in chars.by_ref() {
                quoted.push(c);
                if quoted.ends_with("\\E") {
                    quoted.truncate(quoted.len() - 2);
                    break;
                }
            }
            out.push_str(&regex::escape(&quoted));
        }
        'd' | 'D' | 'w' | 'W' | 's' | 'S' | 'b' | 'B' | 'n' | 'r' | 't' | 'f' | 'v' => {
            out.extend(['\\', c]);
        }
        c if c.is_ascii_digit() && is_java && c != '0' => out.extend(['\\', c]),
        c if c.is_ascii_punctuation() => out.extend(['\\', c]),
        'x' | 'u' => {
            // Two or four digits are the same in all of them.
            let count = if c == 'x' { 2 } else { 4 };
            let digits: String = chars.clone().take(count).collect();
            if digits.len() != count || !digits.chars().all(|c| c.is_ascii_hexdigit()) {
                return no_counterpart(&format!("\\{c}{{…}}"));
            }
            out.extend(['\\', c]);
        }
        c => return no_counterpart(&format!("\\{c}")),
    }
    Ok(())
}

fn no_counterpart<T>(what: &str) -> Result<T, String> {
    Err(format!("{what} has no counterpart in patterns of rules"))
}

/// The flags with which a pattern begins, and what follows them.
struct Start<'p> {
    flags: String,
    rest: &'p str,
}

fn start(pattern: &str) -> Start<'_> {
    let mut flags = String::new();
    let mut rest = pattern;
    while let Some(inside) = rest.strip_prefix("(?") {
        let Some(end) = inside.find(')') else { break };
        let named = &inside[..end];
        if named.is_empty() || !named.chars().all(|c| matches!(c, 'i' | 's' | 'm')) {
            break;
        }
        flags.extend(named.chars().filter(|c| !flags.contains(*c)).collect::<Vec<_>>());
        rest = &inside[end + 1..];
    }
    Start { flags, rest }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_is_one_of_javascript_or_is_told_why_not() {
        let check = |pattern, is_java, expected: Result<(&str, &str), &str>| {
            let made = translate(pattern, is_java);
            let expected = expected
                .map(|(pattern, flags)| JavaScript {
                    pattern: pattern.to_owned(),
                    flags: flags.to_owned(),
                })
                .map_err(|what| format!("{what} has no counterpart in patterns of rules"));
            assert_eq!(made, expected, "{pattern}");
        };
        check(r"^SK-\d+$", false, Ok((r"^SK-\d+$", "")));
        check("(?i)tea", false, Ok(("tea", "i")));
        check(r"\Aa\z", false, Ok(("^a$", "")));
        check("(?P<n>a)", false, Ok(("(?<n>a)", "")));
        check("[[:alpha:]]", false, Err("[:name:]"));
        check(r"\pL", false, Err(r"\p"));
        check(r"a++", true, Err("a possessive quantifier"));
        check("[a&&b]", true, Err("&&"));
        check("a(?i)b", true, Err("a group with flags within the pattern"));
        check(r"\Qa.b\E+", true, Ok((r"a\.b+", "")));
    }

    #[test]
    fn a_glob_of_go_stops_at_a_slash() {
        let glob = Pattern::of_go_glob("a*.b?").unwrap();
        for (text, fits) in [("axx.bc", true), ("a/x.bc", false), ("ax.b", false), ("axybc", false)]
        {
            assert_eq!(glob.is_match(text), Ok(fits), "{text}");
        }
    }
}
