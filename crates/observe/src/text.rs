//! The text that Prometheus reads (exposition format 0.0.4).

use std::fmt::{Display, Write as _};

use crate::histogram::{BOUNDS, Counted};

/// A text of metrics being written, family by family.
#[derive(Debug, Default)]
pub struct Exposition {
    text: String,
    family: &'static str,
}

impl Exposition {
    /// What such a text is called in `content-type`.
    pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

    /// Begins a family; `kind` is `counter`, `gauge` or `histogram`.
    pub fn family(&mut self, name: &'static str, kind: &str, about: &str) {
        self.family = name;
        let _ = writeln!(self.text, "# HELP {name} {about}\n# TYPE {name} {kind}");
    }

    /// Writes a sample of the family, with what comes behind its name.
    pub fn sample(&mut self, suffix: &str, labels: &[(&str, String)], value: impl Display) {
        let _ = write!(self.text, "{}{suffix}", self.family);
        for (index, (name, value)) in labels.iter().enumerate() {
            let opens = if index == 0 { '{' } else { ',' };
            let value = value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
            let _ = write!(self.text, "{opens}{name}=\"{value}\"");
        }
        let closes = if labels.is_empty() { "" } else { "}" };
        let _ = writeln!(self.text, "{closes} {value}");
    }

    /// Writes a histogram of the family.
    pub(crate) fn histogram(&mut self, labels: &[(&str, String)], counted: &Counted) {
        let ends = BOUNDS.iter().map(|bound| seconds(*bound)).chain(["+Inf".to_owned()]);
        for (end, count) in ends.zip(counted.cumulative) {
            let labels: Vec<_> = labels.iter().cloned().chain([("le", end)]).collect();
            self.sample("_bucket", &labels, count);
        }
        self.sample("_sum", labels, seconds(counted.microseconds));
        self.sample("_count", labels, counted.all());
    }

    /// The text.
    pub fn into_text(self) -> String {
        self.text
    }
}

fn seconds(microseconds: u64) -> String {
    (microseconds as f64 / 1e6).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_labels_cannot_end_their_line() {
        let mut text = Exposition::default();
        text.family("a_total", "counter", "All.");
        text.sample("", &[("name", "a\"b\\c\nd".to_owned())], 1);
        text.sample("", &[], 0.5);
        let expected = "# HELP a_total All.\n# TYPE a_total counter\n\
                        a_total{name=\"a\\\"b\\\\c\\nd\"} 1\na_total 0.5\n";
        assert_eq!(text.into_text(), expected);
    }
}
