//! The text that Prometheus reads: exposition format 0.0.4, or OpenMetrics 1.0 for whoever asks for
//! it.
//!
//! They differ in how counters are called where they are declared, in exemplars, and in the end.

use std::fmt::{Display, Write as _};

use crate::exemplar::Exemplar;
use crate::histogram::{BOUNDS, BucketCounts};

/// How a text of metrics is written.
///
/// ```
/// # mod tidewire { pub mod telemetry { pub use tidewire_telemetry::*; } }
/// use tidewire::telemetry::Format;
///
/// let format = Format::asked_by("application/openmetrics-text; version=1.0.0");
/// assert_eq!(format, Format::OpenMetrics);
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum Format {
    /// The exposition format of Prometheus, 0.0.4.
    #[default]
    Prometheus,
    /// OpenMetrics 1.0, with exemplars.
    OpenMetrics,
}

/// A text of metrics being written, family by family.
///
/// Numbers of the program itself beside those of its calls:
///
/// ```
/// # mod tidewire { pub mod telemetry { pub use tidewire_telemetry::*; } }
/// use tidewire::telemetry::{Exposition, Format};
///
/// let mut text = Exposition::new(Format::Prometheus);
/// text.family("shop_baskets", "gauge", "Baskets that are open.");
/// text.sample("", &[("country", "nl".to_owned())], 3);
/// assert!(text.into_text().contains("shop_baskets{country=\"nl\"} 3"));
/// ```
#[derive(Debug, Default)]
pub struct Exposition {
    text: String,
    family: &'static str,
    format: Format,
}

impl Exposition {
    /// An empty text.
    pub fn new(format: Format) -> Self {
        Self { format, ..Self::default() }
    }

    /// Begins a family; `kind` is `counter`, `gauge` or `histogram`.
    pub fn family(&mut self, name: &'static str, kind: &str, about: &str) {
        self.family = name;
        let name = match self.format {
            Format::OpenMetrics if kind == "counter" => name.trim_end_matches("_total"),
            _ => name,
        };
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

    /// Adds an exemplar to the sample before.
    fn exemplar(&mut self, exemplar: &Exemplar) {
        self.text.truncate(self.text.trim_end_matches('\n').len());
        let seconds = seconds(exemplar.microseconds);
        let at = exemplar.at_ms as f64 / 1e3;
        let trace = &exemplar.trace;
        let _ = writeln!(self.text, " # {{trace_id=\"{trace}\"}} {seconds} {at}");
    }

    /// Writes a histogram of the family.
    pub(crate) fn histogram(
        &mut self,
        labels: &[(&str, String)],
        counted: &BucketCounts,
        exemplars: &[Option<Exemplar>],
    ) {
        let ends = BOUNDS.iter().map(|bound| seconds(*bound)).chain(["+Inf".to_owned()]);
        for (bucket, (end, count)) in ends.zip(counted.cumulative).enumerate() {
            let labels: Vec<_> = labels.iter().cloned().chain([("le", end)]).collect();
            self.sample("_bucket", &labels, count);
            if self.format == Format::OpenMetrics
                && let Some(Some(exemplar)) = exemplars.get(bucket)
            {
                self.exemplar(exemplar);
            }
        }
        self.sample("_sum", labels, seconds(counted.microseconds));
        self.sample("_count", labels, counted.all());
    }

    /// The text.
    pub fn into_text(mut self) -> String {
        if self.format == Format::OpenMetrics {
            self.text.push_str("# EOF\n");
        }
        self.text
    }
}

impl Format {
    /// The format that an `accept` header asks for.
    pub fn asked_by(accept: &str) -> Self {
        let names = |part: &str| part.trim().starts_with("application/openmetrics-text");
        let refused = |part: &str| part.replace(' ', "").ends_with(";q=0");
        match accept.split(',').any(|part| names(part) && !refused(part)) {
            true => Self::OpenMetrics,
            false => Self::Prometheus,
        }
    }

    /// What such a text is called in `content-type`.
    pub const fn content_type(self) -> &'static str {
        match self {
            Self::Prometheus => "text/plain; version=0.0.4; charset=utf-8",
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
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
