//! One HTTP request on one connection, and its response as it comes.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use h2::RecvStream;
use h2::client::ResponseFuture;
use http::header::{CONTENT_LENGTH, CONTENT_TYPE, HOST, TE, TRANSFER_ENCODING};
use http::uri::{Authority, PathAndQuery};
use http::{HeaderMap, HeaderValue, Method, Request, Response, Uri, Version, response};
use http_body::Body as _;
use tidewire_service::{Error, Frame, InterimSender};

use crate::connections::{Kind, Lease};
use crate::deadline::{Deadline, Phase, deadline_error};
use crate::failure::{ConnectionFailure, broken, broken_body};
use crate::http2::RequestRefusal;
use crate::incoming::HttpBody;
use crate::outgoing::{Cancel, RequestBody};
use crate::trace::{Step, Trace, tell};

/// A request that is not bound to a server yet.
pub(crate) struct UnboundRequest {
    pub(crate) method: Method,
    /// The path and query, without the prefix of the server.
    pub(crate) path: PathAndQuery,
    pub(crate) headers: HeaderMap,
    pub(crate) body: RequestBody,
    /// Takes interim responses on to the caller.
    pub(crate) interim: Option<InterimSender>,
    pub(crate) cancel: Option<Cancel>,
}

/// A request that failed, and what is known of it.
pub(crate) struct RequestFailure {
    /// Its outcome says whether the server saw the request.
    pub(crate) error: Error,
    /// The body of the request, if nothing of it was read.
    pub(crate) body: Option<(RequestBody, Option<Cancel>)>,
    /// The address could not be reached, or the connection broke.
    pub(crate) is_address_bad: bool,
    /// The connection had been kept from an earlier call, and was closed before it answered this
    /// one.
    pub(crate) was_closed: bool,
}

/// The head of a response, and its body as it comes.
pub(crate) struct ResponseStart {
    pub(crate) head: response::Parts,
    pub(crate) body: ResponseBody,
}

/// The body of a response. Dropping it before its end cancels the call.
pub(crate) struct ResponseBody {
    incoming: HttpBody,
    lease: Option<Lease>,
    /// Whether others may use the connection afterwards.
    is_reusable: bool,
    deadline: Deadline,
    cancel: Option<Cancel>,
    host: Arc<str>,
    trace: Option<Trace>,
}

impl RequestFailure {
    fn sent(error: Error) -> Self {
        Self { error, body: None, is_address_bad: false, was_closed: false }
    }
}

/// Sends a request on a connection and waits for the head of the response.
pub(crate) async fn exchange(
    mut lease: Lease,
    outbound: UnboundRequest,
    mut deadline: Deadline,
    trace: Option<Trace>,
) -> Result<ResponseStart, RequestFailure> {
    let UnboundRequest { method, path, headers, body, interim, cancel } = outbound;
    let leaves_bytes = !body.is_end_stream() || method == Method::HEAD;
    let is_http1 = matches!(lease.kind, Kind::Http1 { .. });
    let closes = is_http1 && leaves_bytes && lease.pool.target.dialer.closes_after_bodies;
    let mut request = match bind(&lease, method, path, headers, body) {
        Ok(request) => request,
        Err(error) => return Err(RequestFailure::sent(error)),
    };
    if is_http1 && let Some(interim) = interim.clone() {
        hyper::ext::on_informational(&mut request, move |response| {
            interim.send(response.status(), response.headers().clone().into());
        });
    }
    tell(trace.as_ref(), || Step::Request {
        method: request.method(),
        uri: request.uri(),
        version: request.version(),
        headers: request.headers().clone().into(),
    });
    lease.begin();
    let host = Arc::clone(&lease.pool.target.host);
    let (head, incoming) = match deadline.race(send(&mut lease, request, interim)).await {
        Err(_) => return Err(RequestFailure::sent(deadline_error(Phase::Headers, &host))),
        Ok(Ok(response)) => response,
        Ok(Err((error, body))) => {
            if let Some(own) = cancel.as_ref().and_then(Cancel::error) {
                return Err(RequestFailure::sent(own));
            }
            let is_address_bad = !error.is_reset();
            let was_closed = lease.is_kept && error.is_closed();
            if was_closed {
                // Those beside it were kept as long.
                lease.pool.close_idle();
            }
            let (body, is_unsent) = match body {
                UnsentPart::Whole(body) => (Some((body, cancel)), true),
                UnsentPart::Nothing => (None, false),
            };
            let error = broken(&host, error, is_unsent);
            let error = deadline.explain(error, Phase::Headers, &host);
            return Err(RequestFailure { error, body, is_address_bad, was_closed });
        }
    };
    tell(trace.as_ref(), || Step::Response {
        status: head.status,
        version: head.version,
        headers: head.headers.clone().into(),
    });
    let body = ResponseBody {
        incoming,
        lease: Some(lease),
        is_reusable: !closes,
        deadline,
        cancel,
        host,
        trace,
    };
    Ok(ResponseStart { head, body })
}

/// The request as the connection wants it: absolute for HTTP/2, with a host for HTTP/1.1.
fn bind(
    lease: &Lease,
    method: Method,
    path: PathAndQuery,
    mut headers: HeaderMap,
    body: RequestBody,
) -> Result<Request<RequestBody>, Error> {
    let target = &lease.pool.target;
    let path = if target.prefix.is_empty() {
        path
    } else {
        PathAndQuery::try_from(format!("{}{path}", target.prefix))
            .map_err(|error| Error::internal(format!("the path {path} is not a path: {error}")))?
    };
    let mut parts = http::uri::Parts::default();
    parts.path_and_query = Some(path);
    let version = match &lease.kind {
        Kind::Http2 { .. } => {
            parts.scheme = Some(target.scheme.clone());
            let passed = headers.remove(HOST).filter(|_| target.dialer.passes_host);
            let passed = passed.and_then(|host| Authority::try_from(host.as_bytes()).ok());
            parts.authority = Some(passed.unwrap_or_else(|| target.authority.clone()));
            if is_grpc(&headers) {
                // By which servers of gRPC know that trailers will pass.
                headers.insert(TE, HeaderValue::from_static("trailers"));
            }
            set_length(&mut headers, &method, &body);
            Version::HTTP_2
        }
        Kind::Http1 { .. } => {
            if !(target.dialer.passes_host && headers.contains_key(HOST)) {
                let host = HeaderValue::from_str(target.authority.as_str());
                headers.insert(HOST, host.unwrap_or(HeaderValue::from_static("")));
            }
            // Such requests seldom have a body, so that hyper sends none of unknown length unless
            // it is said.
            let has_no_body_usually = matches!(method, Method::GET | Method::HEAD);
            let is_long = body.size_hint().exact().is_none() && !body.is_end_stream();
            if has_no_body_usually && is_long && !headers.contains_key(CONTENT_LENGTH) {
                headers.insert(TRANSFER_ENCODING, HeaderValue::from_static("chunked"));
            }
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

/// Whether a request is one of gRPC.
fn is_grpc(headers: &HeaderMap) -> bool {
    let content_type = headers.get(CONTENT_TYPE).map(HeaderValue::as_bytes);
    content_type.is_some_and(|it| it.starts_with(b"application/grpc"))
}

/// Tells the length of the body where it is known, unless there is none as one expects.
fn set_length(headers: &mut HeaderMap, method: &Method, body: &RequestBody) {
    let Some(length) = body.size_hint().exact() else { return };
    if length > 0 || matches!(*method, Method::POST | Method::PUT | Method::PATCH) {
        headers.entry(CONTENT_LENGTH).or_insert_with(|| length.into());
    }
}

/// What of a request that failed did not leave.
enum UnsentPart {
    /// All of it.
    Whole(RequestBody),
    /// That is not known.
    Nothing,
}

async fn send(
    lease: &mut Lease,
    request: Request<RequestBody>,
    interim: Option<InterimSender>,
) -> Result<(response::Parts, HttpBody), (ConnectionFailure, UnsentPart)> {
    match &mut lease.kind {
        Kind::Http1 { sender: Some(sender), .. } => {
            if !sender.is_ready()
                && let Err(error) = sender.ready().await
            {
                return Err((
                    ConnectionFailure::Http1(error),
                    UnsentPart::Whole(request.into_body()),
                ));
            }
            let response = sender.try_send_request(request).await.map_err(|mut failed| {
                let unsent = failed
                    .take_message()
                    .map_or(UnsentPart::Nothing, |request| UnsentPart::Whole(request.into_body()));
                (ConnectionFailure::Http1(failed.into_error()), unsent)
            });
            response.map(HttpBody::of_http1)
        }
        Kind::Http1 { sender: None, .. } => unreachable!("a lease holds its sender until dropped"),
        Kind::Http2 { connection, .. } => {
            let (head, body) = request.into_parts();
            let sent = connection.send(Request::from_parts(head, ()), body);
            let response = sent.map_err(|RequestRefusal { error, body }| {
                (ConnectionFailure::Http2(error), UnsentPart::Whole(*body))
            })?;
            let response = with_interim(response, interim)
                .await
                .map_err(|error| (ConnectionFailure::Http2(error), UnsentPart::Nothing));
            response.map(HttpBody::of_http2)
        }
    }
}

/// The response, before which interim ones are taken on to the caller.
async fn with_interim(
    mut response: ResponseFuture,
    interim: Option<InterimSender>,
) -> Result<Response<RecvStream>, h2::Error> {
    let Some(interim) = interim else { return response.await };
    poll_fn(|cx| {
        while let Poll::Ready(Some(Ok(first))) = response.poll_informational(cx) {
            interim.send(first.status(), first.headers().clone().into());
        }
        Pin::new(&mut response).poll(cx)
    })
    .await
}

impl ResponseBody {
    /// The next frame, or the error that ends the call.
    pub(crate) fn poll_frame(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame, Error>>> {
        if self.lease.is_none() {
            return Poll::Ready(None);
        }
        if let Some(error) = self.overdue() {
            return Poll::Ready(Some(Err(error)));
        }
        match self.incoming.poll_frame(cx) {
            Poll::Ready(Some(Ok(frame))) => Poll::Ready(Some(Ok(match frame.into_data() {
                Ok(data) => Frame::Data(data),
                Err(frame) => {
                    let trailers = frame.into_trailers().unwrap_or_default();
                    tell(self.trace.as_ref(), || Step::Trailers {
                        trailers: trailers.clone().into(),
                    });
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
                    Poll::Ready(Some(Err(deadline_error(Phase::Body, &self.host))))
                }
            },
        }
    }

    /// The error of a call whose deadline passed, however much of its reply is there to be read.
    pub(crate) fn overdue(&mut self) -> Option<Error> {
        if self.lease.is_none() || !self.deadline.is_over() {
            return None;
        }
        self.lease = None;
        Some(deadline_error(Phase::Body, &self.host))
    }

    /// The length that the head declares, if it does.
    pub(crate) fn declared_length(&self) -> Option<u64> {
        self.incoming.declared_length()
    }

    pub(crate) fn is_end(&self) -> bool {
        self.incoming.is_end()
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

    /// The response was read to its end.
    pub(crate) fn finish(&mut self) {
        if let Some(mut lease) = self.lease.take() {
            let is_http1 = matches!(lease.kind, Kind::Http1 { .. });
            let is_sent = self.cancel.as_ref().is_none_or(|cancel| cancel.is_done(is_http1));
            lease.complete(self.is_reusable && is_sent);
            tell(self.trace.as_ref(), || Step::Done);
        }
    }
}
