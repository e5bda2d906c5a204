//! A reply's canonical proto JSON printed as a server is told to: defaults, 64-bit numbers, names.
//!
//! Services answer in canonical proto JSON: default values left out, 64-bit integers as strings,
//! camel-case names. What has to change is worked out from the descriptors once, at start; a reply
//! is then walked over once, and what need not change is copied as it is. A message type that never
//! needs a change costs nothing.
//!
//! Defaults are printed where their fields are declared. A reply whose members come in another order
//! gets them at the end of its objects instead: a member that is yet to come cannot be known to be
//! missing.

use buffa::editions::FieldPresence;
use buffa_descriptor::{
    DescriptorPool, FieldDescriptor, FieldKind, MessageDescriptor, MessageIndex, ScalarType,
    SingularKind,
};
use foldhash::{HashMap, HashMapExt};

use crate::field::well_known;
use crate::options::{Defaults, FieldNames, Int64, JsonOptions};
use crate::scan::{ScanError, Scanner, unescaped, write_string};

/// How all messages below some root are printed.
#[derive(Debug)]
pub(crate) struct Printer {
    messages: Vec<Plan>,
}

/// How one message type is printed.
#[derive(Debug)]
struct Plan {
    fields: Vec<FieldPlan>,
    /// Indexes into `fields` by name, both spellings.
    by_name: HashMap<Box<[u8]>, usize>,
    /// All missing defaults together, roughly.
    defaults_bytes: usize,
}

#[derive(Debug)]
struct FieldPlan {
    /// The canonical name.
    name: Box<[u8]>,
    /// `"name":` as it is printed.
    key: Box<[u8]>,
    /// The value to print when the field is missing.
    default: Option<Box<[u8]>>,
    value: Value,
}

/// What happens to a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Value {
    /// It is copied.
    Same,
    /// A string of digits becomes a number.
    Int64,
    /// A message is printed by its plan.
    Message(usize),
    /// Each element of a list.
    List(Element),
    /// Each value of a map.
    Map(Element),
}

/// What happens to the elements of a list or a map.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Element {
    Int64,
    Message(usize),
}

impl Element {
    const fn value(self) -> Value {
        match self {
            Self::Int64 => Value::Int64,
            Self::Message(plan) => Value::Message(plan),
        }
    }
}

impl Printer {
    /// Works out what has to change in messages of type `root`, and how such a message is printed.
    pub(crate) fn new(
        pool: &DescriptorPool,
        root: MessageIndex,
        options: JsonOptions,
    ) -> (Self, Value) {
        let mut planner = Planner { pool, options, plans: HashMap::new(), messages: Vec::new() };
        let value = planner.singular(SingularKind::Message(root));
        let mut printer = Self { messages: planner.messages };
        let value = value.unwrap_or(Value::Same);
        printer.leave_alone_what_never_changes();
        let value = printer.settled(value);
        (printer, value)
    }

    /// The same for one field of a message.
    pub(crate) fn of_field(
        pool: &DescriptorPool,
        field: &FieldDescriptor,
        options: JsonOptions,
    ) -> (Self, Value) {
        let mut planner = Planner { pool, options, plans: HashMap::new(), messages: Vec::new() };
        let value = planner.field(field);
        let mut printer = Self { messages: planner.messages };
        printer.leave_alone_what_never_changes();
        let value = printer.settled(value);
        (printer, value)
    }

    /// Messages that need no change by themselves nor below are copied rather than walked over.
    fn leave_alone_what_never_changes(&mut self) {
        let mut changes: Vec<bool> = self.messages.iter().map(Plan::changes_by_itself).collect();
        loop {
            let before = changes.clone();
            for (index, plan) in self.messages.iter().enumerate() {
                changes[index] |= plan.fields.iter().any(|field| match field.value {
                    Value::Same => false,
                    Value::Int64 | Value::List(Element::Int64) | Value::Map(Element::Int64) => true,
                    Value::Message(inner)
                    | Value::List(Element::Message(inner))
                    | Value::Map(Element::Message(inner)) => changes[inner],
                });
            }
            if before == changes {
                break;
            }
        }
        for plan in &mut self.messages {
            for field in &mut plan.fields {
                if let Value::Message(inner)
                | Value::List(Element::Message(inner))
                | Value::Map(Element::Message(inner)) = field.value
                    && !changes[inner]
                {
                    field.value = Value::Same;
                }
            }
        }
    }

    fn settled(&self, value: Value) -> Value {
        let (Value::Message(index)
        | Value::List(Element::Message(index))
        | Value::Map(Element::Message(index))) = value
        else {
            return value;
        };
        let plan = &self.messages[index];
        let changes =
            plan.changes_by_itself() || plan.fields.iter().any(|f| f.value != Value::Same);
        if changes { value } else { Value::Same }
    }

    /// Appends a value of the text as it is to be printed.
    ///
    /// # Errors
    /// When the text is not JSON.
    pub(crate) fn print(
        &self,
        value: Value,
        text: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), ScanError> {
        let mut scanner = Scanner::new(text);
        let mut pass = Pass { printer: self, out, in_order: true };
        pass.value(&mut scanner, value, 0)?;
        scanner.end()
    }

    /// About how many bytes longer a printed message is.
    pub(crate) fn growth(&self, value: Value) -> usize {
        match value {
            Value::Message(plan) => self.messages[plan].defaults_bytes,
            _ => 0,
        }
    }
}

impl Plan {
    fn changes_by_itself(&self) -> bool {
        let renamed = |f: &FieldPlan| f.key[1..f.key.len() - 2] != *f.name;
        self.fields.iter().any(|field| field.default.is_some() || renamed(field))
    }

    /// The field of a name; `next` is where it most likely is.
    fn field(&self, name: &[u8], next: usize) -> Option<usize> {
        if self.fields.get(next).is_some_and(|field| *field.name == *name) {
            return Some(next);
        }
        self.by_name.get(name).copied()
    }
}

struct Planner<'a> {
    pool: &'a DescriptorPool,
    options: JsonOptions,
    plans: HashMap<MessageIndex, usize>,
    messages: Vec<Plan>,
}

impl Planner<'_> {
    fn field(&mut self, field: &FieldDescriptor) -> Value {
        let element = |value: Option<Value>| match value {
            Some(Value::Int64) => Some(Element::Int64),
            Some(Value::Message(plan)) => Some(Element::Message(plan)),
            _ => None,
        };
        match field.kind() {
            FieldKind::Singular(kind) => self.singular(kind).unwrap_or(Value::Same),
            FieldKind::List(kind) => element(self.singular(kind)).map_or(Value::Same, Value::List),
            FieldKind::Map { value, .. } => {
                element(self.singular(value)).map_or(Value::Same, Value::Map)
            }
        }
    }

    fn singular(&mut self, kind: SingularKind) -> Option<Value> {
        match kind {
            SingularKind::Enum(_) => None,
            SingularKind::Scalar(scalar) => {
                (self.options.int64 == Int64::Number && is_64_bit(scalar)).then_some(Value::Int64)
            }
            SingularKind::Message(index) => {
                let message = self.pool.message(index);
                match well_known(message.full_name()) {
                    None => Some(Value::Message(self.message(index))),
                    Some(Some(crate::field::Kind::Scalar(scalar))) => {
                        self.singular(SingularKind::Scalar(scalar))
                    }
                    Some(_) => None,
                }
            }
        }
    }

    fn message(&mut self, index: MessageIndex) -> usize {
        if let Some(known) = self.plans.get(&index) {
            return *known;
        }
        let at = self.messages.len();
        self.plans.insert(index, at);
        self.messages.push(Plan { fields: Vec::new(), by_name: HashMap::new(), defaults_bytes: 0 });
        let message = self.pool.message(index);
        let mut plan = Plan { fields: Vec::new(), by_name: HashMap::new(), defaults_bytes: 0 };
        for field in message.fields() {
            let default = (self.options.defaults == Defaults::Printed)
                .then(|| default(self.pool, message, field, self.options))
                .flatten();
            let mut key = Vec::new();
            write_string(&mut key, printed_name(field, self.options));
            key.push(b':');
            for name in [field.json_name(), field.name()] {
                plan.by_name.insert(name.as_bytes().into(), plan.fields.len());
            }
            plan.defaults_bytes += default.as_ref().map_or(0, |text| text.len() + key.len() + 1);
            plan.fields.push(FieldPlan {
                name: field.json_name().as_bytes().into(),
                key: key.into(),
                default: default.map(Into::into),
                value: self.field(field),
            });
        }
        self.messages[at] = plan;
        at
    }
}

/// The name that a field is printed by.
pub(crate) fn printed_name(field: &FieldDescriptor, options: JsonOptions) -> &str {
    match options.names {
        FieldNames::Json => field.json_name(),
        FieldNames::Original => field.name(),
    }
}

pub(crate) const fn is_64_bit(scalar: ScalarType) -> bool {
    use ScalarType as S;
    matches!(scalar, S::Int64 | S::Uint64 | S::Fixed64 | S::Sfixed64 | S::Sint64)
}

/// What is printed for a field that is not there; `None` for one that may be absent.
pub(crate) fn default(
    pool: &DescriptorPool,
    message: &MessageDescriptor,
    field: &FieldDescriptor,
    options: JsonOptions,
) -> Option<Vec<u8>> {
    let in_oneof = field.oneof_index().is_some_and(|index| {
        message.oneofs().get(usize::from(index)).is_some_and(|oneof| !oneof.is_synthetic())
    });
    let kind = match field.kind() {
        FieldKind::List(_) => return Some(b"[]".to_vec()),
        FieldKind::Map { .. } => return Some(b"{}".to_vec()),
        FieldKind::Singular(kind) => kind,
    };
    if in_oneof || field.presence() != FieldPresence::Implicit {
        return None;
    }
    default_of(pool, kind, options)
}

/// The default value of a kind; `None` for messages.
pub(crate) fn default_of(
    pool: &DescriptorPool,
    kind: SingularKind,
    options: JsonOptions,
) -> Option<Vec<u8>> {
    use ScalarType as S;
    Some(match kind {
        SingularKind::Message(_) => return None,
        SingularKind::Enum(index) => {
            let descriptor = pool.enumeration(index);
            let first = descriptor.value(0)?;
            if descriptor.full_name() == "google.protobuf.NullValue" {
                return Some(b"null".to_vec());
            }
            let mut out = Vec::new();
            write_string(&mut out, first.name());
            out
        }
        SingularKind::Scalar(S::String | S::Bytes) => b"\"\"".to_vec(),
        SingularKind::Scalar(S::Bool) => b"false".to_vec(),
        SingularKind::Scalar(scalar) if is_64_bit(scalar) && options.int64 == Int64::Text => {
            b"\"0\"".to_vec()
        }
        SingularKind::Scalar(_) => b"0".to_vec(),
    })
}

/// One walk over one text.
struct Pass<'a> {
    printer: &'a Printer,
    out: &'a mut Vec<u8>,
    /// Whether members came in the order of their declaration so far.
    in_order: bool,
}

/// The members of an object come in another order than their fields are declared in.
struct OutOfOrder;

impl Pass<'_> {
    fn value(
        &mut self,
        scanner: &mut Scanner<'_>,
        value: Value,
        depth: usize,
    ) -> Result<(), ScanError> {
        if depth > crate::scan::DEPTH_MAX {
            return Err(scanner.error("it is nested too deeply"));
        }
        match (value, scanner.peek()?) {
            (Value::Message(plan), b'{') => self.message(scanner, plan, depth),
            (Value::List(element), b'[') => {
                scanner.expect(b'[')?;
                self.out.push(b'[');
                let mut more = !scanner.take(b']')?;
                while more {
                    self.value(scanner, element.value(), depth + 1)?;
                    more = scanner.more(b']')?;
                    if more {
                        self.out.push(b',');
                    }
                }
                self.out.push(b']');
                Ok(())
            }
            (Value::Map(element), b'{') => {
                scanner.expect(b'{')?;
                self.out.push(b'{');
                let mut more = !scanner.take(b'}')?;
                while more {
                    let key = scanner.string()?;
                    scanner.expect(b':')?;
                    self.out.push(b'"');
                    self.out.extend_from_slice(key);
                    self.out.extend_from_slice(b"\":");
                    self.value(scanner, element.value(), depth + 1)?;
                    more = scanner.more(b'}')?;
                    if more {
                        self.out.push(b',');
                    }
                }
                self.out.push(b'}');
                Ok(())
            }
            (Value::Int64, b'"') => {
                let digits = scanner.string()?;
                if is_safe_integer(digits) {
                    self.out.extend_from_slice(digits);
                } else {
                    self.out.push(b'"');
                    self.out.extend_from_slice(digits);
                    self.out.push(b'"');
                }
                Ok(())
            }
            _ => {
                self.out.extend_from_slice(scanner.value()?);
                Ok(())
            }
        }
    }

    fn message(
        &mut self,
        scanner: &mut Scanner<'_>,
        plan: usize,
        depth: usize,
    ) -> Result<(), ScanError> {
        let (text_start, out_start) = (scanner.position(), self.out.len());
        if self.members(scanner, plan, depth)?.is_err() {
            // From here on missing defaults go to the end of objects, so this happens once.
            self.in_order = false;
            scanner.go_back(text_start);
            self.out.truncate(out_start);
            let _ = self.members(scanner, plan, depth)?;
        }
        Ok(())
    }

    fn members(
        &mut self,
        scanner: &mut Scanner<'_>,
        plan: usize,
        depth: usize,
    ) -> Result<Result<(), OutOfOrder>, ScanError> {
        let plan = &self.printer.messages[plan];
        let mut seen = Seen::default();
        let mut next = 0;
        scanner.expect(b'{')?;
        self.out.push(b'{');
        let mut more = !scanner.take(b'}')?;
        while more {
            let raw = scanner.string()?;
            scanner.expect(b':')?;
            let found = match raw.contains(&b'\\') {
                false => plan.field(raw, next),
                true => unescaped(raw).and_then(|name| plan.field(&name, next)),
            };
            match found {
                Some(index) => {
                    let field = &plan.fields[index];
                    let has_default = field.default.is_some();
                    if has_default && index < next && (self.in_order || !seen.has(index)) {
                        return Ok(Err(OutOfOrder));
                    }
                    if self.in_order && has_default {
                        self.defaults(&plan.fields[next..index]);
                    }
                    if self.in_order && (has_default || index == next) {
                        next = index + 1;
                    }
                    seen.add(index);
                    self.separate();
                    self.out.extend_from_slice(&field.key);
                    self.value(scanner, field.value, depth + 1)?;
                }
                None => {
                    self.separate();
                    self.out.push(b'"');
                    self.out.extend_from_slice(raw);
                    self.out.extend_from_slice(b"\":");
                    self.out.extend_from_slice(scanner.value()?);
                }
            }
            more = scanner.more(b'}')?;
        }
        // What comes before `next` is printed already.
        for (index, field) in plan.fields.iter().enumerate().skip(next) {
            if !seen.has(index) {
                self.defaults(std::slice::from_ref(field));
            }
        }
        self.out.push(b'}');
        Ok(Ok(()))
    }

    fn defaults(&mut self, fields: &[FieldPlan]) {
        for field in fields {
            if let Some(default) = &field.default {
                self.separate();
                self.out.extend_from_slice(&field.key);
                self.out.extend_from_slice(default);
            }
        }
    }

    fn separate(&mut self) {
        if self.out.last() != Some(&b'{') {
            self.out.push(b',');
        }
    }
}

/// Which fields of a message were there.
#[derive(Default)]
struct Seen {
    low: u64,
    high: Vec<usize>,
}

impl Seen {
    fn add(&mut self, index: usize) {
        if index < 64 {
            self.low |= 1 << index;
        } else {
            self.high.push(index);
        }
    }

    fn has(&self, index: usize) -> bool {
        if index < 64 { self.low & (1 << index) != 0 } else { self.high.contains(&index) }
    }
}

/// Whether the digits are an integer that a double holds exactly, within ±(2⁵³ − 1).
fn is_safe_integer(digits: &[u8]) -> bool {
    const SAFE_MAX: u64 = (1 << 53) - 1;
    let magnitude = digits.strip_prefix(b"-").unwrap_or(digits);
    let canonical = match magnitude {
        [] => false,
        [b'0', _, ..] => false,
        [b'0'] => magnitude.len() == digits.len(),
        _ => magnitude.iter().all(u8::is_ascii_digit),
    };
    canonical
        && (magnitude.len() < 16
            || str::from_utf8(magnitude)
                .ok()
                .and_then(|text| text.parse().ok())
                .is_some_and(|n: u64| n <= SAFE_MAX))
}
