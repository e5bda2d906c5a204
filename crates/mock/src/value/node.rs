//! What a rule file says, as a tree in which each value knows its place.
//!
//! YAML and JSON files become the same tree ([`yaml`](crate::rules::yaml)). Numbers keep the digits
//! that they were written with, since a `double` does not hold every 64-bit integer; a date that is
//! not quoted stays apart from text, since it never equals any.

use std::fmt;

/// A place in a file: line and column from 1, the column in characters; and in which file: 0 is the
/// rule file itself, others are those that it includes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Position {
    /// The line, from 1; 0 where nothing stands anywhere.
    pub line: u32,
    /// The column, from 1.
    pub column: u32,
    /// The file.
    pub file: u32,
}

/// A value and where it stands.
#[derive(Debug, Clone, PartialEq)]
pub struct Node {
    /// The value.
    pub value: Tree,
    /// Where it stands.
    pub place: Position,
}

/// A value of a rule file.
#[derive(Debug, Clone, PartialEq)]
pub enum Tree {
    /// Nothing.
    Null,
    /// True or false.
    Bool(bool),
    /// A number.
    Number(Number),
    /// Text.
    Text(String),
    /// An unquoted date or point in time, as it was written.
    Date(String),
    /// What is tagged `!!binary`.
    Bytes(Vec<u8>),
    /// Values in order.
    List(Vec<Node>),
    /// Values by their keys, in the order of the file.
    Object(Vec<ObjectMember>),
}

/// A member of an object.
#[derive(Debug, Clone, PartialEq)]
pub struct ObjectMember {
    /// Its key.
    pub key: String,
    /// Where the key stands.
    pub place: Position,
    /// Its value.
    pub value: Node,
}

/// A number as written: an integer exactly, any other by its nearest `double`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Number {
    /// An integer.
    Integer(i128),
    /// Any other number.
    Float(f64),
}

impl Number {
    /// The nearest `double`.
    pub fn as_f64(self) -> f64 {
        match self {
            #[expect(
                clippy::cast_precision_loss,
                reason = "the nearest double is what is asked for"
            )]
            Self::Integer(integer) => integer as f64,
            Self::Float(float) => float,
        }
    }
}

impl Node {
    /// A value that stands nowhere: made by a program.
    pub fn new(value: Tree) -> Self {
        Self { value, place: Position::default() }
    }

    /// Says that it and all in it stand in another file.
    pub fn set_file(&mut self, file: u32) {
        self.place.file = file;
        match &mut self.value {
            Tree::List(items) => items.iter_mut().for_each(|item| item.set_file(file)),
            Tree::Object(members) => members.iter_mut().for_each(|member| {
                member.place.file = file;
                member.value.set_file(file);
            }),
            _ => {}
        }
    }

    /// How many bytes of memory it takes, near enough.
    pub fn bytes(&self) -> usize {
        size_of::<Self>()
            + match &self.value {
                Tree::Text(text) | Tree::Date(text) => text.len(),
                Tree::Bytes(bytes) => bytes.len(),
                Tree::List(items) => items.iter().map(Self::bytes).sum(),
                Tree::Object(members) => {
                    let of = |member: &ObjectMember| {
                        size_of::<ObjectMember>() + member.key.len() + member.value.bytes()
                    };
                    members.iter().map(of).sum()
                }
                _ => 0,
            }
    }

    /// The members of an object; none of anything else.
    pub fn members(&self) -> &[ObjectMember] {
        match &self.value {
            Tree::Object(members) => members,
            _ => &[],
        }
    }

    /// The elements of a list; none of anything else.
    pub fn items(&self) -> &[Self] {
        match &self.value {
            Tree::List(items) => items,
            _ => &[],
        }
    }

    /// The member of a key.
    pub fn get(&self, key: &str) -> Option<&Self> {
        self.members().iter().find(|member| member.key == key).map(|member| &member.value)
    }

    /// The text, where it is text.
    pub fn as_text(&self) -> Option<&str> {
        match &self.value {
            Tree::Text(text) => Some(text),
            _ => None,
        }
    }

    /// Whether it is an object.
    pub fn is_object(&self) -> bool {
        matches!(self.value, Tree::Object(_))
    }

    /// Whether JavaScript takes it for true.
    pub fn is_truthy(&self) -> bool {
        match &self.value {
            Tree::Null => false,
            Tree::Bool(value) => *value,
            Tree::Number(number) => number.as_f64() != 0.0 && !number.as_f64().is_nan(),
            Tree::Text(text) => !text.is_empty(),
            Tree::Date(_) | Tree::Bytes(_) | Tree::List(_) | Tree::Object(_) => true,
        }
    }

    /// What kind of value it is, for messages to people.
    pub fn kind(&self) -> &'static str {
        match &self.value {
            Tree::Null => "null",
            Tree::Bool(_) => "a boolean",
            Tree::Number(_) => "a number",
            Tree::Text(_) => "text",
            Tree::Date(_) => "a date",
            Tree::Bytes(_) => "binary data",
            Tree::List(_) => "a list",
            Tree::Object(_) => "an object",
        }
    }
}

impl From<&serde_json::Value> for Node {
    fn from(json: &serde_json::Value) -> Self {
        use serde_json::Value as Json;
        Self::new(match json {
            Json::Null => Tree::Null,
            Json::Bool(value) => Tree::Bool(*value),
            Json::Number(number) => Tree::Number(match number.as_i128() {
                Some(integer) => Number::Integer(integer),
                None => Number::Float(number.as_f64().unwrap_or(f64::NAN)),
            }),
            Json::String(text) => Tree::Text(text.clone()),
            Json::Array(items) => Tree::List(items.iter().map(Self::from).collect()),
            Json::Object(members) => Tree::Object(
                members
                    .iter()
                    .map(|(key, value)| ObjectMember {
                        key: key.clone(),
                        place: Position::default(),
                        value: Self::from(value),
                    })
                    .collect(),
            ),
        })
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.line, self.column)
    }
}
