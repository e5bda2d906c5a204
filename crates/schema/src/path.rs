//! Where in a message: `order.items[2].name`, `labels["a.b"]`, `[shop.v1.note].text`.
//!
//! | spelled | is |
//! |---|---|
//! | `name` | a field by its name in the `.proto` or in JSON; a key of a map |
//! | `[3]` | an element of a list; a key of a map |
//! | `["any text"]`, `[text]` | a key of a map, quoted as JSON where it holds a bracket |
//! | `[package.name]` in front of a path or after a dot | an extension |

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use crate::FieldError;

/// How many steps a path may have: more than messages nest.
const STEPS_MAX: usize = 200;

/// A path to a field, parsed once. It has 200 steps at most.
///
/// ```
/// use tidewire_schema::Path;
/// let path: Path = "order.items[2].labels[color]".parse()?;
/// assert_eq!(path.to_string(), "order.items[2].labels[color]");
/// # Ok::<(), tidewire_schema::FieldError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Path(Vec<Step>);

/// One step of a path.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Step {
    /// A field, or a key of a map.
    Name(String),
    /// What stands in brackets: an index, or a key of a map.
    Key(String),
}

impl Step {
    pub(crate) fn text(&self) -> &str {
        match self {
            Self::Name(text) | Self::Key(text) => text,
        }
    }

    /// The element of a list that it means.
    pub(crate) fn index(&self) -> Option<usize> {
        self.text().parse().ok()
    }
}

impl Path {
    /// The path to a field of the message itself, whatever characters its name has.
    pub fn field(name: impl Into<String>) -> Self {
        Self(vec![Step::Name(name.into())])
    }

    pub(crate) fn steps(&self) -> &[Step] {
        &self.0
    }

    /// The path without what follows the first `len` steps.
    pub(crate) fn up_to(&self, len: usize) -> Self {
        Self(self.0.iter().take(len).cloned().collect())
    }
}

impl FromStr for Path {
    type Err = FieldError;

    fn from_str(text: &str) -> Result<Self, FieldError> {
        let mut steps = Vec::new();
        let mut rest = text;
        let mut wants_name = true;
        loop {
            if rest.starts_with('[') {
                let (key, after) = in_brackets(rest).ok_or_else(|| wrong(text, "an open ["))?;
                steps.push(match wants_name {
                    true => Step::Name(format!("[{key}]")),
                    false => Step::Key(key.into_owned()),
                });
                rest = after;
            } else if wants_name {
                let end = rest.find(['.', '[', ']']).unwrap_or(rest.len());
                let (name, after) = rest.split_at(end);
                if name.is_empty() {
                    return Err(wrong(text, "a name is missing"));
                }
                steps.push(Step::Name(name.to_owned()));
                rest = after;
            }
            if steps.len() > STEPS_MAX {
                return Err(FieldError::new(
                    "",
                    format_args!("the path has over {STEPS_MAX} steps"),
                ));
            }
            wants_name = false;
            match rest.chars().next() {
                None => return Ok(Self(steps)),
                Some('.') => (rest, wants_name) = (&rest[1..], true),
                Some('[') => {}
                Some(_) => return Err(wrong(text, "a dot or [ is missing")),
            }
        }
    }
}

fn wrong(path: &str, why: &str) -> FieldError {
    FieldError::new(format_args!("{path:?}"), format_args!("not a path: {why}"))
}

/// What stands in the brackets at the front of `text`, and what follows them.
fn in_brackets(text: &str) -> Option<(Cow<'_, str>, &str)> {
    let inner = text.strip_prefix('[')?;
    if !inner.starts_with('"') {
        let (key, after) = inner.split_once(']')?;
        return Some((Cow::Borrowed(key), after));
    }
    let mut keys = serde_json::Deserializer::from_str(inner).into_iter::<String>();
    let key = keys.next()?.ok()?;
    let after = inner.get(keys.byte_offset()..)?;
    Some((Cow::Owned(key), after.strip_prefix(']')?))
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, step) in self.0.iter().enumerate() {
            match step {
                Step::Name(name) if index == 0 => f.write_str(name)?,
                Step::Name(name) => write!(f, ".{name}")?,
                Step::Key(key) if key.contains([']', '"']) => write!(f, "[{key:?}]")?,
                Step::Key(key) => write!(f, "[{key}]")?,
            }
        }
        Ok(())
    }
}

/// A path, or text that is one.
pub trait AsPath: sealed::Sealed {
    /// The parsed path.
    ///
    /// # Errors
    /// When the text is not a path.
    fn as_path(&self) -> Result<Cow<'_, Path>, FieldError>;
}

impl AsPath for &Path {
    fn as_path(&self) -> Result<Cow<'_, Path>, FieldError> {
        Ok(Cow::Borrowed(self))
    }
}

impl AsPath for &str {
    fn as_path(&self) -> Result<Cow<'_, Path>, FieldError> {
        self.parse().map(Cow::Owned)
    }
}

impl AsPath for &String {
    fn as_path(&self) -> Result<Cow<'_, Path>, FieldError> {
        self.parse().map(Cow::Owned)
    }
}

mod sealed {
    pub trait Sealed {}
    impl Sealed for &super::Path {}
    impl Sealed for &str {}
    impl Sealed for &String {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, steps: &[&str]) {
        let path: Path = text.parse().expect("it is a path");
        let found: Vec<&str> = path.0.iter().map(Step::text).collect();
        assert_eq!(found, steps);
        assert_eq!(path.to_string().parse::<Path>().as_ref(), Ok(&path), "it reads back");
    }

    #[test]
    fn names_indexes_keys_and_extensions_are_steps() {
        check("a", &["a"]);
        check("a.b[2].c", &["a", "b", "2", "c"]);
        check("labels[a.b].x", &["labels", "a.b", "x"]);
        check(r#"labels["a]\"b"][0]"#, &["labels", "a]\"b", "0"]);
        check("[shop.v1.note].text", &["[shop.v1.note]", "text"]);
        check("a.[shop.v1.note]", &["a", "[shop.v1.note]"]);
        check("münze.über", &["münze", "über"]);
        check("a[]", &["a", ""]);
    }

    #[test]
    fn a_path_without_end_is_refused() {
        let error = "a.".repeat(100_000).parse::<Path>().expect_err("it is too long");
        assert!(error.to_string().contains("over 200 steps"), "{error}");
    }

    #[test]
    fn what_is_no_path_says_why() {
        for text in ["", ".", "a.", ".a", "a..b", "a[", "a[1", "a]", "a[1]b", "a[\"x]", "[a"] {
            let error = text.parse::<Path>().expect_err(text);
            assert!(error.to_string().contains("not a path"), "{text}: {error}");
        }
    }
}
