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

use tidewire_schema::{Message, Schema};
use tidewire_service::{Codec, Error, Method};

use crate::body;
use crate::generate::{self, Wishes};
use crate::node::Node;
use crate::plan::{Chosen, Frames, Outcome, Plan};
use crate::random::Random;
use crate::rule::{Answer, Content, Delay, Failure, Item, Items, Line, MethodRule, Response, Text};
use crate::scene::Scene;
use crate::sketch::Sketch;
use crate::template::{RENDERED_BYTES_MAX, Rendering};

/// What does not change while rules stay: the schema, the method, and how replies are encoded.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stage<'a> {
    pub(crate) schema: &'a Schema,
    pub(crate) method: &'a Method,
    pub(crate) codec: Codec,
    /// What answers from the schema follow from.
    pub(crate) wishes: &'a Wishes,
    pub(crate) now_millis: u64,
}

/// The index of the response that answers; `used` says how often each has answered.
pub(crate) fn choose(
    rule: &MethodRule,
    scene: &Scene<'_>,
    used: &dyn Fn(usize) -> u64,
) -> Option<usize> {
    let is_left = |index: usize| {
        rule.responses
            .get(index)
            .is_some_and(|response| response.times.is_none_or(|times| used(index) < times))
    };
    if rule.gate.iter().all(|condition| condition.holds(scene)) {
        let hits = |index: usize| {
            let when = rule.responses.get(index).and_then(|response| response.when.as_deref());
            when.is_some_and(|when| when.iter().all(|one| one.holds(scene))) && is_left(index)
        };
        if let Some(index) = rule.ranking.first(scene, hits) {
            return Some(index);
        }
    }
    rule.fallbacks.iter().copied().find(|index| is_left(*index))
}

/// Makes the plan of a response, and the values that it lets the session remember.
pub(crate) struct Maker<'a, 'r> {
    pub(crate) stage: Stage<'a>,
    pub(crate) scene: Scene<'a>,
    pub(crate) rendering: Rendering<'r>,
}

impl<'a, 'r> Maker<'a, 'r> {
    pub(crate) fn new(stage: Stage<'a>, scene: Scene<'a>, random: &'r mut Random) -> Self {
        let now_millis = stage.now_millis;
        let rendering = Rendering { random, now_millis, bytes_left: RENDERED_BYTES_MAX };
        Self { stage, scene, rendering }
    }

    /// The plan of a response in its n-th use.
    pub(crate) fn plan(&mut self, rule: &MethodRule, response: &Response, use_number: u64) -> Plan {
        let Some(answer) = response.answer(use_number) else { return self.empty() };
        let mut plan = Plan::of(self.outcome(answer));
        plan.delay = self.sample(answer.delay);
        for (lines, map) in
            [(&answer.headers, &mut plan.headers), (&answer.trailers, &mut plan.trailers)]
        {
            for (name, line) in lines {
                let value = match line {
                    Line::Fixed(value) => Some(value.clone()),
                    Line::Made(template) => {
                        let text = template.render(&self.scene, &mut self.rendering).ok();
                        text.and_then(|text| http::HeaderValue::from_bytes(text.as_bytes()).ok())
                    }
                };
                if let Some(value) = value {
                    map.append(name.clone(), value);
                }
            }
        }
        plan.rule = Some(Chosen {
            file: std::sync::Arc::clone(&rule.file),
            line: response.place.line,
            name: response.name.clone(),
        });
        plan
    }

    /// An empty message: what wishmock answers where a rule says nothing.
    pub(crate) fn empty(&mut self) -> Plan {
        let message = self.stage.schema.message(&self.stage.method.output);
        Plan::of(self.single(message.and_then(|message| message.encode(self.stage.codec))))
    }

    /// What the schema alone gives.
    pub(crate) fn generated(&mut self) -> Plan {
        let content =
            Content::Generated { over: None, violate: self.stage.wishes.violate, seed: None };
        let message = self.content(&content);
        Plan::of(self.single(message))
    }

    /// What a response lets the session remember.
    pub(crate) fn remembered(&mut self, response: &Response) -> Vec<(String, Node)> {
        let mut values = Vec::new();
        for (key, sketch) in &response.set_state {
            if let Ok(value) = sketch.render(&self.scene, &mut self.rendering) {
                values.push((key.clone(), value));
            }
        }
        values
    }

    fn single(&self, message: Result<bytes::Bytes, Error>) -> Outcome {
        match message {
            Err(error) => Outcome::Error(error),
            Ok(message) if self.stage.method.kind.server_streams() => Outcome::Stream(Frames {
                list: vec![(std::time::Duration::ZERO, Ok(message))],
                rounds: Some(1),
                shuffle: None,
                error: None,
            }),
            Ok(message) => Outcome::Message(message),
        }
    }

    fn outcome(&mut self, answer: &Answer) -> Outcome {
        if let Some(failure) = &answer.failure {
            return Outcome::Error(self.error(failure));
        }
        match (&answer.items, &answer.body) {
            (Some(items), _) => Outcome::Stream(self.frames(items)),
            (None, Some(content)) => {
                let message = self.content(content);
                self.single(message)
            }
            (None, None) => self.empty().outcome,
        }
    }

    fn frames(&mut self, items: &Items) -> Frames {
        let total = items.list.len();
        let mut list = Vec::with_capacity(total);
        for (index, item) in items.list.iter().enumerate() {
            let whole = self.scene.clone();
            self.scene = whole.at_item(index, total);
            list.push(self.frame(item, Some(items.pause)));
            self.scene = whole;
        }
        let shuffle = items.is_shuffled.then(|| Random::new(self.rendering.random.next()));
        let error = items.failure.as_ref().map(|failure| self.error(failure));
        Frames { list, rounds: if total == 0 { Some(0) } else { items.rounds }, shuffle, error }
    }

    /// A message and the delay before it.
    pub(crate) fn frame(
        &mut self,
        item: &Item,
        pause: Option<Delay>,
    ) -> (std::time::Duration, Result<bytes::Bytes, Error>) {
        let delay = self.sample(item.delay.or(pause));
        (delay, self.content(&item.content))
    }

    fn sample(&mut self, delay: Option<Delay>) -> std::time::Duration {
        delay.map_or(std::time::Duration::ZERO, |delay| delay.sample(self.rendering.random))
    }

    pub(crate) fn error(&mut self, failure: &Failure) -> Error {
        let message = match &failure.message {
            Text::Fixed(text) => text.clone(),
            Text::Made(template) => {
                template.render(&self.scene, &mut self.rendering).unwrap_or_default()
            }
        };
        let error = Error::new(failure.code, message);
        failure.details.iter().fold(error, |error, detail| error.with_detail(detail.clone()))
    }

    /// The bytes of a message.
    fn content(&mut self, content: &Content) -> Result<bytes::Bytes, Error> {
        match content {
            Content::Fixed(encoded) => encoded.bytes(self.stage.codec),
            Content::Made(sketch) => self.made(sketch)?.encode(self.stage.codec),
            Content::Broken(fault) => Err(broken(fault)),
            Content::Generated { over, violate, seed } => {
                let over = match over.as_deref() {
                    Some(sketch) => Some(self.said(sketch)?),
                    None => None,
                };
                let wishes = Wishes {
                    violate: *violate,
                    seed: seed.unwrap_or(self.stage.wishes.seed),
                    ..self.stage.wishes.clone()
                };
                let stage = &self.stage;
                let mut random = generate::random(&wishes, stage.method, &self.scene);
                let now = stage.now_millis;
                let message = generate::message(
                    stage.schema,
                    &stage.method.output,
                    &wishes,
                    now,
                    &mut random,
                )?;
                match over {
                    Some(said) => generate::merged(message, &said, &self.written(&said)?)?,
                    None => message,
                }
                .encode(self.stage.codec)
            }
        }
    }

    fn made(&mut self, sketch: &Sketch) -> Result<Message, Error> {
        let said = self.said(sketch)?;
        self.written(&said)
    }

    /// What a sketch says in this call.
    fn said(&mut self, sketch: &Sketch) -> Result<Node, Error> {
        sketch.render(&self.scene, &mut self.rendering).map_err(|_| {
            let max = RENDERED_BYTES_MAX >> 20;
            Error::resource_exhausted(format!("the templates of this answer make over {max} MiB"))
        })
    }

    fn written(&self, said: &Node) -> Result<Message, Error> {
        let (schema, output) = (self.stage.schema, &self.stage.method.output);
        body::message(schema, output, said, &mut |_| {}).map_err(|fault| broken(&fault))
    }
}

fn broken(fault: &body::BodyFault) -> Error {
    let at = if fault.path.is_empty() { String::new() } else { format!(" at {}", fault.path) };
    Error::internal(format!("the rule's answer{at}: {}", fault.message))
}
