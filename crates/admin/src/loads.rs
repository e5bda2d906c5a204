//! `Loads`: load on this server from another process, and what came of it.
//!
//! The process is `tidewire bench run`, which whoever puts the program together names
//! ([`LoadProgram`]). It calls this server and nothing else, within the bounds below, one run at a
//! time. The message and the headers of the calls go to it in a file that only its owner can read,
//! since others see arguments; the file goes with the run. Results stay in a folder ([`results`]).

mod command;
mod plan;
mod program;
mod results;
mod run;

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tidewire_server::Handle;
use tidewire_service::{Context, Error, Reply, Result};

pub use self::program::LoadProgram;

use self::plan::Plan;
use self::results::Results;
use self::run::LoadRun;
use crate::proto::tidewire::admin::v1::{
    CompareLoadsReply, CompareLoadsRequest, GetLoadRequest, ListLoadsReply, ListLoadsRequest, Load,
    LoadCommandReply, LoadLimits, Loads, StartLoadRequest, StopLoadRequest,
};
use crate::{Inventory, own_server};

pub(crate) struct LoadsApi {
    handle: Handle,
    inventory: Inventory,
    shared: Arc<Shared>,
}

/// What the API and the task of a run share.
#[derive(Default)]
struct Shared {
    /// The run that goes on, or the last one.
    run: Mutex<Option<Arc<LoadRun>>>,
    results: Results,
}

impl LoadsApi {
    pub(crate) fn new(handle: Handle, inventory: Inventory) -> Self {
        Self { handle, inventory, shared: Arc::default() }
    }

    fn program(&self) -> Result<&LoadProgram> {
        self.inventory.load_program().ok_or_else(|| Error::failed_precondition(NO_PROGRAM))
    }

    /// The run that goes on, if it has this id, or any where none is asked for.
    fn running(&self, id: Option<&str>) -> Option<Arc<LoadRun>> {
        let run = self.shared.run.lock().clone()?;
        let is_it = id.is_none_or(|id| run.id() == id);
        (is_it && !run.has_ended()).then_some(run)
    }

    async fn stored(&self, id: &str) -> Result<Load> {
        let mut all = self.ended(self.program()?).await.into_iter();
        let found = all.find(|load| load.id == id);
        found.ok_or_else(|| Error::not_found(format!("there is no run {id:?}; list the runs")))
    }

    async fn ended(&self, program: &LoadProgram) -> Vec<Load> {
        let running = self.running(None).map(|run| run.id().to_owned());
        self.shared.results.all(program.folder.clone(), running).await
    }

    async fn load(&self, id: &str) -> Result<Load> {
        match self.running(Some(id)) {
            Some(run) => Ok(run.to_message()),
            None => self.stored(id).await,
        }
    }
}

impl Loads for LoadsApi {
    async fn list(&self, _: Context, _: ListLoadsRequest) -> Result<Reply<ListLoadsReply>> {
        let problem = match self.program() {
            Ok(_) => own_server::problem(&self.handle).unwrap_or_default(),
            Err(_) => NO_PROGRAM,
        };
        let mut loads = match self.program() {
            Ok(program) => self.ended(program).await,
            Err(_) => Vec::new(),
        };
        if let Some(run) = self.running(None) {
            loads.retain(|load| load.id != run.id());
            loads.insert(0, run.to_message());
        }
        for load in &mut loads {
            load.seconds.clear();
        }
        let limits = LoadLimits {
            rate: plan::RATE_MAX,
            seconds: plan::SECONDS_MAX,
            connections: plan::CONNECTIONS_MAX,
            requests: plan::REQUESTS_MAX,
            ..Default::default()
        };
        let problem = problem.to_owned();
        Ok(ListLoadsReply { loads, problem, limits: limits.into(), ..Default::default() }.into())
    }

    async fn get(&self, _: Context, request: GetLoadRequest) -> Result<Reply<Load>> {
        let wait = Duration::from_millis(request.wait_ms.into()).min(WAIT_MAX);
        if let Some(run) = self.running(Some(&request.id)) {
            run.looked_at();
            run.ended_within(wait).await;
        }
        Ok(self.load(&request.id).await?.into())
    }

    async fn command(
        &self,
        _: Context,
        request: StartLoadRequest,
    ) -> Result<Reply<LoadCommandReply>> {
        let plan = Plan::new(&self.handle, request)?;
        Ok(LoadCommandReply { command: command::line(&plan), ..Default::default() }.into())
    }

    async fn compare(
        &self,
        _: Context,
        request: CompareLoadsRequest,
    ) -> Result<Reply<CompareLoadsReply>> {
        let program = self.program()?;
        let base = self.stored(&request.base).await?;
        let new = self.stored(&request.new).await?;
        if [&base, &new].iter().any(|load| load.figures.is_unset()) {
            return Err(Error::failed_precondition("one of the runs has no figures"));
        }
        Ok(command::compare(program, &base, &new).await?.into())
    }

    async fn start(&self, _: Context, request: StartLoadRequest) -> Result<Reply<Load>> {
        let program = self.program()?.clone();
        let plan = Plan::new(&self.handle, request)?;
        if !self.handle.is_ready() {
            return Err(Error::failed_precondition("this server drains; it takes no more load"));
        }
        let mut current = self.shared.run.lock();
        if current.as_ref().is_some_and(|run| !run.has_ended()) {
            let text = "a run goes on; wait for its end, or stop it: two would measure each other";
            return Err(Error::failed_precondition(text));
        }
        tracing::warn!(
            method = plan.asked.method,
            path = plan.asked.path,
            rate = plan.asked.rate,
            seconds = plan.asked.seconds,
            connections = plan.asked.connections,
            "load was started by the admin listener"
        );
        let run = LoadRun::start(&program, plan, self.handle.clone())?;
        *current = Some(Arc::clone(&run));
        Ok(run.to_message().into())
    }

    async fn stop(&self, _: Context, request: StopLoadRequest) -> Result<Reply<Load>> {
        if let Some(run) = self.running(Some(&request.id)) {
            tracing::warn!(run = request.id, "a load was stopped by the admin listener");
            run.stop("by hand");
            run.ended_within(WAIT_MAX).await;
        }
        Ok(self.load(&request.id).await?.into())
    }
}

const NO_PROGRAM: &str = "this program starts no load itself; run the line in a terminal";
/// How long `Get` and `Stop` wait for the end of a run at most.
const WAIT_MAX: Duration = Duration::from_secs(10);
