//! Variables of the environment, laid over the table of a file that is checked.
//!
//! They are the text of one more file, `memo.single_writer = true` a line, that begins where
//! the checked one ends. So a byte tells what is wrong with the file from what is wrong with a
//! variable, whoever finds it.

use std::ops::Range;

use toml::de::{DeTable, DeValue};

use super::keys::{self, ENV_PREFIX};

/// The settings among the variables of a process.
#[derive(Debug)]
pub(super) struct Variables {
    text: String,
    lines: Vec<Line>,
    /// What is wrong with variables that do not name a setting: name and error.
    pub(super) unknown: Vec<(String, String)>,
}

#[derive(Debug)]
struct Line {
    place: Range<usize>,
    variable: String,
}

impl Variables {
    /// Those that are settings, as `load` takes them, after a file of this many bytes.
    pub(super) fn after(bytes: usize, env: impl IntoIterator<Item = (String, String)>) -> Self {
        let mut all = Self { text: " ".repeat(bytes) + "\n", lines: vec![], unknown: vec![] };
        for (variable, value) in env.into_iter().filter(|(name, _)| name.starts_with(ENV_PREFIX)) {
            let key = match keys::of_variable(&variable) {
                Ok(key) => key,
                Err(error) => {
                    all.unknown.push((variable, error.to_string()));
                    continue;
                }
            };
            let begin = all.text.len();
            all.text += &format!("{} = {}\n", key.path, keys::value(key, &value));
            all.lines.push(Line { place: begin..all.text.len(), variable });
        }
        all
    }

    pub(super) fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    /// Lays them over the table of the file.
    pub(super) fn lay_over<'a>(&'a self, table: &mut DeTable<'a>) {
        let (over, _) = DeTable::parse_recoverable(&self.text);
        merge(table, over.into_inner());
    }

    /// The variable that a byte is of, if it is not of the file.
    pub(super) fn at(&self, offset: usize) -> Option<&str> {
        let line = self.lines.iter().find(|line| line.place.contains(&offset));
        line.map(|line| &*line.variable)
    }
}

fn merge<'a>(table: &mut DeTable<'a>, over: DeTable<'a>) {
    for (key, value) in over {
        match table.get_mut(key.get_ref().as_ref()) {
            None => _ = table.insert(key, value),
            Some(there) => match (there.get_mut(), value.get_ref()) {
                (DeValue::Table(there), DeValue::Table(_)) => {
                    if let DeValue::Table(over) = value.into_inner() {
                        merge(there, over);
                    }
                }
                // The file has no table where the setting wants one: that is said of the file.
                (_, DeValue::Table(_)) => {}
                _ => *there = value,
            },
        }
    }
}
