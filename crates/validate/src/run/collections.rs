//! Lists and maps: how many items, and each of them.

use std::collections::BTreeMap;

use buffa_descriptor::reflect::ReflectMessage;

use super::super::check::{Scalar, are_unique};
use super::super::plan::{CountRule, ListPlan, MapPlan};
use super::{
    FieldPlan, Fields, Kind, MessagePlan, Raw, Run, Slot, Stop, Subscript, Value, ValuePlan,
    ValuePosition, accepts, is_other_form, plain, scalar, wire_format,
};

impl<'p> Run<'p> {
    #[inline(never)]
    pub(super) fn list(
        &mut self,
        plan: &'p MessagePlan,
        field: &'p FieldPlan,
        list: &'p ListPlan,
        slot: Slot,
        bytes: &[u8],
    ) -> Result<(), Stop> {
        let items = items(field, slot, bytes)?;
        self.counts(field, &list.counts, items.len())?;
        if let Some(site) = &list.unique {
            let scalars: Result<Vec<_>, _> =
                items.iter().map(|item| scalar(&list.items, *item)).collect();
            if !are_unique(scalars?.into_iter()) {
                self.report(site, Some(&whole(field)))?;
            }
        }
        self.of_whole(plan, field, bytes)?;
        if list.items.is_empty() {
            return Ok(());
        }
        for (index, item) in items.into_iter().enumerate() {
            let at = Some(Subscript::Index(index as u64));
            self.value(
                &list.items,
                item,
                &ValuePosition { element: &field.element, at, for_key: false },
            )?;
        }
        Ok(())
    }

    #[inline(never)]
    pub(super) fn map(
        &mut self,
        plan: &'p MessagePlan,
        field: &'p FieldPlan,
        map: &'p MapPlan,
        slot: Slot,
        bytes: &[u8],
    ) -> Result<(), Stop> {
        let mut entries = BTreeMap::new();
        for item in items(field, slot, bytes)? {
            let entry = entry(item.bytes(), &map.keys, &map.values)?;
            // A key that occurs twice has its last value.
            entries.insert(Key::of(map.keys.kind, entry.key), entry);
        }
        self.counts(field, &map.counts, entries.len())?;
        self.of_whole(plan, field, bytes)?;
        if map.keys.is_empty() && map.values.is_empty() {
            return Ok(());
        }
        for Entry { key, value } in entries.into_values() {
            let at = subscript(map.keys.kind, key);
            let at = || Some(at.clone());
            self.value(
                &map.keys,
                key,
                &ValuePosition { element: &field.element, at: at(), for_key: true },
            )?;
            let spot = ValuePosition { element: &field.element, at: at(), for_key: false };
            self.value(&map.values, value, &spot)?;
        }
        Ok(())
    }

    fn counts(
        &mut self,
        field: &'p FieldPlan,
        counts: &'p [CountRule],
        count: usize,
    ) -> Result<(), Stop> {
        for CountRule { min, max, site } in counts {
            if !(*min..=*max).contains(&(count as u64)) {
                self.report(site, Some(&whole(field)))?;
            }
        }
        Ok(())
    }

    /// Rules in CEL of a list or map as a whole: these look at it decoded.
    fn of_whole(
        &mut self,
        plan: &'p MessagePlan,
        field: &'p FieldPlan,
        bytes: &[u8],
    ) -> Result<(), Stop> {
        if field.value.programs.is_empty() {
            return Ok(());
        }
        let message = self.decode(plan.index, bytes)?;
        let Some(descriptor) = message.message_descriptor().field(field.number) else {
            return Ok(());
        };
        let this = Value::of_field(&message, descriptor);
        for rule in &field.value.programs {
            self.program(rule, &this, Some(&whole(field)))?;
        }
        Ok(())
    }
}

fn whole(field: &FieldPlan) -> ValuePosition<'_> {
    ValuePosition { element: &field.element, at: None, for_key: false }
}

/// The items of a list, packed or not, or the entries of a map.
fn items<'a>(field: &FieldPlan, slot: Slot, bytes: &'a [u8]) -> Result<Vec<Raw<'a>>, Stop> {
    let mut items = Vec::with_capacity(slot.seen as usize);
    if slot.seen == 0 {
        return Ok(items);
    }
    let own = field.kind.wire();
    let mut fields = Fields::starting_at(bytes, slot.first as usize);
    while let Some((number, raw)) = fields.next()? {
        if number != field.number || !accepts(field, raw) {
            continue;
        }
        match raw {
            Raw::Bytes(packed) if own != 2 => {
                for bits in wire_format::packed(packed, own) {
                    items.push(Raw::Varint(bits?));
                }
            }
            raw => items.push(raw),
        }
    }
    Ok(items)
}

/// Whether a list has an item; a packed list may be there and be empty.
pub(super) fn has_items(field: &FieldPlan, slot: Slot, bytes: &[u8]) -> bool {
    field.kind.wire() == 2 || items(field, slot, bytes).is_ok_and(|items| !items.is_empty())
}

/// An entry of a map.
struct Entry<'a> {
    key: Raw<'a>,
    value: Raw<'a>,
}

fn entry<'a>(bytes: &'a [u8], keys: &ValuePlan, values: &ValuePlan) -> Result<Entry<'a>, Stop> {
    let mut key = zero(keys.kind);
    let mut value = None;
    let mut fields = Fields::new(bytes);
    while let Some((number, raw)) = fields.next()? {
        match number {
            1 if is_of(keys.kind, raw) => key = raw,
            2 if is_of(values.kind, raw) => {
                if value.is_some() && values.kind.is_message() {
                    return Err(Stop::Unusual);
                }
                value = Some(raw);
            }
            2 => is_other_form(values.kind, raw)?,
            _ => {}
        }
    }
    Ok(Entry { key, value: value.unwrap_or_else(|| zero(values.kind)) })
}

fn is_of(kind: Kind, raw: Raw<'_>) -> bool {
    matches!(
        (kind.wire(), raw),
        (0, Raw::Varint(_)) | (1, Raw::Fixed64(_)) | (2, Raw::Bytes(_)) | (5, Raw::Fixed32(_))
    )
}

fn zero(kind: Kind) -> Raw<'static> {
    if kind.wire() == 2 { Raw::Bytes(&[]) } else { Raw::Varint(0) }
}

/// A key, to be told from others.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Key<'a> {
    Number(i128),
    Text(&'a [u8]),
}

impl<'a> Key<'a> {
    fn of(kind: Kind, raw: Raw<'a>) -> Self {
        match plain(kind, raw) {
            Scalar::Bytes(text) => Self::Text(text),
            Scalar::Integer(number) => Self::Number(number),
            Scalar::Float(number) => Self::Number(number.to_bits().into()),
        }
    }
}

fn subscript(kind: Kind, key: Raw<'_>) -> Subscript {
    let number = kind.integer(key.bits());
    match kind {
        Kind::String => Subscript::Text(String::from_utf8_lossy(key.bytes()).into_owned()),
        Kind::Bool => Subscript::Bool(number != 0),
        Kind::Uint32 | Kind::Uint64 | Kind::Fixed32 | Kind::Fixed64 => {
            Subscript::Uint(number as u64)
        }
        _ => Subscript::Int(number as i64),
    }
}
