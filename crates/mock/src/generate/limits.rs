//! What rules of validation ask of a field: protovalidate's, or protoc-gen-validate's where there
//! are none of those.
//!
//! The options of a field are decoded with the schema's own types, since a schema that uses such
//! rules has imported them; a rule is then read by its path: `string.min_len`.

use buffa::Message as _;
use tidewire_schema::{EnumType, Field, Message, MessageType, Path, Schema, Value};
use tidewire_service::Codec;

/// The rules of a field, or of the elements of one.
#[derive(Debug, Clone, Default)]
pub(crate) struct Limits {
    options: Option<Message>,
    /// Where in the options they are: `[buf.validate.field].repeated.items`.
    at: String,
}

impl Limits {
    /// The rules of a field.
    pub(super) fn of(schema: &Schema, owner: MessageType<'_>, field: Field<'_>) -> Self {
        let pool = schema.pool();
        let descriptor = pool.message_index(owner.full_name()).map(|index| pool.message(index));
        let descriptor = descriptor.and_then(|message| message.field(field.number()));
        let Some(options) = descriptor.and_then(|field| field.options()) else {
            return Self::default();
        };
        let encoded = options.encode_to_vec();
        let Ok(options) = schema.decode("google.protobuf.FieldOptions", Codec::Proto, &encoded)
        else {
            return Self::default();
        };
        let at = ["[buf.validate.field]", "[validate.rules]"]
            .into_iter()
            .find(|at| options.has(*at).unwrap_or(false));
        match at {
            Some(at) => Self { at: at.to_owned(), options: Some(options) },
            None => Self::default(),
        }
    }

    /// The rules of what is within: elements of a list, keys or values of a map.
    pub(super) fn within(&self, path: &str) -> Self {
        let at = format!("{}.{path}", self.at);
        match &self.options {
            Some(options) if options.has(at.as_str()).unwrap_or(false) => {
                Self { options: Some(options.clone()), at }
            }
            _ => Self::default(),
        }
    }

    /// Whether there are any.
    pub(super) fn has_rules(&self) -> bool {
        self.options.is_some()
    }

    /// A rule by its path.
    pub(super) fn value(&self, rule: &str) -> Option<Value<'_>> {
        let path: Path = format!("{}.{rule}", self.at).parse().ok()?;
        self.options.as_ref()?.get(&path).ok().flatten()
    }

    pub(super) fn is(&self, rule: &str) -> bool {
        matches!(self.value(rule), Some(Value::Bool(true)))
    }

    pub(super) fn text(&self, rule: &str) -> Option<&str> {
        self.value(rule).and_then(Value::as_str)
    }

    /// A number of any width.
    pub(super) fn number(&self, rule: &str) -> Option<f64> {
        self.value(rule).and_then(number)
    }

    /// An integer of any width.
    pub(super) fn integer(&self, rule: &str) -> Option<i128> {
        self.value(rule).and_then(integer)
    }

    /// The values of a list.
    pub(super) fn list(&self, rule: &str) -> Vec<Value<'_>> {
        match self.value(rule) {
            Some(Value::List(list)) => list.iter().collect(),
            _ => Vec::new(),
        }
    }

    /// Whether the value has to be there.
    pub(super) fn is_required(&self) -> bool {
        self.is("required") || self.is("message.required")
    }

    /// How many elements there may be.
    pub(super) fn count(&self, min: &str, max: &str) -> (usize, usize) {
        let size = |rule: &str| self.integer(rule).and_then(|n| usize::try_from(n).ok());
        (size(min).unwrap_or(0), size(max).unwrap_or(usize::MAX))
    }

    /// The numbers of an enum that are allowed; the zero, which mostly stands for nothing, only
    /// where there is no other.
    pub(super) fn enum_numbers(&self, owner: EnumType<'_>) -> Vec<i32> {
        if let Some(only) = self.integer("enum.const").and_then(|n| i32::try_from(n).ok()) {
            return vec![only];
        }
        let list =
            |rule: &str| -> Vec<i128> { self.list(rule).into_iter().filter_map(integer).collect() };
        let only = list("enum.in");
        let but = list("enum.not_in");
        let mut numbers: Vec<i32> = owner.values().map(|(_, number)| number).collect();
        numbers.retain(|number| {
            let number = i128::from(*number);
            (only.is_empty() || only.contains(&number)) && !but.contains(&number)
        });
        if numbers.len() > 1 {
            numbers.retain(|number| *number != 0);
        }
        numbers
    }
}

pub(super) fn number(value: Value<'_>) -> Option<f64> {
    Some(match value {
        Value::F32(number) => f64::from(number),
        Value::F64(number) => number,
        #[expect(clippy::cast_precision_loss, reason = "a bound of made-up numbers")]
        other => integer(other)? as f64,
    })
}

pub(super) fn integer(value: Value<'_>) -> Option<i128> {
    Some(match value {
        Value::I32(number) => number.into(),
        Value::I64(number) => number.into(),
        Value::U32(number) => number.into(),
        Value::U64(number) => number.into(),
        _ => return None,
    })
}
