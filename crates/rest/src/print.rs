//! From a reply to the body of a response: protobuf to JSON in the style that a server was told, or
//! the bytes of a `google.api.HttpBody` as they are.

use bytes::Bytes;
use http::StatusCode;
use tidewire_service::{CachedBody, Coding, Form, Headers, Result, StreamKind};

use crate::binding::Binding;
use crate::content;
use crate::http_body::Parts;
use crate::reply::{JSON, PrintedReply};
use crate::writer::Style;

impl Binding {
    /// The body for the message of a reply, which is in protobuf.
    ///
    /// # Errors
    /// [`Code::Internal`](tidewire_service::Code::Internal) for a reply that is not a message of
    /// its type, or has no JSON form.
    pub fn print(&self, message: Bytes) -> Result<PrintedReply> {
        if self.reply.raw {
            let parts = Parts::of(&message, self.reply.field)?;
            let content_type = parts.content_type(&message);
            return Ok(PrintedReply { content_type, body: message.slice(parts.data) });
        }
        let mut out = Vec::with_capacity(message.len() * 2 + NAMES_BYTES);
        self.reply.print_into(&message, &mut out)?;
        Ok(PrintedReply { content_type: Some(JSON), body: out.into() })
    }

    /// [`print`](Self::print) for a message that somebody keeps: its JSON is made once.
    ///
    /// # Errors
    /// As there.
    pub fn print_kept(&self, message: Bytes, keeper: &dyn CachedBody) -> Result<PrintedReply> {
        if self.reply.raw {
            return self.print(message);
        }
        let form = Form { format: self.format, coding: Coding::Identity };
        let print = || self.print(message).map(|printed| printed.body);
        Ok(PrintedReply { content_type: Some(JSON), body: keeper.forms().or_make(form, print)? })
    }

    /// The status of a response to a reply that came with this one: the reply's own, or the
    /// method's, or 200.
    pub fn status(&self, status: StatusCode) -> StatusCode {
        if status != StatusCode::OK {
            return status;
        }
        let declared = self.method.http_status.and_then(|code| StatusCode::from_u16(code).ok());
        declared.unwrap_or(status)
    }

    /// What a stream of replies looks like to a client that sent these headers.
    pub fn style(&self, headers: &Headers) -> Style {
        match self.method.kind {
            _ if self.reply.raw => Style::Raw,
            StreamKind::Bidi => Style::Lines,
            StreamKind::Server if content::wants_lines(headers) => Style::Lines,
            _ => Style::Array,
        }
    }
}

/// What names and punctuation of a small message take.
const NAMES_BYTES: usize = 64;
