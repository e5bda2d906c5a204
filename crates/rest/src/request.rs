//! A request for a binding: what its head says, and the message once its body is there.

use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderValue, Uri};
use tidewire_schema::UnknownMembers;
use tidewire_service::{Code, Error, Headers, Result};

use crate::binding::Binding;
use crate::content;
use crate::http_body;
use crate::options::{RestOptions, UnknownNames};
use crate::plan::{BodyRule, RequestPlan, write_bytes};
use crate::query;

/// A request for a binding whose head was read.
#[derive(Debug)]
pub struct Request {
    binding: Arc<Binding>,
    /// What path and query say, as a message.
    said: Vec<u8>,
    /// For a message that holds the type of the body.
    content_type: Option<HeaderValue>,
}

impl Request {
    /// Reads a head; `has_body` says whether bytes follow it.
    ///
    /// # Errors
    /// A part of the path or the query that does not fit its field, with the route that the request
    /// met; 415 for a body in a form that is not read.
    pub fn new(
        binding: &Arc<Binding>,
        uri: &Uri,
        headers: &Headers,
        has_body: bool,
    ) -> Result<Self> {
        content::check(binding, headers, has_body)?;
        let said = parse_request(binding, uri).map_err(|error| with_path(binding, error))?;
        let content_type = binding.request.raw.then(|| content::content_type(headers)).flatten();
        let content_type = content_type.cloned();
        Ok(Self { binding: Arc::clone(binding), said, content_type })
    }

    /// The binding that it is for.
    pub fn binding(&self) -> &Arc<Binding> {
        &self.binding
    }

    /// Checks that a body is wanted: any byte of one is an error where it is not.
    ///
    /// # Errors
    /// 400.
    pub fn takes_body(&self) -> Result<()> {
        match self.binding.request.body {
            BodyRule::None => Err(with_path(&self.binding, content::no_body())),
            BodyRule::Whole | BodyRule::Field { .. } => Ok(()),
        }
    }

    /// The message of a call with this body, in protobuf; for a request stream, that of one line or
    /// chunk.
    ///
    /// # Errors
    /// A body that is not such a message, with the route that the request met.
    pub fn message(&self, body: &[u8]) -> Result<Bytes> {
        self.read(body).map_err(|error| with_path(&self.binding, error))
    }

    /// The message of a line of a request stream.
    ///
    /// # Errors
    /// As [`message`](Self::message), with the number of the line.
    pub fn line(&self, number: u64, line: &[u8]) -> Result<Bytes> {
        self.read(line).map_err(|error| {
            let message = format!("line {number}: {}", error.message());
            with_path(&self.binding, replaced(error, message))
        })
    }

    fn read(&self, body: &[u8]) -> Result<Bytes> {
        let Binding { request, options, .. } = &*self.binding;
        if !body.is_empty() {
            self.takes_body()?;
        }
        if request.raw {
            return Ok(self.raw(request, body));
        }
        let unknown = match options.unknown_members {
            UnknownNames::Refused => UnknownMembers::Refused,
            UnknownNames::Ignored => UnknownMembers::Ignored,
        };
        request.message(&self.said, body, unknown)
    }

    /// A `google.api.HttpBody` of these bytes, or a message around it.
    fn raw(&self, request: &RequestPlan, body: &[u8]) -> Bytes {
        let mut message = http_body::to_message(self.content_type.as_ref(), body);
        if let BodyRule::Field { number, .. } = request.body {
            let inner = std::mem::take(&mut message);
            message.reserve(inner.len() + self.said.len() + HEAD_BYTES);
            write_bytes(&mut message, number, &inner);
        }
        message.extend_from_slice(&self.said);
        message.into()
    }
}

/// What path and query say, as a message.
fn parse_request(binding: &Binding, uri: &Uri) -> Result<Vec<u8>> {
    let Binding { request, template, options, .. } = binding;
    let mut values = request.path_values(template, uri.path())?;
    if let Some(query) = uri.query().filter(|query| !query.is_empty()) {
        let RestOptions { unknown_parameters, query_parameters_max, .. } = &**options;
        query::parse(request, query, *unknown_parameters, *query_parameters_max, &mut values)?;
    }
    request.write(values)
}

/// An error of the request with the template that the request matched.
fn with_path(binding: &Binding, error: Error) -> Error {
    let route = format!(" ({})", binding.route());
    if error.code() != Code::InvalidArgument || error.message().ends_with(&route) {
        return error;
    }
    let message = format!("{}{route}", error.message());
    replaced(error, message)
}

/// The same error with another message.
fn replaced(error: Error, message: String) -> Error {
    let status = error.http_status();
    Error::new(error.code(), message).with_http_status(status)
}

/// A tag and a length.
const HEAD_BYTES: usize = 16;
