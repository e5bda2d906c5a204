//! Fields of a request that a path or a query can name: `page_size`, `contact.id`, `tags`.
//!
//! A name is the original or the JSON one. It leads to a value that has a text form: a scalar, an
//! enum, a wrapper, a timestamp, a duration, a field mask; or to a list of them.

use buffa_descriptor::{
    DescriptorPool, EnumIndex, FieldDescriptor, FieldKind, MessageDescriptor, MessageIndex,
    ScalarType, SingularKind,
};

/// A field below a message, by the numbers that lead to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Field {
    steps: Steps,
    pub(crate) kind: Kind,
    pub(crate) repeated: bool,
}

/// Field numbers from the request message down.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Steps {
    numbers: [u32; DEPTH_MAX],
    depth: usize,
}

/// How the text of a value is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Scalar(ScalarType),
    Enum(EnumIndex),
    /// A message around one scalar.
    Wrapper(ScalarType),
    Text(Text),
    FieldMask,
}

/// Messages that are special text in JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Text {
    Timestamp,
    Duration,
}

impl Text {
    pub(crate) const fn full_name(self) -> &'static str {
        match self {
            Self::Timestamp => "google.protobuf.Timestamp",
            Self::Duration => "google.protobuf.Duration",
        }
    }

    /// What the text should look like.
    pub(crate) const fn example(self) -> &'static str {
        match self {
            Self::Timestamp => "a time such as 2026-01-31T12:00:00Z",
            Self::Duration => "a duration such as 1.5s",
        }
    }
}

/// Why a name leads to no such field; each says the name and what there is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ResolveError {
    /// No field of this name.
    Unknown(String),
    /// A field without a text form.
    Unfit(String),
}

impl ResolveError {
    pub(crate) fn into_why(self) -> String {
        match self {
            Self::Unknown(why) | Self::Unfit(why) => why,
        }
    }
}

impl Field {
    /// The field numbers from the request message down.
    pub(crate) fn steps(&self) -> &[u32] {
        &self.steps.numbers[..self.steps.depth]
    }

    /// Its own number.
    pub(crate) fn number(&self) -> u32 {
        self.steps().last().copied().unwrap_or_default()
    }
}

/// Finds a field by its dotted name.
///
/// # Errors
/// When a part is not a field, or what it leads to has no text form.
pub(crate) fn resolve(
    pool: &DescriptorPool,
    message: MessageIndex,
    dotted: &str,
) -> Result<Field, ResolveError> {
    let mut steps = Steps { numbers: [0; DEPTH_MAX], depth: 0 };
    let mut message = pool.message(message);
    let mut names = dotted.split('.').peekable();
    loop {
        let name = names.next().unwrap_or_default();
        let Some(field) = message.field_by_name(name) else {
            return Err(ResolveError::Unknown(format!(
                "{} has no field {name}; it has {}",
                message.full_name(),
                list(message.fields().iter().map(FieldDescriptor::name))
            )));
        };
        if steps.depth == DEPTH_MAX {
            return Err(ResolveError::Unfit(format!("more than {DEPTH_MAX} names deep")));
        }
        steps.numbers[steps.depth] = field.number();
        steps.depth += 1;
        if names.peek().is_none() {
            let (kind, repeated) = kind(pool, field)?;
            return Ok(Field { steps, kind, repeated });
        }
        message = inner(pool, field)?;
    }
}

/// The message that a name before a dot leads into.
fn inner<'a>(
    pool: &'a DescriptorPool,
    field: &FieldDescriptor,
) -> Result<&'a MessageDescriptor, ResolveError> {
    let unfit = |why: &str| Err(ResolveError::Unfit(format!("{} {why}", field.name())));
    match field.kind() {
        FieldKind::Singular(SingularKind::Message(index)) => {
            let message = pool.message(index);
            match well_known(message.full_name()) {
                None => Ok(message),
                Some(_) => unfit("is given as one value, without a name after it"),
            }
        }
        FieldKind::Singular(_) => unfit("is not a message, so no name can follow it"),
        FieldKind::List(_) => unfit("is repeated; fields of its elements cannot be named"),
        FieldKind::Map { .. } => unfit("is a map; its entries cannot be named"),
    }
}

fn kind(pool: &DescriptorPool, field: &FieldDescriptor) -> Result<(Kind, bool), ResolveError> {
    let (kind, repeated) = match field.kind() {
        FieldKind::Singular(kind) => (kind, false),
        FieldKind::List(kind) => (kind, true),
        FieldKind::Map { .. } => {
            return Err(ResolveError::Unfit(format!(
                "{} is a map; send it in a body",
                field.name()
            )));
        }
    };
    let kind = match kind {
        SingularKind::Scalar(scalar) => Kind::Scalar(scalar),
        SingularKind::Enum(index) => Kind::Enum(index),
        SingularKind::Message(index) => {
            let message = pool.message(index);
            let name = message.full_name();
            let no_text = || {
                let first = message.fields().first().map_or("field", FieldDescriptor::name);
                let whole = if well_known(name).is_some() || repeated {
                    "send it in a body".to_owned()
                } else {
                    format!("name a field of it, such as {}.{first}", field.name())
                };
                ResolveError::Unfit(format!("{} is a {name}; {whole}", field.name()))
            };
            well_known(name).flatten().ok_or_else(no_text)?
        }
    };
    Ok((kind, repeated))
}

/// Well-known messages whose JSON is not an object of their fields: `Some(None)` where it has no
/// text form either.
pub(crate) fn well_known(full_name: &str) -> Option<Option<Kind>> {
    let name = full_name.strip_prefix("google.protobuf.")?;
    Some(Some(match name {
        "Timestamp" => Kind::Text(Text::Timestamp),
        "Duration" => Kind::Text(Text::Duration),
        "FieldMask" => Kind::FieldMask,
        "DoubleValue" => Kind::Wrapper(ScalarType::Double),
        "FloatValue" => Kind::Wrapper(ScalarType::Float),
        "Int64Value" => Kind::Wrapper(ScalarType::Int64),
        "UInt64Value" => Kind::Wrapper(ScalarType::Uint64),
        "Int32Value" => Kind::Wrapper(ScalarType::Int32),
        "UInt32Value" => Kind::Wrapper(ScalarType::Uint32),
        "BoolValue" => Kind::Wrapper(ScalarType::Bool),
        "StringValue" => Kind::Wrapper(ScalarType::String),
        "BytesValue" => Kind::Wrapper(ScalarType::Bytes),
        "Any" | "Struct" | "Value" | "ListValue" => return Some(None),
        _ => return None,
    }))
}

/// A list of names for a message, cut short when it is long.
pub(crate) fn list<'a>(names: impl Iterator<Item = &'a str>) -> String {
    const SHOWN_MAX: usize = 16;
    let names: Vec<_> = names.collect();
    match &names[..] {
        [] => "none".to_owned(),
        names if names.len() <= SHOWN_MAX => names.join(", "),
        names => format!("{} and {} more", names[..SHOWN_MAX].join(", "), names.len() - SHOWN_MAX),
    }
}

/// How deep a dotted name goes.
const DEPTH_MAX: usize = 16;
