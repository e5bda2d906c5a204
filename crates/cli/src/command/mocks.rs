//! `tidewire mocks`: rules, calls and sessions of a running mock, from its admin listener.
//!
//! Each method of `tidewire.admin.v1.Mocks` is a command, and each field of its request a flag of
//! that; the first field goes without its name where it is a text. Each prints lines for people
//! (`mocks/lines.rs`), or with `--json` the reply. `import` is for files alone.

mod import;
mod lines;

use std::io::{Read as _, Write as _};
use std::sync::OnceLock;

use clap::builder::NonEmptyStringValueParser;
use clap::{Arg, ArgAction, ArgMatches, Command, FromArgMatches, Subcommand};
use serde_json::{Map, Value as Json, json};
use tidewire::admin::proto::{ADMIN_SOURCE, DESCRIPTOR_SET};
use tidewire::schema::{Field, Kind, Scalar, Schema, Single};
use tidewire::{Body, Call, Codec, Context, Method, Service};

use self::import::Import;
use crate::admin::{Admin, body_or_failure};
use crate::call::printable::printable_json;
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
    /// Whether JSON is printed in place of lines.
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
    /// Made when `tidewire mocks` is asked for: no other command waits for our schema.
    fn augment_subcommands(command: Command) -> Command {
        command.defer(|command| {
            let import = <Import as clap::Args>::augment_args(Command::new(IMPORT));
            methods().iter().fold(command.subcommand(import), |command, method| {
                command.subcommand(verb(method))
            })
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
        Ok(Self::Call(Verb { method, request, json: matches.get_flag(JSON) }))
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

/// The command of a method.
fn verb(method: &Method) -> Command {
    let input = message(method);
    let verb = Command::new(kebab(&method.method)).about(comment(
        &format!("service {} {{", SERVICE.rsplit('.').next().unwrap_or_default()),
        &format!("rpc {}(", method.method),
    ));
    let head = format!("message {} {{", input.rsplit('.').next().unwrap_or_default());
    let fields = schema().message_type(&input).expect("our own message");
    let about = "Print the reply as JSON [default: lines for people]";
    verb.args(fields.fields().map(|field| argument(field, &head)))
        .arg(Arg::new(JSON).long("json").action(ArgAction::SetTrue).help(about))
}

fn argument(field: Field<'_>, head: &str) -> Arg {
    let about = comment(head, &format!(" {} = {};", field.name(), field.number()));
    let arg = Arg::new(field.name().to_owned()).help(about).allow_hyphen_values(true);
    // An empty one, as of a variable that is not set, would be all sessions.
    let arg = match field.name() {
        "session" => arg.value_parser(NonEmptyStringValueParser::new()),
        _ => arg,
    };
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
        let reply = match self.method.method == "ListCalls" && !self.request.contains_key("limit") {
            true => self.all_calls(channel).await?,
            false => call(channel, &self.method, &self.request).await?,
        };
        if self.json {
            let text = serde_json::to_string_pretty(&reply)?;
            writeln!(std::io::stdout(), "{}", printable_lines_json(&text))?;
        } else {
            let Self { method, request, .. } = &self;
            lines::print(&method.method, request, &reply, &mut std::io::stdout().lock())?;
        }
        match self.method.method == "Verify" && reply["verified"] != true {
            true => Err(anyhow::anyhow!(problem(&reply).to_owned()).into()),
            false => Ok(()),
        }
    }

    /// All calls, which come page by page.
    async fn all_calls(&self, channel: &impl Service) -> Result<Json, Failure> {
        let mut request = self.request.clone();
        request.insert("limit".to_owned(), json!(1000));
        let mut all = Vec::new();
        loop {
            let reply = call(channel, &self.method, &request).await?;
            let Some(page) = reply["calls"].as_array().filter(|page| !page.is_empty()) else {
                return Ok(json!({"calls": all}));
            };
            all.extend_from_slice(page);
            request.insert("after".to_owned(), page[page.len() - 1]["number"].clone());
        }
    }
}

/// What a verification found otherwise.
fn problem(reply: &Json) -> &str {
    reply["problem"].as_str().unwrap_or("the calls did not come as expected")
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

/// JSON of several lines, as a terminal may see it.
fn printable_lines_json(text: &str) -> String {
    text.split('\n').map(printable_json).collect::<Vec<_>>().join("\n")
}
