//! Text with `{{name}}` in it: values from feeders and earlier answers, and generated ones.
//!
//! `{{seq}}` counts requests, `{{random 1..100}}` draws a whole number, `{{uuid}}` a random
//! version 4 UUID. Any other name is a variable, which must be known when the template is parsed.

use std::fmt::Write as _;

/// The variables of a workload by name.
#[derive(Debug, Clone, Default)]
pub struct Names(Vec<String>);

impl Names {
    /// The number of a variable.
    pub fn find(&self, name: &str) -> Option<usize> {
        self.0.iter().position(|known| known == name)
    }

    /// The number of a variable, a new one if need be.
    pub fn intern(&mut self, name: &str) -> usize {
        self.find(name).unwrap_or_else(|| {
            self.0.push(name.to_owned());
            self.0.len() - 1
        })
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.0.len()
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    Text(String),
    Variable(usize),
    Sequence,
    Random(i64, i64),
    Uuid,
}

/// Parsed text with places to fill.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Template(Vec<Part>);

/// What generated values are made from.
#[derive(Debug)]
pub struct Generator {
    pub random: fastrand::Rng,
    pub sequence: u64,
    pub stride: u64,
}

impl Template {
    /// Parses `text`; the error is for a person.
    pub fn parse(text: &str, names: &Names) -> Result<Self, String> {
        let mut parts = Vec::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once("{{") {
            let (name, after) =
                after.split_once("}}").ok_or_else(|| format!("{{{{ without }}}} in {text:?}"))?;
            if !before.is_empty() {
                parts.push(Part::Text(before.to_owned()));
            }
            parts.push(place(name.trim(), names)?);
            rest = after;
        }
        if !rest.is_empty() {
            parts.push(Part::Text(rest.to_owned()));
        }
        Ok(Self(parts))
    }

    /// Text that is always the same, whatever it contains.
    #[must_use]
    pub fn literal(text: &str) -> Self {
        Self(vec![Part::Text(text.to_owned())])
    }

    pub(crate) fn is_fixed(&self) -> bool {
        self.0.iter().all(|part| matches!(part, Part::Text(_)))
    }

    /// The text, if it is always the same.
    pub fn fixed(&self) -> Option<String> {
        let text = |part: &Part| match part {
            Part::Text(text) => Some(text.clone()),
            _ => None,
        };
        self.0.iter().map(text).collect()
    }

    pub(crate) fn render(&self, values: &[String], generator: &mut Generator) -> String {
        let mut out = String::new();
        for part in &self.0 {
            match part {
                Part::Text(text) => out.push_str(text),
                Part::Variable(index) => out.push_str(&values[*index]),
                Part::Sequence => {
                    let _ = write!(out, "{}", generator.sequence);
                }
                Part::Random(low, high) => {
                    let _ = write!(out, "{}", generator.random.i64(*low..=*high));
                }
                Part::Uuid => push_uuid(&mut out, generator.random.u128(..)),
            }
        }
        out
    }
}

fn place(name: &str, names: &Names) -> Result<Part, String> {
    if let Some(range) = name.strip_prefix("random ") {
        let bounds = range
            .split_once("..")
            .and_then(|(low, high)| Some((low.trim().parse().ok()?, high.trim().parse().ok()?)));
        return match bounds {
            Some((low, high)) if low <= high => Ok(Part::Random(low, high)),
            _ => Err(format!("{{{{{name}}}}}: write {{{{random 1..100}}}}")),
        };
    }
    match (name, names.find(name)) {
        (_, Some(index)) => Ok(Part::Variable(index)),
        ("seq", None) => Ok(Part::Sequence),
        ("uuid", None) => Ok(Part::Uuid),
        (_, None) => {
            Err(format!("{{{{{name}}}}} is not a column of a feeder and nothing extracted before"))
        }
    }
}

fn push_uuid(out: &mut String, bits: u128) {
    let bits = bits & !(0xf << 76) | (4 << 76);
    let bits = bits & !(0x3 << 62) | (2 << 62);
    let hex = format!("{bits:032x}");
    for (index, digits) in
        [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]].into_iter().enumerate()
    {
        if index > 0 {
            out.push('-');
        }
        out.push_str(digits);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_filled() {
        let mut names = Names::default();
        names.intern("id");
        let mut generator =
            Generator { random: fastrand::Rng::with_seed(1), sequence: 7, stride: 1 };
        let mut render = |text| {
            Template::parse(text, &names).unwrap().render(&["42".to_owned()], &mut generator)
        };
        assert_eq!(render("/contacts/{{id}}?n={{ seq }}"), "/contacts/42?n=7");
        let drawn: i64 = render("{{random 5..6}}").parse().unwrap();
        assert!((5..=6).contains(&drawn));
        let uuid = render("{{uuid}}");
        assert_eq!((uuid.len(), uuid.as_bytes()[14]), (36, b'4'));
    }

    #[test]
    fn unknown_names_and_open_braces_are_refused() {
        let names = Names::default();
        assert!(Template::parse("{{nope}}", &names).unwrap_err().contains("{{nope}}"));
        assert!(Template::parse("{{seq", &names).unwrap_err().contains("without"));
        assert!(Template::parse("{{random 9..1}}", &names).is_err());
    }
}
