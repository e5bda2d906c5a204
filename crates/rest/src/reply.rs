//! From a reply to the body of a response.

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, StatusCode};
use tidewire_service::{Error, Result, StreamKind};

use crate::binding::{Binding, ReplyPlan};
use crate::content;
use crate::http_body;
use crate::print::Value;
use crate::scan::{ScanError, Scanner};
use crate::writer::Style;

/// A reply as it is sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Printed {
    /// What it is; `None` for raw bytes of no type.
    pub content_type: Option<HeaderValue>,
    /// The body.
    pub body: Bytes,
}

impl Binding {
    /// The body for the message of a reply.
    ///
    /// # Errors
    /// [`Code::Internal`](tidewire_service::Code::Internal) for a reply that is no message of its
    /// type.
    pub fn print(&self, message: Bytes) -> Result<Printed> {
        let plan = &self.reply;
        if plan.raw {
            let (content_type, body) = http_body::from_message(plan.picked(&message)?)?;
            return Ok(Printed { content_type, body });
        }
        Ok(Printed { content_type: Some(JSON), body: plan.print(message)? })
    }

    /// The status of a response to a reply that came with this one: the reply's own, or the method's,
    /// or 200.
    pub fn status(&self, status: StatusCode) -> StatusCode {
        if status != StatusCode::OK {
            return status;
        }
        let declared = self.method.http_status.and_then(|code| StatusCode::from_u16(code).ok());
        declared.unwrap_or(status)
    }

    /// What a stream of replies looks like to a client that sent these headers.
    pub fn style(&self, headers: &HeaderMap) -> Style {
        match self.method.kind {
            _ if self.reply.raw => Style::Raw,
            StreamKind::Bidi => Style::Lines,
            _ if content::wants_lines(headers) => Style::Lines,
            _ => Style::Array,
        }
    }
}

impl ReplyPlan {
    /// A message as it is printed; the same bytes where nothing has to change.
    fn print(&self, message: Bytes) -> Result<Bytes> {
        if self.value == Value::Same && self.field.is_none() && !message.is_empty() {
            return Ok(message);
        }
        let mut out = Vec::with_capacity(message.len() + self.printer.growth(self.value));
        self.print_into(&message, &mut out)?;
        Ok(out.into())
    }

    /// Appends a message as it is printed.
    ///
    /// # Errors
    /// When it is no JSON.
    pub(crate) fn print_into(&self, message: &[u8], out: &mut Vec<u8>) -> Result<()> {
        let picked = self.picked(message)?;
        self.printer.print(self.value, picked, out).map_err(broken)
    }

    /// The part of a message that is sent: all of it, or the field that `response_body` names.
    ///
    /// # Errors
    /// When it is no JSON.
    pub(crate) fn picked<'a>(&'a self, message: &'a [u8]) -> Result<&'a [u8]> {
        let message = if message.is_empty() { b"{}" } else { message };
        let Some(field) = &self.field else { return Ok(message) };
        let mut scanner = Scanner::new(message);
        scanner.expect(b'{').map_err(broken)?;
        let mut more = !scanner.take(b'}').map_err(broken)?;
        while more {
            let name = scanner.name().map_err(broken)?;
            let value = scanner.value().map_err(broken)?;
            if field.names.iter().any(|known| known.as_bytes() == &*name) {
                return Ok(value);
            }
            more = scanner.more(b'}').map_err(broken)?;
        }
        Ok(&field.missing)
    }
}

fn broken(error: ScanError) -> Error {
    Error::internal("the service's reply is not JSON; the server's log has the cause")
        .with_cause(error)
}

pub(crate) const JSON: HeaderValue = HeaderValue::from_static("application/json");
