//! A caller of gRPC whose call passes unread: its deadline, and failures that it can read. A bare
//! HTTP status, or a reply that breaks off, would only say that there was one.
//!
//! | what fails | the caller gets |
//! |---|---|
//! | the call, before its head | the error, whose content type of gRPC lets the server write it as a reply of that protocol |
//! | the reply within its body, over HTTP/2, before its trailers | trailers with the code and the message of the error |
//! | either, as the caller's deadline passes | `deadline_exceeded`, whichever of those who keep it was first |
//!
//! How long a caller waits (`grpc-timeout`) counts from when its call came. One that is not written
//! as it has to be is refused: some servers fail other calls on the connection by it.

use std::time::{Duration, Instant};

use futures_util::{StreamExt, stream};
use http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue, Version};
use tidewire_service::{Answer, Body, Call, Code, Error, Frame, Headers, Progress, Reply, Result};
use tidewire_wire::Dialect;
use tidewire_wire::unread::{self, GRPC_ENCODING, GRPC_TIMEOUT};

use crate::proxy_status::ProxyError;
use crate::upstream::version_of;

/// Whether a request is one of gRPC, but for gRPC-Web, whose failures are in a body.
pub(crate) fn is_grpc(headers: &Headers) -> bool {
    headers.get(CONTENT_TYPE).is_some_and(|value| unread::is_grpc(value.as_bytes()))
}

/// A caller of gRPC.
#[derive(Debug, Clone, Copy)]
pub(crate) struct GrpcCaller {
    is_http2: bool,
    deadline: Option<Instant>,
}

impl GrpcCaller {
    /// Whoever makes a call, if it speaks gRPC. What passes the call on knows of its deadline then.
    ///
    /// # Errors
    /// `invalid_argument` for a `grpc-timeout` that is not as specified, or more than one.
    pub(crate) fn of(call: &mut Call) -> Result<Option<Self>> {
        let headers = call.context.headers();
        if !is_grpc(headers) {
            return Ok(None);
        }
        let timeout = Dialect::Grpc.read_timeout(headers.get_all(GRPC_TIMEOUT).iter());
        let timeout = timeout.map_err(marked)?;
        let own = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        let deadline = own.into_iter().chain(call.context.deadline()).min();
        if let Some(deadline) = deadline {
            call.context.set_deadline(deadline);
        }
        // Some servers remember with an entry of HPACK's table that they could not read it, and
        // fail other callers by it: these have no entry.
        for name in [GRPC_TIMEOUT, GRPC_ENCODING] {
            if let Some(value) = call.context.headers_mut().get_mut(name) {
                value.set_sensitive(true);
            }
        }
        Ok(Some(Self { is_http2: version_of(call) == Version::HTTP_2, deadline }))
    }

    /// The same answer, whose failure this caller can read.
    pub(crate) fn tell(self, answer: Answer) -> Answer {
        let read = move |outcome: Result<Reply>| match outcome {
            Ok(reply) if self.is_http2 => Ok(self.ends_in_trailers(reply)),
            Ok(reply) => Ok(reply),
            Err(error) => Err(marked(self.in_time(error))),
        };
        match answer.into_progress() {
            Progress::Ready(outcome) => Answer::ready(read(outcome.map(|reply| *reply))),
            Progress::Pending(pending) => Answer::pending(async move { read(pending.await) }),
        }
    }

    /// The error, or that the deadline has passed: the server behind keeps it too, and gives the
    /// call up as its caller does.
    fn in_time(self, error: Error) -> Error {
        let is_over = || {
            let reach = Instant::now().checked_add(SKEW);
            self.deadline.is_some_and(|deadline| reach.is_some_and(|reach| reach >= deadline))
        };
        if error.code() == Code::Canceled && is_over() {
            let outcome = error.outcome();
            let told = Error::deadline_exceeded("the deadline that the caller set has passed");
            return told.with_outcome(outcome).with_cause(error);
        }
        error
    }

    /// The same reply, which ends by trailers where it would break off.
    fn ends_in_trailers(self, mut reply: Reply) -> Reply {
        if !is_grpc(&reply.headers) || reply.headers.contains_key(CONTENT_LENGTH) {
            return reply;
        }
        let Body::Stream(frames) = reply.body else { return reply };
        let frames = stream::unfold(Some(frames), move |frames| async move {
            let mut frames = frames?;
            match frames.next().await? {
                Ok(trailers @ Frame::Trailers(_)) => Some((Ok(trailers), None)),
                Ok(frame) => Some((Ok(frame), Some(frames))),
                Err(error) => {
                    Some((Ok(Frame::Trailers(trailers(self.in_time(error)).into())), None))
                }
            }
        });
        reply.body = Body::frames(frames);
        reply
    }
}

/// What tells that a reply broke off. Where its server is is not said, but in the log.
fn trailers(error: Error) -> HeaderMap {
    tracing::debug!(%error, "a reply of gRPC broke off");
    let is_of_way = ProxyError::of(&error).is_some() || tidewire_client::is_broken(&error);
    unread::grpc_trailers(&match is_of_way {
        true => Error::new(error.code(), BROKEN_OFF),
        false => error,
    })
}

/// The error, to be written as a reply of gRPC.
fn marked(mut error: Error) -> Error {
    error.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
    error
}

const BROKEN_OFF: &str = "the server broke off in the middle of its reply";

/// A deadline is told in whole units, so that a server behind may see it that much before.
const SKEW: Duration = Duration::from_millis(1);

#[cfg(test)]
mod tests {
    use http::{HeaderName, Method};
    use tidewire_service::{Context, ThinHeaders};

    use super::*;

    fn call(headers: &[(HeaderName, &'static str)]) -> Call {
        let headers =
            headers.iter().map(|(name, value)| (name.clone(), HeaderValue::from_static(value)));
        let headers = headers.chain([(CONTENT_TYPE, HeaderValue::from_static("application/grpc"))]);
        let context = Context::new(Headers::from_iter(headers));
        Call::http(Method::POST, "http://a/b.C/D".parse().unwrap(), context, Body::Empty)
    }

    fn caller() -> GrpcCaller {
        GrpcCaller::of(&mut call(&[])).unwrap().expect("gRPC")
    }

    #[tokio::test]
    async fn a_failure_stays_one_and_is_marked() {
        let error = || Error::unavailable("shop broke off");
        let pending = Answer::pending(async move { Err(error()) });
        for answer in [Answer::ready(Err(error())), pending] {
            let marked = caller().tell(answer).await.expect_err("a failure");
            assert_eq!(marked.message(), "shop broke off");
            assert_eq!(marked.headers().get(CONTENT_TYPE).unwrap(), "application/grpc");
        }
        for (content_type, expected) in [
            ("application/grpc", true),
            ("application/grpc+proto", true),
            ("application/grpc-web", false),
            ("application/json", false),
        ] {
            let value = HeaderValue::from_static(content_type);
            assert_eq!(is_grpc(&Headers::from_iter([(CONTENT_TYPE, value)])), expected);
        }
    }

    /// The frames of a reply with these, as this caller gets them.
    async fn frames(caller: GrpcCaller, frames: Vec<Result<Frame>>) -> Vec<Result<Frame>> {
        let reply = Reply::text(Body::frames(stream::iter(frames)))
            .with_header(CONTENT_TYPE, "application/grpc")
            .unwrap();
        let reply = caller.tell(Answer::ready(Ok(reply))).await.unwrap();
        reply.body.into_frames().collect().await
    }

    #[tokio::test]
    async fn a_reply_that_breaks_off_ends_by_trailers_unless_it_has_some() {
        let data = || Ok(Frame::Data("a".into()));
        let error = || Err(Error::unavailable("10.0.0.7:1 closed the connection"));
        let told = frames(caller(), vec![data(), error()]).await;
        let [Ok(Frame::Data(_)), Ok(Frame::Trailers(trailers))] = &told[..] else {
            panic!("{told:?}");
        };
        assert_eq!(trailers.get("grpc-status").unwrap(), "14");
        let said = trailers.get("grpc-message").unwrap();
        assert_eq!(said, "the server broke off in the middle of its reply", "not where it is");

        let own = Err(Error::resource_exhausted("100 % gr\u{fc}n"));
        let told = frames(caller(), vec![own]).await;
        let [Ok(Frame::Trailers(trailers))] = &told[..] else { panic!("{told:?}") };
        assert_eq!(trailers.get("grpc-status").unwrap(), "8");
        assert_eq!(trailers.get("grpc-message").unwrap(), "100 %25 gr%C3%BCn");

        let ended = || Ok(Frame::Trailers(ThinHeaders::default()));
        let told = frames(caller(), vec![data(), ended(), error()]).await;
        assert!(matches!(&told[..], [Ok(Frame::Data(_)), Ok(Frame::Trailers(_))]), "{told:?}");
        let http1 = GrpcCaller { is_http2: false, ..caller() };
        let told = frames(http1, vec![data(), error()]).await;
        assert!(matches!(&told[..], [Ok(Frame::Data(_)), Err(_)]), "{told:?}");
    }

    #[tokio::test]
    async fn a_server_that_gives_up_at_the_deadline_is_told_as_the_deadline() {
        let canceled = || Error::canceled("shop reset the call");
        let late = GrpcCaller::of(&mut call(&[(GRPC_TIMEOUT, "0m")])).unwrap().expect("gRPC");
        let early = GrpcCaller::of(&mut call(&[(GRPC_TIMEOUT, "1H")])).unwrap().expect("gRPC");
        let other = caller();
        for (caller, code) in
            [(late, Code::DeadlineExceeded), (early, Code::Canceled), (other, Code::Canceled)]
        {
            let error = caller.tell(Answer::ready(Err(canceled()))).await.unwrap_err();
            assert_eq!(error.code(), code);
            let told = frames(caller, vec![Err(canceled())]).await;
            let [Ok(Frame::Trailers(trailers))] = &told[..] else { panic!("{told:?}") };
            assert_eq!(trailers.get("grpc-status").unwrap(), &code.number().to_string());
        }
    }

    #[test]
    fn what_some_servers_remember_between_calls_has_no_entry_in_a_table() {
        let mut call = call(&[(GRPC_TIMEOUT, "1S"), (GRPC_ENCODING, "zz")]);
        GrpcCaller::of(&mut call).unwrap();
        for name in [GRPC_TIMEOUT, GRPC_ENCODING] {
            assert!(call.context.headers().get(&name).unwrap().is_sensitive(), "{name}");
        }
    }

    #[test]
    fn a_timeout_is_a_deadline_and_one_that_is_not_as_specified_is_refused() {
        for (said, seconds) in [("2S", 2), ("1H", 3600)] {
            let mut call = call(&[(GRPC_TIMEOUT, said)]);
            let before = Instant::now();
            GrpcCaller::of(&mut call).unwrap();
            let left = call.context.deadline().unwrap().duration_since(before);
            assert_eq!(left.as_secs(), seconds, "{said}");
        }
        for said in ["abc", "123456789n"] {
            let error = GrpcCaller::of(&mut call(&[(GRPC_TIMEOUT, said)])).unwrap_err();
            assert_eq!(error.code(), Code::InvalidArgument, "{said}");
            assert_eq!(error.headers().get(CONTENT_TYPE).unwrap(), "application/grpc");
        }
        let twice =
            GrpcCaller::of(&mut call(&[(GRPC_TIMEOUT, "1S"), (GRPC_TIMEOUT, "2S")])).unwrap_err();
        assert!(twice.message().contains("occurs twice"), "{twice}");
    }
}
