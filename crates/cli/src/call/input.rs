//! Requests: JSON from the command line, a file or standard input, value by value.
//!
//! Values follow one another with blanks or line ends between them; a value may go over several
//! lines. Each is read as soon as it is complete, so that on a terminal every line is sent at once.

use std::io::{self, IsTerminal, Read, Write};
use std::path::PathBuf;

use anyhow::{Context, anyhow, bail};
use serde::de::IgnoredAny;
use tidewire::{Codec, Error};
use tokio::sync::mpsc;

use crate::catalog::Catalog;
use crate::names;

/// Where requests come from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Input {
    /// None were given.
    Nothing,
    Text(String),
    File(PathBuf),
    Standard,
}

impl Input {
    /// JSON, `@FILE`, or `-` for standard input.
    pub(crate) fn parse(word: Option<&str>) -> Self {
        match word {
            None => Self::Nothing,
            Some("-" | "@-" | "@") => Self::Standard,
            Some(word) => match word.strip_prefix('@') {
                Some(path) => Self::File(path.into()),
                None => Self::Text(word.to_owned()),
            },
        }
    }

    /// All bytes of it.
    pub(crate) fn bytes(&self) -> anyhow::Result<Vec<u8>> {
        match self {
            Self::Nothing => Ok(Vec::new()),
            Self::Text(text) => Ok(text.clone().into_bytes()),
            Self::File(path) => {
                std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))
            }
            Self::Standard => {
                let mut bytes = Vec::new();
                io::stdin().read_to_end(&mut bytes).context("cannot read standard input")?;
                Ok(bytes)
            }
        }
    }

    /// What errors call it.
    fn name(&self) -> String {
        match self {
            Self::File(path) => path.display().to_string(),
            Self::Standard => "standard input".to_owned(),
            Self::Nothing | Self::Text(_) => "request".to_owned(),
        }
    }

    /// All messages of it.
    pub(crate) fn messages(
        &self,
        known: &Catalog,
        type_name: &str,
    ) -> anyhow::Result<Vec<Vec<u8>>> {
        let mut splitter = Splitter::new(self.name());
        splitter.push(&self.bytes()?);
        let mut messages = Vec::new();
        while let Some(value) = splitter.next_value(true)? {
            messages.push(message(known, type_name, &value)?);
        }
        Ok(messages)
    }

    /// The messages of standard input as they come. The first wrong one ends them, but on a
    /// terminal, where it is said and left out: who types may type again.
    pub(crate) fn follow(
        known: Catalog,
        type_name: String,
    ) -> mpsc::Receiver<Result<Vec<u8>, Error>> {
        let (send, receive) = mpsc::channel(16);
        // Not a task: a read of a terminal cannot be given up, and must not hold the program's end
        // up.
        std::thread::spawn(move || {
            let is_forgiving = io::stdin().is_terminal();
            let mut splitter = Splitter::new(Self::Standard.name());
            let mut buffer = vec![0; 64 << 10];
            loop {
                let read = io::stdin().read(&mut buffer);
                let count = match read {
                    Ok(count) => count,
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                    Err(error) => {
                        let error = Error::canceled(format!("cannot read standard input: {error}"));
                        let _ = send.blocking_send(Err(error));
                        return;
                    }
                };
                splitter.push(&buffer[..count]);
                loop {
                    let next = splitter.next_value(count == 0).and_then(|value| {
                        value.map(|value| message(&known, &type_name, &value)).transpose()
                    });
                    let (item, is_last) = match next {
                        Ok(None) => break,
                        Ok(Some(message)) => (Ok(message), false),
                        Err(error) if is_forgiving => {
                            report(&error);
                            splitter.forget();
                            continue;
                        }
                        Err(error) => (Err(Error::canceled(format!("{error:#}"))), true),
                    };
                    if send.blocking_send(item).is_err() || is_last {
                        return;
                    }
                }
                if count == 0 {
                    return;
                }
            }
        });
        receive
    }
}

fn report(error: &anyhow::Error) {
    let _ = writeln!(io::stderr(), "{error:#}");
}

/// One JSON value and where it begins.
#[derive(Debug, PartialEq, Eq)]
struct Value {
    json: Vec<u8>,
    name: String,
    /// From 1.
    line: usize,
    column: usize,
}

/// Cuts a text into JSON values.
struct Splitter {
    name: String,
    buffer: Vec<u8>,
    line: usize,
    column: usize,
}

impl Splitter {
    fn new(name: String) -> Self {
        Self { name, buffer: Vec::new(), line: 1, column: 1 }
    }

    fn push(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    /// Drops what is there and not taken yet.
    fn forget(&mut self) {
        self.take(self.buffer.len());
    }

    /// The next value, if all of it is there.
    fn next_value(&mut self, is_end: bool) -> anyhow::Result<Option<Value>> {
        let blank = self.buffer.iter().take_while(|byte| byte.is_ascii_whitespace()).count();
        self.take(blank);
        if self.buffer.is_empty() {
            return Ok(None);
        }
        let mut values =
            serde_json::Deserializer::from_slice(&self.buffer).into_iter::<IgnoredAny>();
        let found = values.next();
        let length = values.byte_offset();
        match found {
            Some(Ok(_)) => {
                // A number at the end may go on.
                let is_whole = matches!(self.buffer[length - 1], b'}' | b']' | b'"');
                if length == self.buffer.len() && !is_end && !is_whole {
                    return Ok(None);
                }
                let name = self.name.clone();
                let line = self.line;
                let column = self.column;
                let json = self.take(length);
                Ok(Some(Value { json, name, line, column }))
            }
            Some(Err(error)) if error.is_eof() && !is_end => Ok(None),
            Some(Err(error)) => {
                let place = ValueStart { name: &self.name, line: self.line, column: self.column };
                Err(anyhow!(place.located(&format!("not valid JSON: {error}"))))
            }
            None => Ok(None),
        }
    }

    fn take(&mut self, length: usize) -> Vec<u8> {
        let taken: Vec<u8> = self.buffer.drain(..length).collect();
        let text = String::from_utf8_lossy(&taken);
        match text.rsplit_once('\n') {
            Some((before, last)) => {
                self.line += before.matches('\n').count() + 1;
                self.column = last.chars().count() + 1;
            }
            None => self.column += text.chars().count(),
        }
        taken
    }
}

/// Where a value begins.
struct ValueStart<'a> {
    name: &'a str,
    line: usize,
    column: usize,
}

impl ValueStart<'_> {
    /// A message about the value in which `at line 1 column 5` counts from its beginning, with the
    /// place in the whole text.
    fn located(&self, message: &str) -> String {
        let within = message.rsplit_once(" at line ").and_then(|(before, place)| {
            let (line, column) = place.split_once(" column ")?;
            Some((before, line.parse::<usize>().ok()?, column.parse::<usize>().ok()?))
        });
        let Some((before, line, column)) = within else {
            return format!("{}:{}:{}: {message}", self.name, self.line, self.column);
        };
        let column = if line <= 1 { self.column + column.max(1) - 1 } else { column };
        format!("{}:{}:{column}: {before}", self.name, self.line + line.max(1) - 1)
    }
}

/// The encoded message that a JSON value is.
fn message(known: &Catalog, type_name: &str, value: &Value) -> anyhow::Result<Vec<u8>> {
    let decoded = known.schema.decode_exactly(type_name, &value.json);
    let encoded = decoded.and_then(|message| message.encode(Codec::Proto));
    encoded.map(|bytes| bytes.to_vec()).map_err(|error| {
        let place = ValueStart { name: &value.name, line: value.line, column: value.column };
        let mut text = place.located(error.message());
        if let Some(meant) = meant_field(known, &text) {
            text.push_str(&meant);
        }
        anyhow!(text)
    })
}

/// The field that was probably meant by one that the message does not have.
fn meant_field(known: &Catalog, text: &str) -> Option<String> {
    let (_, rest) = text.split_once("unknown field \"")?;
    let (name, rest) = rest.split_once("\" on message ")?;
    let fields = known.pool.message_by_name(rest.trim())?.fields();
    Some(names::suggestion(name, fields.iter().map(|field| field.json_name())))
}

/// The one message of a call that takes one; `{}` where nothing was given.
pub(crate) fn one(messages: Vec<Vec<u8>>, is_given: bool, path: &str) -> anyhow::Result<Vec<u8>> {
    let count = messages.len();
    match (messages.into_iter().next(), count) {
        (Some(message), 1) => Ok(message),
        (None, _) if !is_given => Ok(Vec::new()),
        (None, _) => bail!("the request is empty; {path} takes one JSON object, such as {{}}"),
        (Some(_), count) => bail!("{count} requests were given; {path} takes one"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(parts: &[&str]) -> Vec<String> {
        let mut splitter = Splitter::new("x".to_owned());
        let mut found = Vec::new();
        for (index, part) in parts.iter().enumerate() {
            splitter.push(part.as_bytes());
            loop {
                match splitter.next_value(index + 1 == parts.len()) {
                    Ok(None) => break,
                    Ok(Some(value)) => {
                        let json = String::from_utf8(value.json).unwrap();
                        found.push(format!("{}:{} {json}", value.line, value.column));
                    }
                    Err(error) => {
                        found.push(error.to_string());
                        return found;
                    }
                }
            }
        }
        found
    }

    #[test]
    fn values_are_cut_wherever_they_end() {
        let check =
            |parts: &[&str], expected: &[&str]| assert_eq!(all(parts), expected, "{parts:?}");
        check(&[""], &[]);
        check(&["{}\n\n{\"a\":1}\n"], &["1:1 {}", "3:1 {\"a\":1}"]);
        check(&["{}{}"], &["1:1 {}", "1:3 {}"]);
        check(&["{\"a\"", ":\n1}", " [1]"], &["1:1 {\"a\":\n1}", "2:4 [1]"]);
        check(&["1", "2 3\n"], &["1:1 12", "1:4 3"]);
        check(&["\"ü\" 1"], &["1:1 \"ü\"", "1:5 1"]);
        check(&["{}\n{\"a\": x}"], &["1:1 {}", "x:2:7: not valid JSON: expected value"]);
        check(&["{\"a\":\n"], &["x:2:0: not valid JSON: EOF while parsing a value"]);
    }
}
