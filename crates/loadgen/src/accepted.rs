//! Which statuses make an answer count: those of HTTP by their numbers, and codes of gRPC and
//! Connect calls by their names.

use std::fmt;
use std::str::FromStr;

use tidewire_service::Code;

use crate::failure::Failure;
use crate::reply::{Answer, ReplyParts};

/// A status that makes an answer count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AcceptedStatus {
    /// A status of HTTP, `404`.
    Http(u16),
    /// A call without an error, `ok`.
    Ok,
    /// The code of a call, `not_found`.
    Code(Code),
}

impl AcceptedStatus {
    /// Whether it is known by a name, which only calls have.
    #[must_use]
    pub fn is_code(&self) -> bool {
        !matches!(self, Self::Http(_))
    }

    /// Whether the answer's body is needed to know.
    pub(crate) fn needs_body(&self) -> bool {
        matches!(self, Self::Code(_))
    }

    /// Whether it is what a call failed with.
    pub(crate) fn is_code_of(&self, failure: &Failure) -> bool {
        matches!(self, Self::Code(code) if failure.code() == Some(*code))
    }

    fn is_of(&self, status: u16, code: Option<Code>) -> bool {
        match self {
            Self::Http(number) => *number == status,
            Self::Ok => (200..300).contains(&status),
            Self::Code(named) => code == Some(*named),
        }
    }
}

impl FromStr for AcceptedStatus {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let name = text.trim().to_ascii_lowercase();
        if let Ok(number) = name.parse::<u16>() {
            let code = Code::from_number(number.into()).map_or("ok", Code::as_str);
            return match number {
                100..=599 => Ok(Self::Http(number)),
                0..=16 => Err(format!("not an HTTP status; for the code of a call write {code}")),
                _ => Err("not an HTTP status; write one from 100 to 599".to_owned()),
            };
        }
        match name.as_str() {
            "ok" => Ok(Self::Ok),
            _ => name.parse().map(Self::Code).map_err(|_| {
                let names = Code::ALL.map(Code::as_str).join(", ");
                format!("neither a number nor the code of a call; write 404, or one of ok, {names}")
            }),
        }
    }
}

impl fmt::Display for AcceptedStatus {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Http(number) => number.fmt(out),
            Self::Ok => out.write_str("ok"),
            Self::Code(code) => code.fmt(out),
        }
    }
}

/// The failure of an answer that is whole, if its status is none of these.
pub(crate) fn status_failure(
    accepted: &[AcceptedStatus],
    answer: &Answer,
    kept: &ReplyParts,
) -> Option<Failure> {
    let status = answer.status;
    let names_code = accepted.iter().any(AcceptedStatus::is_code);
    let is_good = (200..300).contains(&status);
    // Only calls of Connect without streams come here with an error: it is their body.
    let code = (names_code && !is_good).then(|| connect_code(&kept.body)).flatten();
    if accepted.iter().any(|one| one.is_of(status, code)) {
        return None;
    }
    Some(match names_code && is_good {
        true => {
            let names: Vec<_> = accepted.iter().map(ToString::to_string).collect();
            Failure::Check(format!("status is {}", names.join(" or ")))
        }
        false => Failure::Status(status),
    })
}

/// The code in the body of a Connect error.
fn connect_code(body: &[u8]) -> Option<Code> {
    let error: serde_json::Value = serde_json::from_slice(body).ok()?;
    error.get("code")?.as_str()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statuses_are_numbers_of_http_and_names_of_codes() {
        let read = |text: &str| text.parse::<AcceptedStatus>();
        assert_eq!(read("404"), Ok(AcceptedStatus::Http(404)));
        assert_eq!(read("ok"), Ok(AcceptedStatus::Ok));
        for name in ["not_found", "NOT_FOUND"] {
            assert_eq!(read(name), Ok(AcceptedStatus::Code(Code::NotFound)), "{name}");
        }
        assert!(read("5").unwrap_err().contains("write not_found"));
        assert!(read("700").unwrap_err().contains("from 100 to 599"));
        assert!(read("notfound").unwrap_err().contains("not_found"));
    }
}
