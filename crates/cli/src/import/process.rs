//! One `<process>` of a manifest as a `[[service]]`.

use std::fmt::Write as _;

use roxmltree::Node;
use serde_json::Value as Json;
use tidewire::config::Config;

use super::manifest::{NOT_KNOWN, Note, line_of, note_text};

/// A process that can be run.
#[derive(Debug)]
pub(super) struct Process {
    pub(super) line: u32,
    pub(super) name: String,
    pub(super) route: RouteHere,
    mode: Mode,
    /// The program and its arguments.
    command: Vec<String>,
    folder: Option<String>,
}

/// How a process is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mode {
    Pipe,
    Http,
}

/// A route as it is written here.
#[derive(Debug)]
pub(super) struct RouteHere {
    pub(super) line: u32,
    pub(super) path: String,
}

/// What an element or an attribute says.
#[derive(Debug)]
struct Field {
    name: String,
    line: u32,
    value: String,
}

impl RouteHere {
    /// Whether a process with this route, being the first, got the other's requests there.
    pub(super) fn covers(&self, other: &Self) -> bool {
        let prefix = self.path.strip_suffix("/*");
        prefix.is_some_and(|prefix| other.path.starts_with(prefix))
    }
}

impl Process {
    /// Reads one, and says what becomes of it; `None` where it could not run there either, or
    /// cannot here.
    pub(super) fn read(node: Node<'_, '_>, notes: &mut Vec<Note>) -> Option<Self> {
        let line = line_of(node);
        let mut fields = fields(node, notes);
        let mode = mode(&mut fields, notes);
        let name = take(&mut fields, "id", notes);
        let executable = take(&mut fields, "executable", notes);
        let route = take(&mut fields, "route", notes);
        let lacks = |name| Note::left_out(line, "process", &format!("it has no {name}"));
        for (field, name) in [(&name, "id"), (&executable, "executable"), (&route, "route")] {
            if field.is_none() {
                notes.push(lacks(name));
            }
        }
        let name = name?;
        let executable = executable?;
        let route = self::route(&route?, notes);
        let mode = mode?;
        notes.push(Note::new(name.line, "id", format!("name = {}", quoted(&name.value))));
        notes.push(Note::new(executable.line, "executable", first_word(mode)));
        let mut command = vec![executable.value];
        for argument in take_all(&mut fields, "arg") {
            let word = command.len() + 1 + mode.words_before();
            notes.push(Note::new(argument.line, "arg", format!("run, word {word}")));
            command.push(argument.value);
        }
        if let Some(pipe) = take(&mut fields, "pipe_name", notes) {
            notes.push(Note::new(pipe.line, "pipe_name", mode.instead_of_pipe_name()));
        }
        let folder = take(&mut fields, "working_dir", notes);
        if let Some(folder) = &folder {
            let text = format!("folder = {}", quoted(&folder.value));
            notes.push(Note::new(folder.line, "working_dir", text));
        }
        for field in fields {
            notes.push(Note::left_out(field.line, field.name, NOT_KNOWN));
        }
        let folder = folder.map(|folder| folder.value);
        let name = name.value.replace(char::is_control, " ");
        Some(Self { line, name, route: route?, mode, command, folder })
    }

    /// Its table.
    pub(super) fn settings(&self) -> String {
        let mut text = String::from("\n[[service]]\n");
        let mut set = |key: &str, value: &str| _ = writeln!(text, "{key} = {value}");
        set("name", &quoted(&self.name));
        set("route", &quoted(&self.route.path));
        let mut command = self.command.clone();
        match self.mode {
            Mode::Pipe => set("protocol", "\"pipe-json\""),
            Mode::Http => {
                command.splice(..0, HTTP_ADDRESS.map(str::to_owned));
            }
        }
        set("run", &Json::from(command).to_string());
        if let Some(folder) = &self.folder {
            set("folder", &quoted(folder));
        }
        if self.mode == Mode::Http && self.command[0].contains('/') {
            set("watch", &Json::from(vec![self.command[0].clone()]).to_string());
        }
        text
    }
}

impl Mode {
    fn words_before(self) -> usize {
        match self {
            Self::Pipe => 0,
            Self::Http => HTTP_ADDRESS.len(),
        }
    }

    fn instead_of_pipe_name(self) -> &'static str {
        match self {
            Self::Pipe => {
                "needed no more: the gateway makes a socket for each process and names it in \
                 PIPE_ADDRESS"
            }
            Self::Http => "needed no more: the gateway chooses a free port for each process",
        }
    }
}

fn first_word(mode: Mode) -> &'static str {
    match mode {
        Mode::Pipe => "run, its first word",
        Mode::Http => "run, word 3, and watch",
    }
}

/// What says a program its address in the variable that it reads.
const HTTP_ADDRESS: [&str; 2] = ["env", "HTTP_ADDRESS=127.0.0.1:{port}"];

/// The mode; `None` where it is neither of the two.
fn mode(fields: &mut Vec<Field>, notes: &mut Vec<Note>) -> Option<Mode> {
    let Some(said) = take(fields, "communication_mode", notes) else { return Some(Mode::Pipe) };
    let mode = Mode::of(&said.value);
    notes.push(match mode {
        None => {
            let why = format!("{:?} is neither pipe nor http, and so is the process", said.value);
            Note::left_out(said.line, "communication_mode", &why)
        }
        Some(Mode::Pipe) => Note::new(said.line, "communication_mode", "protocol = \"pipe-json\""),
        Some(Mode::Http) => Note::new(
            said.line,
            "communication_mode",
            "run begins with env HTTP_ADDRESS=127.0.0.1:{port}; the program gets HTTP requests as \
             they are, where JSON in the body of POST / was meant to come",
        ),
    });
    mode
}

/// The route as it is written here; `None` where it cannot be written.
fn route(said: &Field, notes: &mut Vec<Note>) -> Option<RouteHere> {
    let Field { line, value, .. } = said;
    let (path, change) = match value.strip_suffix('/') {
        _ if !value.starts_with('/') => {
            let why = format!("{value:?} does not begin with /, and so is the process");
            notes.push(Note::left_out(*line, "route", &why));
            return None;
        }
        Some("") => ("/*".to_owned(), String::new()),
        Some(prefix) => (format!("{prefix}/*"), format!("; it gets {prefix} itself, too")),
        None => match value.strip_suffix("/*").filter(|prefix| !prefix.is_empty()) {
            Some(prefix) => (
                value.clone(),
                format!(
                    "; there it matched every path that begins with {prefix}, such as {prefix}X, too"
                ),
            ),
            None => (value.clone(), String::new()),
        },
    };
    if let Err(why) = check_route(&path) {
        notes.push(Note::left_out(*line, "route", &format!("{why}; so is the process")));
        return None;
    }
    notes.push(Note::new(*line, "route", format!("route = {}{change}", quoted(&path))));
    Some(RouteHere { line: *line, path })
}

/// What the settings say of a route.
fn check_route(path: &str) -> Result<(), String> {
    let text = format!("[[service]]\nname = \"a\"\nrun = [\"a\"]\nroute = {}\n", quoted(path));
    Config::parse(&text, "route").map(drop).map_err(|error| {
        let text = error.to_string();
        let found = text.find("route \"").map_or(0, |at| at);
        text[found..].to_owned()
    })
}

/// What the elements and attributes of a process say, in their order.
fn fields(node: Node<'_, '_>, notes: &mut Vec<Note>) -> Vec<Field> {
    let line_at = |at| node.document().text_pos_at(at).row;
    let mut fields = Vec::new();
    for attribute in node.attributes() {
        let line = line_at(attribute.range().start);
        let value = attribute.value().trim().to_owned();
        fields.push(Field { name: attribute.name().to_owned(), line, value });
    }
    for child in node.children() {
        if !child.is_element() {
            note_text(child, "process", notes);
            continue;
        }
        let name = child.tag_name().name().to_owned();
        if child.attributes().len() > 0 && KNOWN.contains(&&*name) {
            notes.push(Note::left_out(line_of(child), &*name, "its attributes"));
        }
        let inner = child.children().find(Node::is_element);
        if let Some(inner) = inner.filter(|_| KNOWN.contains(&&*name)) {
            notes.push(Note::left_out(line_of(inner), &*name, "elements within it"));
        }
        let texts = child.children().filter_map(|inner| inner.text().filter(|_| inner.is_text()));
        let value = texts.collect::<String>().trim().to_owned();
        fields.push(Field { name, line: line_of(child), value });
    }
    fields
}

/// What a process of a manifest may have.
const KNOWN: [&str; 7] =
    ["id", "executable", "arg", "route", "pipe_name", "working_dir", "communication_mode"];

/// Takes what has a name, which is once in a process; an empty one says nothing.
fn take(fields: &mut Vec<Field>, name: &str, notes: &mut Vec<Note>) -> Option<Field> {
    let mut found = take_all(fields, name).into_iter();
    let first = found.next();
    for other in found {
        notes.push(Note::left_out(other.line, name, "it occurs twice, and the first one counts"));
    }
    if let Some(empty) = first.as_ref().filter(|field| field.value.is_empty()) {
        notes.push(Note::new(empty.line, name, "empty, which says nothing"));
    }
    first.filter(|field| !field.value.is_empty())
}

fn take_all(fields: &mut Vec<Field>, name: &str) -> Vec<Field> {
    fields.extract_if(.., |field| field.name == name).collect()
}

/// A text of TOML, which has the escapes of JSON.
fn quoted(text: &str) -> String {
    Json::from(text).to_string().replace('\u{7f}', "\\u007f")
}
