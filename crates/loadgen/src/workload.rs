//! What one virtual user does: the steps of a scenario, or a single request.

use crate::accepted::AcceptedStatus;
use crate::check::{Check, Extract};
use crate::error::Error;
use crate::failure::Failure;
use crate::feeder::Feeder;
use crate::reply::{Answer, Expectation, Keep, ReplyParts};
use crate::request::{ProtocolSetup, Request, Wire};
use crate::template::Generator;
use crate::verdict::{AnyStatus, Dialect};

/// One request with what is expected of its answer.
#[derive(Debug, Clone)]
pub struct Step {
    /// What reports call it.
    pub name: String,
    /// What is sent.
    pub request: Request,
    /// What the answer has to be.
    pub checks: Vec<Check>,
    /// What is taken from the answer for later steps.
    pub extracts: Vec<Extract>,
}

/// The steps of every iteration, in order.
#[derive(Debug, Clone)]
pub struct Workload {
    /// Protocol, transport and codec.
    pub speech: ProtocolSetup,
    /// The steps of every iteration, in order.
    pub steps: Vec<Step>,
    /// Where variables come from.
    pub feeders: Vec<Feeder>,
    /// How many variables the templates know.
    pub variables: usize,
    /// Seed of everything random.
    pub seed: u64,
}

impl Workload {
    /// Steps without a check of the status accept 2xx, whatever other steps accept.
    pub fn normalise(&mut self) {
        let is_status = |check: &Check| matches!(check, Check::Status(_));
        if !self.steps.iter().flat_map(|step| &step.checks).any(is_status) {
            return;
        }
        for step in &mut self.steps {
            if !step.checks.iter().any(is_status) {
                step.checks.insert(0, Check::Status(vec![AcceptedStatus::Ok]));
            }
        }
    }

    /// Whether every request is the same.
    pub(crate) fn is_fixed(&self) -> bool {
        matches!(&self.steps[..], [step] if step.request.is_fixed())
    }

    pub(crate) fn expectation(&self) -> Expectation {
        let checks = || self.steps.iter().flat_map(|step| &step.checks);
        let content = checks().any(Check::needs_content)
            || self.steps.iter().any(|step| !step.extracts.is_empty());
        let dialect = self.speech.dialect();
        // The codes of other dialects are not in the status.
        let by_check = checks().any(|check| match check {
            Check::Status(accepted) => {
                dialect == Dialect::Plain || !accepted.iter().all(AcceptedStatus::is_code)
            }
            _ => false,
        });
        Expectation {
            dialect,
            keep: if content { Keep::Everything } else { Keep::Nothing },
            any_status: if by_check { AnyStatus::Yes } else { AnyStatus::No },
        }
    }
}

/// Writes the requests of one worker and judges their answers.
#[derive(Debug)]
pub struct Composer<'a> {
    workload: &'a Workload,
    fixed: Vec<Option<Wire>>,
    scratch: Wire,
    generator: Generator,
    turn: u64,
    sessions: Vec<Vec<String>>,
    free: Vec<u32>,
    judges: bool,
}

/// The session number of requests that have none.
pub(crate) const NO_SESSION: u32 = u32::MAX;

impl<'a> Composer<'a> {
    /// The composer of worker `index` of `count`.
    ///
    /// # Errors
    /// When a body does not fit its schema.
    pub fn new(workload: &'a Workload, index: usize, count: usize) -> Result<Self, Error> {
        let mut generator = Generator {
            random: fastrand::Rng::with_seed(workload.seed.wrapping_add(index as u64)),
            sequence: index as u64,
            stride: count as u64,
        };
        let mut fixed = Vec::new();
        for step in &workload.steps {
            let mut wire = Wire::default();
            let is_fixed = step.request.is_fixed();
            if is_fixed {
                let encoded = step.request.encode(&workload.speech, &[], &mut generator, &mut wire);
                encoded.map_err(|what| misfit(step, &what))?;
            }
            fixed.push(is_fixed.then_some(wire));
        }
        generator.sequence = index as u64;
        let judges =
            workload.steps.iter().any(|step| !step.checks.is_empty() || !step.extracts.is_empty());
        Ok(Self {
            workload,
            fixed,
            scratch: Wire::default(),
            turn: index as u64,
            generator,
            sessions: Vec::new(),
            free: Vec::new(),
            judges,
        })
    }

    /// Begins an iteration: a session with a row of every feeder, if templates need one.
    pub fn begin(&mut self) -> u32 {
        if self.workload.variables == 0 && self.workload.steps.len() == 1 {
            return NO_SESSION;
        }
        let session = self.free.pop().unwrap_or_else(|| {
            self.sessions.push(vec![String::new(); self.workload.variables]);
            u32::try_from(self.sessions.len() - 1).expect("the in-flight cap is below u32::MAX")
        });
        for feeder in &self.workload.feeders {
            let values = &mut self.sessions[session as usize];
            feeder.feed(self.turn, &mut self.generator.random, values);
        }
        self.turn += self.generator.stride;
        session
    }

    /// Ends an iteration.
    pub fn end(&mut self, session: u32) {
        if session != NO_SESSION {
            self.free.push(session);
        }
    }

    /// The bytes of a step's request.
    ///
    /// # Errors
    /// When a filled body does not fit its schema.
    pub fn wire(&mut self, session: u32, step: u32) -> Result<&Wire, Error> {
        let index = step as usize;
        if let Some(wire) = &self.fixed[index] {
            return Ok(wire);
        }
        let values = self.sessions.get(session as usize).map_or(&[][..], Vec::as_slice);
        let step = &self.workload.steps[index];
        let speech = &self.workload.speech;
        let encoded = step.request.encode(speech, values, &mut self.generator, &mut self.scratch);
        encoded.map_err(|what| misfit(step, &what))?;
        Ok(&self.scratch)
    }

    /// The verdict on an answer: its own, then the checks, then what must be extracted.
    pub(crate) fn judge(
        &mut self,
        session: u32,
        step: u32,
        answer: &mut Answer,
        kept: &ReplyParts,
    ) -> Result<(), Failure> {
        let step = &self.workload.steps[step as usize];
        let failure = answer.failure.take();
        let accepts = |failure: &Failure| step.checks.iter().any(|check| check.accepts(failure));
        let is_accepted = failure.as_ref().is_some_and(accepts);
        if let Some(failure) = failure.filter(|_| !is_accepted) {
            return Err(failure);
        }
        if !self.judges {
            return Ok(());
        }
        let values = self.sessions.get(session as usize).map_or(&[][..], Vec::as_slice);
        for check in &step.checks {
            if is_accepted && matches!(check, Check::Status(_)) {
                continue;
            }
            if let Some(failure) = check.failure(answer, kept, values, &mut self.generator) {
                return Err(failure);
            }
        }
        for extract in &step.extracts {
            let Some(value) = extract.value(kept) else {
                return Err(Failure::Extract(extract.name.clone()));
            };
            self.sessions[session as usize][extract.variable] = value;
        }
        Ok(())
    }

    /// The step after `step`, if there is one.
    pub fn next_step(&self, step: u32) -> Option<u32> {
        (step as usize + 1 < self.workload.steps.len()).then_some(step + 1)
    }
}

fn misfit(step: &Step, what: &str) -> Error {
    Error::usage(format!("the body of {}: {what}", step.name))
}
