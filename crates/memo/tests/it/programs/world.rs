//! Everything one running program has: graphs, cells, tasks, and what was found wrong.
//!
//! One program runs at a time in a process, so the world is a static: user code such as `Hash` has no
//! other way to it. Two threads may be inside of a program, but never at the same time: a hook that acts
//! elsewhere waits for the other thread.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::time::{Duration, Instant};

use tidewire_memo::{EventKind, Graph, Memo, Recording, Source};

use super::hooks;
use super::program::{CELLS, Node, Program};
use super::schedule::{Running, Tasks};
use super::sets::Sets;
use super::user::{Key, Sight, Value};

/// See the module documentation.
pub(super) struct World {
    pub(super) program: Program,
    pub(super) graphs: Mutex<Vec<Option<Graph>>>,
    pub(super) rows: Vec<Source<Key>>,
    pub(super) memos: OnceLock<Vec<Memo<Key, Value>>>,
    pub(super) tasks: Mutex<Tasks>,
    pub(super) epoch: Instant,
    pub(super) sets: Sets,
    /// Questions that functions have left, and whose.
    pub(super) left: Mutex<Vec<(Node, Running)>>,
    /// Hits that were computed again and came out differently.
    pub(super) mismatches: Arc<AtomicU64>,
    state: Mutex<State>,
}

/// What is counted and compared.
#[derive(Default)]
pub(super) struct State {
    /// Writes of each cell so far.
    pub(super) counts: Vec<u32>,
    /// The writes of each cell whose announcement has returned.
    pub(super) floors: Vec<u32>,
    /// The writes of each cell by guards, and the latest of them that any caller was shown.
    pub(super) guarded: Vec<BTreeSet<u32>>,
    pub(super) given: Vec<u32>,
    /// The numbers of the tasks that hold guards, as often as they do.
    pub(super) writers: Vec<u64>,
    /// Times in which changes cannot be told, and nothing is kept, that go on.
    pub(super) suspensions: usize,
    /// Milliseconds that each graph was told.
    pub(super) millis: Vec<u64>,
    /// Polls so far.
    pub(super) step: u64,
    /// When a hook last panicked.
    pub(super) panicked_at: Option<u64>,
    pub(super) closed: Vec<bool>,
    /// Calls of each function.
    pub(super) runs: BTreeMap<Node, u64>,
    pub(super) running: BTreeMap<Node, u64>,
    /// What each version of each node was, and the largest version that a read has ended with.
    pub(super) versions: BTreeMap<(Node, u64), Vec<Sight>>,
    pub(super) newest: BTreeMap<Node, u64>,
    pub(super) eyes: Vec<Eye>,
    pub(super) failures: BTreeSet<Failure>,
}

/// Something that a program shows to be wrong. The kind stays the same while a program is cut down.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Failure {
    pub(super) kind: String,
    pub(super) text: String,
}

/// A watch or a subscription, and what it was last given.
#[derive(Clone, Debug)]
pub(super) struct Eye {
    pub(super) node: Node,
    pub(super) is_watch: bool,
    /// Waits to be told of something newer.
    pub(super) waits: bool,
    /// `None` when nothing is promised about the last answer.
    pub(super) last: Option<Result<Vec<Sight>, Vec<Sight>>>,
}

impl State {
    /// What of each cell nobody who asks from now on may miss.
    pub(super) fn shown(&self) -> Vec<u32> {
        self.floors.iter().zip(&self.given).map(|(floor, given)| *floor.max(given)).collect()
    }
}

impl World {
    /// Makes the graphs of a program.
    pub(super) fn new(program: Program) -> Arc<Self> {
        let graphs: Vec<Graph> = (0..program.graphs).map(|_| Graph::new()).collect();
        for graph in &graphs {
            graph.set_walk_chunk(program.chunk, false);
            if std::env::var_os("MEMO_EVENTS").is_some() {
                graph.record_events(Recording::everything().without(EventKind::Hit));
            }
        }
        let mut rows: Vec<_> = graphs.iter().map(|graph| Source::new_in(graph, "rows")).collect();
        let epoch = Instant::now();
        if let Some(life) = program.external {
            rows[0] = rows[0].external();
            graphs[0].set_external_life(Some(Duration::from_millis(life)));
            // What nobody has told the time lives from when somebody does.
            graphs[0].advance(epoch);
        }
        let mismatches = Arc::new(AtomicU64::new(0));
        for graph in &graphs {
            let mismatches = mismatches.clone();
            graph.on_mismatch(move |_| _ = mismatches.fetch_add(1, SeqCst));
        }
        let cells = program.graphs * CELLS;
        let state = State {
            counts: vec![0; cells],
            floors: vec![0; cells],
            guarded: vec![BTreeSet::new(); cells],
            given: vec![0; cells],
            millis: vec![0; program.graphs],
            closed: vec![false; program.graphs],
            ..State::default()
        };
        let world = Arc::new(Self {
            graphs: Mutex::new(graphs.into_iter().map(Some).collect()),
            rows,
            memos: OnceLock::new(),
            tasks: Mutex::new(Tasks::new(program.schedule)),
            epoch,
            sets: Sets::default(),
            left: Mutex::default(),
            mismatches,
            state: Mutex::new(state),
            program,
        });
        *WORLD.lock().expect("never poisoned") = Some(world.clone());
        let memos = (0..world.program.memos.len()).map(|memo| super::functions::memo(&world, memo));
        let _ = world.memos.set(memos.collect());
        hooks::set(&world.program.hooks);
        world
    }

    /// The world of the program that runs.
    pub(super) fn current() -> Option<Arc<Self>> {
        WORLD.lock().expect("never poisoned").clone()
    }

    /// From here on, user code does nothing of its own.
    pub(super) fn end() {
        hooks::set(&[]);
        let old = WORLD.lock().expect("never poisoned").take();
        drop(old);
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    pub(super) fn memo(&self, node: Node) -> Memo<Key, Value> {
        self.memos.get().expect("set in `new`")[node.memo]
    }

    pub(super) fn row(&self, cell: usize) -> Source<Key> {
        self.rows[Program::graph_of(cell)]
    }

    pub(super) fn graph(&self, graph: usize) -> Option<Graph> {
        self.graphs.lock().expect("never poisoned")[graph].clone()
    }

    pub(super) fn count(&self, cell: usize) -> u32 {
        self.state().counts[cell]
    }

    pub(super) fn fail(&self, kind: &str, text: String) {
        self.state().failures.insert(Failure { kind: kind.to_owned(), text });
    }

    /// Time passes in a graph.
    pub(super) fn advance(&self, graph: usize, millis: u64) {
        let now = {
            let mut state = self.state();
            state.millis[graph] += millis;
            self.epoch + Duration::from_millis(state.millis[graph])
        };
        self.graph(graph).into_iter().for_each(|graph| _ = graph.advance(now));
    }

    /// Says that the program is alive, for the watchdog, and numbers what happens.
    pub(super) fn tick(&self) -> u64 {
        HEARTBEAT.fetch_add(1, SeqCst);
        let mut state = self.state();
        state.step += 1;
        state.step
    }
}

/// The key of a cell within its graph's source.
pub(super) fn cell_key(cell: usize) -> Key {
    Key::new(cell % CELLS)
}

/// Raised by everything that a program does.
pub(super) static HEARTBEAT: AtomicU64 = AtomicU64::new(0);

static WORLD: Mutex<Option<Arc<World>>> = Mutex::new(None);
