//! Which response answers a call, and what it then says: a pure function.
//!
//! ```text
//! (rules, schema, call, state, seed, time) ─▶ choose ─▶ response ─▶ make ─▶ plan, and what to remember
//! ```
//!
//! | the gate (`match`) | answers |
//! |---|---|
//! | does not hold | the first fallback by priority |
//! | holds | the first conditional response by priority that holds, or else the first fallback |
//! | | an empty message, where there is none |
//!
//! Among equals the earlier one goes first. A response whose `times` are used up is passed over.

pub(crate) mod plan;
pub(crate) mod play;

use std::time::Duration;

use tidewire_schema::{Message, Schema};
use tidewire_service::{Codec, Error, Method};
use tidewire_validate::Expression;

use crate::body;
use crate::compile::Compiler;
use crate::generate::{self, GenerateOptions, Ids};
use crate::random::Random;
use crate::rule::{
    Answer, Content, Delay, Failure, Item, Items, Line, MethodRule, Reaction, Response, Text,
};
use crate::select::plan::{Decision, Frames, Outcome, Plan};
use crate::template::value_template::ValueTemplate;
use crate::template::{RENDERED_BYTES_MAX, RenderError, RenderState, Template};
use crate::value::eval_context::EvalContext;
use crate::value::node::{Node, ObjectMember, Tree};

/// What does not change while rules stay: the schema, the method, and how replies are encoded.
#[derive(Debug, Clone, Copy)]
pub(crate) struct MethodContext<'a> {
    pub(crate) schema: &'a Schema,
    pub(crate) method: &'a Method,
    pub(crate) codec: Codec,
    /// What answers from the schema follow from.
    pub(crate) generate_options: &'a GenerateOptions,
    pub(crate) now_millis: u64,
}

/// The index of the response that answers; `used` says how often each has answered.
pub(crate) fn choose(
    rule: &MethodRule,
    eval: &EvalContext<'_>,
    used: &dyn Fn(usize) -> u64,
) -> Option<usize> {
    let is_left = |index: usize| {
        rule.responses
            .get(index)
            .is_some_and(|response| response.times.is_none_or(|times| used(index) < times))
    };
    if rule.gate.iter().all(|condition| condition.holds(eval)) {
        let hits = |index: usize| {
            let when = rule.responses.get(index).and_then(|response| response.when.as_deref());
            when.is_some_and(|when| when.iter().all(|one| one.holds(eval))) && is_left(index)
        };
        if let Some(index) = rule.ranking.first(eval, hits) {
            return Some(index);
        }
    }
    rule.fallbacks.iter().copied().find(|index| is_left(*index))
}

/// Makes the plan of a response, and the values that it lets the session remember.
pub(crate) struct Maker<'a, 'r> {
    pub(crate) method_context: MethodContext<'a>,
    pub(crate) eval: EvalContext<'a>,
    pub(crate) rendering: RenderState<'r>,
}

impl<'a, 'r> Maker<'a, 'r> {
    pub(crate) fn new(
        method_context: MethodContext<'a>,
        eval: EvalContext<'a>,
        random: &'r mut Random,
    ) -> Self {
        let now_millis = method_context.now_millis;
        let bytes_left = RENDERED_BYTES_MAX;
        let steps_left = Expression::STEPS;
        let rendering = RenderState { random, now_millis, bytes_left, steps_left };
        Self { method_context, eval, rendering }
    }

    /// The plan of a response in its n-th use.
    pub(crate) fn plan(&mut self, rule: &MethodRule, response: &Response, use_number: u64) -> Plan {
        let Some(answer) = response.answer(use_number) else { return self.empty() };
        let made = self.shape(rule, answer).and_then(|late| self.play(answer, late.as_ref()));
        let mut plan = made.unwrap_or_else(|error| Plan::of(Outcome::Error(error)));
        let decision = Decision::of(rule, response);
        let locate = |error: &mut Error| locate(error, &decision);
        match &mut plan.outcome {
            Outcome::Error(error) => locate(error),
            Outcome::Stream(frames) => {
                frames.list.iter_mut().filter_map(|(_, made)| made.as_mut().err()).for_each(locate);
            }
            Outcome::Message(_) | Outcome::Upstream => {}
        }
        plan.rule = Some(decision);
        plan
    }

    /// Headers, trailers and the delay of an answer whose messages come later.
    ///
    /// # Errors
    /// What an expression or a header gives cannot be sent.
    pub(crate) fn head(&mut self, rule: &MethodRule, answer: &Answer) -> Result<Plan, Error> {
        let late = self.shape(rule, answer)?;
        self.with_lines(late.as_ref().unwrap_or(answer), Outcome::Message(bytes::Bytes::new()))
    }

    /// The form of an answer, where it depends on the call.
    ///
    /// # Errors
    /// An expression has no value, or none that can be sent.
    pub(crate) fn shape(
        &mut self,
        rule: &MethodRule,
        answer: &Answer,
    ) -> Result<Option<Answer>, Error> {
        let Some(ValueTemplate::Object(parts, place)) = &answer.late else { return Ok(None) };
        let mut members = Vec::with_capacity(parts.len());
        for (key, at, part) in parts {
            let value = match (&**key, part) {
                // Items know their place.
                ("stream" | "stream_items", ValueTemplate::List(items, place)) => {
                    let mut made = Vec::with_capacity(items.len());
                    for (index, item) in items.iter().enumerate() {
                        let whole = self.eval.clone();
                        self.eval = whole.at_item(index, items.len());
                        let rendered = self.render(item);
                        self.eval = whole;
                        made.push(rendered?);
                    }
                    Node { value: Tree::List(made), place: *place }
                }
                _ => self.render(part)?,
            };
            members.push(ObjectMember { key: key.clone(), place: *at, value });
        }
        let node = Node { value: Tree::Object(members), place: *place };
        self.compiled(rule, |compiler| compiler.answer(&node)).map(Some)
    }

    /// The form of a reaction, where it depends on the call.
    ///
    /// # Errors
    /// An expression has no value, or none that can be sent.
    pub(crate) fn reaction_shape(
        &mut self,
        rule: &MethodRule,
        reaction: &Reaction,
    ) -> Result<Option<Reaction>, Error> {
        let Some(late) = &reaction.late else { return Ok(None) };
        let node = self.render(late)?;
        self.compiled(rule, |compiler| compiler.reaction(&node)).map(Some)
    }

    /// Compiles what was rendered.
    fn compiled<T>(
        &self,
        rule: &MethodRule,
        compile: impl FnOnce(&mut Compiler<'_>) -> T,
    ) -> Result<T, Error> {
        let mut findings = Vec::new();
        let mut compiler = Compiler {
            schema: self.method_context.schema,
            method: self.method_context.method,
            file: std::sync::Arc::clone(&rule.file),
            included: std::sync::Arc::clone(&rule.included),
            findings: &mut findings,
            is_rendered: true,
        };
        let made = compile(&mut compiler);
        match findings.into_iter().find(|finding| finding.is_error) {
            Some(fault) => {
                Err(Error::internal(format!("{RULES_ANSWER}: {}", fault.diagnostic.message)))
            }
            None => Ok(made),
        }
    }

    fn play(&mut self, answer: &Answer, late: Option<&Answer>) -> Result<Plan, Error> {
        let shape = late.unwrap_or(answer);
        let outcome = match (&shape.failure, &shape.items, &answer.body) {
            _ if shape.is_upstream => Outcome::Upstream,
            (Some(failure), ..) => Outcome::Error(self.error(failure)?),
            (None, Some(items), _) => Outcome::Stream(self.frames(items)?),
            (None, None, Some(content)) => {
                let message = self.content(content);
                self.single(message)
            }
            (None, None, None) => self.empty().outcome,
        };
        self.with_lines(shape, outcome)
    }

    /// The plan of an outcome with the headers, the trailers and the delay of an answer.
    fn with_lines(&mut self, shape: &Answer, outcome: Outcome) -> Result<Plan, Error> {
        let mut plan = Plan::of(outcome);
        plan.delay = self.sample(shape.delay);
        plan.add_faults(&shape.faults, self.rendering.random);
        for (lines, map) in
            [(&shape.headers, &mut plan.headers), (&shape.trailers, &mut plan.trailers)]
        {
            for (name, line) in lines {
                let value = match line {
                    Line::Fixed(value) => value.clone(),
                    Line::Template(template) => {
                        let text = self.text(template)?;
                        http::HeaderValue::from_bytes(text.as_bytes()).map_err(|_| {
                            let why = format!(
                                "{RULES_ANSWER}: what {name} says cannot be sent in a header"
                            );
                            Error::internal(why)
                        })?
                    }
                };
                map.append(name.clone(), value);
            }
        }
        Ok(plan)
    }

    /// An empty message: what wishmock answers where a rule says nothing.
    pub(crate) fn empty(&mut self) -> Plan {
        let message = self.method_context.schema.message(&self.method_context.method.output);
        Plan::of(self.single(message.and_then(|message| message.encode(self.method_context.codec))))
    }

    /// What the schema alone gives.
    pub(crate) fn generated(&mut self) -> Plan {
        let content = Content::Generated {
            over: None,
            violate: self.method_context.generate_options.violate,
            seed: None,
        };
        let message = self.content(&content);
        Plan::of(self.single(message))
    }

    /// What a response lets the session remember.
    ///
    /// # Errors
    /// A template that gives nothing; then nothing is remembered.
    pub(crate) fn state_values(
        &mut self,
        response: &Response,
    ) -> Result<Vec<(String, Node)>, Error> {
        let said = response.set_state.iter();
        said.map(|(key, value_template)| Ok((key.clone(), self.render(value_template)?))).collect()
    }

    fn single(&self, message: Result<bytes::Bytes, Error>) -> Outcome {
        match message {
            Err(error) => Outcome::Error(error),
            Ok(message) if self.method_context.method.kind.server_streams() => {
                Outcome::Stream(Frames {
                    first_delay: Duration::ZERO,
                    list: vec![(Duration::ZERO, Ok(message))],
                    rounds: Some(1),
                    shuffle: None,
                    error: None,
                    error_delay: Duration::ZERO,
                })
            }
            Ok(message) => Outcome::Message(message),
        }
    }

    /// The messages of a stream.
    ///
    /// # Errors
    /// The template of its error gives nothing.
    pub(crate) fn frames(&mut self, items: &Items) -> Result<Frames, Error> {
        let total = items.list.len();
        let mut list = Vec::with_capacity(total);
        for (index, item) in items.list.iter().enumerate() {
            let whole = self.eval.clone();
            self.eval = whole.at_item(index, total);
            list.push(self.frame(item, Some(items.pause)));
            self.eval = whole;
        }
        let shuffle = items.is_shuffled.then(|| Random::new(self.rendering.random.next()));
        let error = items.failure.as_ref().map(|failure| self.error(failure)).transpose()?;
        // The pause is between messages; what an item says itself holds of the first one too.
        let has_own = items.list.first().is_some_and(|item| item.delay.is_some());
        let first_delay = list.first().filter(|_| has_own).map_or(Duration::ZERO, |first| first.0);
        let rounds = if total == 0 { Some(0) } else { items.rounds };
        let error_delay = self.sample(items.failure_delay);
        Ok(Frames { first_delay, list, rounds, shuffle, error, error_delay })
    }

    /// A message and the delay before it.
    pub(crate) fn frame(
        &mut self,
        item: &Item,
        pause: Option<Delay>,
    ) -> (Duration, Result<bytes::Bytes, Error>) {
        let delay = self.sample(item.delay.or(pause));
        (delay, self.content(&item.content))
    }

    fn sample(&mut self, delay: Option<Delay>) -> Duration {
        delay.map_or(Duration::ZERO, |delay| delay.sample(self.rendering.random))
    }

    /// The error that a rule says.
    ///
    /// # Errors
    /// The template of its message gives nothing.
    pub(crate) fn error(&mut self, failure: &Failure) -> Result<Error, Error> {
        let message = match &failure.message {
            Text::Fixed(text) => text.clone(),
            Text::Template(template) => self.text(template)?,
        };
        let error = Error::new(failure.code, message);
        Ok(failure.details.iter().fold(error, |error, detail| error.with_detail(detail.clone())))
    }

    fn text(&mut self, template: &Template) -> Result<String, Error> {
        template.render(&self.eval, &mut self.rendering).map_err(unrendered)
    }

    /// The bytes of a message.
    fn content(&mut self, content: &Content) -> Result<bytes::Bytes, Error> {
        match content {
            Content::Fixed(encoded) => encoded.bytes(self.method_context.codec),
            Content::Template(value_template) => {
                self.message(value_template)?.encode(self.method_context.codec)
            }
            Content::Broken(fault) => Err(broken(fault)),
            Content::Generated { over, violate, seed } => {
                let over = match over.as_deref() {
                    Some(value_template) => Some(self.render(value_template)?),
                    None => None,
                };
                let options = GenerateOptions {
                    violate: *violate,
                    seed: seed.unwrap_or(self.method_context.generate_options.seed),
                    ..self.method_context.generate_options.clone()
                };
                let method_context = &self.method_context;
                let mut random = generate::random(&options, method_context.method, &self.eval);
                let now = method_context.now_millis;
                let ids = Ids::of_request(self.eval.request);
                let message = generate::message(
                    method_context.schema,
                    &method_context.method.output,
                    &options,
                    now,
                    (&mut random, &ids),
                )?;
                match over {
                    Some(said) => generate::merged(message, &said, &self.written(&said)?)?,
                    None => message,
                }
                .encode(self.method_context.codec)
            }
        }
    }

    fn message(&mut self, value_template: &ValueTemplate) -> Result<Message, Error> {
        let said = self.render(value_template)?;
        self.written(&said)
    }

    /// The value of a template in this call.
    fn render(&mut self, value_template: &ValueTemplate) -> Result<Node, Error> {
        value_template.render(&self.eval, &mut self.rendering).map_err(unrendered)
    }

    fn written(&self, said: &Node) -> Result<Message, Error> {
        let schema = self.method_context.schema;
        let output = &self.method_context.method.output;
        body::message(schema, output, said, &mut |_| {}).map_err(|fault| broken(&fault))
    }
}

fn unrendered(why: RenderError) -> Error {
    match why {
        RenderError::TooLarge => {
            let max = RENDERED_BYTES_MAX >> 20;
            Error::resource_exhausted(format!("the templates of this answer make over {max} MiB"))
        }
        RenderError::Formula(text, why) => {
            Error::internal(format!("{RULES_ANSWER}: cel: {text}: {why}"))
        }
    }
}

fn broken(fault: &body::BodyFault) -> Error {
    let at = if fault.path.is_empty() { String::new() } else { format!(" at {}", fault.path) };
    Error::internal(format!("{RULES_ANSWER}{at}: {}", fault.message))
}

/// How errors begin that are the rule's.
const RULES_ANSWER: &str = "the rule's answer";

/// Says in an error that is the rule's which rule that is.
fn locate(error: &mut Error, rule: &Decision) {
    if let Some(rest) = error.message().strip_prefix(RULES_ANSWER)
        && rest.starts_with([':', ' '])
    {
        let text = format!("{RULES_ANSWER} ({}:{}){rest}", rule.file, rule.line);
        *error = Error::internal(text);
    }
}
