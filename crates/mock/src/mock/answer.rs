//! One call from its bytes to its reply.

use std::hash::BuildHasher;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use foldhash::quality::FixedState;
use tidewire_service::{
    Answer, Body, Call, Codec, Context, Error, Freshness, Method, Reply, Result, Service, Signal,
    Validator,
};

use super::request::{ReadRequest, RequestReader, Requests};
use super::running::{self, NewCall, RunningCall};
use super::{DefaultReply, Mock, RealService, Set, reactive};
use crate::random::Random;
use crate::rule::MethodRule;
use crate::select::plan::{Outcome, Plan};
use crate::select::play;
use crate::select::{self, Maker, MethodContext};
use crate::state::sessions;
use crate::value::eval_context::{EvalContext, Request};

/// How many messages of a stream of requests a rule may see.
const STREAM_MESSAGES_MAX: usize = 100_000;

/// Answers a call; at once where its message is there and nothing is to be waited for.
pub(super) fn answer(mock: &Mock, method: &Method, call: Call) -> Answer {
    let set = mock.set();
    // The caller may know the method by its name only.
    let Some(method) = set.methods.get(&*method.path).map(|mocked| mocked.method.clone()) else {
        let why = format!("{} is not mocked", method.path);
        return Answer::ready(Err(Error::unimplemented(why)));
    };
    if !method.kind.client_streams()
        && let Body::Full(bytes) = &call.body
    {
        let bytes = bytes.clone();
        return whole(mock, set, method, call, &bytes);
    }
    let mock = mock.clone();
    let new = NewCall {
        method: &method,
        context: &call.context,
        requests: Vec::new(),
        bytes: 0,
        rule: None,
        has_reached_rules: false,
    };
    let guard = RunningCall::begin(&mock, new);
    Answer::pending(async move {
        let outcome = slow(mock, set, method, call, guard.call()).await;
        guard.settle(outcome)
    })
}

/// A call whose message is there.
fn whole(mock: &Mock, set: Arc<Set>, method: Method, call: Call, bytes: &Bytes) -> Answer {
    let reader = RequestReader::new(mock, &set, &method, &call.context, call.codec);
    let read = reader.read(bytes);
    let plan = match &read {
        ReadRequest::Good(message) => {
            plan(mock, &set, &method, call.accept, &call.context, Request::One(message))
        }
        ReadRequest::Refused(_, error) | ReadRequest::Unreadable(error) => Err(error.clone()),
    };
    let new = NewCall {
        method: &method,
        context: &call.context,
        has_reached_rules: matches!(read, ReadRequest::Good(_)),
        requests: match read {
            ReadRequest::Good(message) | ReadRequest::Refused(message, _) => vec![message],
            ReadRequest::Unreadable(_) => Vec::new(),
        },
        bytes: bytes.len(),
        rule: plan.as_ref().ok().and_then(|plan| plan.rule.clone()),
    };
    let plan = match plan {
        Ok(plan) if matches!(plan.outcome, Outcome::Upstream) => {
            let guard = RunningCall::begin(mock, new);
            let answer = pass_on(mock, &set, call, plan);
            return Answer::pending(async move { guard.settle(answer.await) });
        }
        Ok(plan) if !plan.delay.is_zero() => {
            let guard = RunningCall::begin(mock, new);
            let mock = mock.clone();
            return Answer::pending(async move {
                play::wait(&*mock.0.timer, plan.delay).await;
                guard.settle(finish(&mock, &set, &method, plan))
            });
        }
        plan => plan,
    };
    let outcome = plan.and_then(|plan| finish(mock, &set, &method, plan));
    Answer::ready(match running::ending(&outcome) {
        Some(ending) => {
            running::log_at_once(mock, new, ending);
            outcome
        }
        None => RunningCall::begin(mock, new).settle(outcome),
    })
}

/// A call whose requests are still to come.
async fn slow(
    mock: Mock,
    set: Arc<Set>,
    method: Method,
    mut call: Call,
    running: &Arc<RunningCall>,
) -> Result<Reply> {
    let reader = RequestReader::new(&mock, &set, &method, &call.context, call.codec);
    let is_stream = method.kind.client_streams();
    let body = match std::mem::take(&mut call.body) {
        Body::Empty if !is_stream => Body::Full(Bytes::new()),
        body => body,
    };
    let mut requests = Requests::new(body, reader, Arc::clone(running));
    if is_stream && mock.0.upstream.is_some() && !has_rules(&set, &method) {
        // The real service may answer before all is said.
        let mut plan = Plan::of(Outcome::Upstream);
        mock.apply_faults(&method, &mut plan, &mut Random::of(mock.0.seed, &[b"upstream"]));
        call.body = Body::stream(requests.passed_on());
        return pass_on(&mock, &set, call, plan).await;
    }
    // A rule with reactions answers as messages come; others wait for all of them.
    if is_stream && let Some(chosen) = reactive::choose(&mock, &set, &method, &call.context)? {
        running.set_rule(chosen.decision());
        let at = reactive::ReactiveStream {
            mock,
            set: Arc::clone(&set),
            method,
            codec: call.accept,
            context: call.context,
            chosen,
        };
        return at.reply(requests).await;
    }
    let mut messages = Vec::new();
    let mut said = Vec::new();
    while let Some(message) = requests.next().await? {
        refuse_more(messages.len(), is_stream)?;
        messages.push(message);
        if mock.0.upstream.is_some() {
            said.push(requests.last.clone());
        }
    }
    let request = match &messages[..] {
        many if is_stream => Request::Many(many),
        [one, ..] => Request::One(one),
        [] => return Err(Error::unimplemented("no message where one is expected")),
    };
    let plan = plan(&mock, &set, &method, call.accept, &call.context, request);
    running.set_rule(plan.as_ref().ok().and_then(|plan| plan.rule.clone()));
    let plan = plan?;
    if matches!(plan.outcome, Outcome::Upstream) {
        call.body = match is_stream {
            true => Body::stream(futures_util::stream::iter(said.into_iter().map(Ok))),
            false => Body::Full(requests.last),
        };
        return pass_on(&mock, &set, call, plan).await;
    }
    play::wait(&*mock.0.timer, plan.delay).await;
    finish(&mock, &set, &method, plan)
}

/// # Errors
/// When a call that has so many messages may not have another.
fn refuse_more(count: usize, is_stream: bool) -> Result<()> {
    match count {
        STREAM_MESSAGES_MAX => Err(Error::resource_exhausted(format!(
            "a mock takes {STREAM_MESSAGES_MAX} messages of one stream"
        ))),
        1.. if !is_stream => {
            Err(Error::unimplemented("more than one message where one is expected"))
        }
        _ => Ok(()),
    }
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
