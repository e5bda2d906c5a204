//! `tidewire calls`: the last calls of a running server, and what was said in them, from its admin
//! listener.

use std::fmt::Write as _;
use std::io::Write as _;

use tidewire::admin::proto::tidewire::admin::v1::{
    Call, CallsClient, CaptureBodiesRequest, GetCallRequest, ListCallsReply, ListCallsRequest,
    PhaseReached, RecordCallsRequest, SentHeader,
};

use crate::admin::{Admin, body_or_failure};
use crate::call::printable::printable;
use crate::failure::Failure;
use crate::json::{self, JsonFlag};

/// Show the last calls of a running server.
///
/// The server records calls only after --record, and their messages only after --capture. Fields
/// that the schema marks as secret, and names that sound like secrets, are left out. With a number:
/// everything recorded about one call.
#[derive(Debug, clap::Args)]
pub(crate) struct Calls {
    /// Number of a call, as listed.
    number: Option<u64>,
    /// Record calls for this many seconds from now; 0 stops recording [default: list the recorded
    /// calls].
    #[arg(long, value_name = "SECONDS")]
    record: Option<u32>,
    /// Record calls with their messages for this many seconds from now; 0 stops recording [default:
    /// list the recorded calls].
    #[arg(long, value_name = "SECONDS")]
    capture: Option<u32>,
    /// Only calls of methods whose name contains this text.
    #[arg(long, value_name = "PART", default_value = "")]
    method: String,
    /// Only failed calls.
    #[arg(long)]
    failed: bool,
    #[command(flatten)]
    json: JsonFlag,
    #[command(flatten)]
    admin: Admin,
}

impl Calls {
    pub(crate) async fn run(self) -> Result<(), Failure> {
        let client = CallsClient::new(self.admin.channel()?);
        if let Some(seconds) = self.record {
            let request = RecordCallsRequest { seconds, ..Default::default() };
            body_or_failure(client.record(request).await)?;
        }
        if let Some(seconds) = self.capture {
            let request = CaptureBodiesRequest { seconds, ..Default::default() };
            body_or_failure(client.capture_bodies(request).await)?;
        }
        let text = match self.number {
            Some(number) => {
                let request = GetCallRequest { number, ..Default::default() };
                let call = body_or_failure(client.get(request).await)?;
                if self.json.json { json::line(&call)? } else { of_call(&call) }
            }
            None => {
                let method = self.method;
                let failed = self.failed;
                let request =
                    ListCallsRequest { method, failed, limit: 1000, ..Default::default() };
                let listed = body_or_failure(client.list(request).await)?;
                match self.json.json {
                    true => listed.calls.iter().map(json::line).collect::<Result<_, _>>()?,
                    false => of_all(&listed),
                }
            }
        };
        Ok(std::io::stdout().write_all(text.as_bytes())?)
    }
}

fn of_all(listed: &ListCallsReply) -> String {
    let mut text = format!(
        "{:>7} {:<18} {:>9} {:<8}  {:<16}  METHOD\n",
        "NUMBER", "OUTCOME", "MS", "PROTOCOL", "CALLER"
    );
    for call in &listed.calls {
        let Call { number, outcome, protocol, .. } = call;
        let kept = if call.from_memory { " (kept)" } else { "" };
        let took = call.took_us as f64 / 1000.0;
        let method = printable(&call.method);
        let caller = printable(if call.caller.is_empty() { "-" } else { &call.caller });
        let _ = writeln!(
            text,
            "{number:>7} {outcome:<18} {took:>9.1} {protocol:<8}  {caller:<16}  {method}{kept}"
        );
    }
    if listed.dropped > 0 {
        let _ = writeln!(text, "{} others are not kept", listed.dropped);
    }
    if !listed.recording {
        text += "calls are not recorded now; --record 60 does that for a minute\n";
    }
    text
}

fn of_call(call: &Call) -> String {
    let Call { number, method, outcome, protocol, took_us, .. } = call;
    let mut text =
        format!("{number} {} {outcome} by {protocol}, {took_us} µs\n", printable(method));
    let ids = [
        ("peer", &call.peer),
        ("caller", &call.caller),
        ("program", &call.program),
        ("request", &call.request_id),
        ("trace", &call.trace_id),
    ];
    for (name, value) in ids {
        if !value.is_empty() {
            let _ = writeln!(text, "  {name} {}", printable(value));
        }
    }
    for PhaseReached { phase, at_us, .. } in &call.phases {
        let _ = writeln!(text, "  {phase} after {at_us} µs");
    }
    for SentHeader { name, value, .. } in &call.headers {
        let value = value.as_deref().unwrap_or("(not shown)");
        let _ = writeln!(text, "  {}: {}", printable(name), printable(value));
    }
    for (sign, said) in [("→", &call.request), ("←", &call.reply)] {
        for message in said {
            let _ = writeln!(text, "  {sign} {}", printable(message));
        }
    }
    if call.cut > 0 {
        let _ = writeln!(text, "  {} messages were cut or left out", call.cut);
    }
    text
}
