//! A rule that does not compile, and the line it is on.

use buffa_descriptor::DescriptorPool;
use buffa_descriptor::generated::descriptor::{DescriptorProto, FileDescriptorProto};
use tidewire_proto::{Diagnostic, Position};

/// What has a rule.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Owner {
    Message,
    /// A field, by its number.
    Field(u32),
}

/// A rule that does not compile.
#[derive(Debug, Clone)]
pub(super) struct Fault {
    /// The full name of the message.
    pub(super) message: String,
    pub(super) owner: Owner,
    /// The number of the option, and of what is in it as far as it is known.
    pub(super) option: Vec<i32>,
    pub(super) why: String,
}

impl Fault {
    /// The fault with file, line and column, as far as the descriptors say.
    pub(super) fn diagnostic(&self, pool: &DescriptorPool) -> Diagnostic {
        let found = pool.files().iter().find_map(|file| Some((file, locate(file, &self.message)?)));
        let name = match &self.owner {
            Owner::Message => self.message.clone(),
            Owner::Field(number) => {
                let message = pool.message_by_name(&self.message);
                let field = message.and_then(|message| message.field(*number));
                format!("{}.{}", self.message, field.map_or("", |field| field.name()))
            }
        };
        let text = format!("rule of {name}: {}", self.why);
        let Some((file, (mut path, message))) = found else {
            return Diagnostic::new("descriptors", text);
        };
        let diagnostic = Diagnostic::new(file.name.clone().unwrap_or_default(), text);
        match self.owner {
            Owner::Message => path.push(MESSAGE_OPTIONS),
            Owner::Field(number) => {
                let wanted = i32::try_from(number).ok();
                let index = message.field.iter().position(|field| field.number == wanted);
                path.extend([MESSAGE_FIELD, index.unwrap_or(0) as i32, FIELD_OPTIONS]);
            }
        }
        diagnostic.at_position(place(file, &path, &self.option))
    }
}

/// Where in a file a message is, by its full name.
fn locate<'a>(
    file: &'a FileDescriptorProto,
    name: &str,
) -> Option<(Vec<i32>, &'a DescriptorProto)> {
    let package = file.package.as_deref().unwrap_or_default();
    let rest = match package {
        "" => name,
        package => name.strip_prefix(package)?.strip_prefix('.')?,
    };
    let mut path = Vec::new();
    let mut among = &file.message_type;
    let mut step = FILE_MESSAGE;
    let mut found = None;
    for part in rest.split('.') {
        let index = among.iter().position(|message| message.name.as_deref() == Some(part))?;
        path.extend([step, index as i32]);
        found = among.get(index);
        (among, step) = (&found?.nested_type, MESSAGE_NESTED);
    }
    Some((path, found?))
}

/// The place of an option: as much of its path as was written as one, or what it is on.
fn place(file: &FileDescriptorProto, owner: &[i32], option: &[i32]) -> Option<Position> {
    let info = file.source_code_info.as_option()?;
    let common = |path: &[i32]| path.iter().zip(option).take_while(|(a, b)| a == b).count();
    let best = info
        .location
        .iter()
        .filter_map(|location| {
            let rest = location.path.strip_prefix(owner)?;
            (common(rest) > 0).then_some((common(rest), location))
        })
        .max_by_key(|(common, location)| (*common, std::cmp::Reverse(location.path.len())));
    let owner = || info.location.iter().find(|place| place.path == owner[..owner.len() - 1]);
    let location = best.map(|(_, location)| location).or_else(owner)?;
    Position::of_span(&location.span)
}

/// The steps of a path.
const FILE_MESSAGE: i32 = 4;
const MESSAGE_FIELD: i32 = 2;
const MESSAGE_NESTED: i32 = 3;
const MESSAGE_OPTIONS: i32 = 7;
const FIELD_OPTIONS: i32 = 8;
