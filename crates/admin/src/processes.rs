//! `Processes`: programs that are hosted, and what is done to them.

use std::time::Duration;

use tidewire_hosting::{HostedService, Line, State};
use tidewire_service::{Context, Error, Reply, Result};

use crate::proto::tidewire::admin::v1::{
    GetProcessRequest, ListProcessesReply, ListProcessesRequest, LogLine, Process, ProcessInstance,
    ProcessLogsReply, ProcessLogsRequest, Processes, SteerProcessRequest,
};
use crate::{Inventory, limit, micros, redact};

pub(crate) struct ProcessesApi(pub(crate) Inventory);

impl ProcessesApi {
    fn find(&self, name: &str) -> Result<HostedService> {
        let all = self.0.programs();
        let names: Vec<_> = all.iter().map(|hosted| hosted.name().to_owned()).collect();
        all.into_iter().find(|hosted| hosted.name() == name).ok_or_else(|| {
            let there = match names.is_empty() {
                true => "this server hosts none".to_owned(),
                false => format!("there are {}", names.join(", ")),
            };
            Error::not_found(format!("no program is called {name:?}; {there}"))
        })
    }

    /// Does something to a program, and tells how it is then.
    fn steer(
        &self,
        what: &str,
        name: &str,
        act: impl FnOnce(&HostedService),
    ) -> Result<Reply<Process>> {
        let hosted = self.find(name)?;
        tracing::warn!(program = name, "{what} was asked for by the admin listener");
        act(&hosted);
        Ok(to_message(&self.0, &hosted).into())
    }
}

impl Processes for ProcessesApi {
    async fn list(&self, _: Context, _: ListProcessesRequest) -> Result<Reply<ListProcessesReply>> {
        let processes = self.0.programs().iter().map(|it| to_message(&self.0, it)).collect();
        Ok(ListProcessesReply { processes, ..Default::default() }.into())
    }

    async fn get(&self, _: Context, request: GetProcessRequest) -> Result<Reply<Process>> {
        Ok(to_message(&self.0, &self.find(&request.name)?).into())
    }

    async fn logs(
        &self,
        _: Context,
        request: ProcessLogsRequest,
    ) -> Result<Reply<ProcessLogsReply>> {
        let hosted = self.find(&request.name)?;
        // A line may be the value of a name that is on one before it.
        let earlier = request.after.saturating_sub(LINES_BEFORE);
        let most = limit(request.limit).saturating_add((request.after - earlier) as usize);
        let (first, lines) = hosted.output_after(earlier, most);
        let known = request.after.saturating_sub(first) as usize;
        let shown = (known..lines.len()).map(|at| line(&lines[..at], &lines[at]));
        let reply = ProcessLogsReply {
            next: (first + lines.len() as u64).max(request.after),
            dropped: first.saturating_sub(request.after),
            lines: shown.collect(),
            ..Default::default()
        };
        Ok(reply.into())
    }

    async fn start(&self, _: Context, request: SteerProcessRequest) -> Result<Reply<Process>> {
        self.steer("a start", &request.name, HostedService::start)
    }

    async fn stop(&self, _: Context, request: SteerProcessRequest) -> Result<Reply<Process>> {
        self.steer("a stop", &request.name, |hosted| _ = hosted.stop())
    }

    async fn restart(&self, _: Context, request: SteerProcessRequest) -> Result<Reply<Process>> {
        self.steer("a restart", &request.name, HostedService::restart)
    }

    async fn freeze(&self, _: Context, request: SteerProcessRequest) -> Result<Reply<Process>> {
        let mut busy = 0;
        let reply = self.steer("a freeze", &request.name, |hosted| busy = hosted.freeze())?;
        match busy {
            0 => Ok(reply),
            _ => Err(Error::failed_precondition(format!(
                "{busy} processes of {} have calls, and were not frozen; stop or wait",
                request.name
            ))),
        }
    }

    async fn thaw(&self, _: Context, request: SteerProcessRequest) -> Result<Reply<Process>> {
        self.steer("a thaw", &request.name, HostedService::thaw)
    }

    async fn close_breaker(
        &self,
        _: Context,
        request: SteerProcessRequest,
    ) -> Result<Reply<Process>> {
        self.steer("closing its breaker", &request.name, HostedService::close_breaker)
    }
}

/// A program as a message.
pub(crate) fn to_message(inventory: &Inventory, hosted: &HostedService) -> Process {
    let status = hosted.status();
    let instances = status.processes.iter().map(|process| ProcessInstance {
        pid: process.pid,
        state: if process.is_spare { "spare" } else { word(process.state) }.to_owned(),
        calls: process.calls as u64,
        requests: process.requests,
        age_ms: milliseconds(process.age),
        limits: process.limits.clone(),
        memory_bytes: process.memory_bytes,
        cpu_us: micros(process.cpu_time),
        ..Default::default()
    });
    Process {
        name: hosted.name().to_owned(),
        state: word(status.state).to_owned(),
        instances: instances.collect(),
        out_of_memory: status.out_of_memory,
        crashes: status.crashes,
        requests: status.requests,
        start_us: micros(status.start_time),
        queued: status.queued,
        queue_us: micros(status.queue_time),
        route: inventory.route_of(hosted.name()),
        pids: status.pids,
        starts: status.starts,
        spares: status.spares as u64,
        waiting: status.waiting as u64,
        calls: status.calls as u64,
        failure_age_ms: status.failure_age.map_or(0, milliseconds),
        failure: redact::text(&status.failure.unwrap_or_default()),
        ..Default::default()
    }
}

fn milliseconds(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

fn word(state: State) -> &'static str {
    match state {
        State::Stopped => "stopped",
        State::Starting => "starting",
        State::Ready => "ready",
        State::Frozen => "frozen",
        State::Stopping => "stopping",
        State::Broken => "broken",
        _ => "unknown",
    }
}

/// A line as a message, by the one before it of the same pipe.
fn line(before: &[Line], line: &Line) -> LogLine {
    let before = before.iter().rev().find(|known| known.pipe == line.pipe);
    let text = redact::line(before.map_or("", |known| &known.text), &line.text);
    let Line { pid, at_ms, .. } = *line;
    LogLine { pipe: line.pipe.to_string(), text, pid, at_ms, ..Default::default() }
}

/// How far one of a program's two pipes may be behind the other for its lines to be known as
/// neighbours.
const LINES_BEFORE: u64 = 16;
