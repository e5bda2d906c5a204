//! `tidewire ps`, `logs`, `start`, `stop`, `restart`, `freeze`, `thaw`: programs that a running
//! server hosts, from its admin listener.

use std::io::Write as _;
use std::time::Duration;

use tidewire::admin::proto::tidewire::admin::v1::{
    GetProcessRequest, ListProcessesRequest, LogLine, Process, ProcessInstance, ProcessLogsRequest,
    ProcessesClient, SteerProcessRequest,
};
use tidewire::validate::print_timestamp;

use crate::admin::{Admin, body_or_failure};
use crate::call::printable::printable;
use crate::failure::Failure;
use crate::json::{self, JsonFlag};

/// Show the programs that a running server hosts.
#[derive(Debug, clap::Args)]
pub(crate) struct Ps {
    /// Name of the program [default: all].
    name: Option<String>,
    #[command(flatten)]
    json: JsonFlag,
    #[command(flatten)]
    admin: Admin,
}

/// Show what a hosted program printed: when, by which process, where, and the text.
#[derive(Debug, clap::Args)]
pub(crate) struct Logs {
    /// Name of the program.
    name: String,
    /// Print new output as it comes.
    #[arg(short, long)]
    follow: bool,
    #[command(flatten)]
    json: JsonFlag,
    #[command(flatten)]
    admin: Admin,
}

#[derive(Debug, clap::Args)]
pub(crate) struct ProcessArgs {
    /// Name of the program.
    name: String,
    #[command(flatten)]
    admin: Admin,
}

/// What is done to a program.
#[derive(Debug, Clone, Copy)]
pub(crate) enum ProcessAction {
    Start,
    Stop,
    Restart,
    Freeze,
    Thaw,
}

impl Ps {
    pub(crate) async fn run(self) -> Result<(), Failure> {
        let client = ProcessesClient::new(self.admin.channel()?);
        let processes = match self.name {
            Some(name) => {
                let request = GetProcessRequest { name, ..Default::default() };
                vec![body_or_failure(client.get(request).await)?]
            }
            None => body_or_failure(client.list(ListProcessesRequest::default()).await)?.processes,
        };
        let text = match self.json.json {
            true => processes.iter().map(json::line).collect::<Result<String, _>>()?,
            false => table(&processes),
        };
        Ok(std::io::stdout().write_all(text.as_bytes())?)
    }
}

impl Logs {
    pub(crate) async fn run(self) -> Result<(), Failure> {
        let client = ProcessesClient::new(self.admin.channel()?);
        let mut after = 0;
        loop {
            let name = self.name.clone();
            let limit = 1000;
            let request = ProcessLogsRequest { name, after, limit, ..Default::default() };
            let reply = body_or_failure(client.logs(request).await)?;
            let mut out = std::io::stdout().lock();
            if reply.dropped > 0 && !self.json.json {
                writeln!(out, "({} lines are gone)", reply.dropped)?;
            }
            for line in &reply.lines {
                match self.json.json {
                    true => out.write_all(json::line(line)?.as_bytes())?,
                    false => {
                        let LogLine { at_ms, pid, pipe, text, .. } = line;
                        let at = print_milliseconds(*at_ms);
                        writeln!(out, "{at} {pid} {pipe} {}", printable(text))?;
                    }
                }
            }
            out.flush()?;
            drop(out);
            after = reply.next;
            match (reply.lines.is_empty(), self.follow) {
                (true, false) => return Ok(()),
                (true, true) => tokio::time::sleep(FOLLOW_INTERVAL).await,
                (false, _) => {}
            }
        }
    }
}

impl ProcessArgs {
    pub(crate) async fn run(self, act: ProcessAction) -> Result<(), Failure> {
        let client = ProcessesClient::new(self.admin.channel()?);
        let request = SteerProcessRequest { name: self.name, ..Default::default() };
        let process = match act {
            ProcessAction::Start => {
                // Who asks for a start does not mean to wait for the rest of a broken one.
                body_or_failure(client.close_breaker(request.clone()).await)?;
                body_or_failure(client.start(request).await)?
            }
            ProcessAction::Stop => body_or_failure(client.stop(request).await)?,
            ProcessAction::Restart => restart(&client, request).await?,
            ProcessAction::Freeze => body_or_failure(client.freeze(request).await)?,
            ProcessAction::Thaw => body_or_failure(client.thaw(request).await)?,
        };
        Ok(write!(std::io::stdout(), "{}", table(&[process]))?)
    }
}

/// Replaces the process of a program; comes back once another one can be called, or could not be
/// started within `start_timeout`.
async fn restart(
    client: &ProcessesClient,
    request: SteerProcessRequest,
) -> Result<Process, Failure> {
    let named = GetProcessRequest { name: request.name.clone(), ..Default::default() };
    let before = body_or_failure(client.get(named.clone()).await)?;
    let mut process = body_or_failure(client.restart(request).await)?;
    while process.starts <= before.starts && process.crashes <= before.crashes {
        tokio::time::sleep(FOLLOW_INTERVAL).await;
        process = body_or_failure(client.get(named.clone()).await)?;
    }
    Ok(process)
}

fn table(processes: &[Process]) -> String {
    let mut text = format!(
        "{:<20} {:<9} {:>6} {:>6} {:>6} {:>7}  PIDS\n",
        "NAME", "STATE", "STARTS", "SPARES", "CALLS", "WAITING"
    );
    for process in processes {
        let Process { name, state, starts, spares, calls, waiting, pids, failure, .. } = process;
        let pids: Vec<_> = pids.iter().map(ToString::to_string).collect();
        let failure = match failure.is_empty() {
            true => String::new(),
            false => {
                let age = age(process.failure_age_ms);
                format!("  last failure {age} ago: {}", printable(failure))
            }
        };
        let name = printable(name);
        let pids = pids.join(" ");
        text += &format!(
            "{name:<20} {state:<9} {starts:>6} {spares:>6} {calls:>6} {waiting:>7}  {pids}{failure}\n"
        );
        for instance in &process.instances {
            let ProcessInstance { pid, state, calls, requests, age_ms, limits, .. } = instance;
            let age = age(*age_ms);
            let limits = if limits.is_empty() { String::new() } else { format!("; {limits}") };
            let memory = instance.memory_bytes as f64 / f64::from(1 << 20);
            let cpu = instance.cpu_us as f64 / 1e6;
            text += &format!(
                "  {pid:<18} {state:<9} {age} old, {calls} calls open, {requests} in all, \
                 {memory:.1} MiB, {cpu:.2}s on a core{limits}\n"
            );
        }
        if process.out_of_memory > 0 {
            text += &format!("  ran out of memory {} times\n", process.out_of_memory);
        }
    }
    text
}

/// A time since 1970 as RFC 3339 has it, always with three digits of milliseconds.
fn print_milliseconds(at_ms: u64) -> String {
    let seconds = print_timestamp(i128::from(at_ms / 1000) * 1_000_000_000);
    format!("{}.{:03}Z", seconds.trim_end_matches('Z'), at_ms % 1000)
}

/// A time in its largest unit.
fn age(milliseconds: u64) -> String {
    match milliseconds / 1000 {
        seconds @ 0..60 => format!("{seconds}s"),
        seconds @ 60..3600 => format!("{}m", seconds / 60),
        seconds @ 3600..86_400 => format!("{}h", seconds / 3600),
        seconds => format!("{}d", seconds / 86_400),
    }
}

/// How often it is looked for more, once there is none.
const FOLLOW_INTERVAL: Duration = Duration::from_millis(300);

#[cfg(test)]
mod tests {
    use super::print_milliseconds;

    #[test]
    fn times_of_lines_have_three_digits_of_milliseconds() {
        for (at_ms, expected) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (12_100, "1970-01-01T00:00:12.100Z"),
            (12_120, "1970-01-01T00:00:12.120Z"),
            (12_007, "1970-01-01T00:00:12.007Z"),
        ] {
            assert_eq!(print_milliseconds(at_ms), expected);
        }
    }
}
