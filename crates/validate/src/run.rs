//! Checking a message against its plan, on its encoded bytes.
//!
//! One pass over the fields notes where the last value of each is (a slot a field, on the stack for
//! most messages); then every field is checked in its order. Lists and maps are gone through again
//! from their first item. Nothing is decoded, apart from what a rule in CEL looks at.
//!
//! A message may be encoded in ways that nobody writes: a part of a message twice, two members of
//! one oneof. These are not interpreted here: [`Stop::Unusual`] asks for the message decoded and
//! encoded again, which puts it in the usual form.

use std::sync::Arc;

use buffa_descriptor::reflect::DynamicMessage;
use buffa_descriptor::{DescriptorPool, MessageIndex};

use super::cel::{Bindings, Budget, Failure, Value};
use super::check::{Check, RuleSite, Scalar};
use super::kind::Kind;
use super::plan::{FieldPlan, MessagePlan, ReadAs, Rule, Shape, ValuePlan};
use super::standard::{duration, timestamp};
use super::violation::{Element, Subscript, Violation};
use super::wire_format::{self, Fields, MalformedMessage, Raw};

mod collections;

/// Why checking ended early.
#[derive(Debug)]
pub(super) enum Stop {
    /// The bytes are not a message.
    Malformed,
    /// The message has to be put into the usual form first.
    Unusual,
    /// A rule in CEL has no value for this message.
    Rule(String),
    /// As many violations as are collected.
    Enough,
}

impl From<MalformedMessage> for Stop {
    fn from(_: MalformedMessage) -> Self {
        Self::Malformed
    }
}

/// One checking of one message.
pub(super) struct Run<'p> {
    pub(super) pool: &'p Arc<DescriptorPool>,
    pub(super) plans: &'p [MessagePlan],
    pub(super) found: Vec<Violation>,
    pub(super) violations_max: usize,
    pub(super) clock: fn() -> i128,
    /// Made when the first rule needs it.
    pub(super) budget: Option<Budget>,
    /// The fields that lead to the message that is checked.
    pub(super) path: Vec<Step<'p>>,
}

/// A field on the way, and which of its items.
#[derive(Clone)]
pub(super) struct Step<'p> {
    element: &'p Element,
    at: Option<Subscript>,
}

/// Where the value that is checked is.
struct ValuePosition<'p> {
    element: &'p Element,
    at: Option<Subscript>,
    for_key: bool,
}

/// Where the last value of a field is.
#[derive(Clone, Copy, Default)]
struct Slot {
    /// How often the field is there.
    seen: u32,
    /// Where its first tag is.
    first: u32,
    /// The number, or where the bytes are: start and length.
    bits: u64,
    /// The start of the bytes.
    start: u32,
}

/// Most messages have no more fields with rules; those that have get their slots elsewhere.
const SLOTS: usize = 12;

/// The most messages within one another, as decoders have it.
const DEPTH_MAX: usize = 100;

impl<'p> Run<'p> {
    /// Checks a message.
    pub(super) fn message(&mut self, plan: &'p MessagePlan, bytes: &[u8]) -> Result<(), Stop> {
        let count = plan.fields.len();
        if count <= SLOTS {
            let mut slots = [Slot::default(); SLOTS];
            return self.with_slots(plan, bytes, &mut slots[..count]);
        }
        self.with_slots(plan, bytes, &mut vec![Slot::default(); count])
    }

    #[inline(always)]
    fn with_slots(
        &mut self,
        plan: &'p MessagePlan,
        bytes: &[u8],
        slots: &mut [Slot],
    ) -> Result<(), Stop> {
        scan(plan, bytes, slots)?;
        if !(plan.programs.is_empty() && plan.groups.is_empty() && plan.oneofs.is_empty()) {
            self.whole(plan, bytes, slots)?;
        }
        for (field, slot) in plan.fields.iter().zip(&*slots) {
            self.field(plan, field, *slot, bytes)?;
        }
        Ok(())
    }

    /// Rules of the message as a whole.
    #[inline(never)]
    fn whole(&mut self, plan: &'p MessagePlan, bytes: &[u8], slots: &[Slot]) -> Result<(), Stop> {
        if !plan.programs.is_empty() {
            let this = Value::of_message(Arc::new(self.decode(plan.index, bytes)?));
            for rule in &plan.programs {
                self.program(rule, &this, None)?;
            }
        }
        let is_set = |at: u16| {
            let field = &plan.fields[usize::from(at)];
            let slot = slots[usize::from(at)];
            is_set(field, slot, bytes)
        };
        for group in &plan.groups {
            let set = group.members.iter().filter(|at| is_set(**at)).count();
            let message = match set {
                0 if group.required => format!("one of {} must be set", group.names),
                0 | 1 => continue,
                _ => format!("only one of {} can be set", group.names),
            };
            let site = RuleSite { id: "message.oneof".to_owned(), path: Vec::new(), message };
            self.report(&site, None)?;
        }
        for (element, members) in &plan.oneofs {
            if !members.iter().any(|at| slots[usize::from(*at)].seen > 0) {
                let message = "exactly one field is required in oneof".to_owned();
                let site = RuleSite { id: "required".to_owned(), path: Vec::new(), message };
                self.report(&site, Some(&ValuePosition { element, at: None, for_key: false }))?;
            }
        }
        Ok(())
    }

    #[inline(always)]
    fn field(
        &mut self,
        plan: &'p MessagePlan,
        field: &'p FieldPlan,
        slot: Slot,
        bytes: &[u8],
    ) -> Result<(), Stop> {
        if (field.skip_unset || field.required.is_some()) && !is_set(field, slot, bytes) {
            if let Some(site) = &field.required {
                let spot = ValuePosition { element: &field.element, at: None, for_key: false };
                return self.report(site, Some(&spot));
            }
            return Ok(());
        }
        match &field.shape {
            Shape::One if field.value.passes_at_a_glance(slot.bytes(bytes)) => Ok(()),
            Shape::One => {
                let spot = ValuePosition { element: &field.element, at: None, for_key: false };
                self.value(&field.value, raw(field.kind, slot, bytes), &spot)
            }
            Shape::List(list) => self.list(plan, field, list, slot, bytes),
            Shape::Map(map) => self.map(plan, field, map, slot, bytes),
        }
    }

    /// Checks one value.
    #[inline(always)]
    fn value(
        &mut self,
        plan: &'p ValuePlan,
        raw: Raw<'_>,
        spot: &ValuePosition<'p>,
    ) -> Result<(), Stop> {
        if plan.ignore_zero.is_some() && self.is_zero(plan, raw)? {
            return Ok(());
        }
        if !plan.checks.is_empty() {
            let scalar = scalar(plan, raw)?;
            for check in &plan.checks {
                self.check(check, scalar, spot)?;
            }
        }
        if !plan.programs.is_empty() {
            self.programs(plan, raw, spot)?;
        }
        match plan.nested {
            Some(nested) => self.nested(nested, raw.bytes(), spot),
            None => Ok(()),
        }
    }

    #[inline(always)]
    fn check(
        &mut self,
        check: &'p Check,
        scalar: Scalar<'_>,
        spot: &ValuePosition<'p>,
    ) -> Result<(), Stop> {
        if check.test.passes(scalar, || self.now()) {
            return Ok(());
        }
        self.report(&check.site, Some(spot))
    }

    #[inline(never)]
    fn nested(&mut self, nested: u32, bytes: &[u8], spot: &ValuePosition<'p>) -> Result<(), Stop> {
        if self.path.len() == DEPTH_MAX {
            return Err(Stop::Malformed);
        }
        self.path.push(Step { element: spot.element, at: spot.at.clone() });
        let plans = self.plans;
        let outcome = self.message(&plans[nested as usize], bytes);
        self.path.pop();
        outcome
    }

    #[inline(never)]
    fn programs(
        &mut self,
        plan: &'p ValuePlan,
        raw: Raw<'_>,
        spot: &ValuePosition<'p>,
    ) -> Result<(), Stop> {
        let this = match plan.message {
            Some(index) => Value::of_message(Arc::new(self.decode(index, raw.bytes())?)),
            None => value(plan.kind, raw)?,
        };
        for rule in &plan.programs {
            self.program(rule, &this, Some(spot))?;
        }
        Ok(())
    }

    fn program(
        &mut self,
        rule: &'p Rule,
        this: &Value,
        spot: Option<&ValuePosition<'p>>,
    ) -> Result<(), Stop> {
        let bindings = Bindings { this: Some(this.clone()), ..rule.bindings.clone() };
        let now = self.now();
        let budget = self.budget.get_or_insert(Budget { steps: Budget::STEPS, now });
        let failed = |Failure(why)| Stop::Rule(format!("rule {:?}: {why}", rule.site.id));
        match rule.program.run(&bindings, budget).map_err(failed)? {
            Value::Bool(true) => Ok(()),
            Value::Bool(false) => self.report(&rule.site, spot),
            Value::Text(text) if text.is_empty() => Ok(()),
            Value::Text(text) => {
                let site = RuleSite { message: text.to_string(), ..rule.site.clone() };
                self.report(&site, spot)
            }
            _ => Err(failed(Failure("gives neither a boolean nor a string".to_owned()))),
        }
    }

    /// One time for all rules of a message.
    fn now(&self) -> i128 {
        self.budget.as_ref().map_or_else(self.clock, |budget| budget.now)
    }

    #[cold]
    fn report(&mut self, site: &RuleSite, spot: Option<&ValuePosition<'p>>) -> Result<(), Stop> {
        let steps = self.path.iter().map(|step| step.element.at(step.at.clone()));
        let own = spot.map(|spot| spot.element.at(spot.at.clone()));
        self.found.push(Violation {
            field: steps.chain(own).collect(),
            rule: site.path.clone(),
            rule_id: site.id.clone().into(),
            message: site.message.clone(),
            for_key: spot.is_some_and(|spot| spot.for_key),
        });
        if self.found.len() >= self.violations_max { Err(Stop::Enough) } else { Ok(()) }
    }

    fn is_zero(&self, plan: &ValuePlan, raw: Raw<'_>) -> Result<bool, Stop> {
        Ok(match (plan.message, plan.kind, raw) {
            (Some(_), _, raw) if raw.bytes().is_empty() => true,
            // Fields that are there may say nothing.
            (Some(index), _, raw) => self.decode(index, raw.bytes())?.encoded_len() == 0,
            (None, Kind::String | Kind::Bytes, raw) => raw.bytes().is_empty(),
            (None, kind, raw) if kind.is_float() => kind.float(raw.bits()) == 0.0,
            (None, kind, raw) => kind.integer(raw.bits()) == plan.ignore_zero.map_or(0, i128::from),
        })
    }

    fn decode(&self, index: MessageIndex, bytes: &[u8]) -> Result<DynamicMessage, Stop> {
        DynamicMessage::decode(Arc::clone(self.pool), index, bytes).map_err(|_| Stop::Malformed)
    }
}

/// Notes where the fields are.
#[inline(always)]
fn scan(plan: &MessagePlan, bytes: &[u8], slots: &mut [Slot]) -> Result<(), Stop> {
    let mut fields = Fields::new(bytes);
    loop {
        let first = fields.at as u32;
        let Some((number, raw)) = fields.next()? else { return Ok(()) };
        let Some(at) = plan.position(number) else { continue };
        let (Some(field), Some(slot)) = (plan.fields.get(at), slots.get_mut(at)) else { continue };
        if !accepts(field, raw) {
            if !matches!(field.shape, Shape::Map(_)) {
                is_other_form(field.kind, raw)?;
            }
            continue;
        }
        if slot.seen == 0 {
            slot.first = first;
            if field.oneof.is_some() {
                only_member(plan, field, slots)?;
            }
        } else if field.kind.is_message() && matches!(field.shape, Shape::One) {
            return Err(Stop::Unusual);
        }
        let slot = &mut slots[at];
        slot.seen += 1;
        match raw {
            Raw::Bytes(value) | Raw::Group(value) => {
                slot.start = (value.as_ptr().addr() - bytes.as_ptr().addr()) as u32;
                slot.bits = value.len() as u64;
            }
            number => slot.bits = number.bits(),
        }
    }
}

/// Whether a value has the wire type of the field; one that has not is not of the field.
#[inline(always)]
fn accepts(field: &FieldPlan, raw: Raw<'_>) -> bool {
    let wire = match raw {
        Raw::Varint(_) => 0,
        Raw::Fixed64(_) => 1,
        Raw::Bytes(_) => 2,
        Raw::Group(_) => 3,
        Raw::Fixed32(_) => 5,
    };
    let own = field.kind.wire();
    wire == own || (wire == 2 && own != 3 && !matches!(field.shape, Shape::One))
}

/// Decoders take a message in either of its two forms; only the usual one is looked into here.
fn is_other_form(kind: Kind, raw: Raw<'_>) -> Result<(), Stop> {
    match raw {
        Raw::Bytes(_) | Raw::Group(_) if kind.is_message() => Err(Stop::Unusual),
        _ => Ok(()),
    }
}

#[inline(never)]
fn only_member(plan: &MessagePlan, field: &FieldPlan, slots: &[Slot]) -> Result<(), Stop> {
    let others = plan.fields.iter().zip(slots);
    let mut others = others.filter(|(other, _)| other.oneof == field.oneof);
    if others.any(|(_, slot)| slot.seen > 0) { Err(Stop::Unusual) } else { Ok(()) }
}

/// The last value of a field; its zero where it is not there.
#[inline(always)]
fn raw(kind: Kind, slot: Slot, bytes: &[u8]) -> Raw<'_> {
    match kind.wire() {
        2 | 3 => Raw::Bytes(slot.bytes(bytes)),
        _ => Raw::Varint(slot.bits),
    }
}

#[inline(always)]
fn is_set(field: &FieldPlan, slot: Slot, bytes: &[u8]) -> bool {
    match &field.shape {
        _ if slot.seen == 0 => false,
        Shape::One => field.presence || field.kind.is_message() || slot.bits_of(field.kind) != 0,
        Shape::Map(_) => true,
        Shape::List(_) => collections::has_items(field, slot, bytes),
    }
}

impl Slot {
    /// The bytes of a string; of no meaning for a number.
    #[inline(always)]
    fn bytes(self, message: &[u8]) -> &[u8] {
        let start = self.start as usize;
        message.get(start..start.saturating_add(self.bits as usize)).unwrap_or_default()
    }

    /// The number as its type has it, or the length of the bytes.
    fn bits_of(self, kind: Kind) -> u64 {
        match kind.wire() {
            // Bits that do not fit are not of the number.
            0 if !matches!(kind, Kind::Bool) => kind.integer(self.bits) as u64,
            _ => self.bits,
        }
    }
}

/// A value as standard rules see it.
#[inline(always)]
fn scalar<'a>(plan: &ValuePlan, raw: Raw<'a>) -> Result<Scalar<'a>, Stop> {
    match plan.reading {
        ReadAs::Plain => Ok(plain(plan.kind, raw)),
        other => unwrapped(other, raw.bytes()),
    }
}

#[inline(always)]
fn plain(kind: Kind, raw: Raw<'_>) -> Scalar<'_> {
    match kind {
        Kind::String | Kind::Bytes | Kind::Message | Kind::Group => Scalar::Bytes(raw.bytes()),
        Kind::Float | Kind::Double => Scalar::Float(kind.float(raw.bits())),
        _ => Scalar::Integer(kind.integer(raw.bits())),
    }
}

/// The value in a well-known message.
#[inline(never)]
fn unwrapped(reading: ReadAs, bytes: &[u8]) -> Result<Scalar<'_>, Stop> {
    let mut fields = Fields::new(bytes);
    while fields.next()?.is_some() {}
    let member = |number, wanted: u8| {
        let fits = |raw: &Raw<'_>| {
            matches!(
                (raw, wanted),
                (Raw::Varint(_), 0)
                    | (Raw::Fixed64(_), 1)
                    | (Raw::Bytes(_), 2)
                    | (Raw::Fixed32(_), 5)
            )
        };
        wire_format::all(bytes, number).filter(fits).last()
    };
    Ok(match reading {
        ReadAs::Wrapper(kind) => plain(kind, member(1, kind.wire()).unwrap_or(Raw::Varint(0))),
        ReadAs::Duration => Scalar::Integer(duration(bytes).into()),
        ReadAs::Timestamp => Scalar::Integer(timestamp(bytes)),
        ReadAs::TypeUrl => Scalar::Bytes(member(1, 2).map_or(&[], Raw::bytes)),
        ReadAs::Plain => Scalar::Bytes(bytes),
    })
}

/// A value as CEL sees it.
fn value(kind: Kind, raw: Raw<'_>) -> Result<Value, Stop> {
    Ok(match kind {
        Kind::String => match str::from_utf8(raw.bytes()) {
            Ok(text) => Value::text(text),
            Err(_) => return Err(Stop::Malformed),
        },
        Kind::Bytes | Kind::Message | Kind::Group => Value::Bytes(raw.bytes().into()),
        Kind::Bool => Value::Bool(raw.bits() != 0),
        Kind::Float | Kind::Double => Value::Double(kind.float(raw.bits())),
        Kind::Uint32 | Kind::Uint64 | Kind::Fixed32 | Kind::Fixed64 => {
            Value::Uint(kind.integer(raw.bits()) as u64)
        }
        _ => Value::Int(kind.integer(raw.bits()) as i64),
    })
}
