//! Resolving the names of every file.
//!
//! The linker knows proto2 and proto3. A file of an edition is shown to it as proto2 (the more
//! permissive of the two), so that other files may import it. What is handed on says that it is of
//! an edition; one that came out of a descriptor set is linked already and handed on as it came.

pub(crate) mod linker_workarounds;
mod option_places;

use std::collections::{BTreeMap, BTreeSet};

use prost_reflect::{DescriptorError, DescriptorPool};

use self::linker_workarounds::Workarounds;
use crate::descriptors::{Descriptors, File};
use crate::diagnostics::Diagnostics;
use crate::explain;
use crate::rules;
use crate::suggest::Names;
use crate::text::numbers;
use crate::unit::Unit;

/// Links `units`, which are in order: imports first.
pub(crate) fn link(units: Vec<Unit>) -> Result<Descriptors, Diagnostics> {
    let mut pool = DescriptorPool::new();
    let mut failed = BTreeSet::new();
    let mut diagnostics = Vec::new();
    let mut names = None;
    let mut applied = BTreeMap::new();
    for unit in &units {
        // What imports a file with errors would only repeat them.
        if unit.descriptor.dependency.iter().any(|import| failed.contains(import)) {
            failed.insert(unit.name.clone());
            continue;
        }
        match add(&mut pool, unit) {
            Ok(workarounds) => {
                applied.insert(unit.name.clone(), workarounds);
            }
            Err(error) => {
                failed.insert(unit.name.clone());
                let names = names.get_or_insert_with(|| Names::of(&units));
                let found = explain::link_error(error, &unit.display, unit.text.as_deref());
                let found = found.into_iter().map(|mut diagnostic| {
                    diagnostic.message = numbers::name_of(&diagnostic.message, &unit.numbers);
                    names.improve(diagnostic, unit)
                });
                diagnostics.extend(found);
            }
        }
    }
    if diagnostics.is_empty() {
        diagnostics = rules::check(&units, &pool);
    }
    if let Some(diagnostics) = Diagnostics::from_list(diagnostics) {
        return Err(diagnostics);
    }
    let files = units.into_iter().map(|unit| {
        let linked = || {
            let encoded = pool.get_file_by_name(&unit.name)?.encode_to_vec();
            let encoded = match applied.get(&unit.name) {
                Some(workarounds) => workarounds.restore(encoded),
                None => encoded,
            };
            let encoded = numbers::restore(encoded, &unit.numbers);
            Some(option_places::after_statements(encoded))
        };
        let encoded = unit.encoded.or_else(linked).unwrap_or_default();
        File { name: unit.name, path: unit.path, requested: unit.requested, encoded }
    });
    Ok(Descriptors { files: files.collect() })
}

fn add(pool: &mut DescriptorPool, unit: &Unit) -> Result<Workarounds, DescriptorError> {
    let Some(encoded) = &unit.encoded else {
        return linker_workarounds::add(pool, &unit.descriptor);
    };
    if unit.descriptor.syntax() == "editions" {
        let mut shown = unit.descriptor.clone();
        shown.syntax = None;
        pool.add_file_descriptor_proto(shown)?;
    } else {
        pool.decode_file_descriptor_proto(encoded.as_slice())?;
    }
    Ok(Workarounds::default())
}
