//! One HTTP request on one connection, and its response as it comes.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use http::header::HOST;
use http::uri::PathAndQuery;
use http::{HeaderMap, HeaderValue, Method, Request, Uri, Version, response};
use http_body::Body as _;
use hyper::body::Incoming;
use tidewire_service::{Error, Frame};

use crate::deadline::{Deadline, Phase, passed};
use crate::failure::{broken, broken_body, is_unsent};
use crate::outgoing::{Cancel, Outgoing};
use crate::pool::{Kind, Lease, Pool};
use crate::trace::{Step, Trace, tell};

/// A request that is not bound to a server yet.
pub(crate) struct Outbound {
    pub(crate) method: Method,
    /// The path and query, without the prefix of the server.
    pub(crate) path: PathAndQuery,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Outgoing,
    pub(crate) cancel: Option<Cancel>,
}

/// A request that failed, and what is known of it.
pub(crate) struct Failed {
    pub(crate) error: Error,
    /// The request, where the server has not seen it: it may go elsewhere whatever it does.
    pub(crate) unsent: Option<Outbound>,
    /// The address could not be reached, or the connection broke.
    pub(crate) is_address_bad: bool,
}

/// The head of a response, and its body as it comes.
pub(crate) struct Received {
    pub(crate) head: response::Parts,
    pub(crate) body: Inbound,
}

/// The body of a response. Dropping it before its end cancels the call.
pub(crate) struct Inbound {
    incoming: Incoming,
    lease: Option<Lease>,
    deadline: Deadline,
    cancel: Option<Cancel>,
    host: Arc<str>,
    trace: Option<Trace>,
}

impl Outbound {
    /// The same request once more, unless its body is a stream.
    pub(crate) fn replica(&self) -> Option<Self> {
        Some(Self {
            body: self.body.replica()?,
            method: self.method.clone(),
            path: self.path.clone(),
            headers: self.headers.clone(),
            cancel: None,
        })
    }
}

impl Failed {
    fn sent(error: Error) -> Self {
        Self { error, unsent: None, is_address_bad: false }
    }
}

/// Sends a request on a connection and waits for the head of the response.
pub(crate) async fn exchange(
    mut lease: Lease,
    outbound: Outbound,
    mut deadline: Deadline,
    trace: Option<Trace>,
) -> Result<Received, Failed> {
    let Outbound { method, path, headers, body, cancel } = outbound;
    let request = match bind(&lease, method, path, headers, body) {
        Ok(request) => request,
        Err(error) => return Err(Failed::sent(error)),
    };
    tell(trace.as_ref(), || Step::Request {
        method: request.method(),
        uri: request.uri(),
        version: request.version(),
        headers: request.headers(),
    });
    lease.begin();
    let host = Arc::clone(&lease.pool.target.host);
    let response = match deadline.race(send(&mut lease, request)).await {
        Err(_) => return Err(Failed::sent(passed(Phase::Headers, &host))),
        Ok(Ok(response)) => response,
        Ok(Err((error, request))) => {
            if let Some(own) = cancel.as_ref().and_then(Cancel::error) {
                return Err(Failed::sent(own));
            }
            let is_address_bad = true;
            let unsent = request.map(|request| unbind(&lease.pool, request, cancel));
            let error = deadline.explain(broken(&host, error), Phase::Headers, &host);
            return Err(Failed { error, unsent, is_address_bad });
        }
    };
    let (head, incoming) = response.into_parts();
    tell(trace.as_ref(), || Step::Response {
        status: head.status,
        version: head.version,
        headers: &head.headers,
    });
    let body = Inbound { incoming, lease: Some(lease), deadline, cancel, host, trace };
    Ok(Received { head, body })
}

/// The request as the connection wants it: absolute for HTTP/2, with a host for HTTP/1.1.
fn bind(
    lease: &Lease,
    method: Method,
    path: PathAndQuery,
    mut headers: HeaderMap,
    body: Outgoing,
) -> Result<Request<Outgoing>, Error> {
    let target = &lease.pool.target;
    let path = if target.prefix.is_empty() {
        path
    } else {
        PathAndQuery::try_from(format!("{}{path}", target.prefix))
            .map_err(|error| Error::internal(format!("the path {path} is no path: {error}")))?
    };
    let mut parts = http::uri::Parts::default();
    parts.path_and_query = Some(path);
    let version = match &lease.kind {
        Kind::Http2(_) => {
            parts.scheme = Some(target.scheme.clone());
            parts.authority = Some(target.authority.clone());
            headers.remove(HOST);
            Version::HTTP_2
        }
        Kind::Http1 { .. } => {
            let host = HeaderValue::from_str(target.authority.as_str());
            headers.insert(HOST, host.unwrap_or(HeaderValue::from_static("")));
            Version::HTTP_11
        }
    };
    let uri = Uri::from_parts(parts)
        .map_err(|error| Error::internal(format!("the request has no URL: {error}")))?;
    let mut request = Request::new(body);
    *request.method_mut() = method;
    *request.uri_mut() = uri;
    *request.version_mut() = version;
    *request.headers_mut() = headers;
    Ok(request)
}

/// Takes a request that was not sent apart again, for another server.
fn unbind(pool: &Pool, request: Request<Outgoing>, cancel: Option<Cancel>) -> Outbound {
    let (parts, body) = request.into_parts();
    let path = parts.uri.path_and_query().cloned();
    let path = path.unwrap_or_else(|| PathAndQuery::from_static("/"));
    let path = match path.as_str().strip_prefix(&*pool.target.prefix) {
        Some(rest) if !pool.target.prefix.is_empty() => {
            PathAndQuery::try_from(rest).unwrap_or(path)
        }
        _ => path,
    };
    Outbound { method: parts.method, path, headers: parts.headers, body, cancel }
}

type Unsent = Option<Request<Outgoing>>;

async fn send(
    lease: &mut Lease,
    request: Request<Outgoing>,
) -> Result<http::Response<Incoming>, (hyper::Error, Unsent)> {
    match &mut lease.kind {
        Kind::Http1 { sender: Some(sender), .. } => {
            if !sender.is_ready()
                && let Err(error) = sender.ready().await
            {
                return Err((error, Some(request)));
            }
            sender.try_send_request(request).await.map_err(|mut failed| {
                let message = failed.take_message();
                (failed.into_error(), message)
            })
        }
        Kind::Http1 { sender: None, .. } => unreachable!("a lease holds its sender until dropped"),
        Kind::Http2(connection) => {
            let mut sender = connection.sender.clone();
            sender.try_send_request(request).await.map_err(|mut failed| {
                let message = failed.take_message();
                let error = failed.into_error();
                if is_unsent(&error) {
                    connection.state.close();
                }
                (error, message)
            })
        }
    }
}

impl Inbound {
    /// The next frame, or the error that ends the call.
    pub(crate) fn poll_frame(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame, Error>>> {
        if self.lease.is_none() {
            return Poll::Ready(None);
        }
        match Pin::new(&mut self.incoming).poll_frame(cx) {
            Poll::Ready(Some(Ok(frame))) => Poll::Ready(Some(Ok(match frame.into_data() {
                Ok(data) => Frame::Data(data),
                Err(frame) => {
                    let trailers = frame.into_trailers().unwrap_or_default();
                    tell(self.trace.as_ref(), || Step::Trailers { trailers: &trailers });
                    Frame::Trailers(trailers.into())
                }
            }))),
            Poll::Ready(Some(Err(error))) => {
                let own = self.cancel.as_ref().and_then(Cancel::error);
                let error = own.unwrap_or_else(|| {
                    let error = broken_body(&self.host, error);
                    self.deadline.explain(error, Phase::Body, &self.host)
                });
                self.lease = None;
                Poll::Ready(Some(Err(error)))
            }
            Poll::Ready(None) => {
                self.finish();
                Poll::Ready(None)
            }
            Poll::Pending => match self.deadline.poll_passed(cx) {
                Poll::Pending => Poll::Pending,
                Poll::Ready(()) => {
                    self.lease = None;
                    Poll::Ready(Some(Err(passed(Phase::Body, &self.host))))
                }
            },
        }
    }

    /// The length that the head declares, if it does.
    pub(crate) fn declared_length(&self) -> Option<u64> {
        self.incoming.size_hint().exact()
    }

    pub(crate) fn is_end(&self) -> bool {
        self.incoming.is_end_stream()
    }

    /// What the server is called in errors.
    pub(crate) fn host(&self) -> &Arc<str> {
        &self.host
    }

    pub(crate) fn trace(&self) -> Option<&Trace> {
        self.trace.as_ref()
    }

    /// Leaves it to the caller to tell what is done from now on.
    pub(crate) fn take_trace(&mut self) -> Option<Trace> {
        self.trace.take()
    }

    fn finish(&mut self) {
        if let Some(mut lease) = self.lease.take() {
            lease.complete(self.cancel.as_ref().is_none_or(Cancel::is_done));
            tell(self.trace.as_ref(), || Step::Done);
        }
    }
}
