//! Rules as keywords of JSON Schema, for documents that tell others what a request has to be.
//!
//! Told is what holds for every message that passes; a document says less than the rules do, and
//! never more. Left out are rules in CEL, of oneofs, of whole messages, of time, and those that do
//! not look at a zero value.

use serde_json::{Map, Value, json};

use crate::RuleSet;
use crate::check::{Check, Constant, Range, Test};
use crate::plan::{CountRule, FieldPlan, ReadAs, Shape, ValuePlan};

/// What the rules ask of one field.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct FieldDescription {
    /// The field's number.
    pub number: u32,
    /// Whether a message without it is refused.
    pub is_required: bool,
    /// Keywords for its value: `minLength`, `maximum`, `maxItems`, `pattern`.
    pub keywords: Map<String, Value>,
    /// Keywords for each item of a list.
    pub items: Map<String, Value>,
}

impl RuleSet {
    /// What the rules ask of the fields of a message; nothing where it has none.
    pub fn describe(&self, type_name: &str) -> Vec<FieldDescription> {
        self.rules(type_name)
            .map(|rules| rules.plan.fields.iter().map(describe).collect())
            .unwrap_or_default()
    }
}

fn describe(field: &FieldPlan) -> FieldDescription {
    let skips_empty = field.skip_unset && !field.presence;
    let mut keywords = Map::new();
    let mut items = Map::new();
    match &field.shape {
        _ if skips_empty => {}
        Shape::One => keywords = of_value(&field.value),
        Shape::List(list) => {
            for CountRule { min, max, .. } in &list.counts {
                bounds(&mut keywords, ["minItems", "maxItems"], *min, *max);
            }
            if list.unique.is_some() {
                keywords.insert("uniqueItems".to_owned(), true.into());
            }
            items = of_value(&list.items);
        }
        Shape::Map(map) => {
            for CountRule { min, max, .. } in &map.counts {
                bounds(&mut keywords, ["minProperties", "maxProperties"], *min, *max);
            }
        }
    }
    // Without it the field is its zero value, which is too short or too few.
    let is_some_needed = ["minLength", "minItems", "minProperties"]
        .iter()
        .any(|keyword| keywords.contains_key(*keyword));
    let is_required = field.required.is_some() || (is_some_needed && !field.presence);
    FieldDescription { number: field.number, is_required, keywords, items }
}

fn of_value(value: &ValuePlan) -> Map<String, Value> {
    let mut keywords = Map::new();
    if value.reading == ReadAs::Plain && value.ignore_zero.is_none() && value.message.is_none() {
        value.checks.iter().for_each(|check| add(&mut keywords, check));
    }
    keywords
}

fn add(keywords: &mut Map<String, Value>, check: &Check) {
    let mut set = |name: &str, value: Value| _ = keywords.insert(name.to_owned(), value);
    match &check.test {
        Test::Characters(min, max) => bounds(keywords, ["minLength", "maxLength"], *min, *max),
        Test::NotEmpty => set("minLength", 1.into()),
        Test::Pattern(pattern) => set("pattern", pattern.as_str().into()),
        Test::Equal(one) => _ = json(one).map(|one| set("const", one)),
        Test::In(list) => {
            if let Some(list) = list.iter().map(json).collect::<Option<Vec<_>>>() {
                set("enum", list.into());
            }
        }
        Test::Integers(range) => of_range(keywords, range, |one| i64::try_from(one).ok()),
        Test::Floats(range) => of_range(keywords, range, |one| one.is_finite().then_some(one)),
        Test::Form(_) | Test::FormAlways(_) => {
            let name = check.site.id.strip_prefix("string.").unwrap_or_default();
            if FORMATS.contains(&name) {
                set("format", name.into());
            }
        }
        _ => {}
    }
}

fn bounds(keywords: &mut Map<String, Value>, [least, most]: [&str; 2], min: u64, max: u64) {
    if min > 0 {
        keywords.insert(least.to_owned(), min.into());
    }
    if max < u64::MAX {
        keywords.insert(most.to_owned(), max.into());
    }
}

fn of_range<T: PartialOrd + Copy, N: Into<Value>>(
    keywords: &mut Map<String, Value>,
    range: &Range<T>,
    number: impl Fn(T) -> Option<N>,
) {
    if range.is_turned() {
        return;
    }
    let ends = [
        (range.above, ["minimum", "exclusiveMinimum"]),
        (range.below, ["maximum", "exclusiveMaximum"]),
    ];
    for (bound, [inside, outside]) in ends {
        if let Some((bound, is_inside)) = bound
            && let Some(bound) = number(bound)
        {
            keywords.insert(if is_inside { inside } else { outside }.to_owned(), bound.into());
        }
    }
}

/// A value that JSON has as the rule does: text and numbers that a double holds.
fn json(constant: &Constant) -> Option<Value> {
    match constant {
        Constant::Integer(number) => i32::try_from(*number)
            .ok()
            .map(Value::from)
            .or_else(|| u32::try_from(*number).ok().map(Value::from)),
        Constant::Float(_) => None,
        Constant::Bytes(bytes) => str::from_utf8(bytes).ok().map(|text| json!(text)),
    }
}

/// Forms that are called the same in JSON Schema.
const FORMATS: [&str; 6] = ["email", "hostname", "ipv4", "ipv6", "uri", "uuid"];
