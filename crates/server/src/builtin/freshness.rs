//! `tidewire.live.v1.Freshness`: each new answer of a query, for clients that do not speak the live
//! protocol.
//!
//! Whoever may call a query may watch it: each answer passes the gates and layers of the query's
//! own method, with the headers of the watching call (`app/follow.rs`). What it costs where nobody
//! watches: a method in the table.

use std::time::Duration;

use bytes::Bytes;
use tidewire_service::{
    Call, Codec, Context, Error, FollowOptions, Reply, Result, RpcService, Stream, StreamKind,
    Validator,
};

use crate::app::AppHandle;
use crate::app::follow::{FollowStep, FollowedQuery};
use crate::builtin::proto::tidewire::live::v1::watch_reply::Answer;
use crate::builtin::proto::tidewire::live::v1::watch_request::Request;
use crate::builtin::proto::tidewire::live::v1::{
    Detail, Failure, Freshness, FreshnessServer, WatchReply, WatchRequest,
};

/// The service of a server.
struct Watcher(AppHandle);

/// The service that tells of the answers of a server.
pub(crate) fn service(latest: AppHandle) -> impl RpcService {
    FreshnessServer::new(Watcher(latest))
}

impl Freshness for Watcher {
    async fn watch(
        &self,
        context: Context,
        request: WatchRequest,
    ) -> Result<Reply<Stream<WatchReply>>> {
        let app = self.0.now().ok_or_else(stopped)?;
        let path = format!("/{}", request.method.trim_start_matches('/'));
        let entry = app.methods.find(&path).ok_or_else(|| app.methods.unknown(&path))?;
        let method = entry.method.clone();
        if !method.is_query() || method.kind != StreamKind::Unary {
            let text = format!("{path} is not a query with one answer, so it cannot be watched");
            return Err(Error::failed_precondition(text));
        }
        let (codec, message) = match request.request {
            Some(Request::Json(text)) => (Codec::Json, Bytes::from(text)),
            Some(Request::Message(message)) => (Codec::Proto, Bytes::from(message)),
            None => (Codec::Proto, Bytes::new()),
        };
        let mut query = Call::method(method, context, codec, message).buffered().await?;
        query.context_mut().set_held(parse_validator(&request.validator)?.into_iter().collect());
        let pace = match request.min_interval_ms {
            0 => FollowOptions::default(),
            least => {
                FollowOptions::default().with_min_interval(Duration::from_millis(least.into()))
            }
        };
        let following = app.follow(query, pace, None)?;
        let answers = Stream::new(futures_util::stream::unfold(
            Some(following),
            move |following| async move { next(following?, codec).await },
        ));
        Ok(answers.into())
    }
}

/// The next message of a stream, and what goes on after it.
async fn next(
    mut following: FollowedQuery,
    codec: Codec,
) -> Option<(Result<WatchReply>, Option<FollowedQuery>)> {
    match following.next().await {
        FollowStep::Over => None,
        FollowStep::Stopping => Some((Err(stopped()), None)),
        FollowStep::Answer(Ok(reply)) => match watch_reply(reply, codec) {
            Ok(told) => Some((Ok(told), Some(following))),
            Err(error) => Some((Err(error), None)),
        },
        FollowStep::Answer(Err(error)) if error.freshness().is_known() => {
            Some((Ok(failure(error)), Some(following)))
        }
        FollowStep::Answer(Err(error)) => Some((Err(error), None)),
    }
}

fn watch_reply(reply: Reply, codec: Codec) -> Result<WatchReply> {
    let validator = reply.freshness.validator();
    let validator = validator.map(|it| it.bytes().to_vec()).unwrap_or_default();
    let message = match reply.body {
        tidewire_service::Body::Full(message) => message,
        _ => Bytes::new(),
    };
    let answer = match codec {
        Codec::Json => Answer::Json(
            String::from_utf8(message.into())
                .map_err(|cause| Error::internal("the answer is not JSON").with_cause(cause))?,
        ),
        _ => Answer::Message(message.into()),
    };
    Ok(WatchReply { answer: Some(answer), validator, ..Default::default() })
}

fn failure(error: Error) -> WatchReply {
    let details = error.details().iter().map(|detail| Detail {
        r#type: detail.type_name.clone(),
        value: detail.value.to_vec(),
        ..Default::default()
    });
    let failure = Failure {
        code: error.code().number().into(),
        message: error.message().to_owned(),
        details: details.collect(),
        ..Default::default()
    };
    WatchReply { answer: Some(failure.into()), ..Default::default() }
}

fn parse_validator(bytes: &[u8]) -> Result<Option<Validator>> {
    match bytes {
        [] => Ok(None),
        bytes => match <[u8; 16]>::try_from(bytes) {
            Ok(bytes) => Ok(Some(Validator::new(bytes))),
            Err(_) => Err(Error::invalid_argument("a validator has 16 bytes, or none")),
        },
    }
}

fn stopped() -> Error {
    Error::unavailable("the server stops; watch again, with the last validator")
}
