//! Bidirectional streams that are answered message by message.
//!
//! The first reaction whose conditions hold of a message (`message.text`, or `request.last.text`)
//! sends its messages before the next one is read. Once the caller has said all, the messages of the
//! response itself follow, and then its error or its trailers.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use http::HeaderMap;
use tidewire_schema::Message;
use tidewire_service::{Body, Codec, Context, Error, Frame, Headers, Method, Reply, Result};

use super::answer::{self, Requests};
use super::{Mock, Set};
use crate::plan::Plan;
use crate::play;
use crate::random::Random;
use crate::rule::{Answer, MethodRule};
use crate::scene::{Request, Scene};
use crate::select::{Maker, Stage};

/// How many messages reactions see of what came before.
const MESSAGES_MAX: usize = 1_000;

/// A stream that is being answered.
pub(super) struct Reactive {
    pub(super) mock: Mock,
    pub(super) set: Arc<Set>,
    pub(super) method: Method,
    pub(super) codec: Codec,
    pub(super) context: Context,
}

struct Running {
    at: Reactive,
    requests: Requests,
    rule: Arc<MethodRule>,
    index: usize,
    messages: Vec<Message>,
    random: Random,
    waiting: VecDeque<(std::time::Duration, Result<Bytes>)>,
    /// What ends the stream once nothing waits any more.
    ending: Option<Option<Error>>,
    trailers: HeaderMap,
}

impl Reactive {
    /// The reply: its head at once, its messages as requests come.
    pub(super) async fn reply(
        self,
        requests: Requests,
        (rule, index): (Arc<MethodRule>, usize),
    ) -> Result<Reply> {
        let seed = self.mock.0.seed;
        let number = self.mock.0.calls.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let mut running = Running {
            at: self,
            requests,
            rule,
            index,
            messages: Vec::new(),
            random: Random::of(seed, &[&number.to_le_bytes()]),
            waiting: VecDeque::new(),
            ending: None,
            trailers: HeaderMap::new(),
        };
        let head = running.head();
        play::wait(&*running.at.mock.0.timer, head.delay).await;
        running.trailers = head.trailers;
        let body =
            Body::frames(futures_util::stream::unfold(Some(running), |running| async move {
                let mut running = running?;
                match running.step().await {
                    Ok(Some(bytes)) => Some((Ok(Frame::Data(bytes)), Some(running))),
                    Ok(None) => {
                        let trailers = Headers::from(std::mem::take(&mut running.trailers));
                        (!trailers.is_empty()).then_some((Ok(Frame::Trailers(trailers)), None))
                    }
                    Err(error) => {
                        let error =
                            play::with_metadata(error, &HeaderMap::new(), &running.trailers);
                        Some((Err(error), None))
                    }
                }
            }));
        Ok(Reply::new(body).with_headers(head.headers))
    }
}

impl Running {
    fn answer(&self) -> Option<&Answer> {
        self.rule.responses.get(self.index).and_then(|response| response.answers.first())
    }

    /// Headers, trailers and the delay: of the plan that the response has before anything came.
    fn head(&mut self) -> Plan {
        let (rule, index) = (Arc::clone(&self.rule), self.index);
        self.with_maker(None, |maker| match rule.responses.get(index) {
            Some(response) => maker.plan(&rule, response, 0),
            None => maker.empty(),
        })
    }

    fn with_maker<T>(
        &mut self,
        message: Option<usize>,
        make: impl FnOnce(&mut Maker<'_, '_>) -> T,
    ) -> T {
        let nothing = std::collections::HashMap::new();
        let rule = Arc::clone(&self.rule);
        let set = Arc::clone(&self.at.set);
        let stage = Stage {
            schema: &set.schema,
            method: &self.at.method,
            codec: self.at.codec,
            wishes: &set.wishes,
            now_millis: self.at.mock.now_millis(),
        };
        let scene = Scene {
            request: Request::Many(&self.messages),
            headers: self.at.context.headers(),
            message: message.and_then(|index| self.messages.get(index)),
            item: None,
            state: &nothing,
            attempt: 0,
            vars: rule.vars.as_ref(),
        };
        make(&mut Maker::new(stage, scene, &mut self.random))
    }

    /// The next message; nothing at the end.
    async fn step(&mut self) -> Result<Option<Bytes>> {
        loop {
            if let Some((delay, message)) = self.waiting.pop_front() {
                play::wait(&*self.at.mock.0.timer, delay).await;
                return message.map(Some);
            }
            if let Some(ending) = self.ending.take() {
                return ending.map_or(Ok(None), Err);
            }
            match self.requests.next().await? {
                Some(message) => self.react(message),
                None => self.close(),
            }
        }
    }

    fn react(&mut self, message: Message) {
        if self.messages.len() == MESSAGES_MAX {
            self.messages.remove(0);
        }
        self.messages.push(message);
        let last = self.messages.len() - 1;
        let rule = Arc::clone(&self.rule);
        let Some(answer) = rule.responses.get(self.index).and_then(|one| one.answers.first())
        else {
            return;
        };
        let made = self.with_maker(Some(last), |maker| {
            let hit = answer
                .reactions
                .iter()
                .find(|reaction| reaction.when.iter().all(|one| one.holds(&maker.scene)))?;
            let send: Vec<_> = hit.send.iter().map(|item| maker.frame(item, None)).collect();
            let error = hit.failure.as_ref().map(|failure| maker.error(failure));
            Some((send, error, hit.ends))
        });
        let Some((send, error, ends)) = made else { return };
        self.waiting.extend(send);
        if error.is_some() || ends {
            self.ending = Some(error);
            self.log();
        }
    }

    /// The caller has said all: what the response itself says follows.
    fn close(&mut self) {
        let rule = Arc::clone(&self.rule);
        let Some(answer) = rule.responses.get(self.index).and_then(|one| one.answers.first())
        else {
            return;
        };
        let (send, error) = self.with_maker(None, |maker| {
            let items = answer.items.iter().flat_map(|items| &items.list);
            let send: Vec<_> = items.map(|item| maker.frame(item, None)).collect();
            let ends = answer.items.as_ref().and_then(|items| items.failure.as_ref());
            (send, answer.failure.as_ref().or(ends).map(|failure| maker.error(failure)))
        });
        self.waiting.extend(send);
        self.ending = Some(error);
        self.log();
    }

    fn log(&self) {
        let plan = Plan::of(match &self.ending {
            Some(Some(error)) => {
                crate::plan::Outcome::Error(Error::new(error.code(), error.message()))
            }
            _ => crate::plan::Outcome::Message(Bytes::new()),
        });
        debug_assert!(self.answer().is_some(), "a reactive rule has an answer");
        answer::record(
            &self.at.mock,
            &self.at.method,
            &self.at.context,
            self.messages.clone(),
            &plan,
        );
    }
}
