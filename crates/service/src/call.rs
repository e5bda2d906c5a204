//! A call: what is called, in which context, with which bytes.

use std::sync::Arc;

use http::Uri;

use crate::{Body, Codec, Context, Method};

/// A request on its way to a [`Service`](crate::Service).
#[derive(Debug)]
pub struct Call {
    /// What is called.
    pub target: Target,
    /// Headers, deadline, peer and whatever layers attached.
    pub context: Context,
    /// How messages in `body` are encoded; of no meaning for plain HTTP.
    pub codec: Codec,
    /// The request's bytes.
    pub body: Body,
}

/// What a call is for.
#[derive(Debug, Clone)]
pub enum Target {
    /// A method of a service.
    Method(Method),
    /// A plain HTTP request.
    Http(HttpTarget),
}

/// The request line of a plain HTTP request, and what the route found in its path.
#[derive(Debug, Clone)]
pub struct HttpTarget {
    /// The verb.
    pub method: http::Method,
    /// Path and query as they arrived.
    pub uri: Uri,
    /// The parts of the path that the route names, percent-decoded.
    pub params: PathParams,
}

/// The named parts of a matched path, percent-decoded, in the order of the route.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PathParams(Vec<(Arc<str>, String)>);

impl PathParams {
    /// The value of the part called `name`.
    pub fn value(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(known, _)| &**known == name).map(|(_, value)| value.as_str())
    }

    /// Adds a part.
    pub fn push(&mut self, name: Arc<str>, value: String) {
        self.0.push((name, value));
    }

    /// All parts.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (&**name, value.as_str()))
    }
}

impl Call {
    /// A call of a method with an encoded request message, or a stream of them.
    pub fn method(
        method: impl Into<Method>,
        context: Context,
        codec: Codec,
        body: impl Into<Body>,
    ) -> Self {
        Self { target: Target::Method(method.into()), context, codec, body: body.into() }
    }

    /// A plain HTTP request.
    pub fn http(method: http::Method, uri: Uri, context: Context, body: impl Into<Body>) -> Self {
        let target = HttpTarget { method, uri, params: PathParams::default() };
        Self { target: Target::Http(target), context, codec: Codec::Json, body: body.into() }
    }

    /// The name of the called method without its service; empty for plain HTTP.
    pub fn method_name(&self) -> &str {
        match &self.target {
            Target::Method(method) => &method.method,
            Target::Http(_) => "",
        }
    }

    /// The called method, or `None` for plain HTTP.
    pub fn spec(&self) -> Option<&Method> {
        match &self.target {
            Target::Method(method) => Some(method),
            Target::Http(_) => None,
        }
    }

    /// The plain HTTP target, or `None` for a method.
    pub fn http_target(&self) -> Option<&HttpTarget> {
        match &self.target {
            Target::Method(_) => None,
            Target::Http(target) => Some(target),
        }
    }

    /// A named part of the path of a plain HTTP request.
    pub fn param(&self, name: &str) -> Option<&str> {
        self.http_target()?.params.value(name)
    }

    /// What the call is for, as a log line names it: `/shop.v1.Contacts/Get` or `GET /health`.
    pub fn describe(&self) -> String {
        match &self.target {
            Target::Method(method) => method.path.to_string(),
            Target::Http(target) => format!("{} {}", target.method, target.uri.path()),
        }
    }
}
