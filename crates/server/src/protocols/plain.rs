//! Plain HTTP: from a request to a [`Call`] of a route or a mount, and to what answers it.

mod upgrade;

use std::sync::Arc;

use http::header::CONTENT_LENGTH;
use http::{Method, Response, Version};
use hyper::upgrade::OnUpgrade;
use tidewire_service::{Body, Call, Context, Error, HttpTarget, Reply, Result, Service, Target};

use self::upgrade::UpgradeRequest;
use crate::app::App;
use crate::app::prepare::mark;
use crate::request::body::{MessageStream, RawBody, RequestBody, check_length};
use crate::request::observe::Watch;
use crate::request::run_call::{PendingCall, Run, run};
use crate::response::body::{BoxedResponse, ResponseBody};
use crate::response::error::error_response;
use crate::response::page::{Credential, callers_own, page};
use crate::socket::gather::GatherHandle;

/// A plain HTTP service, and the connection that it is asked over.
pub(crate) struct PlainHttp<'a> {
    pub(crate) app: &'a Arc<App>,
    pub(crate) gathering: &'a GatherHandle,
    pub(crate) service: &'a dyn Service,
}

/// What answers a request of plain HTTP.
pub(crate) enum PlainResponse {
    /// The response is there.
    Ready(Box<Response<ResponseBody>>),
    /// The reply of the service is there.
    Answered(Box<Reply>),
    /// The service runs.
    Running(PendingCall),
    /// Everything else.
    Late(BoxedResponse<ResponseBody>),
}

impl PlainResponse {
    fn failed(error: &Error) -> Self {
        Self::Ready(Box::new(error_response(error).map(ResponseBody::plain)))
    }

    /// The response, once it is there.
    async fn response(self) -> Response<ResponseBody> {
        let outcome = match self {
            Self::Ready(response) => return *response,
            Self::Late(response) => return response.await,
            Self::Answered(reply) => Ok(*reply),
            Self::Running(call) => call.await,
        };
        page_of(outcome)
    }
}

/// The response for an outcome.
#[inline]
pub(crate) fn page_of(outcome: Result<Reply>) -> Response<ResponseBody> {
    match outcome {
        Ok(reply) => page(reply, ResponseBody::plain),
        Err(error) => error_response(&error).map(ResponseBody::plain),
    }
}

impl PlainHttp<'_> {
    /// Answers a request that was let pass.
    #[inline]
    pub(crate) fn answer(
        &self,
        target: HttpTarget,
        mut context: Context,
        body: RawBody,
        watch: Option<Watch>,
    ) -> PlainResponse {
        let mut unread = None;
        let version = body.version;
        let is_http11 = version == Version::HTTP_11;
        let body = if hyper::body::Body::is_end_stream(&body) {
            Body::Empty
        } else {
            let bytes_max = self.app.limits.body_bytes_max;
            let stream = MessageStream::of(context.headers(), &self.app.limits);
            let declared = context.headers().get(CONTENT_LENGTH).filter(|_| stream.is_none());
            if let Err(error) = check_length(declared, bytes_max) {
                return PlainResponse::failed(&error);
            }
            let counter = watch.map(|watch| watch.counter());
            let mut body = RequestBody::new(body, counter).limit(bytes_max);
            if let Some(stream) = stream {
                context.set_body_pass(stream.pass());
                body = body.or_messages(stream);
            }
            unread = body.leftover(version);
            Body::frames(body)
        };
        let upgrade = context.extensions().get::<OnUpgrade>().cloned();
        if is_http11 && upgrade.is_none() {
            context.set_interim(self.gathering.interim_sender());
        }
        let credential = Credential::of(&context);
        let is_connect = target.method == Method::CONNECT;
        let call = Call::of_target(Target::Http(target), context, body);
        let running = run(self.service, call, None);
        if let Some(upgrade) = upgrade {
            let request = UpgradeRequest { upgrade, is_connect, credential };
            return PlainResponse::Late(upgrade::answer(self.app, running, request));
        }
        let response = match running {
            Run::Ready(Ok(reply)) => {
                match self.app.cached_hit(self.service, version, &reply.freshness) {
                    None => PlainResponse::Answered(reply),
                    hit => {
                        let mut response = page(*reply, ResponseBody::plain);
                        mark(&mut response, hit);
                        PlainResponse::Ready(Box::new(response))
                    }
                }
            }
            Run::Ready(Err(error)) => PlainResponse::failed(&error),
            Run::Pending(waiting) => PlainResponse::Running(waiting),
        };
        let response = match credential {
            None => response,
            Some(credential) => PlainResponse::Late(Box::pin(async move {
                let mut response = response.response().await;
                callers_own(response.headers_mut(), credential);
                response
            })),
        };
        match unread {
            None => response,
            Some(unread) => {
                let app = Arc::clone(self.app);
                PlainResponse::Late(Box::pin(async move {
                    let response = response.response().await;
                    unread.discard_what_came(&app.limits).await;
                    response
                }))
            }
        }
    }
}
