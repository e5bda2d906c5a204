//! Whether a real service still answers as it was recorded: each recorded call is made again, and
//! what comes is compared with what the rules answer. Secrets of both are masked first, as in a
//! recording: a secret that is another one counts as the same, and one that is gone as a
//! difference.

use tidewire_admin::redact;
use tidewire_mock::{Mock, RecordedCall, RuleFiles};
use tidewire_schema::Schema;
use tidewire_server::TokioClock;
use tidewire_service::generated::serde_json::Value as Json;
use tidewire_service::{Body, Call, Codec, Context, Error, Method, Service};

use super::mask::MaskedMessage;

/// Where a service answers otherwise than it did.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Drift {
    /// The recorded call.
    pub call: RecordedCall,
    /// What is otherwise.
    pub what: String,
}

/// What an answer is compared by.
#[derive(Debug, PartialEq)]
struct ComparedReply {
    messages: Vec<Json>,
    error: Option<ComparedError>,
}

#[derive(Debug, PartialEq)]
struct ComparedError {
    code: String,
    message: String,
}

/// The most bytes of one reply.
const REPLY_BYTES_MAX: usize = 64 << 20;

/// Makes the recorded calls of rule files again, and tells how many were made and where the service
/// answers otherwise. Commands change what there is, so they are made only where that is wanted.
///
/// # Errors
/// When the service cannot be reached.
pub async fn drift(
    schema: &Schema,
    files: &RuleFiles,
    service: &dyn Service,
    with_commands: bool,
) -> Result<(usize, Vec<Drift>), Error> {
    let (mock, _) = Mock::builder(schema.clone(), TokioClock).rules(files.clone()).build();
    let mut made = 0;
    let mut found = Vec::new();
    for call in files.recorded(schema) {
        let (name, method) = call.method.split_once('/').unwrap_or_default();
        let interface = schema.interface(name).ok().flatten();
        let methods = interface.as_ref().map_or(&[][..], |interface| interface.methods());
        let Some(method) = methods.iter().find(|one| one.method == method) else { continue };
        if !method.is_query() && !with_commands {
            continue;
        }
        made += 1;
        let recorded = ask(&mock, schema, method, &call.requests).await?;
        let now = ask(service, schema, method, &call.requests).await?;
        if let Some(what) = difference(&recorded, &now) {
            found.push(Drift { call, what });
        }
    }
    Ok((made, found))
}

async fn ask(
    service: &dyn Service,
    schema: &Schema,
    method: &Method,
    requests: &[Json],
) -> Result<ComparedReply, Error> {
    let mut bytes = Vec::new();
    for request in requests {
        bytes.push(schema.from_json(&method.input, request)?.encode(Codec::Proto)?);
    }
    let body = match method.kind.client_streams() {
        true => Body::stream(futures_util::stream::iter(bytes.into_iter().map(Ok))),
        false => Body::Full(bytes.into_iter().next().unwrap_or_default()),
    };
    let call = Call::method(method.clone(), Context::default(), Codec::Proto, body);
    let mut compared = ComparedReply { messages: Vec::new(), error: None };
    let ended = async {
        let reply = service.call(call).await?;
        let mut frames = reply.body.limit(REPLY_BYTES_MAX)?.into_frames();
        while let Some(frame) = futures_util::StreamExt::next(&mut frames).await {
            if let tidewire_service::Frame::Data(bytes) = frame? {
                let message = schema.decode(&method.output, Codec::Proto, &bytes)?;
                let masked = MaskedMessage::new(&message).map_err(Error::internal)?;
                compared.messages.push(masked.into_readable(message.message_type()));
            }
        }
        Ok::<_, Error>(())
    };
    if let Err(error) = ended.await {
        if error.outcome() != tidewire_service::Outcome::Answered {
            return Err(error);
        }
        compared.error = Some(ComparedError {
            code: error.code().as_str().to_owned(),
            message: redact::text(error.message()),
        });
    }
    Ok(compared)
}

/// What is otherwise now, if anything is.
fn difference(recorded: &ComparedReply, now: &ComparedReply) -> Option<String> {
    let shown = |one: &Option<ComparedError>| match one {
        Some(ComparedError { code, message }) => format!("{code}: {message}"),
        None => "ok".to_owned(),
    };
    if recorded.error != now.error {
        let was = shown(&recorded.error);
        let is = shown(&now.error);
        return Some(format!("the service answers {is}, recorded was {was}"));
    }
    let was = recorded.messages.len();
    let is = now.messages.len();
    if was != is {
        return Some(format!("the service answers with {is} messages, recorded were {was}"));
    }
    let mut pairs = recorded.messages.iter().zip(&now.messages);
    let (was, is) = pairs.find(|(was, is)| was != is)?;
    let Difference { at, was, is } = first_difference(was, is, String::new());
    let at = if at.is_empty() { "the message" } else { at.trim_start_matches('.') };
    Some(format!("{at} is {is} now, recorded was {was}"))
}

/// A value that is not what it was.
struct Difference {
    at: String,
    was: String,
    is: String,
}

fn first_difference(was: &Json, is: &Json, at: String) -> Difference {
    if let (Json::Object(old), Json::Object(new)) = (was, is) {
        let keys = old.keys().chain(new.keys());
        for key in keys {
            let pair = (old.get(key).unwrap_or(&Json::Null), new.get(key).unwrap_or(&Json::Null));
            if pair.0 != pair.1 {
                return first_difference(pair.0, pair.1, format!("{at}.{key}"));
            }
        }
    }
    Difference { at, was: was.to_string(), is: is.to_string() }
}
