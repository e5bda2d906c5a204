//! What a program is: plain data, made by `generate`, cut down by `shrink`, run by `world`.
//!
//! A program has one or two graphs with one source of [`CELLS`] cells each, memos whose functions are
//! lists of [`Stmt`], tasks that are lists of [`Op`], and hooks: things that happen at the nth call of
//! some user code. Tasks of one phase run interleaved; after a phase everything is quiet and checked.

/// Cells of each graph.
pub(super) const CELLS: usize = 4;

/// See the module documentation.
#[derive(Clone, Debug)]
pub(super) struct Program {
    /// Decides the interleaving.
    pub(super) schedule: u64,
    pub(super) graphs: usize,
    /// Steps of a walk at a time.
    pub(super) chunk: usize,
    pub(super) cyclic: bool,
    pub(super) memos: Vec<MemoSpec>,
    pub(super) phases: Vec<Vec<Vec<Op>>>,
    pub(super) hooks: Vec<Hook>,
    pub(super) ending: Ending,
    /// The thread holds so many handles of its own that no slot is free for another.
    pub(super) crowded: bool,
    /// Cells of the first graph may change without a word; then what is made of them lives so many
    /// milliseconds.
    pub(super) external: Option<u64>,
}

/// One memo and the functions of its keys.
#[derive(Clone, Debug, Default)]
pub(super) struct MemoSpec {
    pub(super) graph: usize,
    pub(super) rules: Vec<Vec<Stmt>>,
    pub(super) strict: bool,
    pub(super) no_cutoff: bool,
    pub(super) fingerprint: bool,
    pub(super) ttl: Option<u64>,
    pub(super) error_ttl: Option<u64>,
    pub(super) weigh: Option<usize>,
    pub(super) budget: Option<usize>,
    /// Hits are computed again beside.
    pub(super) verify: bool,
}

/// A key of a memo.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Node {
    pub(super) memo: usize,
    pub(super) key: usize,
}

/// What of a cell's count a function keeps. A change that it hides is cut off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum View {
    Whole,
    Half,
    Parity,
    Third,
    Nothing,
    /// Not a cell: the mark of a question that was not waited for.
    Unanswered,
    /// Not a cell: the mark of an error that was handled.
    Failed,
}

impl View {
    pub(super) fn of(self, count: u32) -> u32 {
        match self {
            Self::Whole => count,
            Self::Half => count / 2,
            Self::Parity => count % 2,
            Self::Third => count % 3,
            Self::Nothing | Self::Failed | Self::Unanswered => 0,
        }
    }
}

/// One step of a memoized function.
#[derive(Clone, Debug)]
pub(super) enum Stmt {
    /// Loads a cell, and declares that before or afterwards, with a pause between the two or not.
    Read {
        cell: usize,
        view: View,
        declare_late: bool,
        pause: bool,
    },
    /// The same with an interval of cells of one graph.
    Range {
        graph: usize,
        low: usize,
        high: usize,
        view: View,
        declare_late: bool,
    },
    Yield,
    /// Waits for something outside.
    Wait,
    Call {
        node: Node,
        how: Ask,
        tolerate: bool,
        forget: bool,
    },
    Both(Vec<Node>),
    /// A task gives a cell's count and says afterwards that it read it.
    ReadLate {
        cell: usize,
        view: View,
        turns: usize,
    },
    /// Asks, polls so many times, and goes away.
    Glance {
        node: Node,
        polls: usize,
        parting: Parting,
    },
    /// Goes on with the question that another function left, for so many polls, and drops it.
    Inherit {
        polls: usize,
    },
    /// Looks whether a value is there, and goes on without it if not.
    Glimpse {
        node: Node,
    },
    FailIf {
        cell: usize,
        view: View,
        shown: u32,
    },
    PanicIf {
        cell: usize,
        view: View,
        shown: u32,
    },
    Branch {
        cell: usize,
        even: Vec<Self>,
        odd: Vec<Self>,
    },
    /// A scoped task; its answer comes when it ends, or by a channel before it goes on with `after`.
    Scope {
        body: Vec<Self>,
        channel: bool,
        after: Vec<Self>,
        abort: bool,
    },
    /// A task without `scope`, whose answer is not used.
    Spawn {
        body: Vec<Self>,
    },
    /// Announces a change of a cell that did not change.
    Touch {
        cell: usize,
    },
}

/// What becomes of a question that a function does not wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Parting {
    Dropped,
    /// Another task goes on with it.
    Elsewhere,
    DroppedElsewhere,
    /// It was asked by a scoped task, which goes on.
    InTask,
    /// The same, and the task is aborted by somebody else.
    Aborted,
    /// It stays as it is until another function takes it up, or the phase ends.
    Left,
}

/// How a value is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ask {
    Get,
    /// `cached`, then `get` when there is nothing.
    Cached,
    /// `with`, then `get` when there is nothing.
    With,
    /// `peek`, then `get` when there is nothing.
    Peek,
}

/// One step of a task.
#[derive(Clone, Debug)]
pub(super) enum Op {
    Get {
        node: Node,
    },
    /// Asks, polls so many times, stays away for so many turns, and goes.
    Leave {
        node: Node,
        polls: usize,
        turns: usize,
    },
    Together(Vec<Node>),
    /// Asks and keeps the handle until the task ends.
    Hold {
        node: Node,
    },
    Look {
        node: Node,
        how: Ask,
    },
    Change {
        cell: usize,
    },
    ChangeMany {
        cells: Vec<usize>,
    },
    Batch {
        cells: Vec<usize>,
        panics: bool,
    },
    ChangeAsync {
        cell: usize,
        polls: Option<usize>,
    },
    Write {
        cells: Vec<usize>,
        turns: usize,
        end: WriteEnd,
        named: Named,
    },
    ChangeAll {
        cells: Vec<usize>,
    },
    /// A write that changes nothing after all.
    Rollback {
        cells: Vec<usize>,
        turns: usize,
        named: bool,
    },
    /// Notes what a cell holds, and asks after so many turns whether that was announced.
    Since {
        cell: usize,
        turns: usize,
    },
    /// What an operator does to an entry that he finds in a list.
    Steer {
        graph: usize,
        nth: usize,
        evict: bool,
    },
    /// A cell changes, and nobody says so.
    ChangeSilently {
        cell: usize,
    },
    /// Cells change, and nobody says which and when; only for how long.
    Suspend {
        cells: Vec<usize>,
        turns: usize,
    },
    /// Reads a cell in order, and keeps nothing.
    Query {
        cell: usize,
        turns: usize,
    },
    /// Asks whether the newest known version is current.
    Validate {
        node: Node,
    },
    /// Asks, and puts the answer into a set in place of what had the number.
    Enroll {
        node: Node,
        number: u32,
        /// What had the number goes first.
        after: bool,
    },
    Evict {
        node: Node,
    },
    EvictSource {
        cell: usize,
    },
    ForceOut {
        node: Node,
    },
    Invalidate {
        node: Node,
    },
    Budget {
        graph: usize,
        bytes: usize,
    },
    Advance {
        graph: usize,
        millis: u64,
    },
    Watch {
        node: Node,
    },
    Notify {
        node: Node,
    },
    Yield,
    /// Drops the graph.
    Close {
        graph: usize,
    },
    /// A thread that looks at a value and ends.
    Thread {
        node: Node,
    },
}

impl Op {
    /// Whether it asks for values, which within a function makes dependencies.
    pub(super) fn asks(&self) -> bool {
        matches!(
            self,
            Self::Get { .. }
                | Self::Leave { .. }
                | Self::Together(_)
                | Self::Hold { .. }
                | Self::Look { .. }
                | Self::Query { .. }
                | Self::Validate { .. }
                | Self::Since { .. }
                | Self::Enroll { .. }
        )
    }
}

/// When a write guard is told its keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Named {
    First,
    Later,
    Never,
}

/// How a write guard ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WriteEnd {
    Finish,
    Drop,
    /// `finish_async`, polled to its end or dropped after so many polls.
    Async(Option<usize>),
}

/// User code that the room calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub(super) enum Place {
    Hash,
    KeyEq,
    KeyOrd,
    KeyClone,
    KeyDrop,
    ValueEq,
    ValueDrop,
    Weigh,
    Fingerprint,
    Wake,
    Body,
    Send,
    FutureDrop,
    With,
}

pub(super) const PLACES: usize = 14;

/// Something that happens at the nth call of some user code.
#[derive(Clone, Debug)]
pub(super) struct Hook {
    pub(super) place: Place,
    pub(super) nth: u64,
    pub(super) action: Action,
}

#[derive(Clone, Debug)]
pub(super) enum Action {
    Panic,
    /// The operation runs right there.
    Inline(Op),
    /// The operation runs on another thread while this one stands still there.
    Elsewhere(Op),
    /// Other tasks are polled on another thread while this one stands still there.
    Schedule(usize),
}

/// Where the graphs are dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    Here,
    /// In a `thread_local!` that was first touched before the room was first used on that thread.
    ThreadLocalBefore,
    /// In a `thread_local!` that was first touched afterwards.
    ThreadLocalAfter,
}

impl Program {
    pub(super) fn nodes(&self) -> Vec<Node> {
        let memos = self.memos.iter().enumerate();
        memos
            .flat_map(|(memo, spec)| (0..spec.rules.len()).map(move |key| Node { memo, key }))
            .collect()
    }

    pub(super) fn rule(&self, node: Node) -> &[Stmt] {
        &self.memos[node.memo].rules[node.key]
    }

    pub(super) fn graph_of(cell: usize) -> usize {
        cell / CELLS
    }

    pub(super) fn any_stmt(&self, is_it: &dyn Fn(&Stmt) -> bool) -> bool {
        self.rules_with(is_it) > 0
    }

    /// Whether hits are computed again beside.
    pub(super) fn verifies(&self) -> bool {
        self.memos.iter().any(|memo| memo.verify)
    }

    /// How many functions of a key have such a statement.
    pub(super) fn rules_with(&self, is_it: &dyn Fn(&Stmt) -> bool) -> usize {
        self.memos.iter().flat_map(|memo| &memo.rules).filter(|rule| any(rule, is_it)).count()
    }

    pub(super) fn any_op(&self, is_it: impl Fn(&Op) -> bool) -> bool {
        let hooked = self.hooks.iter().filter_map(|hook| match &hook.action {
            Action::Inline(op) | Action::Elsewhere(op) => Some(op),
            Action::Panic | Action::Schedule(_) => None,
        });
        self.phases.iter().flatten().flatten().chain(hooked).any(is_it)
    }

    /// Whether something may be dropped from memory because it is too much.
    pub(super) fn is_tight(&self) -> bool {
        self.memos.iter().any(|memo| memo.budget.is_some())
            || self.any_op(|op| matches!(op, Op::Budget { .. }))
    }
}

/// Whether one of these, or of what is inside of them, is it.
pub(super) fn any(stmts: &[Stmt], is_it: &dyn Fn(&Stmt) -> bool) -> bool {
    stmts.iter().any(|stmt| {
        is_it(stmt)
            || match stmt {
                Stmt::Branch { even, odd, .. } => any(even, is_it) || any(odd, is_it),
                Stmt::Scope { body, after, .. } => any(body, is_it) || any(after, is_it),
                Stmt::Spawn { body } => any(body, is_it),
                _ => false,
            }
    })
}

impl std::fmt::Display for Program {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { graphs, chunk, schedule, ending, cyclic, crowded, external, .. } = self;
        writeln!(
            f,
            "graphs {graphs}, chunk {chunk}, schedule {schedule}, cyclic {cyclic}, crowded {crowded}, external {external:?}, ending {ending:?}"
        )?;
        for (number, memo) in self.memos.iter().enumerate() {
            let is_bare = memo.rules.iter().all(Vec::is_empty);
            if is_bare
                && format!("{memo:?}")
                    == format!(
                        "{:?}",
                        MemoSpec {
                            graph: memo.graph,
                            rules: memo.rules.clone(),
                            ..MemoSpec::default()
                        }
                    )
            {
                continue;
            }
            let MemoSpec {
                graph,
                strict,
                no_cutoff,
                fingerprint,
                ttl,
                error_ttl,
                weigh,
                budget,
                verify,
                ..
            } = memo;
            write!(f, "memo {number} in graph {graph}:")?;
            let flags = [
                (*strict, "strict"),
                (*no_cutoff, "no_cutoff"),
                (*fingerprint, "fingerprint"),
                (*verify, "verify"),
            ];
            for (_, name) in flags.iter().filter(|(on, _)| *on) {
                write!(f, " {name}")?;
            }
            let numbers = [
                (ttl.map(|it| it as usize), "ttl"),
                (error_ttl.map(|it| it as usize), "error_ttl"),
                (*weigh, "weigh"),
                (*budget, "budget"),
            ];
            for (number, name) in numbers {
                number.map_or(Ok(()), |number| write!(f, " {name}={number}"))?;
            }
            writeln!(f)?;
            for (key, rule) in memo.rules.iter().enumerate().filter(|(_, rule)| !rule.is_empty()) {
                writeln!(f, "  key {key}:")?;
                rule.iter().try_for_each(|stmt| writeln!(f, "    {stmt:?}"))?;
            }
        }
        for (number, phase) in self.phases.iter().enumerate() {
            writeln!(f, "phase {number}:")?;
            for (number, task) in phase.iter().enumerate() {
                writeln!(f, "  task {number}:")?;
                task.iter().try_for_each(|op| writeln!(f, "    {op:?}"))?;
            }
        }
        self.hooks.iter().try_for_each(|Hook { place, nth, action }| {
            writeln!(f, "at call {nth} of {place:?}: {action:?}")
        })
    }
}
