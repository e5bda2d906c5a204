//! Checks of an answer, and values extracted from it.

use crate::accepted::{AcceptedStatus, status_failure};
use crate::failure::Failure;
use crate::reply::{Answer, ReplyParts};
use crate::template::{Generator, Template};

/// Something that must hold for an answer to count.
#[derive(Debug, Clone)]
pub enum Check {
    /// The status is one of these.
    Status(Vec<AcceptedStatus>),
    /// A header of this name contains the text.
    Header(String, Template),
    /// The body is the text, byte for byte.
    BodyEquals(Template),
    /// The body contains the text.
    BodyContains(Template),
}

impl Check {
    /// Whether the check needs headers or body.
    pub fn needs_content(&self) -> bool {
        match self {
            Self::Status(accepted) => accepted.iter().any(AcceptedStatus::needs_body),
            _ => true,
        }
    }

    /// Whether a call may fail like this.
    pub(crate) fn accepts(&self, failure: &Failure) -> bool {
        match self {
            Self::Status(accepted) => accepted.iter().any(|one| one.is_code_of(failure)),
            _ => false,
        }
    }

    /// The failure if it does not hold.
    pub(crate) fn failure(
        &self,
        answer: &Answer,
        kept: &ReplyParts,
        values: &[String],
        generator: &mut Generator,
    ) -> Option<Failure> {
        match self {
            Self::Status(accepted) => status_failure(accepted, answer, kept),
            Self::Header(name, text) => {
                let wanted = text.render(values, generator);
                let found = header(&kept.headers, name);
                let holds = found.iter().any(|value| value.contains(&wanted));
                (!holds).then(|| Failure::Check(format!("header {name} contains {wanted:?}")))
            }
            Self::BodyEquals(text) => {
                let wanted = text.render(values, generator);
                (kept.body != wanted.as_bytes())
                    .then(|| Failure::Check("body is the expected one".to_owned()))
            }
            Self::BodyContains(text) => {
                let wanted = text.render(values, generator);
                let found = memchr::memmem::find(&kept.body, wanted.as_bytes());
                let what =
                    if text.is_fixed() { format!("{wanted:?}") } else { "a template".into() };
                found.is_none().then(|| Failure::Check(format!("body contains {what}")))
            }
        }
    }
}

/// Where an extracted value comes from.
#[derive(Debug, Clone)]
pub enum Origin {
    /// A JSON pointer into the body (RFC 6901).
    Pointer(String),
    /// The value of a header.
    Header(String),
}

/// A value to take from an answer.
#[derive(Debug, Clone)]
pub struct Extract {
    pub name: String,
    pub variable: usize,
    pub origin: Origin,
}

impl Extract {
    /// Parses `$.a.b`, `/a/b` or `header:name`.
    pub fn parse_origin(text: &str) -> Option<Origin> {
        if let Some(name) = text.strip_prefix("header:") {
            return Some(Origin::Header(name.trim().to_owned()));
        }
        if let Some(path) = text.strip_prefix("$.") {
            return Some(Origin::Pointer(format!("/{}", path.replace('.', "/"))));
        }
        text.starts_with('/').then(|| Origin::Pointer(text.to_owned()))
    }

    pub(crate) fn value(&self, kept: &ReplyParts) -> Option<String> {
        match &self.origin {
            Origin::Header(name) => {
                header(&kept.headers, name).first().map(|text| (*text).to_owned())
            }
            Origin::Pointer(pointer) => {
                let body: serde_json::Value = serde_json::from_slice(&kept.body).ok()?;
                match body.pointer(pointer)? {
                    serde_json::Value::String(text) => Some(text.clone()),
                    other => Some(other.to_string()),
                }
            }
        }
    }
}

/// Every value of the header `name` in lines of `name: value`.
fn header<'a>(lines: &'a [u8], name: &str) -> Vec<&'a str> {
    let text = std::str::from_utf8(lines).unwrap_or_default();
    text.lines()
        .filter_map(|line| line.split_once(':'))
        .filter(|(known, _)| known.eq_ignore_ascii_case(name))
        .map(|(_, value)| value.trim())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept() -> ReplyParts {
        ReplyParts {
            headers: b"Location: http://h/contacts/7\r\ncontent-type: application/json\r\n"
                .to_vec(),
            body: br#"{"id":7,"name":"a"}"#.to_vec(),
        }
    }

    #[test]
    fn values_come_from_body_and_headers() {
        for (origin, expected) in [
            ("$.id", Some("7")),
            ("/name", Some("a")),
            ("header:location", Some("http://h/contacts/7")),
            ("$.nope", None),
        ] {
            let origin = Extract::parse_origin(origin).unwrap();
            let extract = Extract { name: "x".to_owned(), variable: 0, origin };
            assert_eq!(extract.value(&kept()).as_deref(), expected);
        }
        assert!(Extract::parse_origin("id").is_none());
    }

    #[test]
    fn a_check_that_does_not_hold_is_a_failure() {
        let mut generator = Generator { random: fastrand::Rng::new(), sequence: 0, stride: 1 };
        let answer = Answer { flight: 0, status: 201, bytes: 0, messages: 0, failure: None };
        let mut failure =
            |check: Check| check.failure(&answer, &kept(), &["7".to_owned()], &mut generator);
        let statuses = |accepted: &[u16]| {
            Check::Status(accepted.iter().copied().map(AcceptedStatus::Http).collect())
        };
        assert_eq!(failure(statuses(&[200, 201])), None);
        assert_eq!(failure(statuses(&[200])), Some(Failure::Status(201)));
        let header = |text| Check::Header("content-type".to_owned(), Template::literal(text));
        assert_eq!(failure(header("json")), None);
        assert!(failure(header("xml")).is_some());
        assert_eq!(failure(Check::BodyContains(Template::literal("\"id\":7"))), None);
        assert!(failure(Check::BodyEquals(Template::literal("{}"))).is_some());
    }
}
