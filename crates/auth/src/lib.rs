//! Who calls: bearer tokens, API keys and client certificates to a [`Principal`].
//!
//! ```text
//! head ─▶ principal set already? ─▶ authorization: Bearer ─▶ API key ─▶ client certificate ─▶ nobody
//!                                     │ jwt.rs, keys.rs       │ api_key.rs  │ certificate.rs
//!                                     └── verified_tokens.rs: seen within a minute? nothing is verified again
//! ```
//!
//! [`Authentication`] is a gate: it runs on the head of every call, whatever the protocol, also
//! where the answer is kept. It says who calls, and refuses a credential that is wrong; what a
//! caller may do is decided after it, by the rules of the server. Nothing of a credential is kept
//! but keyed hashes, and nothing of it is logged.
//!
//! There is no socket and no clock here: keys of issuers come from a [`KeySource`], the time from a
//! function.
//!
//! [`Principal`]: tidewire_service::Principal

#![doc = include_str!("../README.md")]

mod api_key;
mod authentication;
#[cfg(feature = "tls")]
mod certificate;
#[cfg(feature = "jwt")]
mod crypto;
#[cfg(feature = "jwt")]
mod jwt;
#[cfg(feature = "jwt")]
mod keys;
#[cfg(feature = "jwt")]
mod verified_tokens;

pub use api_key::{ApiKeyError, ApiKeys};
pub use authentication::Authentication;
#[cfg(feature = "jwt")]
pub use jwt::{Issuer, TokenRequirements};
#[cfg(feature = "jwt")]
pub use keys::{KeySource, Keys};
