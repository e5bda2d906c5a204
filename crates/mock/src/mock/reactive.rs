//! Bidirectional streams that are answered message by message.
//!
//! The first reaction whose conditions hold of a message (`message.text`, or `request.last.text`)
//! sends its messages before the next one is read. Once the caller has said all, the messages of
//! the response itself follow, and then its error or its trailers.
//!
//! Which response it is, what it counts and what it remembers is settled as the stream begins, and
//! so is the head of the reply, unless its form depends on the call: then it waits for the first
//! message.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tidewire_schema::Message;
use tidewire_service::{
    Body, Codec, Context, Error, Frame, Headers, Method, Reply, Result, ThinHeaders,
};

use super::answer;
use super::request::Requests;
use super::{Mock, MockedMethod, Set};
use crate::random::Random;
use crate::rule::{Answer, MethodRule, Response};
use crate::select::plan::{Decision, Plan};
use crate::select::play;
use crate::select::{self, Maker, MethodContext};
use crate::state::sessions;
use crate::value::eval_context::{EvalContext, Request};
use crate::value::node::Node;

/// How many messages reactions see of what came before.
const MESSAGES_MAX: usize = 1_000;

/// A response that reacts, and what its session knew as the stream began.
pub(super) struct ReactingResponse {
    rule: Arc<MethodRule>,
    index: usize,
    used: u64,
    attempt: u64,
    state: HashMap<String, Node>,
}

/// The response that answers messages as they come: the one that a call without any message gets,
/// such as by its headers. It counts and remembers now, as the stream begins.
pub(super) fn choose(
    mock: &Mock,
    set: &Set,
    method: &Method,
    context: &Context,
) -> Result<Option<ReactingResponse>> {
    let Some(mocked): Option<&MockedMethod> = set.methods.get(&*method.path) else {
        return Ok(None);
    };
    let rules = || mocked.rules_of(sessions::name(context.headers()));
    let reacts =
        |response: &Response| response.answers.iter().any(|answer| !answer.reactions.is_empty());
    if !rules().any(|rule| rule.responses.iter().any(reacts)) {
        return Ok(None);
    }
    let path = &*method.path;
    let mut sessions = mock.sessions();
    let session = sessions.session(sessions::name(context.headers()));
    let attempt = session.attempts(path) + 1;
    let before = EvalContext {
        request: Request::Many(&[]),
        headers: context.headers(),
        message: None,
        item: None,
        state: &session.state,
        attempt,
        timeout_ms: answer::timeout_ms(mock, context),
        vars: None,
    };
    let found = rules().find_map(|rule| {
        let used = |index| session.used(path, rule.counter(index));
        let eval = EvalContext { vars: rule.vars.as_ref(), ..before.clone() };
        Some((rule, select::choose(rule, &eval, &used)?))
    });
    let Some((rule, index)) = found else { return Ok(None) };
    let Some(response) = rule.responses.get(index).filter(|one| reacts(one)) else {
        return Ok(None);
    };
    let mut random = Random::of(mock.0.seed, &[b"set_state"]);
    let method_context = MethodContext {
        schema: &set.schema,
        method,
        codec: Codec::Json,
        generate_options: &set.generate_options,
        now_millis: mock.now_millis(),
    };
    let eval = EvalContext { vars: rule.vars.as_ref(), ..before };
    let values = Maker::new(method_context, eval, &mut random).state_values(response)?;
    let used = session.used(path, response.counter);
    let state = session.state.clone();
    session.count_attempt(path);
    session.count(path, response.counter);
    let is_changed = session.set_all(values);
    // A query that changed what others read would be asked again for ever; its watchers stay, for
    // the next command.
    if is_changed && !method.is_query() {
        session.notify_changed();
    }
    drop(sessions);
    Ok(Some(ReactingResponse { rule: Arc::clone(rule), index, used, attempt, state }))
}

impl ReactingResponse {
    /// Which response it is, as the log has it.
    pub(super) fn decision(&self) -> Option<Decision> {
        let response = self.rule.responses.get(self.index)?;
        Some(Decision::of(&self.rule, response))
    }
}

/// A stream that is being answered.
pub(super) struct ReactiveStream {
    pub(super) mock: Mock,
    pub(super) set: Arc<Set>,
    pub(super) method: Method,
    pub(super) codec: Codec,
    pub(super) context: Context,
    pub(super) chosen: ReactingResponse,
}

struct RunningStream {
    at: ReactiveStream,
    requests: Requests,
    messages: Vec<Message>,
    random: Random,
    waiting: VecDeque<(Duration, Result<Bytes>)>,
    /// What ends the stream once nothing waits any more.
    ending: Option<(Duration, Option<Error>)>,
    trailers: Headers,
}

impl ReactiveStream {
    /// The reply: its head at once, its messages as requests come.
    pub(super) async fn reply(self, requests: Requests) -> Result<Reply> {
        let seed = self.mock.0.seed;
        let number = self.mock.0.calls.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let mut running = RunningStream {
            at: self,
            requests,
            messages: Vec::new(),
            random: Random::of(seed, &[&number.to_le_bytes()]),
            waiting: VecDeque::new(),
            ending: None,
            trailers: Headers::new(),
        };
        if running.answer().is_some_and(|answer| answer.late.is_some()) {
            running.read().await?;
        }
        let mut head = running.head()?;
        running.at.mock.apply_faults(&running.at.method, &mut head, &mut running.random);
        let script = std::mem::take(&mut head.script);
        play::wait(&*running.at.mock.0.timer, head.delay).await;
        running.trailers = head.trailers;
        let body =
            Body::frames(futures_util::stream::unfold(Some(running), |running| async move {
                let mut running = running?;
                match running.step().await {
                    Ok(Some(bytes)) => Some((Ok(Frame::Data(bytes)), Some(running))),
                    Ok(None) => {
                        let trailers = ThinHeaders::from(std::mem::take(&mut running.trailers));
                        (!trailers.is_empty()).then_some((Ok(Frame::Trailers(trailers)), None))
                    }
                    Err(error) => {
                        let error = play::with_metadata(error, &Headers::new(), &running.trailers);
                        Some((Err(error), None))
                    }
                }
            }));
        let reply = Reply::new(body).with_headers(head.headers);
        Ok(if script.faults().is_empty() { reply } else { reply.with_script(script) })
    }
}

impl RunningStream {
    fn response(&self) -> Option<&Response> {
        self.at.chosen.rule.responses.get(self.at.chosen.index)
    }

    fn answer(&self) -> Option<&Answer> {
        self.response().and_then(|response| response.answer(self.at.chosen.used))
    }

    /// Headers, trailers and the delay.
    fn head(&mut self) -> Result<Plan> {
        self.with_maker(None, |maker, rule, answer| maker.head(rule, answer))
    }

    fn with_maker<T>(
        &mut self,
        message: Option<usize>,
        make: impl FnOnce(&mut Maker<'_, '_>, &MethodRule, &Answer) -> Result<T>,
    ) -> Result<T> {
        let at = &self.at;
        let method_context = MethodContext {
            schema: &at.set.schema,
            method: &at.method,
            codec: at.codec,
            generate_options: &at.set.generate_options,
            now_millis: at.mock.now_millis(),
        };
        let eval = EvalContext {
            request: Request::Many(&self.messages),
            headers: at.context.headers(),
            message: message.and_then(|index| self.messages.get(index)),
            item: None,
            state: &at.chosen.state,
            attempt: at.chosen.attempt,
            timeout_ms: answer::timeout_ms(&at.mock, &at.context),
            vars: at.chosen.rule.vars.as_ref(),
        };
        let rule = &at.chosen.rule;
        let response = rule.responses.get(at.chosen.index);
        match response.and_then(|response| response.answer(at.chosen.used)) {
            Some(answer) => {
                make(&mut Maker::new(method_context, eval, &mut self.random), rule, answer)
            }
            None => Err(Error::internal("the rule has no response left")),
        }
    }

    /// The next message; nothing at the end.
    async fn step(&mut self) -> Result<Option<Bytes>> {
        loop {
            if let Some((delay, message)) = self.waiting.pop_front() {
                play::wait(&*self.at.mock.0.timer, delay).await;
                return message.map(Some);
            }
            if let Some((delay, ending)) = self.ending.take() {
                play::wait(&*self.at.mock.0.timer, delay).await;
                return ending.map_or(Ok(None), Err);
            }
            self.read().await?;
        }
    }

    /// Reads what the caller says next, and reacts to it.
    async fn read(&mut self) -> Result<()> {
        match self.requests.next().await? {
            Some(message) => self.react(message),
            None => self.close(),
        }
    }

    fn react(&mut self, message: Message) -> Result<()> {
        if self.messages.len() == MESSAGES_MAX {
            self.messages.remove(0);
        }
        self.messages.push(message);
        let last = self.messages.len() - 1;
        let made = self.with_maker(Some(last), |maker, rule, answer| {
            let mut reactions = answer.reactions.iter();
            let hit = reactions.find(|one| one.when.iter().all(|one| one.holds(&maker.eval)));
            let Some(hit) = hit else { return Ok(None) };
            let late = maker.reaction_shape(rule, hit)?;
            let hit = late.as_ref().unwrap_or(hit);
            let send: Vec<_> = hit.send.iter().map(|item| maker.frame(item, None)).collect();
            let error = hit.failure.as_ref().map(|failure| maker.error(failure)).transpose()?;
            Ok(Some((send, error, hit.ends)))
        });
        let Some((send, error, ends)) = made? else { return Ok(()) };
        self.waiting.extend(send);
        if error.is_some() || ends {
            self.ending = Some((Duration::ZERO, error));
        }
        Ok(())
    }

    /// The caller has said all: what the response itself says follows.
    fn close(&mut self) -> Result<()> {
        let (frames, error) = self.with_maker(None, |maker, rule, answer| {
            let late = maker.shape(rule, answer)?;
            let shape = late.as_ref().unwrap_or(answer);
            let mut frames = None;
            if let Some(items) = &shape.items {
                frames = Some(maker.frames(items)?);
            }
            let failure = shape.failure.as_ref().map(|failure| maker.error(failure)).transpose()?;
            Ok((frames, failure))
        })?;
        let Some(frames) = frames else {
            self.ending = Some((Duration::ZERO, error));
            return Ok(());
        };
        for (index, (pause, message)) in frames.list.into_iter().enumerate() {
            let delay = if index == 0 { frames.first_delay } else { pause };
            self.waiting.push_back((delay, message));
        }
        self.ending = Some((frames.error_delay, error.or(frames.error)));
        Ok(())
    }
}
