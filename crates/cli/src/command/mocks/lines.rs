//! Replies of a running mock as lines for people.
//!
//! A line that is about something begins with its name; what belongs to it is indented below. For
//! an empty list nothing is printed. `get-file` and `get-proto` print the text alone, so that it
//! can be written to a file; what else is known of it goes to standard error.

use std::borrow::Cow;
use std::io::{self, IsTerminal as _, Write};

use serde_json::{Map, Value as Json};

use crate::call::printable::{printable, printable_lines};

/// Prints the reply of a method to a request.
pub(super) fn print(
    method: &str,
    request: &Map<String, Json>,
    reply: &Json,
    out: &mut dyn Write,
) -> io::Result<()> {
    let asked = |name: &str| request.get(name).and_then(Json::as_str).unwrap_or_default();
    let asked_name = printable(asked("name"));
    match method {
        "ListRules" => rules(reply, out),
        "ListCalls" => items(reply, "calls").iter().try_for_each(|one| call(one, out)),
        "NearMisses" => near_misses(reply, out),
        "Verify" => verified(reply, out),
        "Preview" => preview(reply, out),
        "ListSessions" => sessions(reply, out),
        "GetFaults" | "SetFaults" => faults(reply, out),
        "Check" if items(reply, "findings").is_empty() => writeln!(out, "nothing wrong"),
        "Check" => findings(&asked_name, reply, out),
        "GetFile" | "GetProto" => text_of_file(reply, out),
        "PutFile" | "PutProto" => {
            writeln!(out, "wrote {asked_name}, etag {}", text(reply, "etag"))?;
            findings(&asked_name, reply, out)
        }
        "DeleteFile" | "DeleteProto" => {
            writeln!(out, "deleted {asked_name}")?;
            findings(&asked_name, reply, out)
        }
        "ListProtos" => {
            items(reply, "names").iter().try_for_each(|one| writeln!(out, "{}", of_text(one)))
        }
        "Stub" => writeln!(out, "added a stub of {}", printable(asked("method"))),
        "Unstub" => {
            let count = reply["stubs"].as_u64().unwrap_or(0);
            writeln!(out, "removed {}", counted(count, "stub"))
        }
        "Reset" => match asked("session") {
            "" => writeln!(out, "forgot the calls, counts and state of all sessions"),
            session => writeln!(out, "forgot session {}", printable(session)),
        },
        _ => writeln!(out, "{reply}"),
    }
}

fn items<'r>(reply: &'r Json, list: &str) -> &'r [Json] {
    reply[list].as_array().map_or(&[], Vec::as_slice)
}

/// The text of a member, as a terminal may see it.
fn text<'r>(item: &'r Json, member: &str) -> Cow<'r, str> {
    of_text(&item[member])
}

fn of_text(item: &Json) -> Cow<'_, str> {
    printable(item.as_str().unwrap_or_default())
}

/// A number of 64 bits, which JSON of protobuf has as a text.
fn number(item: &Json) -> u64 {
    let text = item.as_str().and_then(|text| text.parse().ok());
    text.or_else(|| item.as_u64()).unwrap_or(0)
}

/// `1 stub`, `2 stubs`.
fn counted(count: u64, noun: &str) -> String {
    let ending = if count == 1 { "" } else { "s" };
    format!("{count} {noun}{ending}")
}

/// One indented line for each text of a list.
fn indented(list: &[Json], indent: &str, out: &mut dyn Write) -> io::Result<()> {
    list.iter().try_for_each(|one| writeln!(out, "{indent}{}", of_text(one)))
}

fn rules(reply: &Json, out: &mut dyn Write) -> io::Result<()> {
    for rules in items(reply, "rules") {
        writeln!(out, "{}", text(rules, "method"))?;
        let stubs = number(&rules["stubs"]);
        if stubs > 0 {
            writeln!(out, "  stubs: {stubs}")?;
        }
        for response in items(rules, "responses") {
            let file = text(rules, "file");
            let name = text(response, "name");
            let line = format!("  {file}:{} {name}", response["line"]);
            writeln!(out, "{}", line.trim_end())?;
        }
        if rules["fault"].is_string() {
            writeln!(out, "  {}", text(rules, "fault"))?;
        }
    }
    items(reply, "files").iter().try_for_each(|file| findings(&text(file, "name"), file, out))
}

/// What was found in a file: findings of rules, problems of `.proto` files.
fn findings(file: &str, reply: &Json, out: &mut dyn Write) -> io::Result<()> {
    for found in items(reply, "findings") {
        let kind = if found["error"] == true { "error" } else { "warning" };
        let place = match (number(&found["line"]), number(&found["column"])) {
            (0, _) => String::new(),
            (line, column) => format!(":{line}:{column}"),
        };
        writeln!(out, "{file}{place}: {kind}: {}", text(found, "message"))?;
        if found["help"].is_string() {
            writeln!(out, "  = {}", text(found, "help"))?;
        }
    }
    indented(items(reply, "problems"), "", out)
}

/// A call in one line: its number, method and outcome, what answered it, and its session.
fn call(call: &Json, out: &mut dyn Write) -> io::Result<()> {
    let rule = text(call, "rule");
    let rule = if rule.is_empty() { "no rule".into() } else { rule };
    let number = text(call, "number");
    let method = text(call, "method");
    let line = format!("{number} {method} {} {rule} {}", text(call, "code"), text(call, "session"));
    writeln!(out, "{}", line.trim_end())?;
    let reason = text(call, "reason");
    if !reason.is_empty() {
        writeln!(out, "  {reason}")?;
    }
    indented(items(call, "requests"), "  ", out)
}

fn near_misses(reply: &Json, out: &mut dyn Write) -> io::Result<()> {
    let misses = items(reply, "misses");
    for miss in misses {
        call(&miss["call"], out)?;
        for response in items(miss, "closest") {
            let conditions = number(&response["conditions"]);
            let matched = number(&response["matched"]);
            let of = counted(conditions, "condition");
            let rule = [text(response, "rule"), text(response, "name")].join(" ");
            writeln!(out, "  {}: {matched} of {of} held", rule.trim_end())?;
            indented(items(response, "misses"), "    ", out)?;
            if response["loss"].is_string() {
                writeln!(out, "    {}", text(response, "loss"))?;
            }
        }
        let more = number(&miss["more"]);
        if more > 0 {
            writeln!(out, "  and {} further away", counted(more, "response"))?;
        }
    }
    let more = number(&reply["more"]);
    if more > 0 {
        let all = misses.len() as u64 + more;
        writeln!(out, "and {} further away; --limit {all} lists them", counted(more, "call"))?;
    }
    Ok(())
}

fn verified(reply: &Json, out: &mut dyn Write) -> io::Result<()> {
    match reply["verified"] == true {
        true => writeln!(out, "verified: {}", counted(number(&reply["calls"]), "call")),
        // The problem is the error of the command.
        false => Ok(()),
    }
}

fn preview(reply: &Json, out: &mut dyn Write) -> io::Result<()> {
    let rule = text(reply, "rule");
    let rule = if rule.is_empty() { "no rule".into() } else { rule };
    writeln!(out, "{rule} answers: {}", text(reply, "code"))?;
    if reply["error"].is_string() {
        writeln!(out, "  {}", text(reply, "error"))?;
    }
    indented(items(reply, "replies"), "  ", out)?;
    for fault in items(reply, "faults") {
        writeln!(out, "  fault: {}", of_text(fault))?;
    }
    let gate = items(reply, "gateMisses");
    if !gate.is_empty() {
        writeln!(out, "match does not hold")?;
        indented(gate, "  ", out)?;
    }
    for response in items(reply, "responses").iter().filter(|one| one["chosen"] != true) {
        let rule = [text(response, "rule"), text(response, "name")].join(" ");
        writeln!(out, "{} does not answer", rule.trim_end())?;
        indented(items(response, "misses"), "  ", out)?;
        if response["loss"].is_string() {
            writeln!(out, "  {}", text(response, "loss"))?;
        }
    }
    Ok(())
}

fn sessions(reply: &Json, out: &mut dyn Write) -> io::Result<()> {
    for session in items(reply, "sessions") {
        let name = text(session, "name");
        let name = if name.is_empty() { "no session".into() } else { name };
        writeln!(out, "{name}: {}", counted(number(&session["calls"]), "call"))?;
        for (key, value) in session["state"].as_object().into_iter().flatten() {
            writeln!(out, "  {}: {}", printable(key), of_text(value))?;
        }
    }
    Ok(())
}

fn faults(reply: &Json, out: &mut dyn Write) -> io::Result<()> {
    for fault in items(reply, "faults") {
        let method = text(fault, "method");
        let method = if method.is_empty() { "all methods".into() } else { method };
        writeln!(out, "{method}: {}", text(fault, "text"))?;
    }
    Ok(())
}

/// The text as it is where that is not a terminal.
fn text_of_file(reply: &Json, out: &mut dyn Write) -> io::Result<()> {
    let of_file = reply["text"].as_str().unwrap_or_default();
    match io::stdout().is_terminal() {
        true => write!(out, "{}", printable_lines(of_file))?,
        false => write!(out, "{of_file}")?,
    }
    let mut beside = io::stderr().lock();
    writeln!(beside, "etag {}", text(reply, "etag"))?;
    findings(&text(reply, "name"), reply, &mut beside)
}
