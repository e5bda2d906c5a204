//! One HTTP request on one connection, and its response as it comes.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};

use h2::RecvStream;
use h2::client::ResponseFuture;
use http::header::{CONTENT_LENGTH, CONTENT_TYPE, HOST, TE, TRANSFER_ENCODING};
use http::uri::{Authority, PathAndQuery};
use http::{HeaderMap, HeaderValue, Method, Request, Response, Uri, Version, response};
use http_body::Body as _;
use hyper::client::conn::TrySendError;
use tidewire_service::{Error, Frame, InterimSender};
use tidewire_wire::Caller;

use crate::connections::{Kind, Lease};
use crate::deadline::{Deadline, Phase, deadline_error};
use crate::failure::{ConnectionFailure, broken, broken_body};
use crate::http2::{Http2, RequestRefusal};
use crate::incoming::HttpBody;
use crate::order::Order;
use crate::outgoing::{Cancel, RequestBody};
use crate::trace::{Step, Trace, tell};

/// A request that is not bound to a server yet: of its URL it has the path and the query, without
/// the prefix of the server.
pub(crate) struct UnboundRequest {
    pub(crate) request: Request<RequestBody>,
    /// Takes interim responses on to the caller.
    pub(crate) interim: Option<InterimSender>,
    pub(crate) cancel: Option<Cancel>,
}

/// A request that failed, and what is known of it.
pub(crate) struct RequestFailure {
    /// Its outcome says whether the server saw the request.
    pub(crate) error: Error,
    /// The body of the request, if it was taken and nothing of it was read.
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

    /// No response within the deadline.
    fn late(lease: &Lease) -> Self {
        Self::sent(deadline_error(Phase::Headers, &lease.pool.target.host))
    }

    /// The connection failed.
    fn of(
        lease: &Lease,
        deadline: &Deadline,
        error: ConnectionFailure,
        unsent: UnsentPart,
    ) -> Self {
        let host = &lease.pool.target.host;
        let is_address_bad = !error.is_reset();
        let was_closed = lease.is_kept && error.is_closed();
        if was_closed {
            // Those beside it were kept as long.
            lease.pool.close_idle();
        }
        let error = broken(host, error, !matches!(unsent, UnsentPart::Unknown));
        let error = deadline.explain(error, Phase::Headers, host);
        let body = match unsent {
            UnsentPart::Whole(body, cancel) => Some((body, cancel)),
            UnsentPart::Untaken | UnsentPart::Unknown => None,
        };
        Self { error, body, is_address_bad, was_closed }
    }
}

/// Makes the request of an order, sends it on a connection and waits for the head of the response.
///
/// The request is made here, and not given: it would be moved about with the futures on its way.
pub(crate) async fn exchange(
    mut lease: Lease,
    order: &mut Order,
    caller: &Caller,
    mut deadline: Deadline,
    trace: Option<&Trace>,
) -> Result<ResponseStart, RequestFailure> {
    if let Kind::Http1 { sender: Some(sender), .. } = &mut lease.kind
        && !sender.is_ready()
    {
        let ready = deadline.race(pin!(sender.ready())).await;
        match ready {
            Err(_) => return Err(RequestFailure::late(&lease)),
            Ok(Err(error)) => {
                let error = ConnectionFailure::Http1(error);
                return Err(RequestFailure::of(&lease, &deadline, error, UnsentPart::Untaken));
            }
            Ok(Ok(())) => {}
        }
    }
    let outbound = order.outbound(caller, deadline.remaining(), trace);
    let UnboundRequest { mut request, interim, cancel } = outbound.map_err(RequestFailure::sent)?;
    bind(&lease, &mut request).map_err(RequestFailure::sent)?;
    let leaves_bytes = !request.body().is_end_stream() || *request.method() == Method::HEAD;
    let is_http1 = matches!(lease.kind, Kind::Http1 { .. });
    let closes = is_http1 && leaves_bytes && lease.pool.target.dialer.closes_after_bodies;
    tell(trace, || Step::Request {
        method: request.method(),
        uri: request.uri(),
        version: request.version(),
        headers: request.headers().clone().into(),
    });
    lease.begin();
    let sent = match &mut lease.kind {
        Kind::Http1 { sender: Some(sender), .. } => {
            if let Some(interim) = interim {
                hyper::ext::on_informational(&mut request, move |response| {
                    interim.send(response.status(), response.headers().clone().into());
                });
            }
            let response = deadline.race(pin!(sender.try_send_request(request))).await;
            response.map(|response| response.map(HttpBody::of_http1).map_err(unsent_of_http1))
        }
        Kind::Http1 { sender: None, .. } => unreachable!("a lease holds its sender until dropped"),
        // Boxed, so that calls over HTTP/1.1 are not the larger for it.
        Kind::Http2 { connection, .. } => {
            deadline.race(Box::pin(send_http2(connection, request, interim))).await
        }
    };
    let (head, incoming) = match sent {
        Ok(Ok(response)) => response,
        Err(_) => return Err(RequestFailure::late(&lease)),
        Ok(Err((error, body))) => {
            if let Some(own) = cancel.as_ref().and_then(Cancel::error) {
                return Err(RequestFailure::sent(own));
            }
            let unsent = body.map_or(UnsentPart::Unknown, |body| UnsentPart::Whole(*body, cancel));
            return Err(RequestFailure::of(&lease, &deadline, error, unsent));
        }
    };
    tell(trace, || Step::Response {
        status: head.status,
        version: head.version,
        headers: head.headers.clone().into(),
    });
    let host = Arc::clone(&lease.pool.target.host);
    let body = ResponseBody {
        incoming,
        lease: Some(lease),
        is_reusable: !closes,
        deadline,
        cancel,
        host,
        trace: trace.cloned(),
    };
    Ok(ResponseStart { head, body })
}

/// Makes the request what the connection wants: absolute for HTTP/2, with a host for HTTP/1.1.
fn bind(lease: &Lease, request: &mut Request<RequestBody>) -> Result<(), Error> {
    let target = &lease.pool.target;
    if !target.prefix.is_empty() {
        let path = request.uri().path_and_query().map_or("/", PathAndQuery::as_str);
        let path = PathAndQuery::try_from(format!("{}{path}", target.prefix))
            .map_err(|error| Error::internal(format!("the path {path} is not a path: {error}")))?;
        *request.uri_mut() = path.into();
    }
    match &lease.kind {
        Kind::Http2 { .. } => {
            let mut parts = std::mem::take(request.uri_mut()).into_parts();
            parts.scheme = Some(target.scheme.clone());
            let passed = request.headers_mut().remove(HOST);
            let passed = passed.filter(|_| target.dialer.passes_host);
            let passed = passed.and_then(|host| Authority::try_from(host.as_bytes()).ok());
            parts.authority = Some(passed.unwrap_or_else(|| target.authority.clone()));
            *request.uri_mut() = Uri::from_parts(parts)
                .map_err(|error| Error::internal(format!("the request has no URL: {error}")))?;
            if is_grpc(request.headers()) {
                // By which servers of gRPC know that trailers will pass.
                request.headers_mut().insert(TE, HeaderValue::from_static("trailers"));
            }
            set_length(request);
            *request.version_mut() = Version::HTTP_2;
        }
        Kind::Http1 { .. } => {
            // Such requests seldom have a body, so that hyper sends none of unknown length unless
            // it is said.
            let has_no_body_usually = matches!(*request.method(), Method::GET | Method::HEAD);
            let body = request.body();
            let is_long = !body.is_end_stream() && body.size_hint().exact().is_none();
            let headers = request.headers_mut();
            // Few names are compared sooner than this one is hashed.
            if !(target.dialer.passes_host && headers.keys().any(|name| *name == HOST)) {
                let host = HeaderValue::from_str(target.authority.as_str());
                headers.insert(HOST, host.unwrap_or(HeaderValue::from_static("")));
            }
            if has_no_body_usually && is_long && !headers.contains_key(CONTENT_LENGTH) {
                headers.insert(TRANSFER_ENCODING, HeaderValue::from_static("chunked"));
            }
        }
    }
    Ok(())
}

/// Whether a request is one of gRPC.
fn is_grpc(headers: &HeaderMap) -> bool {
    let content_type = headers.get(CONTENT_TYPE).map(HeaderValue::as_bytes);
    content_type.is_some_and(|it| it.starts_with(b"application/grpc"))
}

/// Tells the length of the body where it is known, unless there is none as one expects.
fn set_length(request: &mut Request<RequestBody>) {
    let Some(length) = request.body().size_hint().exact() else { return };
    let has_body_usually = matches!(*request.method(), Method::POST | Method::PUT | Method::PATCH);
    if length > 0 || has_body_usually {
        request.headers_mut().entry(CONTENT_LENGTH).or_insert_with(|| length.into());
    }
}

/// What of a request that failed did not leave.
enum UnsentPart {
    /// All of it, of which nothing was taken from its order.
    Untaken,
    /// All of it.
    Whole(RequestBody, Option<Cancel>),
    /// That is not known.
    Unknown,
}

/// A connection that failed, and the body of its request if that did not leave.
type SendFailure = (ConnectionFailure, Option<Box<RequestBody>>);

fn unsent_of_http1(mut failed: TrySendError<Request<RequestBody>>) -> SendFailure {
    let unsent = failed.take_message().map(|request| Box::new(request.into_body()));
    (ConnectionFailure::Http1(failed.into_error()), unsent)
}

async fn send_http2(
    connection: &Http2,
    request: Request<RequestBody>,
    interim: Option<InterimSender>,
) -> Result<(response::Parts, HttpBody), SendFailure> {
    let (head, body) = request.into_parts();
    let sent = connection.send(Request::from_parts(head, ()), body);
    let response = sent
        .map_err(|RequestRefusal { error, body }| (ConnectionFailure::Http2(error), Some(body)))?;
    let response = with_interim(response, interim).await;
    response.map(HttpBody::of_http2).map_err(|error| (ConnectionFailure::Http2(error), None))
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

    /// Whether the whole request was sent.
    pub(crate) fn is_request_sent(&self) -> bool {
        let is_http1 = matches!(self.incoming, HttpBody::Http1(_));
        self.cancel.as_ref().is_none_or(|cancel| cancel.is_done(is_http1))
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
        let is_request_sent = self.is_request_sent();
        if let Some(mut lease) = self.lease.take() {
            lease.complete(self.is_reusable && is_request_sent);
            tell(self.trace.as_ref(), || Step::Done);
        }
    }
}
