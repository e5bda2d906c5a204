//! What is wrong with a configuration, said so that it can be mended.

use std::fmt;
use std::path::Path;

/// What is wrong with a configuration.
///
/// ```
/// use tidewire::config::Config;
///
/// let error = Config::parse("[server]\nlisen = \"127.0.0.1:8080\"\n", "tidewire.toml").unwrap_err();
/// let text = error.to_string();
/// assert!(text.contains("tidewire.toml") && text.contains("did you mean listen"), "{text}");
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigError(String);

impl ConfigError {
    pub(crate) fn new(text: String) -> Self {
        Self(text)
    }

    /// The setting that it begins with, `auth.jwt.keys`.
    pub(super) fn key(&self) -> Option<&str> {
        let key = self.0.split([' ', ':']).next()?;
        key.contains('.').then_some(key)
    }

    pub(super) fn file(path: &Path, error: &std::io::Error) -> Self {
        Self(format!("cannot read {}: {error}", path.display()))
    }

    /// A value from elsewhere than a file that does not fit.
    pub(super) fn value(name: &str, error: &toml::de::Error) -> Self {
        Self(format!("{name}: {}", explain(error.message())))
    }

    pub(super) fn unknown(what: &str, name: &str, known: &[&str]) -> Self {
        Self(format!("unknown {what} {name}{}", suggestion(name, known)))
    }
}

/// Whether only something is missing, which may come from elsewhere.
pub(super) fn is_lack(error: &toml::de::Error) -> bool {
    error.message().starts_with("missing field")
}

/// Serde's words in ours: for an unknown key with the nearest known one, for a wrong type with what
/// to write.
pub(super) fn explain(message: &str) -> String {
    let Some(rest) = message.strip_prefix("unknown field `") else {
        let message = message.trim_end();
        let known = WANTED.iter().find_map(|(serde, ours)| {
            message.strip_suffix(serde).map(|before| format!("{before}{ours}"))
        });
        return known.unwrap_or_else(|| message.to_owned());
    };
    let mut quoted = rest.split('`');
    let name = quoted.next().unwrap_or_default();
    let known: Vec<_> = quoted.skip(1).step_by(2).collect();
    format!("unknown key {name}{}", suggestion(name, &known))
}

/// What serde calls a type, and what a reader of TOML does.
const WANTED: [(&str, &str); 8] = [
    ("expected a sequence", "expected a list, such as [\"a\"]"),
    ("expected a map", "expected a table, such as { NAME = \"value\" }"),
    ("expected a string", "expected a text in quotation marks"),
    ("wanted string or table", "expected a text in quotation marks"),
    ("expected a boolean", "expected true or false"),
    ("expected usize", "expected a whole number, 0 or more"),
    ("expected u32", "expected a whole number, 0 or more"),
    ("expected u64", "expected a whole number, 0 or more"),
];

/// `; did you mean x?` for a near name, otherwise all of them.
fn suggestion(name: &str, known: &[&str]) -> String {
    const NEAR: f64 = 0.8;
    let best = known
        .iter()
        .map(|known| (strsim::jaro_winkler(name, known), known))
        .max_by(|a, b| a.0.total_cmp(&b.0));
    match best {
        Some((likeness, known)) if likeness >= NEAR => format!("; did you mean {known}?"),
        Some(_) => format!("; there is {}", known.join(", ")),
        None => String::new(),
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for ConfigError {}
