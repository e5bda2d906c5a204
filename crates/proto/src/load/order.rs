//! Putting files in order, imports first; a circle of imports ends here.

use std::collections::{BTreeMap, BTreeSet};

use crate::diagnostics::{Diagnostic, Position};
use crate::sources::IMPORT_DEPTH_MAX;
use crate::unit::Unit;

/// Puts the files in order, imports first.
pub(crate) fn in_order(mut units: BTreeMap<String, Unit>) -> Result<Vec<Unit>, Diagnostic> {
    let mut order = Vec::with_capacity(units.len());
    let mut done = BTreeSet::new();
    for root in units.keys() {
        // The files on the way from `root`, each with the import to look at next.
        let mut way = vec![(root.as_str(), 0)];
        while let Some((name, index)) = way.last_mut() {
            let import = units.get(*name).and_then(|unit| unit.descriptor.dependency.get(*index));
            let Some(import) = import.filter(|_| !done.contains(*name)) else {
                if done.insert(*name) {
                    order.push((*name).to_owned());
                }
                way.pop();
                continue;
            };
            *index += 1;
            if let Some(start) = way.iter().position(|(name, _)| name == import) {
                return Err(circle(&units, &way[start..]));
            }
            if way.len() > IMPORT_DEPTH_MAX {
                let message = format!("imports lead more than {IMPORT_DEPTH_MAX} files deep");
                return Err(Diagnostic::new(root.clone(), message).help("import files directly"));
            }
            way.push((import.as_str(), 0));
        }
    }
    Ok(order.iter().filter_map(|name| units.remove(name)).collect())
}

/// Says that the imports on `way` lead back to its start.
fn circle(units: &BTreeMap<String, Unit>, way: &[(&str, usize)]) -> Diagnostic {
    let mut names: Vec<&str> = way.iter().map(|(name, _)| *name).collect();
    let last = way.last().and_then(|(name, next)| Some((units.get(*name)?, next - 1)));
    names.extend(names.first().copied());
    let message = format!("imports run in a circle: {}", names.join(" -> "));
    let help = "move what both need into a third file";
    match last {
        Some((unit, index)) => at_import(unit, index, message).help(help),
        None => Diagnostic::new(names.concat(), message).help(help),
    }
}

/// A diagnostic at the import `index` of `unit`.
pub(crate) fn at_import(unit: &Unit, index: usize, message: String) -> Diagnostic {
    let diagnostic = Diagnostic::new(unit.display.clone(), message);
    let info = unit.descriptor.source_code_info.as_ref();
    let mut places = info.iter().flat_map(|info| &info.location);
    let place =
        places.find(|place| matches!(place.path[..], [3, at] if usize::try_from(at) == Ok(index)));
    diagnostic.at_position(place.and_then(|place| Position::of_span(&place.span)))
}
