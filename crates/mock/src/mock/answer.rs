//! One call from its bytes to its reply.

use std::hash::BuildHasher;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use foldhash::quality::FixedState;
use futures_util::StreamExt;
use tidewire_schema::Message;
use tidewire_service::{
    Answer, Body, Call, Codec, Context, Error, Frame, Freshness, Method, Reply, Result, Service,
    Signal, Validator,
};

use super::{DefaultReply, Mock, RealService, Set, reactive};
use crate::random::Random;
use crate::rule::MethodRule;
use crate::select::plan::{Ending, Outcome, Plan};
use crate::select::play;
use crate::select::{self, Maker, MethodContext};
use crate::state::log::{LoggedCall, REQUESTS_MAX};
use crate::state::sessions;
use crate::value::eval_context::{EvalContext, Request};

/// How many messages of a stream of requests a rule may see.
const STREAM_MESSAGES_MAX: usize = 100_000;

/// How the messages of a call are encoded.
#[derive(Clone, Copy)]
struct Codecs {
    request: Codec,
    reply: Codec,
}

/// Answers a call; at once where its message is there and nothing is to be waited for.
pub(super) fn answer(mock: &Mock, method: &Method, call: Call) -> Answer {
    let set = mock.set();
    // The caller may know the method by its name only.
    let Some(method) = set.methods.get(&*method.path).map(|mocked| mocked.method.clone()) else {
        let why = format!("{} is not mocked", method.path);
        return Answer::ready(Err(Error::unimplemented(why)));
    };
    let codecs = Codecs { request: call.codec, reply: call.accept };
    if !method.kind.client_streams()
        && let Body::Full(bytes) = &call.body
    {
        let plan = unary(mock, &set, &method, codecs, &call.context, bytes);
        return match plan {
            Ok(plan) if matches!(plan.outcome, Outcome::Upstream) => {
                pass_on(mock, &set, call, plan)
            }
            Ok(plan) if plan.delay.is_zero() => Answer::ready(finish(mock, &set, &method, plan)),
            Ok(plan) => {
                let mock = mock.clone();
                Answer::pending(async move {
                    play::wait(&*mock.0.timer, plan.delay).await;
                    finish(&mock, &set, &method, plan)
                })
            }
            Err(error) => Answer::ready(Err(error)),
        };
    }
    let mock = mock.clone();
    Answer::pending(async move { slow(mock, set, method, call).await })
}

/// A call whose requests are still to come.
async fn slow(mock: Mock, set: Arc<Set>, method: Method, mut call: Call) -> Result<Reply> {
    let codecs = Codecs { request: call.codec, reply: call.accept };
    if !method.kind.client_streams() {
        let bytes = call.message().await?;
        let plan = unary(&mock, &set, &method, codecs, &call.context, &bytes)?;
        if matches!(plan.outcome, Outcome::Upstream) {
            call.body = Body::Full(bytes);
            return pass_on(&mock, &set, call, plan).await;
        }
        play::wait(&*mock.0.timer, plan.delay).await;
        return finish(&mock, &set, &method, plan);
    }
    if mock.0.upstream.is_some() && !has_rules(&set, &method) {
        // The real service may answer before all is said.
        let mut plan = Plan::of(Outcome::Upstream);
        mock.apply_faults(&method, &mut plan, &mut Random::of(mock.0.seed, &[b"upstream"]));
        record(&mock, &method, &call.context, (Vec::new(), 0), || plan.ending(&method));
        return pass_on(&mock, &set, call, plan).await;
    }
    let body = std::mem::take(&mut call.body);
    let mut requests = Requests::new(&set, &method, codecs.request, body);
    // A rule with reactions answers as messages come; others wait for all of them.
    if let Some(chosen) = reactive::choose(&mock, &set, &method, &call.context)? {
        let at = reactive::ReactiveStream {
            mock,
            set: Arc::clone(&set),
            method,
            codec: codecs.reply,
            context: call.context,
            chosen,
        };
        return at.reply(requests).await;
    }
    let mut messages = Vec::new();
    let mut said = mock.0.upstream.is_some().then(Vec::new);
    while let Some(message) = requests.next().await? {
        if let Some(said) = &mut said {
            said.push(requests.last.clone());
        }
        if messages.len() == STREAM_MESSAGES_MAX {
            let why = format!("a mock takes {STREAM_MESSAGES_MAX} messages of one stream");
            return Err(Error::resource_exhausted(why));
        }
        messages.push(message);
    }
    let request = Request::Many(&messages);
    let plan = plan(&mock, &set, &method, codecs.reply, &call.context, request)?;
    let bytes = requests.bytes;
    record(&mock, &method, &call.context, (messages, bytes), || plan.ending(&method));
    if let (Outcome::Upstream, Some(said)) = (&plan.outcome, said) {
        call.body = Body::stream(futures_util::stream::iter(said.into_iter().map(Ok)));
        return pass_on(&mock, &set, call, plan).await;
    }
    play::wait(&*mock.0.timer, plan.delay).await;
    finish(&mock, &set, &method, plan)
}

fn has_rules(set: &Set, method: &Method) -> bool {
    let mocked = set.methods.get(&*method.path);
    mocked.is_some_and(|mocked| mocked.file_rules.is_some() || !mocked.stubs.is_empty())
}

/// The real service's answer, with what was set to go wrong with it. Nothing may store it.
fn pass_on(mock: &Mock, set: &Set, call: Call, plan: Plan) -> Answer {
    let Some(real) = mock.0.upstream.clone() else {
        return Answer::ready(play::reply(plan, false, &mock.0.timer));
    };
    let timer = Arc::clone(&mock.0.timer);
    let schema = set.schema.clone();
    Answer::pending(async move {
        play::wait(&*timer, plan.delay).await;
        let bound = BoundService { real, schema: schema.clone() };
        Ok(schema.transcode(Codec::Proto, &bound, call).await?.with_script(plan.script))
    })
}

/// A real service with the schema that a call of it is of.
struct BoundService {
    real: Arc<dyn RealService>,
    schema: tidewire_schema::Schema,
}

impl Service for BoundService {
    fn call(&self, call: Call) -> Answer {
        self.real.answer(&self.schema, call)
    }
}

fn unary(
    mock: &Mock,
    set: &Set,
    method: &Method,
    codecs: Codecs,
    context: &Context,
    bytes: &[u8],
) -> Result<Plan> {
    let message = set.schema.decode(&method.input, codecs.request, bytes)?;
    let plan = plan(mock, set, method, codecs.reply, context, Request::One(&message))?;
    record(mock, method, context, (vec![message], bytes.len()), || plan.ending(method));
    Ok(plan)
}

impl Mock {
    /// What a caller would get, with nothing counted or remembered.
    pub(crate) fn dry_plan(
        &self,
        set: &Set,
        method: &Method,
        codec: Codec,
        context: &Context,
        request: Request<'_>,
    ) -> Result<Plan> {
        let number = self.0.calls.load(Ordering::Relaxed);
        choose(self, set, method, codec, context, request, (number, Memory::Left))
    }
}

/// Whether a selection changes what the session remembers.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Memory {
    Changed,
    Left,
}

/// What a caller will get: selection, with what the session remembers.
fn plan(
    mock: &Mock,
    set: &Set,
    method: &Method,
    codec: Codec,
    context: &Context,
    request: Request<'_>,
) -> Result<Plan> {
    let number = mock.0.calls.fetch_add(1, Ordering::Relaxed);
    // Before it is read: what changes meanwhile makes the answer stale.
    let state = state_read(mock, set, method, context);
    let plan = choose(mock, set, method, codec, context, request, (number, Memory::Changed));
    plan.map(|plan| Plan { state, ..plan })
}

/// What fires when the state changes that a query's rules read.
fn state_read(mock: &Mock, set: &Set, method: &Method, context: &Context) -> Option<Signal> {
    let mocked = set.methods.get(&*method.path).filter(|_| method.is_query())?;
    let session = sessions::name(context.headers());
    let is_read = mocked.rules_of(session).any(|rule| rule.reads_state);
    is_read.then(|| mock.sessions().session(session).changed())
}

fn choose(
    mock: &Mock,
    set: &Set,
    method: &Method,
    codec: Codec,
    context: &Context,
    request: Request<'_>,
    (number, memory): (u64, Memory),
) -> Result<Plan> {
    let mut random = Random::of(mock.0.seed, &[&number.to_le_bytes()]);
    let mut plan = by_rules(mock, set, method, codec, context, request, (&mut random, memory))?;
    mock.apply_faults(method, &mut plan, &mut random);
    Ok(plan)
}

/// What the rules say, or the schema where there are none.
fn by_rules(
    mock: &Mock,
    set: &Set,
    method: &Method,
    codec: Codec,
    context: &Context,
    request: Request<'_>,
    (random, memory): (&mut Random, Memory),
) -> Result<Plan> {
    let now_millis = mock.now_millis();
    let method_context = MethodContext {
        schema: &set.schema,
        method,
        codec,
        generate_options: &set.generate_options,
        now_millis,
    };
    let nothing = std::collections::HashMap::new();
    let eval = EvalContext {
        request,
        headers: context.headers(),
        message: None,
        item: None,
        state: &nothing,
        attempt: 0,
        timeout_ms: timeout_ms(mock, context),
        vars: None,
    };
    let Some(mocked) = set.methods.get(&*method.path) else {
        return Err(Error::unimplemented(format!("{} is not mocked", method.path)));
    };
    let file = match &mocked.file_rules {
        Some(file_rules) => match &file_rules.rule {
            Ok(rule) => Some(rule),
            Err(fault) => {
                let why = format!("the rules of this method are broken: {fault}");
                return Err(Error::internal(why));
            }
        },
        None => None,
    };
    for rule in mocked.rules_of(sessions::name(context.headers())) {
        if let Some(plan) = by_rule(mock, rule, method_context, &eval, (&mut *random, memory)) {
            return Ok(plan);
        }
    }
    if mock.0.upstream.is_some() {
        return Ok(Plan::of(Outcome::Upstream));
    }
    let mut maker = Maker::new(method_context, eval, random);
    match (file, mock.0.missing) {
        (Some(_), _) => Ok(maker.empty()),
        (None, DefaultReply::Generated) => Ok(maker.generated()),
        (None, DefaultReply::Unimplemented) => {
            let why = format!("No rule matched for {}/{}", method.service, method.method);
            Err(Error::unimplemented(why))
        }
    }
}

/// The plan of the response that a rule chooses, if one does.
fn by_rule(
    mock: &Mock,
    rule: &Arc<MethodRule>,
    method_context: MethodContext<'_>,
    eval: &EvalContext<'_>,
    (random, memory): (&mut Random, Memory),
) -> Option<Plan> {
    let eval = EvalContext { vars: rule.vars.as_ref(), ..eval.clone() };
    if !rule.is_stateful {
        let index = select::choose(rule, &eval, &|_| 0)?;
        return Some(Maker::new(method_context, eval, random).plan(
            rule,
            rule.responses.get(index)?,
            0,
        ));
    }
    let path = &*method_context.method.path;
    let mut sessions = mock.sessions();
    let session = sessions.session(sessions::name(eval.headers));
    let attempt = session.attempts(path) + 1;
    if memory == Memory::Changed {
        session.count_attempt(path);
    }
    let at = EvalContext { state: &session.state, attempt, ..eval };
    let index = select::choose(rule, &at, &|index| session.used(path, rule.counter(index)))?;
    let response = rule.responses.get(index)?;
    let used = session.used(path, response.counter);
    let mut maker = Maker::new(method_context, at, random);
    let plan = maker.plan(rule, response, used);
    if memory == Memory::Left {
        return Some(plan);
    }
    let remembered = maker.state_values(response);
    session.count(path, response.counter);
    let is_changed = match remembered {
        Ok(values) => session.set_all(values),
        Err(error) => return Some(Plan { rule: plan.rule, ..Plan::of(Outcome::Error(error)) }),
    };
    // A query that changed what others read would be asked again for ever; its watchers stay, for
    // the next command.
    if is_changed && !method_context.method.is_query() {
        session.notify_changed();
    }
    Some(plan)
}

/// How long the caller still waits, where it said so.
pub(super) fn timeout_ms(mock: &Mock, context: &Context) -> Option<u64> {
    let left = context.remaining(mock.0.timer.now())?;
    u64::try_from(left.as_millis()).ok()
}

/// Keeps a call in the log; its requests took so many bytes.
pub(super) fn record(
    mock: &Mock,
    method: &Method,
    context: &Context,
    (mut requests, bytes): (Vec<Message>, usize),
    ending: impl FnOnce() -> Ending,
) {
    let mut log = mock.log();
    if !log.is_on() {
        return;
    }
    requests.truncate(REQUESTS_MAX);
    let Ending { rule, error, fault } = ending();
    let headers = context.headers().iter();
    let headers: usize = headers.map(|(name, value)| name.as_str().len() + value.len() + 64).sum();
    let call = LoggedCall {
        number: 0,
        at_millis: mock.now_millis(),
        method: method.clone(),
        session: sessions::name(context.headers()).to_owned(),
        headers: context.headers().clone(),
        requests: requests.into(),
        rule,
        error,
        fault,
    };
    log.add(call, bytes + headers + 256);
}

/// The reply of a plan. A query's can be watched, and nothing may store it: the log, `times` and
/// sessions have to see every call.
fn finish(mock: &Mock, set: &Set, method: &Method, plan: Plan) -> Result<Reply> {
    let state = plan.state.clone();
    let reply = play::reply(plan, method.kind.server_streams(), &mock.0.timer)?;
    if !method.is_query() {
        return Ok(reply);
    }
    let script = reply.script().cloned().unwrap_or_default();
    let reply = reply.with_script(script);
    let Some(mocked) = set.methods.get(&*method.path) else { return Ok(reply) };
    let mut freshness = Freshness::tracked(Arc::new(mocked.changed.clone()));
    if let Some(state) = state {
        freshness = freshness.and(Freshness::tracked(Arc::new(state)));
    }
    let validator = validator(&reply.body);
    Ok(reply.with_freshness(freshness.with_validator(validator)))
}

/// What names the content of an answer, so that who holds it may be told that it is stale.
fn validator(body: &Body) -> Option<Validator> {
    let Body::Full(bytes) = body else { return None };
    let half = |seed| FixedState::with_seed(seed).hash_one(&bytes[..]);
    let whole = u128::from(half(1)) << 64 | u128::from(half(2));
    Some(Validator::new(whole.to_be_bytes()))
}

/// The requests of a stream, as they come.
pub(super) struct Requests {
    body: Body,
    schema: tidewire_schema::Schema,
    input: String,
    codec: Codec,
    /// The message that came last.
    last: Bytes,
    /// How many bytes came.
    pub(super) bytes: usize,
}

impl Requests {
    fn new(set: &Set, method: &Method, codec: Codec, body: Body) -> Self {
        Self {
            body,
            schema: set.schema.clone(),
            input: method.input.to_string(),
            codec,
            last: Bytes::new(),
            bytes: 0,
        }
    }

    pub(super) async fn next(&mut self) -> Result<Option<Message>> {
        let bytes: Bytes = match &mut self.body {
            Body::Empty => return Ok(None),
            Body::Full(_) => match std::mem::take(&mut self.body) {
                Body::Full(bytes) => bytes,
                _ => return Ok(None),
            },
            Body::Stream(frames) => loop {
                match frames.next().await {
                    None => return Ok(None),
                    Some(frame) => match frame? {
                        Frame::Data(bytes) => break bytes,
                        Frame::Trailers(_) => {}
                    },
                }
            },
        };
        self.bytes += bytes.len();
        self.last = bytes.clone();
        self.schema.decode(&self.input, self.codec, &bytes).map(Some)
    }
}
