//! Which conditional responses a call may hit, found without looking at each.
//!
//! Responses are ranked: higher priority first, then as in the file; the first one that hits is the
//! answer. Where many differ by a literal (`request.name: Bob`), the text at that path is looked up
//! in a table, which leaves those that want this text and those without such a literal. A hundred
//! thousand rules that differ by a literal cost one look-up.

use std::collections::HashMap;

use crate::condition::Condition;
use crate::value::eval_context::EvalContext;
use crate::value::path::Path;

type Table = HashMap<String, Vec<u32>, foldhash::fast::FixedState>;

/// The conditional responses of a method by rank.
#[derive(Debug, Default)]
pub(crate) struct Ranking {
    /// The index of the response of each rank.
    ranked: Vec<u32>,
    /// For each path that is looked up: the ranks that want a text there.
    tables: Vec<(Path, Table)>,
    /// The ranks that no table has.
    rest: Vec<u32>,
}

/// A response with conditions.
pub(crate) struct Conditional<'a> {
    pub(crate) index: usize,
    pub(crate) priority: f64,
    pub(crate) conditions: &'a [Condition],
}

impl Ranking {
    pub(crate) fn new(mut responses: Vec<Conditional<'_>>) -> Self {
        responses.sort_by(|a, b| b.priority.total_cmp(&a.priority).then(a.index.cmp(&b.index)));
        let number = |index: usize| u32::try_from(index).unwrap_or(u32::MAX);
        let ranked = responses.iter().map(|one| number(one.index)).collect();
        // How many different texts are wanted at each path: the more, the fewer are left by one.
        let mut texts: HashMap<&Path, std::collections::HashSet<&str>> = HashMap::new();
        for condition in responses.iter().flat_map(|one| one.conditions) {
            if let Some(literal) = condition.literal() {
                texts.entry(&condition.path).or_default().insert(literal);
            }
        }
        let mut tables: Vec<(Path, Table)> = Vec::new();
        let mut places: HashMap<&Path, usize> = HashMap::new();
        let mut rest = Vec::new();
        for (rank, Conditional { conditions, .. }) in responses.iter().enumerate() {
            let literals = conditions.iter().filter_map(|one| Some((one, one.literal()?)));
            let best =
                literals.max_by_key(|(one, _)| texts.get(&one.path).map_or(0, |all| all.len()));
            let Some((condition, literal)) = best else {
                rest.push(number(rank));
                continue;
            };
            let place = *places.entry(&condition.path).or_insert_with(|| {
                tables.push((condition.path.clone(), Table::default()));
                tables.len() - 1
            });
            tables[place].1.entry(literal.to_owned()).or_default().push(number(rank));
        }
        Self { ranked, tables, rest }
    }

    /// The first response, by rank, of which `hits` says so; it is asked about those that may hit.
    pub(crate) fn first(
        &self,
        eval: &EvalContext<'_>,
        hits: impl Fn(usize) -> bool,
    ) -> Option<usize> {
        let mut lists: Vec<&[u32]> = Vec::with_capacity(self.tables.len() + 1);
        lists.push(&self.rest);
        for (path, table) in &self.tables {
            let view = path.resolve(eval);
            lists.extend(table.get(&*view.text()).map(Vec::as_slice));
            if let Some(other) = view.other_text() {
                lists.extend(table.get(&other).map(Vec::as_slice));
            }
        }
        loop {
            // Few lists: one a path, and each is in the order of ranks.
            let next =
                lists.iter_mut().filter(|list| !list.is_empty()).min_by_key(|list| list[0])?;
            let rank = next[0];
            *next = &next[1..];
            let index = self.ranked.get(rank as usize).map(|index| *index as usize)?;
            if hits(index) {
                return Some(index);
            }
        }
    }

    /// All conditional responses by rank.
    pub(crate) fn all(&self) -> impl Iterator<Item = usize> {
        self.ranked.iter().map(|index| *index as usize)
    }
}
