//! The real service behind a mock, and rules made of what it answers.
//!
//! Each call that comes to its end becomes a response whose `when` is the whole request. A file
//! holds the calls of one method and is written whole after each, so what is there can always be
//! served. A call whose connection broke, or whose caller left, is not recorded.
//!
//! What is called a secret, and what a schema marks with `debug_redact`, is not written: of headers
//! the whole line, of messages the value, of error details those of unknown types.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use futures_util::StreamExt;
use parking_lot::Mutex;
use tidewire_admin::{redact, write_whole};
use tidewire_client::{Client, Upstream};
use tidewire_mock::RealService;
use tidewire_schema::Schema;
use tidewire_service::generated::serde_json::{Map, Value as Json, json};
use tidewire_service::{
    Answer, Body, Call, Error, Frame, Headers, Method, Outcome, Reply, Service,
};

use super::recorded_reply::{self, RecordedReply};
use super::recorded_request;

/// The real service behind a mock, over the network.
#[derive(Debug)]
pub struct UpstreamService {
    upstream: Upstream,
    recorder: Option<Arc<Recorder>>,
}

/// How many bytes of one call, and of all calls of a method, are recorded.
const CALL_BYTES_MAX: usize = 8 << 20;
const METHOD_BYTES_MAX: usize = 32 << 20;
/// How many answers to one request are recorded.
const ANSWERS_MAX: usize = 1_000;

impl UpstreamService {
    /// Calls go through `client`.
    pub fn new(client: Client) -> Self {
        Self { upstream: Upstream::new(client), recorder: None }
    }

    /// Writes what it answers into a folder, as rules.
    ///
    /// # Errors
    /// When the folder cannot be made, or has rule files already, which would be overwritten.
    pub fn record(mut self, folder: impl Into<PathBuf>) -> std::io::Result<Self> {
        let folder = folder.into();
        std::fs::create_dir_all(&folder).map_err(|why| {
            let why = format!("the folder {} cannot be made: {why}", folder.display());
            std::io::Error::other(why)
        })?;
        let has_rules = super::load_rules(&folder).is_ok_and(|files| !files.is_empty());
        if has_rules {
            let why = format!("{} has rule files already; name another folder", folder.display());
            return Err(std::io::Error::new(std::io::ErrorKind::AlreadyExists, why));
        }
        self.recorder = Some(Arc::new(Recorder { folder, methods: Mutex::default() }));
        Ok(self)
    }
}

impl RealService for UpstreamService {
    fn answer(&self, schema: &Schema, mut call: Call) -> Answer {
        let recorder = self.recorder.clone().zip(call.spec().cloned());
        let Some((recorder, method)) = recorder else { return self.upstream.call(call) };
        let said = Arc::new(Mutex::new(RecordedSide::default()));
        call.body = match std::mem::take(&mut call.body) {
            Body::Stream(frames) => {
                let said = Arc::clone(&said);
                Body::frames(frames.inspect(move |frame| {
                    if let Ok(Frame::Data(bytes)) = frame {
                        said.lock().add(bytes);
                    }
                }))
            }
            Body::Full(bytes) => {
                said.lock().add(&bytes);
                Body::Full(bytes)
            }
            Body::Empty => Body::Empty,
        };
        let answer = self.upstream.call(call);
        let running = RunningCall { recorder, schema: schema.clone(), method, said };
        Answer::pending(async move { running.follow(answer.await) })
    }
}

/// The messages of one side of a call, unless they are too many.
#[derive(Debug, Default)]
struct RecordedSide {
    messages: Vec<Bytes>,
    bytes: usize,
}

impl RecordedSide {
    fn add(&mut self, message: &Bytes) {
        self.bytes += message.len();
        match self.bytes > CALL_BYTES_MAX {
            true => self.messages.clear(),
            false => self.messages.push(message.clone()),
        }
    }
}

/// A call that is being recorded.
struct RunningCall {
    recorder: Arc<Recorder>,
    schema: Schema,
    method: Method,
    said: Arc<Mutex<RecordedSide>>,
}

impl RunningCall {
    fn follow(self, answer: Result<Reply, Error>) -> Result<Reply, Error> {
        let mut reply = match answer {
            Ok(reply) => reply,
            Err(error) => {
                self.end(
                    &Headers::default(),
                    &RecordedSide::default(),
                    &Headers::default(),
                    Some(&error),
                );
                return Err(error);
            }
        };
        let headers = reply.headers.clone();
        match std::mem::take(&mut reply.body) {
            Body::Stream(frames) => {
                let trailers = reply.trailers.clone();
                let at = (frames, Some(self), RecordedSide::default(), trailers);
                reply.body = Body::frames(futures_util::stream::unfold(at, move |mut at| {
                    let headers = headers.clone();
                    async move {
                        let frame = at.0.next().await;
                        match &frame {
                            Some(Ok(Frame::Data(bytes))) => at.2.add(bytes),
                            Some(Ok(Frame::Trailers(late))) => at.3 = late.clone(),
                            Some(Err(error)) => {
                                if let Some(this) = at.1.take() {
                                    this.end(&headers, &at.2, &at.3, Some(error));
                                }
                            }
                            None => {
                                if let Some(this) = at.1.take() {
                                    this.end(&headers, &at.2, &at.3, None);
                                }
                            }
                        }
                        frame.map(|frame| (frame, at))
                    }
                }));
            }
            body => {
                let mut sent = RecordedSide::default();
                if let Body::Full(bytes) = &body {
                    sent.add(bytes);
                }
                self.end(&headers, &sent, &reply.trailers, None);
                reply.body = body;
            }
        }
        Ok(reply)
    }

    /// Records the call, if the service answered it to its end.
    fn end(
        self,
        headers: &Headers,
        sent: &RecordedSide,
        trailers: &Headers,
        error: Option<&Error>,
    ) {
        if let Some(error) = error.filter(|error| error.outcome() != Outcome::Answered) {
            let why = redact::text(error.message());
            tracing::warn!("a call of {} broke off and is not recorded: {why}", self.method.path);
            return;
        }
        let said = self.said.lock();
        let is_large = said.bytes.max(sent.bytes) > CALL_BYTES_MAX;
        let headers = error
            .map_or(headers, |error| if headers.is_empty() { error.headers() } else { headers });
        let reply = RecordedReply {
            headers,
            messages: &sent.messages,
            trailers: error.map_or(trailers, Error::trailers),
            error,
        };
        let recorded = match is_large {
            true => Err(format!("it has over {} MiB", CALL_BYTES_MAX >> 20)),
            false => recorded_request::when(&self.schema, &self.method, &said.messages)
                .and_then(|when| {
                    Ok((when, recorded_reply::answer(&self.schema, &self.method, &reply)?))
                })
                .and_then(|(when, answer)| self.recorder.add(&self.method, when, answer)),
        };
        if let Err(why) = recorded {
            tracing::warn!("a call of {} is not recorded: {why}", self.method.path);
        }
    }
}

/// What was recorded, and where it is written.
#[derive(Debug)]
struct Recorder {
    folder: PathBuf,
    methods: Mutex<BTreeMap<String, RecordedMethod>>,
}

#[derive(Debug, Default)]
struct RecordedMethod {
    rules: Vec<(Json, Vec<Json>)>,
    bytes: usize,
}

impl Recorder {
    /// Adds an answer, and writes the file of its method.
    fn add(&self, method: &Method, when: Json, answer: Json) -> Result<(), String> {
        let mut methods = self.methods.lock();
        let of = methods.entry(method.path.to_string()).or_default();
        let bytes = when.to_string().len() + answer.to_string().len();
        if of.bytes + bytes > METHOD_BYTES_MAX {
            return Err(format!("its method has over {} MiB", METHOD_BYTES_MAX >> 20));
        }
        match of.rules.iter_mut().find(|(known, _)| *known == when) {
            Some((_, answers)) if answers.len() == ANSWERS_MAX => {
                return Err(format!("its request was answered {ANSWERS_MAX} times"));
            }
            Some((_, answers)) => answers.push(answer),
            None => of.rules.push((when, vec![answer])),
        }
        of.bytes += bytes;
        let responses: Vec<_> = of.rules.iter().map(|(when, all)| response(when, all)).collect();
        let file = json!({"method": method.path.trim_start_matches('/'), "responses": responses});
        let name = format!("{}.{}.json", method.service, method.method).to_lowercase();
        write(&self.folder.join(name), &file)
    }
}

fn response(when: &Json, answers: &[Json]) -> Json {
    let mut response = match answers {
        [first, rest @ ..] if rest.iter().all(|one| one == first) => first.clone(),
        all => json!({"sequence": all}),
    };
    if let Json::Object(members) = &mut response {
        members.insert("when".to_owned(), when.clone());
        // What is compared without its secrets comes after what is compared as a whole.
        let is_exact = ["request", "request.items"]
            .iter()
            .any(|key| when.get(key).is_some_and(|test| test.get("equals").is_some()));
        if !is_exact {
            members.insert("priority".to_owned(), (-1).into());
        }
        members.insert("verbatim".to_owned(), true.into());
    }
    response
}

fn write(path: &Path, file: &Json) -> Result<(), String> {
    write_whole(path, &format!("{file:#}\n"), false).map_err(|why| format!("{why}"))
}

/// An object with these members.
pub(super) fn object<const N: usize>(members: [(&str, Json); N]) -> Map<String, Json> {
    members.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}
