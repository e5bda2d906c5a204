//! Dropping what cannot be broken.

use std::collections::HashMap;

use buffa_descriptor::MessageIndex;

use super::{FieldPlan, MessagePlan, Shape, ValuePlan};

/// Plans without those in which nothing can be broken, and where the plan of each message is.
pub(super) fn prune(
    mut plans: Vec<MessagePlan>,
    known: &HashMap<MessageIndex, u32>,
) -> (Vec<MessagePlan>, HashMap<MessageIndex, Option<u32>>) {
    let live = live(&plans);
    let mut places = Vec::with_capacity(plans.len());
    let mut next = 0;
    for live in &live {
        places.push(live.then_some(next));
        next += u32::from(*live);
    }
    for plan in &mut plans {
        for value in plan.fields.iter_mut().flat_map(values) {
            value.nested = value.nested.and_then(|at| places[at as usize]);
        }
        trim(plan);
    }
    let mut kept = live.iter();
    plans.retain(|_| kept.next() == Some(&true));
    let roots = known.iter().map(|(index, at)| (*index, places[*at as usize])).collect();
    (plans, roots)
}

/// Which plans have something in them, or lead to one that has.
fn live(plans: &[MessagePlan]) -> Vec<bool> {
    let mut leads_to = vec![Vec::new(); plans.len()];
    let mut queue = Vec::new();
    for (at, plan) in plans.iter().enumerate() {
        let own = |field: &FieldPlan| is_needed(field, &|value| has_rules(value));
        if !plan.programs.is_empty()
            || !plan.groups.is_empty()
            || !plan.oneofs.is_empty()
            || plan.fields.iter().any(own)
        {
            queue.push(at);
        }
        for field in &plan.fields {
            each_value(field, &mut |value| {
                if let Some(nested) = value.nested {
                    leads_to[nested as usize].push(at);
                }
            });
        }
    }
    let mut live = vec![false; plans.len()];
    while let Some(at) = queue.pop() {
        if !std::mem::replace(&mut live[at], true) {
            queue.extend(&leads_to[at]);
        }
    }
    live
}

/// Drops the fields in which nothing can be broken, puts the rest in order, and finds members of
/// oneofs among them.
fn trim(plan: &mut MessagePlan) {
    let members: Vec<u16> = plan
        .groups
        .iter()
        .flat_map(|group| &group.members)
        .chain(plan.oneofs.iter().flat_map(|(_, members)| members))
        .copied()
        .collect();
    let oneofs: Vec<Option<u16>> = plan.fields.iter().map(|field| field.oneof).collect();
    let wanted: Vec<bool> = plan
        .fields
        .iter()
        .enumerate()
        .map(|(at, field)| {
            members.contains(&(at as u16)) || is_needed(field, &|value| !value.is_empty())
        })
        .collect();
    // What another member of the same oneof says decides whether a member is set.
    let in_use = |at: usize| {
        wanted[at]
            || oneofs[at].is_some_and(|oneof| {
                wanted.iter().zip(&oneofs).any(|(wanted, one)| *wanted && *one == Some(oneof))
            })
    };
    let mut fields: Vec<(u16, FieldPlan)> = std::mem::take(&mut plan.fields)
        .into_iter()
        .enumerate()
        .filter(|(at, _)| in_use(*at))
        .map(|(at, field)| (at as u16, field))
        .collect();
    fields.sort_by_key(|(_, field)| field.number);
    let place = |at: &u16| fields.iter().position(|(one, _)| one == at).unwrap_or(0) as u16;
    for group in &mut plan.groups {
        group.members = group.members.iter().map(place).collect();
    }
    for (_, members) in &mut plan.oneofs {
        *members = members.iter().map(place).collect();
    }
    plan.fields = fields.into_iter().map(|(_, field)| field).collect();
    let small =
        plan.fields.iter().map(|field| field.number).filter(|number| *number < LOOKUP_MAX).max();
    let mut lookup = vec![0; small.map_or(0, |number| number as usize + 1)];
    for (at, field) in plan.fields.iter().enumerate() {
        if let Some(slot) = lookup.get_mut(field.number as usize) {
            *slot = at as u16 + 1;
        }
    }
    plan.lookup = lookup.into();
}

fn has_rules(value: &ValuePlan) -> bool {
    !value.checks.is_empty() || !value.programs.is_empty()
}

fn is_needed(field: &FieldPlan, has: &dyn Fn(&ValuePlan) -> bool) -> bool {
    let shape = match &field.shape {
        Shape::One => false,
        Shape::List(list) => !list.counts.is_empty() || list.unique.is_some() || has(&list.items),
        Shape::Map(map) => !map.counts.is_empty() || has(&map.keys) || has(&map.values),
    };
    shape || field.required.is_some() || has(&field.value)
}

fn each_value(field: &FieldPlan, each: &mut dyn FnMut(&ValuePlan)) {
    each(&field.value);
    match &field.shape {
        Shape::One => {}
        Shape::List(list) => each(&list.items),
        Shape::Map(map) => {
            each(&map.keys);
            each(&map.values);
        }
    }
}

fn values(field: &mut FieldPlan) -> Vec<&mut ValuePlan> {
    let mut all = vec![&mut field.value];
    match &mut field.shape {
        Shape::One => {}
        Shape::List(list) => all.push(&mut list.items),
        Shape::Map(map) => all.extend([&mut map.keys, &mut map.values]),
    }
    all
}

/// Numbers below are found by a table.
const LOOKUP_MAX: u32 = 256;
