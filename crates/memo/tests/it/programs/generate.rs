//! Programs from seeds.
//!
//! Every program draws which features it may use, so that most programs are about few things at once.
//! `MEMO_WITHOUT=Strict,Close` takes features away from all of them.

use super::program::{
    Action, Ask, CELLS, Ending, Hook, MemoSpec, Named, Node, Op, Parting, Place, Program, Stmt,
    View, WriteEnd, any,
};
use super::random::Random;

/// What a program may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Feature {
    TwoGraphs,
    Foreign,
    Cyclic,
    Scopes,
    Channels,
    NestedScopes,
    Spawns,
    LateReads,
    Ranges,
    Errors,
    KeptErrors,
    Panics,
    Touches,
    Strict,
    Fingerprints,
    NoCutoff,
    Ttl,
    WeighOverflow,
    Budgets,
    MemoBudgets,
    Evictions,
    SourceEvictions,
    ForceOuts,
    Invalidations,
    Watches,
    Notifies,
    Leaves,
    AsyncChanges,
    AsyncDrops,
    Batches,
    BatchPanics,
    Holds,
    Close,
    Threads,
    KeyPanics,
    ValuePanics,
    DropPanics,
    WeighPanics,
    WakePanics,
    Inline,
    Elsewhere,
    Schedules,
    ThreadLocals,
    External,
    Verify,
    Sets,
    Queries,
    Suspensions,
    Heirs,
    Rollbacks,
    Glimpses,
    Peeks,
    Since,
    Steering,
}

use Feature as F;

const ALL: &[Feature] = &[
    F::TwoGraphs,
    F::Foreign,
    F::Cyclic,
    F::Scopes,
    F::Channels,
    F::NestedScopes,
    F::Spawns,
    F::LateReads,
    F::Ranges,
    F::Errors,
    F::KeptErrors,
    F::Panics,
    F::Touches,
    F::Strict,
    F::Fingerprints,
    F::NoCutoff,
    F::Ttl,
    F::WeighOverflow,
    F::Budgets,
    F::MemoBudgets,
    F::Evictions,
    F::SourceEvictions,
    F::ForceOuts,
    F::Invalidations,
    F::Watches,
    F::Notifies,
    F::Leaves,
    F::AsyncChanges,
    F::AsyncDrops,
    F::Batches,
    F::BatchPanics,
    F::Holds,
    F::Close,
    F::Threads,
    F::KeyPanics,
    F::ValuePanics,
    F::DropPanics,
    F::WeighPanics,
    F::WakePanics,
    F::Inline,
    F::Elsewhere,
    F::Schedules,
    F::ThreadLocals,
    F::External,
    F::Verify,
    F::Sets,
    F::Queries,
    F::Suspensions,
    F::Heirs,
];

/// Those that are put into a program when the rest of it is there, so that a seed gives what it gave before
/// there were any of them.
const ADDED: &[Feature] = &[F::Rollbacks, F::Glimpses, F::Peeks, F::Since, F::Steering];

/// The features that `MEMO_WITHOUT` names.
pub(super) fn without() -> Vec<Feature> {
    let names = std::env::var("MEMO_WITHOUT").unwrap_or_default();
    let named = |name: &str| {
        let found = ALL.iter().chain(ADDED).find(|feature| format!("{feature:?}") == name);
        *found.unwrap_or_else(|| {
            panic!("MEMO_WITHOUT: no feature is called {name}; there are {ALL:?} {ADDED:?}")
        })
    };
    names.split(',').filter(|name| !name.is_empty()).map(named).collect()
}

/// The program of a seed.
pub(super) fn program(seed: u64, without: &[Feature]) -> Program {
    let mut random = Random::new(seed);
    let mut features = Vec::new();
    for &feature in ALL {
        let rare = matches!(
            feature,
            F::External
                | F::Verify
                | F::Close
                | F::Cyclic
                | F::Foreign
                | F::Touches
                | F::Threads
                | F::ThreadLocals
        );
        let drawn = random.one_in(if rare { 8 } else { 3 });
        if drawn && !without.contains(&feature) {
            features.push(feature);
        }
    }
    let program = Generator { random, features, memos: Vec::new(), graphs: 1 }.program();
    let mut random = Random::new(!seed);
    let drawn = ADDED.iter().filter(|feature| random.one_in(4) && !without.contains(feature));
    let features: Vec<_> = drawn.copied().collect();
    Generator { random, features, memos: program.memos.clone(), graphs: program.graphs }
        .add_to(program)
}

struct Generator {
    random: Random,
    features: Vec<Feature>,
    memos: Vec<MemoSpec>,
    graphs: usize,
}

impl Generator {
    fn has(&self, feature: Feature) -> bool {
        self.features.contains(&feature)
    }

    /// Has the feature, and uses it this time.
    fn takes(&mut self, feature: Feature, one_in: usize) -> bool {
        self.has(feature) && self.random.one_in(one_in)
    }

    fn program(mut self) -> Program {
        self.graphs = if self.has(F::TwoGraphs) { 2 } else { 1 };
        for number in 0..2 + self.random.below(3) {
            let spec = self.memo(number);
            self.memos.push(spec);
        }
        let external = self.has(F::External).then(|| 1 + self.random.below(20) as u64);
        let phases = (0..1 + self.random.below(4)).map(|_| self.phase()).collect();
        let hooks = self.hooks();
        let ending = match self.takes(F::ThreadLocals, 2) {
            true => self.random.pick(&[Ending::ThreadLocalBefore, Ending::ThreadLocalAfter]),
            false => Ending::Here,
        };
        Program {
            schedule: self.random.next(),
            graphs: self.graphs,
            chunk: self.random.pick(&[1, 1, 2, 512]),
            cyclic: self.has(F::Cyclic),
            memos: self.memos,
            phases,
            hooks,
            ending,
            crowded: self.random.one_in(4),
            external,
        }
    }

    /// Puts what was drawn into a program.
    fn add_to(mut self, mut program: Program) -> Program {
        // Keys are compared under the lock of changes.
        if !program.hooks.is_empty() {
            self.features.retain(|feature| *feature != F::Since);
        }
        for feature in self.features.clone() {
            for _ in 0..1 + self.random.below(3) {
                match feature {
                    F::Glimpses | F::Peeks => self.add_stmt(feature, &mut program),
                    _ => {
                        let op = self.added_op(feature);
                        let phase = self.random.below(program.phases.len());
                        let task = self.random.below(program.phases[phase].len());
                        let ops = &mut program.phases[phase][task];
                        ops.insert(self.random.below(ops.len() + 1), op);
                    }
                }
            }
        }
        program
    }

    fn add_stmt(&mut self, feature: Feature, program: &mut Program) {
        let node = self.node();
        // Those before it, as in all that a function calls; of others it may not be said whether they were found.
        let is_free = |below: &Node| {
            let asks = |stmt: &Stmt| match stmt {
                Stmt::Call { node, .. } | Stmt::Glance { node, .. } | Stmt::Glimpse { node } => {
                    node == below
                }
                Stmt::Both(nodes) => nodes.contains(below),
                _ => false,
            };
            *below < node
                && program.memos[below.memo].graph == program.memos[node.memo].graph
                && !any(program.rule(node), &asks)
        };
        let below: Vec<_> = program.nodes().into_iter().filter(is_free).collect();
        if below.is_empty() {
            return;
        }
        let below = self.random.pick(&below);
        let stmt = match feature {
            F::Glimpses => Stmt::Glimpse { node: below },
            _ => Stmt::Call { node: below, how: Ask::Peek, tolerate: true, forget: false },
        };
        let stmts = &mut program.memos[node.memo].rules[node.key];
        let scope = stmts.iter().position(|stmt| matches!(stmt, Stmt::Scope { .. }));
        let stmts = match scope.filter(|_| self.random.one_in(2)).map(|at| &mut stmts[at]) {
            Some(Stmt::Scope { body, .. }) => body,
            _ => &mut program.memos[node.memo].rules[node.key],
        };
        let at = self.random.below(stmts.len() + 1);
        stmts.insert(at, stmt);
    }

    fn added_op(&mut self, feature: Feature) -> Op {
        let turns = self.random.below(5);
        match feature {
            F::Rollbacks => {
                Op::Rollback { cells: self.cells(true), turns, named: !self.random.one_in(4) }
            }
            F::Since => Op::Since { cell: self.any_cell(), turns },
            _ => Op::Steer {
                graph: self.random.below(self.graphs),
                nth: self.random.below(12),
                evict: self.random.one_in(2),
            },
        }
    }

    fn memo(&mut self, number: usize) -> MemoSpec {
        let graph = self.random.below(self.graphs);
        self.memos.push(MemoSpec { graph, ..MemoSpec::default() });
        let mut rules = Vec::new();
        for key in 0..1 + self.random.below(3) {
            let rule = self.stmts(Node { memo: number, key }, 4, 2);
            rules.push(rule);
            self.memos[number].rules = rules.clone();
        }
        self.memos.pop();
        MemoSpec {
            graph,
            rules,
            strict: self.takes(F::Strict, 2),
            no_cutoff: self.takes(F::NoCutoff, 3),
            fingerprint: self.takes(F::Fingerprints, 2),
            ttl: self.takes(F::Ttl, 2).then(|| 1 + self.random.below(20) as u64),
            error_ttl: self.takes(F::KeptErrors, 2).then(|| 1 + self.random.below(20) as u64),
            weigh: match self.random.below(6) {
                0 => Some(self.random.below(1000)),
                1 if self.has(F::WeighOverflow) => Some(usize::MAX - self.random.below(200)),
                2 if self.has(F::WeighOverflow) => Some(u32::MAX as usize - self.random.below(200)),
                _ => None,
            },
            budget: self.takes(F::MemoBudgets, 2).then(|| self.random.below(3000)),
            verify: self.takes(F::Verify, 2),
        }
    }

    fn stmts(&mut self, node: Node, most: usize, depth: usize) -> Vec<Stmt> {
        (0..1 + self.random.below(most)).map(|_| self.stmt(node, depth)).collect()
    }

    fn stmt(&mut self, node: Node, depth: usize) -> Stmt {
        let views =
            [View::Whole, View::Whole, View::Half, View::Parity, View::Third, View::Nothing];
        let (view, cell) = (self.random.pick(&views), self.cell(node));
        let shown = self.random.below(2) as u32;
        let judged = self.random.pick(&[View::Parity, View::Third]);
        match self.random.below(20) {
            0 => Stmt::Yield,
            1 => Stmt::Wait,
            2 if self.has(F::Ranges) => {
                let graph = Program::graph_of(cell);
                let (low, high) = (self.random.below(CELLS), 1 + self.random.below(CELLS));
                Stmt::Range {
                    graph,
                    low: low.min(high - 1),
                    high,
                    view,
                    declare_late: self.random.one_in(3),
                }
            }
            3 | 4 if self.has(F::Errors) => Stmt::FailIf { cell, view: judged, shown },
            5 if self.takes(F::Panics, 2) => Stmt::PanicIf { cell, view: judged, shown },
            6 | 7 if depth > 0 => Stmt::Branch {
                cell,
                even: self.stmts(node, 2, depth - 1),
                odd: self.stmts(node, 2, depth - 1),
            },
            8 | 9 if depth > 0 && self.has(F::Scopes) => {
                let inner = if self.has(F::NestedScopes) { depth - 1 } else { 0 };
                let channel = self.takes(F::Channels, 2);
                let after = if channel && self.random.one_in(2) {
                    self.stmts(node, 2, 0)
                } else {
                    Vec::new()
                };
                Stmt::Scope {
                    body: self.stmts(node, 3, inner),
                    channel,
                    after,
                    abort: self.random.one_in(2),
                }
            }
            // A cycle through a task without `scope` hangs, as documented.
            10 if depth > 0 && self.has(F::Spawns) && !self.has(F::Cyclic) => {
                Stmt::Spawn { body: self.stmts(node, 2, 0) }
            }
            10 | 19 if self.late_reads() => {
                Stmt::ReadLate { cell, view, turns: 1 + self.random.below(30) }
            }
            11 if self.takes(F::Heirs, 2) => Stmt::Inherit { polls: self.random.below(3) },
            11 if self.has(F::Touches) => Stmt::Touch { cell },
            12..17 => self.call(node).unwrap_or(Stmt::Yield),
            _ => Stmt::Read {
                cell,
                view,
                declare_late: self.random.one_in(3),
                pause: self.random.one_in(2),
            },
        }
    }

    /// A task that panics before it says what it read never says it.
    fn late_reads(&self) -> bool {
        self.has(F::LateReads) && !self.has(F::WakePanics) && !self.has(F::KeyPanics)
    }

    fn call(&mut self, node: Node) -> Option<Stmt> {
        let below = self.below(node)?;
        Some(match self.random.below(8) {
            0 => {
                Stmt::Both((0..2 + self.random.below(2)).filter_map(|_| self.below(node)).collect())
            }
            1 if self.has(F::Leaves) => {
                let partings = [
                    Parting::Dropped,
                    Parting::Elsewhere,
                    Parting::DroppedElsewhere,
                    Parting::InTask,
                    Parting::Aborted,
                    Parting::Left,
                ];
                let parting = self.random.pick(&partings);
                Stmt::Glance { node: below, polls: 1 + self.random.below(3), parting }
            }
            _ => Stmt::Call {
                node: below,
                how: self.random.pick(&[Ask::Get, Ask::Get, Ask::Cached, Ask::With]),
                tolerate: self.random.one_in(2),
                forget: self.random.one_in(6),
            },
        })
    }

    /// A node that this one may call.
    fn below(&mut self, node: Node) -> Option<Node> {
        let graph = self.memos[node.memo].graph;
        let foreign = self.has(F::Foreign);
        let mut found = Vec::new();
        for (memo, spec) in self.memos.iter().enumerate() {
            if spec.graph == graph || foreign {
                found.extend((0..spec.rules.len()).map(|key| Node { memo, key }));
            }
        }
        if self.has(F::Cyclic) && self.random.one_in(3) {
            return Some(node);
        }
        (!found.is_empty()).then(|| self.random.pick(&found))
    }

    fn cell(&mut self, node: Node) -> usize {
        let own = self.memos[node.memo].graph;
        let other = self.takes(F::Foreign, 4);
        let graph = if other { self.random.below(self.graphs) } else { own };
        graph * CELLS + self.random.below(CELLS)
    }

    fn phase(&mut self) -> Vec<Vec<Op>> {
        (0..1 + self.random.below(4))
            .map(|_| (0..1 + self.random.below(6)).map(|_| self.op()).collect())
            .collect()
    }

    fn node(&mut self) -> Node {
        let memo = self.random.below(self.memos.len());
        Node { memo, key: self.random.below(self.memos[memo].rules.len()) }
    }

    fn any_cell(&mut self) -> usize {
        self.random.below(self.graphs * CELLS)
    }

    fn cells(&mut self, same_graph: bool) -> Vec<usize> {
        let first = self.any_cell();
        let more = self.random.below(3);
        let mut cells = vec![first];
        for _ in 0..more {
            let cell = self.any_cell();
            cells.push(if same_graph {
                Program::graph_of(first) * CELLS + cell % CELLS
            } else {
                cell
            });
        }
        cells
    }

    fn op(&mut self) -> Op {
        let (node, cell, graph) = (self.node(), self.any_cell(), self.random.below(self.graphs));
        let few = 1 + self.random.below(4);
        match self.random.below(50) {
            0..3 if self.has(F::Leaves) => {
                Op::Leave { node, polls: few, turns: self.random.below(4) }
            }
            3 => Op::Together((0..few).map(|_| self.node()).collect()),
            4 if self.has(F::Holds) => Op::Hold { node },
            5 | 6 => Op::Look { node, how: self.random.pick(&[Ask::Cached, Ask::With]) },
            7 => Op::ChangeMany { cells: self.cells(true) },
            8 | 9 if self.has(F::Batches) => {
                Op::Batch { cells: self.cells(false), panics: self.takes(F::BatchPanics, 2) }
            }
            10..13 if self.has(F::AsyncChanges) => Op::ChangeAsync {
                cell,
                polls: self.takes(F::AsyncDrops, 2).then(|| self.random.below(4)),
            },
            13..16 => {
                let mut ends = vec![WriteEnd::Finish, WriteEnd::Drop];
                if self.has(F::AsyncChanges) {
                    ends.push(WriteEnd::Async(
                        self.takes(F::AsyncDrops, 2).then(|| self.random.below(4)),
                    ));
                }
                let end = self.random.pick(&ends);
                let named = self.random.pick(&[
                    Named::First,
                    Named::First,
                    Named::First,
                    Named::Later,
                    Named::Never,
                ]);
                Op::Write { cells: self.cells(true), turns: self.random.below(3), end, named }
            }
            16..19 if self.has(F::Evictions) => Op::Evict { node },
            19 if self.has(F::SourceEvictions) => Op::EvictSource { cell },
            20 if self.has(F::ForceOuts) => Op::ForceOut { node },
            21 if self.has(F::Invalidations) => Op::Invalidate { node },
            22 if self.has(F::Budgets) => {
                Op::Budget { graph, bytes: self.random.pick(&[0, 500, 2000, 1 << 28]) }
            }
            23 if self.has(F::Ttl) => Op::Advance { graph, millis: self.random.below(20) as u64 },
            24 | 25 if self.has(F::Watches) => Op::Watch { node },
            26 | 27 if self.has(F::Notifies) => Op::Notify { node },
            28 => Op::Yield,
            29 if self.takes(F::Close, 4) => Op::Close { graph },
            30 if self.has(F::Threads) => Op::Thread { node },
            31..36 => Op::Change { cell },
            36 => Op::ChangeAll { cells: self.cells(true) },
            37..41 if self.has(F::External) => Op::ChangeSilently { cell: cell % CELLS },
            41..43 if self.has(F::Sets) => Op::Enroll {
                node,
                number: self.random.below(3) as u32,
                after: self.random.one_in(2),
            },
            43 | 44 if self.has(F::Queries) => Op::Query { cell, turns: self.random.below(4) },
            45 if self.has(F::Suspensions) => {
                Op::Suspend { cells: self.cells(true), turns: self.random.below(4) }
            }
            46 => Op::Validate { node },
            _ => Op::Get { node },
        }
    }

    fn hooks(&mut self) -> Vec<Hook> {
        let mut hooks = Vec::new();
        let panics: &[(Feature, &[Place])] = &[
            (
                F::KeyPanics,
                &[Place::Hash, Place::KeyEq, Place::KeyOrd, Place::KeyClone, Place::KeyDrop],
            ),
            (F::ValuePanics, &[Place::ValueEq, Place::With]),
            (F::DropPanics, &[Place::ValueDrop, Place::FutureDrop]),
            (F::WeighPanics, &[Place::Weigh, Place::Fingerprint]),
            (F::WakePanics, &[Place::Wake]),
        ];
        for (feature, places) in panics {
            if self.has(*feature) {
                for _ in 0..1 + self.random.below(2) {
                    let place = self.random.pick(places);
                    hooks.push(Hook { place, nth: self.nth(place), action: Action::Panic });
                }
            }
        }
        let places = [
            Place::Hash,
            Place::KeyEq,
            Place::KeyClone,
            Place::KeyDrop,
            Place::ValueEq,
            Place::ValueDrop,
            Place::Weigh,
            Place::Fingerprint,
            Place::Wake,
            Place::Wake,
            Place::Body,
            Place::Send,
            Place::Send,
            Place::FutureDrop,
            Place::With,
        ];
        for feature in [F::Inline, F::Elsewhere, F::Schedules] {
            if !self.has(feature) {
                continue;
            }
            for _ in 0..1 + self.random.below(4) {
                let place = self.random.pick(&places);
                // Intervals are compared, cloned and dropped under a lock of their source.
                let is_key = matches!(place, Place::KeyEq | Place::KeyClone | Place::KeyDrop);
                if is_key && self.has(F::Ranges) {
                    continue;
                }
                let action = match feature {
                    F::Inline => Action::Inline(self.telling_op()),
                    F::Elsewhere => Action::Elsewhere(self.op()),
                    _ => Action::Schedule(1 + self.random.below(6)),
                };
                hooks.push(Hook { place, nth: self.nth(place), action });
            }
        }
        hooks
    }

    /// An operation that asks for nothing.
    fn telling_op(&mut self) -> Op {
        loop {
            let op = self.op();
            if !op.asks() {
                return op;
            }
        }
    }

    fn nth(&mut self, place: Place) -> u64 {
        let often = matches!(
            place,
            Place::Hash | Place::KeyEq | Place::KeyClone | Place::KeyDrop | Place::Body
        );
        self.random.below(if often { 60 } else { 10 }) as u64
    }
}
