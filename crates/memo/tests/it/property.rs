//! A random graph, random changes: every answer equals recomputing everything.

use std::sync::{Arc, OnceLock, RwLock};

use tidewire_memo::{Graph, Memo, Source};

use crate::support::now;

const SOURCES: u64 = 6;
const NODES: u64 = 24;
const ROUNDS: u64 = if cfg!(miri) { 3 } else { 150 };
const STEPS: u64 = 60;

/// What node `i` does with what it reads.
#[derive(Clone, Debug)]
struct Rule {
    sources: Vec<u64>,
    interval: Option<(u64, u64)>,
    below: Vec<u64>,
    /// Read only when the first thing that was read is even: dependencies come and go.
    sometimes: Option<u64>,
    /// Keeps this many bits, so that changes are cut off.
    modulus: u64,
}

struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33) % bound
    }
}

fn rules(random: &mut Random) -> Vec<Rule> {
    let rule = |i: u64| {
        let below = if i == 0 { 0 } else { random.below(4) };
        let low = random.below(SOURCES);
        Rule {
            sources: (0..random.below(3)).map(|_| random.below(SOURCES)).collect(),
            interval: (random.below(4) == 0).then(|| (low, low + 1 + random.below(3))),
            below: (0..below).map(|_| random.below(i)).collect(),
            sometimes: (i > 0 && random.below(2) == 0).then(|| random.below(i)),
            modulus: [2, 3, 10, 1 << 40][random.below(4) as usize],
        }
    };
    (0..NODES).map(rule).collect()
}

/// The plain meaning, without any memory.
fn recompute(rules: &[Rule], data: &[u64], i: u64) -> u64 {
    let rule = &rules[i as usize];
    let mut seen: Vec<u64> = rule.sources.iter().map(|&s| data[s as usize]).collect();
    if let Some((low, high)) = rule.interval {
        seen.push((low..high.min(SOURCES)).map(|s| data[s as usize]).sum());
    }
    seen.extend(rule.below.iter().map(|&j| recompute(rules, data, j)));
    if seen.first().is_none_or(|first| first % 2 == 0) {
        seen.extend(rule.sometimes.map(|j| recompute(rules, data, j)));
    }
    combine(&seen, rule)
}

fn combine(seen: &[u64], rule: &Rule) -> u64 {
    seen.iter().fold(1u64, |sum, value| sum.wrapping_mul(31).wrapping_add(*value)) % rule.modulus
}

fn memo(
    graph: &Graph,
    rules: Arc<Vec<Rule>>,
    data: Arc<RwLock<Vec<u64>>>,
    rows: Source<u64>,
) -> Memo<u64, u64> {
    let cell: Arc<OnceLock<Memo<u64, u64>>> = Arc::default();
    let this = cell.clone();
    let memo = Memo::infallible_in(graph, "node", move |i: u64| {
        let (rules, data, this) = (rules.clone(), data.clone(), this.clone());
        async move {
            let rule = &rules[i as usize];
            let memo = *this.get().unwrap();
            let load = |source: u64| data.read().unwrap()[source as usize];
            let mut seen = Vec::new();
            for &source in &rule.sources {
                rows.read(&source);
                seen.push(load(source));
            }
            if let Some((low, high)) = rule.interval {
                rows.range(low..high);
                seen.push((low..high.min(SOURCES)).map(load).sum());
            }
            for &j in &rule.below {
                seen.push(*memo.get(j).await.unwrap());
            }
            if seen.first().is_none_or(|first| first % 2 == 0)
                && let Some(j) = rule.sometimes
            {
                seen.push(*memo.get(j).await.unwrap());
            }
            combine(&seen, rule)
        }
    });
    cell.set(memo).unwrap();
    memo
}

#[test]
fn random_graphs_under_random_changes_answer_as_if_nothing_were_memoized() {
    let seed = 0x5EED_0001;
    println!("seed {seed}");
    let mut random = Random(seed);
    for round in 0..ROUNDS {
        let graph = Graph::new();
        graph.set_walk_chunk(1 + random.below(3) as usize, false);
        let rows = Source::new_in(&graph, "rows");
        let rules = Arc::new(rules(&mut random));
        let data = Arc::new(RwLock::new(vec![0u64; SOURCES as usize]));
        let mut memo = memo(&graph, rules.clone(), data.clone(), rows);
        if random.below(2) == 0 {
            memo = memo.fingerprint(|value| value.wrapping_mul(0x9E37_79B9_7F4A_7C15));
        }
        for step in 0..STEPS {
            match random.below(10) {
                0..3 => {
                    let source = random.below(SOURCES);
                    data.write().unwrap()[source as usize] = random.below(5);
                    rows.changed(&source);
                }
                3 => _ = memo.evict(&random.below(NODES)),
                4 => _ = memo.force_out(&random.below(NODES)),
                5 => _ = rows.evict(&random.below(SOURCES)),
                6 => graph.set_budget([0, 2_000, 1 << 30][random.below(3) as usize]),
                _ => {
                    let i = random.below(NODES);
                    let expected = recompute(&rules, &data.read().unwrap(), i);
                    let answer = *now(memo.get(i)).unwrap();
                    assert_eq!(answer, expected, "round {round}, step {step}, node {i}: {rules:?}");
                }
            }
        }
        for i in 0..NODES {
            let expected = recompute(&rules, &data.read().unwrap(), i);
            assert_eq!(*now(memo.get(i)).unwrap(), expected, "round {round}, node {i}");
        }
    }
}
