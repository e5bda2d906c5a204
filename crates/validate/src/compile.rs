//! Rules of a schema to plans.
//!
//! Messages are compiled from those asked for on, through the messages in their fields. Plans in
//! which nothing can be broken are dropped at the end, so that checking does not look into them.

use std::collections::HashMap;
use std::sync::Arc;

use buffa_descriptor::{DescriptorPool, FieldDescriptor, FieldKind, MessageIndex, SingularKind};

use super::cel::{Bindings, Program, Scope, Type, is_wrapper};
use super::check::RuleSite;
use super::fault::{Fault, Owner};
use super::kind::{self, Kind};
use super::options::{self, FieldRules};
use super::plan::{
    FieldGroup, FieldPlan, ListPlan, MapPlan, MessagePlan, ReadAs, Rule, Shape, ValuePlan,
};
use super::standard::Rules;
use super::violation::{Element, EntryKinds};
use super::wire_format;

mod predefined;
mod prune;

/// The plans of messages, and those of the messages in them.
pub(super) struct CompiledPlans {
    pub(super) plans: Vec<MessagePlan>,
    /// Where the plan of a message is; `None` when nothing can be broken in it.
    pub(super) roots: HashMap<MessageIndex, Option<u32>>,
    pub(super) faults: Vec<Fault>,
}

/// Compiles the rules of messages.
pub(super) fn compile(
    pool: &Arc<DescriptorPool>,
    messages: impl Iterator<Item = MessageIndex>,
) -> CompiledPlans {
    let mut compiler = Compiler {
        pool,
        plans: Vec::new(),
        known: HashMap::new(),
        queue: Vec::new(),
        faults: Vec::new(),
    };
    for message in messages {
        compiler.want(message);
    }
    while let Some(index) = compiler.queue.pop() {
        let plan = compiler.message(index);
        if let Some(at) = compiler.known.get(&index) {
            compiler.plans[*at as usize] = Some(plan);
        }
    }
    let Compiler { plans, known, faults, .. } = compiler;
    let (plans, roots) = prune::prune(plans.into_iter().flatten().collect(), &known);
    CompiledPlans { plans, roots, faults }
}

struct Compiler<'a> {
    pool: &'a Arc<DescriptorPool>,
    plans: Vec<Option<MessagePlan>>,
    known: HashMap<MessageIndex, u32>,
    queue: Vec<MessageIndex>,
    faults: Vec<Fault>,
}

/// A value that rules are for, and where the rules are.
struct Subject<'a> {
    message: &'a str,
    field: &'a FieldDescriptor,
    option: u32,
    kind: SingularKind,
    delimited: bool,
    /// The way to the rules of items, keys and values; empty for a field.
    prefix: Vec<Element>,
}

impl Compiler<'_> {
    /// The place of the plan of a message, now or later.
    fn want(&mut self, index: MessageIndex) -> u32 {
        let next = self.plans.len() as u32;
        *self.known.entry(index).or_insert_with(|| {
            self.plans.push(None);
            self.queue.push(index);
            next
        })
    }

    fn message(&mut self, index: MessageIndex) -> MessagePlan {
        let pool = Arc::clone(self.pool);
        let message = pool.message(index);
        let name = message.full_name();
        let mut plan = MessagePlan {
            index,
            lookup: Box::default(),
            fields: Vec::new(),
            oneofs: Vec::new(),
            groups: Vec::new(),
            programs: Vec::new(),
        };
        let Some(rules) = options::of_message(message) else { return plan };
        let this = Type::of_message(&pool, index);
        for rule in options::cel_rules(&rules, 5, 3) {
            let place = vec![options::RULES as i32, rule.member as i32, rule.index as i32];
            let scope = Scope { pool: &pool, names: vec![("this", this.clone())] };
            let site = RuleSite { id: rule.id, path: Vec::new(), message: rule.message };
            let compiled = program(&rule.expression, &scope, site, Bindings::default());
            self.keep(name, Owner::Message, place, compiled, &mut plan.programs);
        }
        let groups: Vec<Vec<u8>> =
            wire_format::all(&rules, 4).map(|raw| raw.bytes().to_vec()).collect();
        for (at, group) in groups.iter().enumerate() {
            let place = vec![options::RULES as i32, 4, at as i32];
            let compiled = self.group(index, group);
            self.keep(name, Owner::Message, place, compiled, &mut plan.groups);
        }
        for (at, oneof) in message.oneofs().iter().enumerate() {
            if !oneof.is_synthetic() && options::is_oneof_required(oneof) {
                let members = oneof.field_indices().to_vec();
                debug_assert!(at <= usize::from(u16::MAX));
                plan.oneofs.push((Element::of_oneof(oneof.name()), members));
            }
        }
        for (position, field) in message.fields().iter().enumerate() {
            let position = position as u16;
            let in_group = plan.groups.iter().any(|group| group.members.contains(&position));
            plan.fields.push(self.field(index, field, in_group));
        }
        plan
    }

    fn keep<T>(
        &mut self,
        message: &str,
        owner: Owner,
        option: Vec<i32>,
        compiled: Result<T, String>,
        into: &mut Vec<T>,
    ) {
        match compiled {
            Ok(one) => into.push(one),
            Err(why) => self.faults.push(Fault { message: message.to_owned(), owner, option, why }),
        }
    }

    /// `(buf.validate.message).oneof`.
    fn group(&self, index: MessageIndex, rule: &[u8]) -> Result<FieldGroup, String> {
        let message = self.pool.message(index);
        let names: Vec<String> = wire_format::all(rule, 1)
            .map(|raw| String::from_utf8_lossy(raw.bytes()).into_owned())
            .collect();
        if names.is_empty() {
            return Err("oneof needs the names of fields".to_owned());
        }
        let mut members = Vec::new();
        for name in &names {
            let at = message.fields().iter().position(|field| field.name() == name);
            let at = at.ok_or_else(|| format!("oneof: there is no field {name}"))? as u16;
            if members.contains(&at) {
                return Err(format!("oneof: {name} occurs twice"));
            }
            members.push(at);
        }
        let required = wire_format::last(rule, 2).is_some_and(|raw| raw.bits() != 0);
        Ok(FieldGroup { members, required, names: names.join(", ") })
    }

    fn field(&mut self, index: MessageIndex, field: &FieldDescriptor, in_group: bool) -> FieldPlan {
        let pool = Arc::clone(self.pool);
        let message = pool.message(index);
        let rules = FieldRules::of(field);
        let number =
            |number| wire_format::last(&rules.rules, number).map_or(0, wire_format::Raw::bits);
        let ignore = match number(options::IGNORE) {
            0 if in_group && !rules.rules.is_empty() => options::IGNORE_ZERO,
            ignore => ignore,
        };
        let presence = kind::has_presence(field);
        let required = ignore != options::IGNORE_ALWAYS && number(options::REQUIRED) != 0;
        let kind = Kind::of_field(field);
        let behavior = rules.behavior_required && is_missing_when_empty(field);
        let oneof = field.oneof_index().filter(|oneof| {
            message.oneofs().get(usize::from(*oneof)).is_some_and(|one| !one.is_synthetic())
        });
        let (shape, value) = if ignore == options::IGNORE_ALWAYS {
            (Shape::One, empty(kind))
        } else {
            self.shape(message.full_name(), field, &rules)
        };
        FieldPlan {
            number: field.number(),
            kind,
            shape,
            presence,
            oneof,
            required: (required || behavior).then(|| Box::new(required_site(required))),
            skip_unset: presence || ignore == options::IGNORE_ZERO,
            value,
            element: element(field),
        }
    }

    fn shape(
        &mut self,
        message: &str,
        field: &FieldDescriptor,
        found: &FieldRules,
    ) -> (Shape, ValuePlan) {
        let subject = |kind, delimited, prefix| Subject {
            message,
            field,
            option: found.option,
            kind,
            delimited,
            prefix,
        };
        let step = |member: (u32, &'static str), inner: (u32, &'static str)| {
            vec![
                Element::of_rule(member.0, member.1, Kind::Message),
                Element::of_rule(inner.0, inner.1, Kind::Message),
            ]
        };
        let rules = &found.rules;
        match field.kind() {
            FieldKind::Singular(kind) => {
                let subject = subject(kind, field.is_delimited(), Vec::new());
                (Shape::One, self.value(&subject, rules).with_glance())
            }
            FieldKind::List(kind) => {
                let (whole, own) =
                    self.whole(&subject(kind, false, Vec::new()), rules, (18, "repeated"));
                let prefix = step((18, "repeated"), (4, "items"));
                let items = subject(kind, field.is_delimited(), prefix);
                let items = self.value(&items, &wire_format::message(&own, 4).unwrap_or_default());
                let own = Rules { member: (18, "repeated"), bytes: &own, prefix: &[] };
                // Whether messages are equal is not asked: each is another one.
                let comparable =
                    !items.kind.is_message() || matches!(items.reading, ReadAs::Wrapper(_));
                let unique = own.unique().filter(|_| comparable);
                (Shape::List(Box::new(ListPlan { counts: own.counts(), unique, items })), whole)
            }
            FieldKind::Map { key, value } => {
                let key = SingularKind::Scalar(key);
                let (whole, own) =
                    self.whole(&subject(value, false, Vec::new()), rules, (19, "map"));
                let inner = |number| wire_format::message(&own, number).unwrap_or_default();
                let keys = subject(key, false, step((19, "map"), (4, "keys")));
                let keys = self.value(&keys, &inner(4));
                let values = subject(value, false, step((19, "map"), (5, "values")));
                let values = self.value(&values, &inner(5));
                let own = Rules { member: (19, "map"), bytes: &own, prefix: &[] };
                (Shape::Map(Box::new(MapPlan { counts: own.counts(), keys, values })), whole)
            }
        }
    }

    /// The rules of a list or map as a whole, and the encoded rules of its type.
    fn whole(
        &mut self,
        subject: &Subject<'_>,
        rules: &[u8],
        member: (u32, &'static str),
    ) -> (ValuePlan, Vec<u8>) {
        let mut plan = empty(Kind::Message);
        let this = Type::of_field(self.pool, subject.field);
        self.expressions(subject, rules, &this, &mut plan.programs);
        if let Some(found) = member_of(rules).filter(|found| *found != member.0) {
            self.mismatch(subject, found);
        }
        let own = wire_format::message(rules, member.0).unwrap_or_default();
        let this = Type::of_any_field(self.pool, subject.field);
        self.predefined(subject, &own, member, &this, &mut plan.programs);
        (plan, own)
    }

    fn value(&mut self, subject: &Subject<'_>, rules: &[u8]) -> ValuePlan {
        let pool = Arc::clone(self.pool);
        let kind = Kind::of_value(subject.kind, subject.delimited);
        let mut plan = empty(kind);
        let ignore = wire_format::last(rules, options::IGNORE).map_or(0, wire_format::Raw::bits);
        if ignore == options::IGNORE_ALWAYS {
            return plan;
        }
        let enumeration = match subject.kind {
            SingularKind::Enum(index) => Some(pool.enumeration(index)),
            _ => None,
        };
        if ignore == options::IGNORE_ZERO && !subject.prefix.is_empty() {
            let first = enumeration.and_then(|one| one.values().first()).map(|one| one.number());
            plan.ignore_zero = Some(first.unwrap_or(0));
        }
        let this = Type::of_value(&pool, subject.kind);
        self.expressions(subject, rules, &this, &mut plan.programs);
        let mut expected = kind.rules();
        if let SingularKind::Message(index) = subject.kind {
            plan.message = Some(index);
            plan.nested = Some(self.want(index));
            (plan.reading, expected) = reading(&pool, index);
        }
        match (member_of(rules), expected) {
            (None, _) => {}
            (Some(found), Some(member)) if found == member.0 => {
                let own = wire_format::message(rules, found).unwrap_or_default();
                let own_rules = Rules { member, bytes: &own, prefix: &subject.prefix };
                let defined = || {
                    let values = enumeration.map_or(&[][..], |one| one.values());
                    let mut numbers: Vec<i32> = values.iter().map(|one| one.number()).collect();
                    numbers.sort_unstable();
                    numbers.into()
                };
                match own_rules.checks(defined) {
                    Ok(checks) => plan.checks = checks,
                    Err(why) => self.fault(subject, &[found], why),
                }
                let this = this.plain().clone();
                self.predefined(subject, &own, member, &this, &mut plan.programs);
            }
            (Some(found), _) => self.mismatch(subject, found),
        }
        plan
    }

    /// `cel` and `cel_expression` of a value.
    fn expressions(
        &mut self,
        subject: &Subject<'_>,
        rules: &[u8],
        this: &Type,
        into: &mut Vec<Rule>,
    ) {
        let pool = Arc::clone(self.pool);
        for rule in options::cel_rules(rules, options::CEL_EXPRESSION, options::CEL) {
            let (name, kind) = match rule.member {
                options::CEL => ("cel", Kind::Message),
                _ => ("cel_expression", Kind::String),
            };
            let at = super::violation::Subscript::Index(rule.index);
            let mut path = subject.prefix.clone();
            path.push(Element::of_rule(rule.member, name, kind).at(Some(at)));
            let scope = Scope { pool: &pool, names: vec![("this", this.clone())] };
            let site = RuleSite { id: rule.id, path, message: rule.message };
            match program(&rule.expression, &scope, site, Bindings::default()) {
                Ok(rule) => into.push(rule),
                Err(why) => self.fault(subject, &[rule.member, rule.index as u32], why),
            }
        }
    }

    fn mismatch(&mut self, subject: &Subject<'_>, member: u32) {
        let field = Type::of_field(self.pool, subject.field);
        let why = format!("these rules are not for a field of type {field}");
        self.fault(subject, &[member], why);
    }

    fn fault(&mut self, subject: &Subject<'_>, rest: &[u32], why: String) {
        let mut option = vec![subject.option as i32];
        option.extend(subject.prefix.iter().map(|element| element.number as i32));
        option.extend(rest.iter().map(|number| *number as i32));
        let owner = Owner::Field(subject.field.number());
        self.faults.push(Fault { message: subject.message.to_owned(), owner, option, why });
    }
}

/// Compiles a rule in CEL.
fn program(
    expression: &str,
    scope: &Scope<'_>,
    site: RuleSite,
    bindings: Bindings,
) -> Result<Rule, String> {
    let program =
        Program::compile(expression, scope).map_err(|why| format!("cel {:?}: {why}", site.id))?;
    let message = match site.message.as_str() {
        "" => format!("{expression:?} returned false"),
        message => message.to_owned(),
    };
    Ok(Rule { program, site: RuleSite { message, ..site }, bindings })
}

/// The rules that an encoded `buf.validate.FieldRules` has for a type.
fn member_of(rules: &[u8]) -> Option<u32> {
    let mut fields = wire_format::Fields::new(rules);
    let mut found = None;
    while let Ok(Some((number, _))) = fields.next() {
        if matches!(number, 1..=16 | 18..=22 | 28) {
            found = Some(number);
        }
    }
    found
}

/// How a message is read for standard rules, and which rules are for it.
fn reading(pool: &DescriptorPool, index: MessageIndex) -> (ReadAs, Option<(u32, &'static str)>) {
    let message = pool.message(index);
    match message.full_name() {
        "google.protobuf.Any" => (ReadAs::TypeUrl, Some((20, "any"))),
        "google.protobuf.Duration" => (ReadAs::Duration, Some((21, "duration"))),
        "google.protobuf.Timestamp" => (ReadAs::Timestamp, Some((22, "timestamp"))),
        "google.protobuf.FieldMask" => (ReadAs::Plain, Some((28, "field_mask"))),
        name if is_wrapper(name) => match message.field(1).map(Kind::of_field) {
            Some(kind) => (ReadAs::Wrapper(kind), kind.rules()),
            None => (ReadAs::Plain, None),
        },
        _ => (ReadAs::Plain, None),
    }
}

/// Whether being empty is being missing, for fields that have no presence.
pub(super) fn is_missing_when_empty(field: &FieldDescriptor) -> bool {
    let numeric = matches!(
        Kind::of_field(field),
        kind if !kind.is_message() && !matches!(kind, Kind::String | Kind::Bytes)
    );
    kind::has_presence(field) || !numeric || !matches!(field.kind(), FieldKind::Singular(_))
}

fn required_site(by_rule: bool) -> RuleSite {
    let path = match by_rule {
        true => vec![Element::of_rule(options::REQUIRED, "required", Kind::Bool)],
        false => Vec::new(),
    };
    RuleSite { id: "required".to_owned(), path, message: "value is required".to_owned() }
}

fn empty(kind: Kind) -> ValuePlan {
    ValuePlan {
        kind,
        reading: ReadAs::Plain,
        message: None,
        ignore_zero: None,
        checks: Vec::new(),
        glance: None,
        programs: Vec::new(),
        nested: None,
    }
}

fn element(field: &FieldDescriptor) -> Element {
    let entry = match field.kind() {
        FieldKind::Map { key, value } => {
            Some(EntryKinds { key: Kind::of_scalar(key), value: Kind::of_value(value, false) })
        }
        _ => None,
    };
    Element {
        number: field.number(),
        name: field.name().to_owned().into(),
        json_name: Some(field.json_name().into()),
        kind: Some(Kind::of_field(field)),
        entry,
        subscript: None,
    }
}
