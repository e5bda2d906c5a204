//! One program from its beginning to its end, on a thread of its own.

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;

use tidewire_memo::{CachedValue, Graph, Memo};

use super::hooks;
use super::program::{CELLS, Ending, Program};
use super::user::{DOUBLE_DROPS, VALUES};
use super::world::{Failure, World};
use super::{actions, checks, schedule};

/// Runs a program and says what is wrong.
pub(super) fn run(program: &Program) -> Vec<Failure> {
    let (before, program) = (DOUBLE_DROPS.load(SeqCst), program.clone());
    let may_be_endless =
        checks::verifies_for_ever(&program) || checks::changes_what_is_read_late(&program);
    let failures = std::thread::spawn(move || {
        if program.ending == Ending::ThreadLocalBefore {
            LAST.with(|_| ());
        }
        let ending = program.ending;
        let crowd = program.crowded.then(crowd);
        let world = World::new(program);
        let driven = catch_unwind(AssertUnwindSafe(|| drive(&world)));
        if let Err(payload) = driven {
            world.fail("unplanned panic", hooks::payload_text(&*payload));
        }
        let events = events(&world);
        World::end();
        drop(crowd);
        let graphs: Vec<_> = world.graphs.lock().expect("never poisoned").drain(..).collect();
        if ending != Ending::Here {
            LAST.with(|last| last.borrow_mut().extend(graphs.into_iter().flatten()));
        }
        let failures = world.state().failures.clone().into_iter();
        failures.map(|Failure { kind, text }| Failure { kind, text: text + &events }).collect()
    })
    .join();
    World::end();
    hooks::pause(false);
    let mut failures: Vec<Failure> = failures.unwrap_or_else(|payload| {
        let text = hooks::payload_text(&*payload);
        vec![Failure { kind: "unplanned panic".to_owned(), text }]
    });
    if may_be_endless && failures.iter().any(|failure| failure.kind == NEVER_QUIET) {
        failures.clear();
    }
    if DOUBLE_DROPS.load(SeqCst) != before {
        failures.push(Failure { kind: "double drop".to_owned(), text: String::new() });
    }
    failures
}

/// As many handles as this thread has slots for, and their graph.
fn crowd() -> (Graph, Vec<CachedValue<u64>>) {
    let graph = Graph::new();
    let memo = Memo::infallible_in(&graph, "crowd", |key: u64| async move { key });
    let made =
        |key| futures::executor::block_on(memo.get(key)).ok().and_then(|_| memo.cached(&key));
    let handles = (0..MORE_THAN_SLOTS).filter_map(made).collect();
    (graph, handles)
}

fn drive(world: &Arc<World>) {
    for (number, phase) in world.program.phases.iter().enumerate() {
        schedule::begin_phase(world);
        for (at, ops) in phase.iter().enumerate() {
            let task = Box::pin(actions::task(world.clone(), ops.clone()));
            schedule::spawn(world, format!("task {at} of phase {number}"), false, task);
        }
        until_quiet(world, number);
        checks::nobody_waits(world, number);
        hooks::pause(true);
        settle(world, number);
        checks::nobody_waits(world, number);
        if world.state().failures.is_empty() {
            let mismatches = world.mismatches.load(SeqCst);
            checks::quiet(world, number);
            end_all(world, number);
            if world.mismatches.load(SeqCst) != mismatches && checks::is_certain(&world.program) {
                world.fail("another result when quiet", format!("phase {number}"));
            }
        }
        if !world.state().failures.is_empty() {
            break;
        }
        hooks::pause(false);
    }
    hooks::pause(true);
    schedule::abort_all(world);
    super::sets::clear(world);
    if world.state().failures.is_empty() {
        checks::emptied(world);
    }
}

/// What functions left is given up. `false` when there was nothing.
fn give_up_left(world: &Arc<World>, phase: usize) -> bool {
    let left = std::mem::take(&mut *world.left.lock().expect("never poisoned"));
    if left.is_empty() {
        return false;
    }
    drop(left);
    until_quiet(world, phase);
    true
}

/// Nothing is left, and what changed without a word becomes known by time.
fn settle(world: &Arc<World>, phase: usize) {
    if let Some(life) = world.program.external {
        // A life begins when a run has ended, so the runs that only time goes on with end before (seed 8600166689).
        verify(world, phase);
        world.advance(0, life);
        {
            let mut state = world.state();
            let state = &mut *state;
            state.floors[..CELLS].copy_from_slice(&state.counts[..CELLS]);
        }
        super::sets::announced(world);
        until_quiet(world, phase);
    }
    end_all(world, phase);
}

/// What is verified comes to its end, and what it left is given up, until neither is there.
///
/// A run beside a hit leaves questions as any other run does, also when it is the last thing that happens.
/// A question that lies there keeps its computation, and the sources that this has read, as it should: whoever
/// has it may go on (seed 6849).
fn end_all(world: &Arc<World>, phase: usize) {
    for _ in 0..ENDS_MAX {
        verify(world, phase);
        if !give_up_left(world, phase) || !world.state().failures.is_empty() {
            return;
        }
    }
    if !checks::verifies_for_ever(&world.program) {
        world.fail("something is left each time", format!("phase {phase}"));
    }
}

/// What is verified goes on with time, to its end.
fn verify(world: &Arc<World>, phase: usize) {
    for _ in 0..if world.program.verifies() { VERIFIED } else { 0 } {
        (0..world.program.graphs).for_each(|graph| world.advance(graph, 0));
        until_quiet(world, phase);
        if !world.state().failures.is_empty() {
            return;
        }
    }
}

/// Polls until there is nothing to do.
pub(super) fn until_quiet(world: &Arc<World>, phase: usize) {
    for _ in 0..POLLS_MAX {
        if !schedule::step(world) {
            return;
        }
    }
    world.fail(NEVER_QUIET, format!("phase {phase}"));
}

/// What the graphs did last, when `MEMO_EVENTS` is set.
fn events(world: &World) -> String {
    let mut text = String::new();
    for graph in world.graphs.lock().expect("never poisoned").iter().flatten() {
        for event in graph.take_events().iter().rev().take(EVENTS_SHOWN).rev() {
            text += &format!("\n{:>6} {} {} {:?}", event.tick, event.memo, event.key, event.kind);
            text += &event.cause.map(|cause| format!(" {cause:?}")).unwrap_or_default();
        }
    }
    text
}

/// Frees what waits to be freed, and says how many values are alive.
pub(super) fn values_left() -> i64 {
    let graph = Graph::new();
    let memo = Memo::infallible_in(&graph, "flush", |key: u64| async move { key });
    for round in 0..6 {
        for key in 0..600 {
            let key = round * 600 + key;
            let _ = futures::executor::block_on(memo.get(key));
            memo.evict(&key);
        }
        if round > 2 && VALUES.load(SeqCst) == 0 {
            break;
        }
    }
    VALUES.load(SeqCst)
}

thread_local! {
    static LAST: RefCell<Vec<Graph>> = const { RefCell::new(Vec::new()) };
}

const NEVER_QUIET: &str = "never quiet";
/// Slots of a thread that name values in use are fewer.
const MORE_THAN_SLOTS: u64 = 40;
/// How often something is given up that runs have left, which may let others run.
const ENDS_MAX: usize = 100;
/// Polls of what is verified, more than any function needs.
const VERIFIED: usize = 40;
const EVENTS_SHOWN: usize = 100;
/// A program this small is quiet long before, also where two strict memos run 17 times for each other (seed
/// 7500061654).
const POLLS_MAX: usize = 100_000;
