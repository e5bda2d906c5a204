//! `tidewire mocks`: rules, calls and sessions of a running mock, from its admin listener.
//!
//! Each method of `tidewire.admin.v1.Mocks` is a command, and each field of its request a flag of
//! that; the first field goes without its name where it is a text. `import` is for files alone.

mod import;

use std::io::{Read as _, Write as _};
use std::sync::OnceLock;

use clap::{Arg, ArgAction, ArgMatches, Command, FromArgMatches, Subcommand};
use serde_json::{Map, Value as Json, json};
use tidewire::admin::proto::{ADMIN_SOURCE, DESCRIPTOR_SET};
use tidewire::schema::{Field, Kind, Scalar, Schema, Single};
use tidewire::{Body, Call, Codec, Context, Method, Service};

use self::import::Import;
use crate::admin::{Admin, body_or_failure};
use crate::call::printable::{printable, printable_json};
use crate::failure::Failure;

/// Show and change a running mock: rule files, previews, calls, sessions.
#[derive(Debug, clap::Args)]
pub(crate) struct Mocks {
    #[command(subcommand)]
    verb: Option<Action>,
    #[command(flatten)]
    admin: Admin,
}

/// What is done.
#[derive(Debug)]
enum Action {
    Call(Verb),
    Import(Import),
}

/// A method that is called, and its request.
#[derive(Debug)]
struct Verb {
    method: Method,
    request: Map<String, Json>,
    /// Whether JSON is printed where lines are too.
    json: bool,
}

const SERVICE: &str = "tidewire.admin.v1.Mocks";

fn schema() -> &'static Schema {
    static SCHEMA: OnceLock<Schema> = OnceLock::new();
    SCHEMA.get_or_init(|| Schema::from_descriptors(DESCRIPTOR_SET).expect("our own descriptors"))
}

fn methods() -> Vec<Method> {
    let interface = schema().interface(SERVICE).ok().flatten();
    interface.expect("our own service").methods().to_vec()
}

/// The command that is not a method.
const IMPORT: &str = "import";

impl Subcommand for Action {
    fn augment_subcommands(command: Command) -> Command {
        let command =
            command.subcommand(<Import as clap::Args>::augment_args(Command::new(IMPORT)));
        methods().into_iter().fold(command, |command, method| {
            let input = message(&method);
            let name = kebab(&method.method);
            let mut verb = Command::new(name).about(comment(
                &format!("service {} {{", SERVICE.rsplit('.').next().unwrap_or_default()),
                &format!("rpc {}(", method.method),
            ));
            let head = format!("message {} {{", input.rsplit('.').next().unwrap_or_default());
            let fields = schema().message_type(&input).expect("our own message");
            for field in fields.fields() {
                verb = verb.arg(argument(field, &head));
            }
            if lines_of(&method).is_some() {
                let about = "Print JSON in place of lines";
                verb = verb.arg(Arg::new(JSON).long("json").action(ArgAction::SetTrue).help(about));
            }
            command.subcommand(verb)
        })
    }

    fn augment_subcommands_for_update(command: Command) -> Command {
        Self::augment_subcommands(command)
    }

    fn has_subcommand(name: &str) -> bool {
        name == IMPORT || methods().iter().any(|method| kebab(&method.method) == name)
    }
}

impl FromArgMatches for Action {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let missing = || clap::Error::new(clap::error::ErrorKind::MissingSubcommand);
        let (name, matches) = matches.subcommand().ok_or_else(missing)?;
        if name == IMPORT {
            return Import::from_arg_matches(matches).map(Self::Import);
        }
        let method = methods().into_iter().find(|one| kebab(&one.method) == name);
        let method = method.ok_or_else(missing)?;
        let input = message(&method);
        let fields = schema().message_type(&input).ok_or_else(missing)?;
        let mut request = Map::new();
        for field in fields.fields() {
            if let Some(value) = value(field, matches).map_err(|why| {
                clap::Error::raw(clap::error::ErrorKind::ValueValidation, format!("{why}\n"))
            })? {
                request.insert(field.json_name().to_owned(), value);
            }
        }
        let json = lines_of(&method).is_none() || matches.get_flag(JSON);
        Ok(Self::Call(Verb { method, request, json }))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

/// The most bytes of a reply.
const REPLY_BYTES_MAX: usize = 256 << 20;

/// The flag that asks for JSON; no field is called so.
const JSON: &str = "print JSON";

fn message(method: &Method) -> String {
    method.input.to_string()
}

fn is_flag(field: Field<'_>) -> bool {
    matches!(field.kind(), Kind::One(Single::Scalar(Scalar::Bool)))
}

fn argument(field: Field<'_>, head: &str) -> Arg {
    let about = comment(head, &format!(" {} = {};", field.name(), field.number()));
    let arg = Arg::new(field.name().to_owned()).help(about).allow_hyphen_values(true);
    let kebab = field.name().replace('_', "-");
    let is_text = matches!(field.kind(), Kind::One(Single::Scalar(Scalar::String)));
    match field.kind() {
        _ if field.number() == 1 && is_text => arg.value_name(kebab.to_uppercase()),
        _ if is_flag(field) => {
            arg.long(kebab).allow_hyphen_values(false).action(ArgAction::SetTrue)
        }
        Kind::Map { .. } => arg.long(kebab).value_name("KEY=VALUE").action(ArgAction::Append),
        Kind::List(_) => arg.long(kebab).value_name("VALUE").action(ArgAction::Append),
        // Without a text a file would become empty; whoever wants that writes --text ''.
        Kind::One(_) if is_text => {
            let is_file = field.name() == "text" && head.contains(" Put");
            arg.long(kebab).value_name("TEXT").required(is_file)
        }
        Kind::One(_) => arg.long(kebab).value_name("NUMBER"),
    }
}

/// What the arguments say of a field; nothing where they do not name it.
fn value(field: Field<'_>, matches: &ArgMatches) -> Result<Option<Json>, String> {
    if is_flag(field) {
        return Ok(matches.get_flag(field.name()).then_some(Json::Bool(true)));
    }
    let Some(said) = matches.get_many::<String>(field.name()) else { return Ok(None) };
    let said: Vec<_> = said.map(|text| text_of(text)).collect::<Result<_, _>>()?;
    Ok(Some(match field.kind() {
        Kind::Map { .. } => {
            let pairs = said.iter().map(|pair| {
                let split = pair.split_once('=');
                let (key, value) = split.ok_or_else(|| format!("{pair:?} is not KEY=VALUE"))?;
                Ok((key.to_owned(), value.into()))
            });
            Json::Object(pairs.collect::<Result<_, String>>()?)
        }
        Kind::List(_) => said.into(),
        Kind::One(Single::Scalar(Scalar::String)) => said.concat().into(),
        Kind::One(_) => {
            let text = said.concat();
            let number = text.parse::<u64>().map_err(|_| format!("{text:?} is not a number"))?;
            number.into()
        }
    }))
}

/// What is said; `@FILE` is what is in a file, and `@-` what comes by standard input.
fn text_of(said: &str) -> Result<String, String> {
    let Some(path) = said.strip_prefix('@') else { return Ok(said.to_owned()) };
    let mut text = String::new();
    let read = match path {
        "-" => std::io::stdin().read_to_string(&mut text).map(drop),
        path => std::fs::read_to_string(path).map(|read| text = read),
    };
    read.map_err(|why| format!("cannot read {path}: {why}"))?;
    Ok(text)
}

/// `put-file` of `PutFile`.
fn kebab(name: &str) -> String {
    let mut out = String::new();
    for c in name.chars() {
        if c.is_ascii_uppercase() && !out.is_empty() {
            out.push('-');
        }
        out.push(c.to_ascii_lowercase());
    }
    out
}

/// The comment before a line of the source of the service, in the block that a head begins.
fn comment(head: &str, line: &str) -> String {
    let block = ADMIN_SOURCE.split(head).nth(1).unwrap_or_default();
    let block = block.split("\n}").next().unwrap_or_default();
    let before: Vec<_> = block.lines().take_while(|one| !one.contains(line)).collect();
    let comment = before.iter().rev().map_while(|one| one.trim().strip_prefix("//"));
    let mut lines: Vec<_> = comment.map(str::trim).collect();
    lines.reverse();
    lines.join(" ").trim_end_matches('.').to_owned()
}

/// What prints a reply as lines.
type Lines = fn(&Json, &mut dyn std::io::Write) -> std::io::Result<()>;

/// What prints replies of a method as lines, where that is not JSON.
fn lines_of(method: &Method) -> Option<Lines> {
    match &*method.method {
        "ListRules" => Some(print_rules),
        "ListCalls" => Some(print_calls),
        _ => None,
    }
}

impl Mocks {
    pub(crate) async fn run(self) -> Result<(), Failure> {
        let verb = match self.verb {
            Some(Action::Import(import)) => return import.run(),
            Some(Action::Call(verb)) => verb,
            None => {
                let method = methods().into_iter().find(|one| one.method == "ListRules");
                let method = method.expect("our own method");
                Verb { method, request: Map::new(), json: false }
            }
        };
        let channel = self.admin.service()?;
        verb.run(&channel).await
    }
}

impl Verb {
    async fn run(self, channel: &impl Service) -> Result<(), Failure> {
        let lines = lines_of(&self.method).filter(|_| !self.json);
        if let Some(lines) = lines {
            return self.lines(channel, lines).await;
        }
        let reply = call(channel, &self.method, &self.request).await?;
        let text = serde_json::to_string_pretty(&reply)?;
        writeln!(std::io::stdout(), "{}", printable_lines_json(&text))?;
        match self.method.method.as_ref() == "Verify" && reply["verified"] != true {
            true => Err(anyhow::anyhow!("it did not come so").into()),
            false => Ok(()),
        }
    }

    /// Prints all there is, page by page where there are pages.
    async fn lines(mut self, channel: &impl Service, print: Lines) -> Result<(), Failure> {
        let has_pages = self.method.method == "ListCalls" && !self.request.contains_key("limit");
        loop {
            if has_pages {
                self.request.insert("limit".to_owned(), json!(1000));
            }
            let reply = call(channel, &self.method, &self.request).await?;
            print(&reply, &mut std::io::stdout().lock())?;
            match items(&reply, "calls").last().filter(|_| has_pages) {
                Some(last) => self.request.insert("after".to_owned(), last["number"].clone()),
                None => return Ok(()),
            };
        }
    }
}

/// The reply to a request, both as JSON.
async fn call(
    channel: &impl Service,
    method: &Method,
    request: &Map<String, Json>,
) -> Result<Json, Failure> {
    let body = Body::Full(Json::Object(request.clone()).to_string().into());
    let call = Call::method(method.clone(), Context::default(), Codec::Json, body);
    let reply = match channel.call(call).await {
        Ok(reply) => reply.body.collect(REPLY_BYTES_MAX).await,
        Err(error) => Err(error),
    };
    let bytes = body_or_failure(reply.map(tidewire::Reply::new))?;
    Ok(serde_json::from_slice(&bytes)?)
}

fn items<'r>(reply: &'r Json, list: &str) -> &'r [Json] {
    reply[list].as_array().map_or(&[], Vec::as_slice)
}

/// The text of a member, as a terminal may see it.
fn text<'r>(item: &'r Json, member: &str) -> std::borrow::Cow<'r, str> {
    printable(item[member].as_str().unwrap_or_default())
}

fn print_rules(reply: &Json, out: &mut dyn std::io::Write) -> std::io::Result<()> {
    for rules in items(reply, "rules") {
        writeln!(out, "{}", text(rules, "method"))?;
        let stubs = text(rules, "stubs");
        if !matches!(&*stubs, "" | "0") {
            writeln!(out, "  stubs: {stubs}")?;
        }
        for response in items(rules, "responses") {
            let file = text(rules, "file");
            let name = text(response, "name");
            writeln!(out, "  {file}:{} {name}", response["line"])?;
        }
        if rules["fault"].is_string() {
            writeln!(out, "  {}", text(rules, "fault"))?;
        }
    }
    for file in items(reply, "files") {
        for found in items(file, "findings") {
            let kind = if found["error"] == true { "error" } else { "warning" };
            let line = found["line"].as_u64().unwrap_or(0);
            let file = text(file, "name");
            let message = text(found, "message");
            writeln!(out, "{file}:{line}: {kind}: {message}")?;
        }
    }
    Ok(())
}

fn print_calls(reply: &Json, out: &mut dyn std::io::Write) -> std::io::Result<()> {
    for call in items(reply, "calls") {
        let rule = text(call, "rule");
        let rule = if rule.is_empty() { "no rule".into() } else { rule };
        let number = text(call, "number");
        let method = text(call, "method");
        let code = text(call, "code");
        writeln!(out, "{number} {method} {code} {rule} {}", text(call, "session"))?;
        let reason = text(call, "reason");
        if !reason.is_empty() {
            writeln!(out, "  {reason}")?;
        }
        for request in items(call, "requests") {
            writeln!(out, "  {}", printable(request.as_str().unwrap_or_default()))?;
        }
    }
    Ok(())
}

/// JSON of several lines, as a terminal may see it.
fn printable_lines_json(text: &str) -> String {
    text.split('\n').map(printable_json).collect::<Vec<_>>().join("\n")
}
