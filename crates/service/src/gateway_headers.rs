//! The headers that a gateway and the programs that it hosts say to each other.
//!
//! | header | said by | value |
//! |---|---|---|
//! | `tidewire-principal` | the gateway, of a call | who calls: JSON in ASCII; absent where nobody knows |
//! | `tidewire-rights` | a program, of a call that is part of one that it answers | `caller`: made with the rights of that one's caller |
//!
//! Nobody else says them: what comes from a caller under a name that begins with `tidewire-` is
//! removed before a call reaches a program, also where another sign stands for the hyphen, since
//! CGI and its successors make one name of all of them.

use std::fmt::Write;

use http::{HeaderName, HeaderValue};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{Headers, Principal};

/// Tells a hosted program who calls.
pub const PRINCIPAL_HEADER: HeaderName = HeaderName::from_static("tidewire-principal");

/// Tells the gateway with whose rights a hosted program calls: [`CALLER_RIGHTS`].
pub const RIGHTS_HEADER: HeaderName = HeaderName::from_static("tidewire-rights");

/// The value of [`RIGHTS_HEADER`]: those of the caller of the call that the program answers.
pub const CALLER_RIGHTS: HeaderValue = HeaderValue::from_static("caller");

/// Whether a header of this name, in lower case, is one that only a gateway and its programs say.
pub fn is_of_gateway(name: &str) -> bool {
    let is_like = |(byte, wanted): (u8, &u8)| match wanted {
        b'-' => !byte.is_ascii_alphanumeric(),
        _ => byte == *wanted,
    };
    name.len() >= PREFIX.len() && name.bytes().zip(PREFIX).all(is_like)
}

/// Removes the headers that only a gateway and its programs say.
pub fn remove_gateway_headers(headers: &mut Headers) {
    let names: Vec<_> =
        headers.keys().filter(|name| is_of_gateway(name.as_str())).cloned().collect();
    names.iter().for_each(|name| _ = headers.remove(name));
}

impl Principal {
    /// The value of [`PRINCIPAL_HEADER`].
    ///
    /// ```
    /// # use tidewire_service as tidewire;
    /// use tidewire::Principal;
    /// let ada = Principal::new("https://id.example", "ada").with_scope("read");
    /// let text = r#"{"issuer":"https://id.example","subject":"ada","scopes":["read"],"claims":{}}"#;
    /// assert_eq!(ada.to_header(), text);
    /// assert_eq!(Principal::from_header(&ada.to_header()), Some(ada));
    /// ```
    pub fn to_header(&self) -> HeaderValue {
        let claims = self.claims().map(|(name, value)| (name.to_owned(), value.clone())).collect();
        let said = PrincipalJson {
            issuer: self.issuer().to_owned(),
            subject: self.subject().to_owned(),
            scopes: self.scopes().to_vec(),
            claims,
        };
        let json = serde_json::to_string(&said).expect("text and JSON values are JSON");
        HeaderValue::try_from(in_ascii(&json)).expect("visible ASCII is a header")
    }

    /// Reads [`PRINCIPAL_HEADER`]; `None` of what is not the value of one.
    pub fn from_header(value: &HeaderValue) -> Option<Self> {
        let said: PrincipalJson = serde_json::from_slice(value.as_bytes()).ok()?;
        let named = Self::new(said.issuer, said.subject);
        let scoped = said.scopes.into_iter().fold(named, Self::with_scope);
        Some(
            said.claims
                .into_iter()
                .fold(scoped, |known, (name, value)| known.with_claim(name, value)),
        )
    }
}

/// A principal as JSON has it.
#[derive(Serialize, Deserialize)]
struct PrincipalJson {
    issuer: String,
    subject: String,
    #[serde(default)]
    scopes: Vec<String>,
    #[serde(default)]
    claims: Map<String, Value>,
}

/// JSON whose text is visible ASCII: other characters stand in strings alone, which have escapes.
fn in_ascii(json: &str) -> String {
    let mut ascii = String::with_capacity(json.len());
    for letter in json.chars() {
        if matches!(letter, ' '..='~') {
            ascii.push(letter);
        } else {
            for unit in letter.encode_utf16(&mut [0; 2]) {
                write!(ascii, "\\u{unit:04x}").expect("text takes all that is written to it");
            }
        }
    }
    ascii
}

const PREFIX: &[u8] = b"tidewire-";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_principal_comes_back_from_its_header_whatever_its_text() {
        let ada = Principal::new("https://id.example", "\u{e4}d\u{e4} \"\\\u{7f}\n\u{1f30a}")
            .with_scope("contacts.read")
            .with_scope("\u{fc}")
            .with_claim("tenant", "a")
            .with_claim("exact", 9_007_199_254_740_993_u64)
            .with_claim("groups", vec!["x", "y"]);
        let header = ada.to_header();
        assert!(header.to_str().is_ok(), "{header:?}");
        assert_eq!(Principal::from_header(&header), Some(ada));
        for wrong in ["", "ada", "{}", r#"{"issuer":"a"}"#, r#"{"issuer":1,"subject":"a"}"#] {
            assert_eq!(Principal::from_header(&HeaderValue::from_static(wrong)), None, "{wrong}");
        }
    }

    #[test]
    fn no_way_to_write_a_name_of_the_gateway_is_a_callers() {
        for name in ["-principal", "_principal", ".principal", "!principal", "-rights", "~other"] {
            assert!(is_of_gateway(&format!("tidewire{name}")), "{name}");
        }
        for name in ["tidewire", "tidewires-principal", "x-tidewire-principal", "authorization"] {
            assert!(!is_of_gateway(name), "{name}");
        }
    }
}
