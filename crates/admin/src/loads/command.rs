//! The words of `tidewire bench`: as it is started here, and as a line that repeats it in a
//! terminal.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use tidewire_server::Address;
use tidewire_service::{Error, Result, StreamKind};
use tokio::process::Command;

use super::LoadProgram;
use super::plan::Plan;
use super::results::{self, DESCRIPTORS, RESULT, SCENARIO};
use crate::proto::tidewire::admin::v1::CompareLoadsReply;
use crate::redact;

/// A line for a shell that does what the plan says.
pub(super) fn line(plan: &Plan) -> String {
    let mut words = vec!["tidewire".to_owned()];
    words.extend(arguments(plan));
    for (name, value) in &plan.asked.headers {
        words.extend(["-H".to_owned(), format!("{name}: {value}")]);
    }
    if plan.method.is_some() {
        words.extend(["-d".to_owned(), plan.asked.message.clone()]);
    }
    if let Address::Tcp(address) = &plan.address {
        words.extend(["--server-port".to_owned(), address.port().to_string()]);
    }
    words.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" ")
}

/// The process that does what the plan says, in a folder that has what is sent.
pub(super) fn process(program: &Path, plan: &Plan) -> Command {
    let mut command = Command::new(program);
    command.args(arguments(plan)).args(["--events", "--scenario", SCENARIO, "--json", RESULT]);
    if plan.method.is_some() && plan.asked.protocol != "connect" {
        command.args(["--proto", DESCRIPTORS]);
    }
    command.args(["--server-pid", &std::process::id().to_string()]);
    command
}

/// What both have.
fn arguments(plan: &Plan) -> Vec<String> {
    let asked = &plan.asked;
    let path = match &plan.method {
        Some(called) => &*called.method.path,
        None => &*asked.path,
    };
    let mut words: Vec<String> = ["bench", "run"].map(str::to_owned).to_vec();
    match &plan.address {
        Address::Unix(socket) => {
            words.push(format!("http://localhost{path}"));
            words.extend(["--unix".to_owned(), socket.display().to_string()]);
        }
        other => words.push(format!("http://{other}{path}")),
    }
    let mut option = |name: &str, value: String| words.extend([name.to_owned(), value]);
    option("--protocol", asked.protocol.clone());
    let kind = plan.method.as_ref().map_or(StreamKind::Unary, |called| called.method.kind);
    match kind {
        StreamKind::Unary => {}
        StreamKind::Server => option("--kind", "server-stream".to_owned()),
        StreamKind::Client => option("--kind", "client-stream".to_owned()),
        StreamKind::Bidi => option("--kind", "bidi".to_owned()),
    }
    option("--connections", asked.connections.to_string());
    if asked.rate > 0.0 {
        option("--rate", asked.rate.to_string());
    }
    option("--duration", format!("{}s", asked.seconds));
    if asked.requests > 0 {
        option("--requests", asked.requests.to_string());
    }
    words
}

/// One word of a POSIX shell, whatever is in it.
fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_@%+=:,./-".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}

/// Sets the results of two runs side by side.
pub(super) async fn compare(
    program: &LoadProgram,
    base: &str,
    new: &str,
) -> Result<CompareLoadsReply> {
    let mut command = Command::new(&program.program);
    command.args(["bench", "compare"]);
    command.args([base, new].map(|id| results::folder(&program.folder, id).join(RESULT)));
    command.stdin(Stdio::null()).kill_on_drop(true);
    let lost = |why: std::io::Error| Error::internal(format!("tidewire bench compare: {why}"));
    let output = tokio::time::timeout(COMPARE_MAX, command.output()).await;
    let output = output.map_err(|_| Error::deadline_exceeded("the comparison takes too long"))?;
    let output = output.map_err(lost)?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    if text.is_empty() {
        let why = String::from_utf8_lossy(&output.stderr);
        return Err(Error::failed_precondition(redact::text(why.trim())));
    }
    let comparable = output.status.code() != Some(NOT_COMPARABLE);
    Ok(CompareLoadsReply { text, comparable, ..Default::default() })
}

/// The exit code of a comparison that says nothing of the server.
const NOT_COMPARABLE: i32 = 6;
const COMPARE_MAX: Duration = Duration::from_secs(30);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_a_word_has_it_is_one_word() {
        for (word, expected) in [
            ("--rate", "--rate"),
            ("", "''"),
            ("a b", "'a b'"),
            ("it's; rm -rf", "'it'\\''s; rm -rf'"),
            ("$(x)`y`", "'$(x)`y`'"),
            ("{{seq}}", "'{{seq}}'"),
        ] {
            assert_eq!(quoted(word), expected);
        }
    }
}
