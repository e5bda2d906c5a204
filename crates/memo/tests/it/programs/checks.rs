//! What must hold: at every read, at every quiet point, and at the end.

use std::sync::Arc;
use std::time::Duration;

use tidewire_memo::{Ambient, CachedValue, Error, ErrorKind};

use super::actions::ask;
use super::hooks::planned_step;
use super::program::{Action, Ask, Hook, Node, Op, Place, Program, Stmt, View, any};
use super::reference::{Answer, evaluate};
use super::schedule;
use super::user::{Fault, Key, Sight, Value};
use super::world::{State, World};

/// What was known when a read began.
#[derive(Clone, Debug)]
pub(super) struct Start {
    floors: Vec<u32>,
    step: u64,
    newest: u64,
}

impl Start {
    pub(super) fn now(world: &World, node: Node) -> Self {
        let state = world.state();
        let newest = state.newest.get(&node).copied().unwrap_or(0);
        Self { floors: state.shown(), step: state.step, newest }
    }

    /// For what may have been read before something that was read since.
    pub(super) fn of_any_version(self) -> Self {
        Self { newest: 0, ..self }
    }
}

/// A read is never older than the changes that returned before it began.
pub(super) fn read(
    world: &World,
    node: Node,
    start: &Start,
    answer: &Result<CachedValue<Value>, Error>,
) {
    match answer {
        Ok(value) => {
            seen(world, node, start, value.is_alive(), &value.sights);
            version(world, node, start, value);
            waited(world, node, value.version(), &value.sights);
        }
        Err(error) => match error.kind() {
            ErrorKind::Failed => match error.downcast_ref::<Fault>() {
                Some(Fault { passing: Some(text), .. }) => passing(world, node, start, text),
                Some(fault) => {
                    window(world, node, start, &fault.sights);
                    waited(world, node, error.version(), &fault.sights);
                }
                None => world.fail("an error lost its cause", format!("{node:?}: {error}")),
            },
            _ => passing(world, node, start, &error.to_string()),
        },
    }
}

/// The same for a value that was lent.
pub(super) fn seen(world: &World, node: Node, start: &Start, alive: bool, sights: &[Sight]) {
    if !alive {
        return world.fail("a dead value", format!("{node:?}"));
    }
    window(world, node, start, sights);
}

/// A handle keeps its value.
pub(super) fn handle(world: &World, value: &Value) {
    if !value.is_alive() {
        world.fail("a dead value", "in a handle".to_owned());
    }
}

fn window(world: &World, node: Node, start: &Start, sights: &[Sight]) {
    let counts = world.state().counts.clone();
    give(world, node, sights);
    if let Some(sight) = outdated(world, sights, &start.floors, &counts) {
        let (floor, now) = (start.floors[sight.cell], counts[sight.cell]);
        let text = format!("{node:?}: {sight:?}, but the cell had {floor} and has {now}");
        world.fail("stale read", text);
    }
}

/// What cannot have been seen while the cells had no less than `floors`; but for what is declared late,
/// which is right when that is over.
pub(super) fn outdated(
    world: &World,
    sights: &[Sight],
    floors: &[u32],
    counts: &[u32],
) -> Option<Sight> {
    let late = |cell| {
        let is_it = |stmt: &Stmt| matches!(stmt, Stmt::ReadLate { cell: it, .. } if *it == cell);
        world.program.any_stmt(&is_it)
    };
    let is_old = |sight: &&Sight| {
        let mut counts = floors[sight.cell]..=counts[sight.cell];
        !counts.any(|count| sight.view.of(count) == sight.shown) && !late(sight.cell)
    };
    sights.iter().filter(|sight| sight.is_of_cell()).find(is_old).copied()
}

/// What was made without an answer that was asked for is not kept.
fn waited(world: &World, node: Node, version: u64, sights: &[Sight]) {
    if version != 0 && sights.iter().any(|sight| sight.view == View::Unanswered) {
        world.fail("kept without an answer", format!("{node:?}: {sights:?}"));
    }
}

/// Whoever asks from now on is shown no less of what guards announce; but for what a writer reads himself.
fn give(world: &World, node: Node, sights: &[Sight]) {
    let mut state = world.state();
    // What a function reads of another graph is not known there.
    let graph = world.program.memos[node.memo].graph;
    let is_known =
        |sight: &&Sight| sight.view == View::Whole && Program::graph_of(sight.cell) == graph;
    for sight in sights.iter().filter(is_known) {
        show(&mut state, sight.cell, sight.shown);
    }
}

fn version(world: &World, node: Node, start: &Start, value: &CachedValue<Value>) {
    let version = value.version();
    if version == 0 {
        return;
    }
    let mut state = world.state();
    let newest = state.newest.entry(node).or_default();
    *newest = version.max(*newest);
    let known = state.versions.entry((node, version)).or_insert_with(|| value.sights.clone());
    let differs = *known != value.sights;
    drop(state);
    if differs {
        world.fail("one version, two values", format!("{node:?} {version}"));
    }
    if version < start.newest {
        world.fail("versions go back", format!("{node:?}: {version} after {}", start.newest));
    }
}

/// An error that is never kept has a cause that is newer than the read.
fn passing(world: &World, node: Node, start: &Start, text: &str) {
    if let Some(step) = planned_step(text) {
        // What is made while somebody writes is held, and then given to all who have asked by then.
        let is_held =
            world.program.any_op(|op| matches!(op, Op::Write { .. } | Op::Rollback { .. }));
        // A panic drops the function's key on its way; who asks there still joins (seed 1500041553).
        let is_on_its_way = world.program.hooks.iter().any(|hook| hook.place == Place::KeyDrop);
        if step < start.step && !is_held && !is_on_its_way {
            world.fail("an old panic", format!("{node:?} began at {}: {text}", start.step));
        }
    } else if text.contains("cycle") {
        if !world.program.cyclic && !inherits(&world.program) {
            world.fail("false cycle", format!("{node:?}: {text}"));
        }
    } else if text.contains("closed") {
        if !world.state().closed.contains(&true) {
            world.fail("closed while open", format!("{node:?}: {text}"));
        }
    } else {
        world.fail("unplanned panic", format!("{node:?}: {text}"));
    }
}

/// Whether who goes on with another's question waits for what that waits for, which may be a cycle (seed
/// 700168524), also where nothing else happens (seed 7900130886).
fn inherits(program: &Program) -> bool {
    program.any_stmt(&|stmt| matches!(stmt, Stmt::Inherit { .. }))
}

/// Whether every answer of every function is kept, whatever the cells hold.
pub(super) fn keeps_everything(world: &World) -> bool {
    let program = &world.program;
    let is_odd = |stmt: &Stmt| {
        matches!(
            stmt,
            Stmt::FailIf { .. }
                | Stmt::PanicIf { .. }
                | Stmt::Touch { .. }
                | Stmt::Glance { .. }
                | Stmt::Glimpse { .. }
                | Stmt::Inherit { .. }
        )
    };
    program.graphs == 1
        && !program.cyclic
        && !has_panics(program)
        && !program.any_stmt(&is_odd)
        && !asks_late(program)
}

/// Whether a comparison, a hash or a destructor may panic: what is made of that is answered and not kept.
pub(super) fn has_panics(program: &Program) -> bool {
    program.hooks.iter().any(|hook| matches!(hook.action, Action::Panic))
}

/// Whether a task asks after its answer: that may be open when the function ends, or for good when the task is
/// aborted, so that what the function makes is answered and not kept (seeds 90058254, 1800083265).
pub(super) fn asks_late(program: &Program) -> bool {
    let asks = |stmt: &Stmt| matches!(stmt, Stmt::Call { .. } | Stmt::Both(_));
    program.any_stmt(&|stmt| matches!(stmt, Stmt::Scope { after, .. } if any(after, &asks)))
}

/// Whether a function gives the same whenever it runs while nothing else happens.
pub(super) fn is_certain(program: &Program) -> bool {
    let is_odd = |stmt: &Stmt| {
        matches!(
            stmt,
            Stmt::Touch { .. } | Stmt::Glance { .. } | Stmt::Glimpse { .. } | Stmt::Inherit { .. }
        )
    };
    !program.any_stmt(&is_odd)
}

/// Nobody waits who should not, whatever functions have left.
pub(super) fn nobody_waits(world: &World, phase: usize) {
    let pending = world.tasks.lock().expect("never poisoned").pending();
    if !pending.is_empty() && world.state().failures.is_empty() {
        world.fail("hang", format!("phase {phase}: {pending:?}"));
    }
}

/// Everything was announced, and nothing runs.
pub(super) fn quiet(world: &Arc<World>, phase: usize) {
    let running: Vec<_> = world
        .state()
        .running
        .iter()
        .filter(|(_, runs)| **runs > 0)
        .map(|(node, _)| *node)
        .collect();
    if !running.is_empty() && !leaks(&world.program) && !verifies_for_ever(&world.program) {
        world.fail("a run is left", format!("phase {phase}: {running:?}"));
    }
    eyes(world, phase);
    super::sets::quiet(world, phase);
    let nodes: Vec<Node> = {
        let mut tasks = world.tasks.lock().expect("never poisoned");
        let random = tasks.random();
        world.program.nodes().into_iter().filter(|_| random.one_in(2)).collect()
    };
    for &node in &nodes {
        if let Some(value) = world.memo(node).cached(&Key::new(node.key)) {
            compare(world, phase, node, &Ok(value));
        }
    }
    for &node in &nodes {
        get(world, phase, node, 1);
        get(world, phase, node, 0);
    }
    eyes(world, phase);
    super::sets::quiet(world, phase);
}

/// A panic in the drop of a key leaks what the function was about to give, by a defect of the compiler.
pub(super) fn leaks(program: &Program) -> bool {
    let is_it = |hook: &Hook| hook.place == Place::KeyDrop && matches!(hook.action, Action::Panic);
    program.hooks.iter().any(is_it)
}

/// A run beside a hit that changes what a watch is made of makes the watch ask again, which may be the next
/// hit (seed 1700059459), and so on without end (seed 7700093759).
pub(super) fn verifies_for_ever(program: &Program) -> bool {
    program.verifies() && program.any_stmt(&|stmt| matches!(stmt, Stmt::Touch { .. }))
}

/// A function that changes what another reads late, whose value it asks for, makes that stale after each run of its
/// own, so that a watch of it asks each time (seed 9400187909).
pub(super) fn changes_what_is_read_late(program: &Program) -> bool {
    let touched = |cell: usize| {
        program.any_stmt(&|stmt| matches!(stmt, Stmt::Touch { cell: it } if *it == cell))
    };
    program.any_stmt(&|stmt| matches!(stmt, Stmt::ReadLate { cell, .. } if touched(*cell)))
}

/// A watch or subscription that is silent has the latest.
fn eyes(world: &World, phase: usize) {
    let state = world.state();
    let mut silent = Vec::new();
    for eye in state.eyes.iter().filter(|eye| eye.waits) {
        let Some(last) = &eye.last else { continue };
        let truth = evaluate(&world.program, &state.counts, &state.closed, eye.node).answer;
        let is_latest = match (last, &truth) {
            (Ok(last), Answer::Value(sights)) => last == sights,
            (Err(last), Answer::Fault(sights)) => last == sights,
            _ => false,
        };
        let is_open = !state.closed[world.program.memos[eye.node.memo].graph];
        if !is_latest && is_open {
            let kind = if eye.is_watch { "silent watch" } else { "silent subscription" };
            silent
                .push((kind, format!("phase {phase}, {:?}: has {last:?}, is {truth:?}", eye.node)));
        }
    }
    drop(state);
    silent.into_iter().for_each(|(kind, text)| world.fail(kind, text));
}

/// Asks while nothing else happens; the function may run so many times.
fn get(world: &Arc<World>, phase: usize, node: Node, runs_max: u64) {
    let runs = |world: &World| world.state().runs.get(&node).copied().unwrap_or(0);
    let before = runs(world);
    let answer = Arc::new(std::sync::Mutex::new(None));
    let (mine, to) = (world.clone(), answer.clone());
    let task = Box::pin(async move {
        let answer = ask(&mine, node).await;
        *to.lock().expect("never poisoned") = answer;
    });
    schedule::spawn(world, format!("get {node:?} when quiet"), false, task);
    super::run::until_quiet(world, phase);
    let Some(answer) = answer.lock().expect("never poisoned").take() else {
        return world.fail("hang", format!("phase {phase}: get {node:?} when quiet"));
    };
    compare(world, phase, node, &answer);
    let made = runs(world) - before;
    let program = &world.program;
    let state = world.state();
    let kept = evaluate(program, &state.counts, &state.closed, node).is_kept;
    drop(state);
    let touches = program.any_stmt(&|stmt| matches!(stmt, Stmt::Touch { .. }));
    let allowed = if kept { runs_max } else { 1 };
    // What a task reads after its answer may cost one more run.
    let is_late = |stmt: &Stmt| match stmt {
        Stmt::Scope { after, .. } => !after.is_empty(),
        stmt => matches!(stmt, Stmt::ReadLate { .. }),
    };
    if made > allowed
        && !program.any_stmt(&is_late)
        && !touches
        && !program.is_tight()
        && !weighs_much(program)
        && !program.verifies()
    {
        world.fail("ran too often", format!("phase {phase}: {node:?} {made} times, not {allowed}"));
    }
}

/// Whether a run may ring other watches of what it computes, which is not kept for them: functions that
/// change what they read, or read after their answer, or whose tasks have computed anew what they read
/// themselves (seed 700173091), and no room; or functions that change what each other reads. Such watches ask
/// again and again.
pub(super) fn rings_others(program: &Program) -> bool {
    let touching = program.rules_with(&|stmt| matches!(stmt, Stmt::Touch { .. }));
    let late = program.rules_with(&|stmt| match stmt {
        Stmt::Scope { after, .. } => !after.is_empty(),
        stmt => matches!(stmt, Stmt::ReadLate { .. } | Stmt::Spawn { .. }),
    });
    // What a task looks for after its answer and does not find makes the value stale each time (seed 2000008882).
    let looks = |stmt: &Stmt| matches!(stmt, Stmt::Call { how, .. } if !matches!(how, Ask::Get));
    let looks_late = |stmt: &Stmt| matches!(stmt, Stmt::Scope { after, .. } if any(after, &looks));
    touching > 1
        || program.any_stmt(&looks_late)
        || touching + late > 0 && (program.is_tight() || weighs_much(program))
}

fn weighs_much(program: &Program) -> bool {
    program.memos.iter().any(|memo| memo.weigh.is_some_and(|bytes| bytes > 1000))
}

/// Nothing changes, so the answer is what it would be without memory.
fn compare(world: &World, phase: usize, node: Node, answer: &Result<CachedValue<Value>, Error>) {
    let state = world.state();
    let truth = evaluate(&world.program, &state.counts, &state.closed, node).answer;
    drop(state);
    // What is not kept may be without an answer.
    let seen = |sights: &[Sight]| {
        let seen = sights.iter().filter(|sight| sight.view != View::Unanswered);
        seen.copied().collect()
    };
    let found = match answer {
        Ok(value) => Answer::Value(seen(&value.sights)),
        Err(error) => match error.downcast_ref::<Fault>() {
            Some(Fault { passing: None, sights }) => Answer::Fault(seen(sights)),
            _ => Answer::Passing,
        },
    };
    if found != truth {
        let told = answer.as_ref().err().map(ToString::to_string).unwrap_or_default();
        if told.contains("cycle") && inherits(&world.program) {
            return;
        }
        world.fail(
            "wrong when quiet",
            format!("phase {phase}, {node:?}: {found:?}, should be {truth:?} {told}"),
        );
    }
}

/// Whether the answer without memory is this value.
pub(super) fn is_truth(world: &World, node: Node, sights: &[Sight]) -> bool {
    let state = world.state();
    let truth = evaluate(&world.program, &state.counts, &state.closed, node).answer;
    let is_closed = state.closed[world.program.memos[node.memo].graph];
    is_closed || matches!(truth, Answer::Value(truth) if truth == sights)
}

/// What came of a version is what was given with it.
pub(super) fn validated(world: &World, node: Node, start: &Start, version: u64) {
    let known = world.state().versions.get(&(node, version)).cloned();
    known.iter().for_each(|sights| window(world, node, start, sights));
}

/// What was read in order is no older than what was known when it was asked for, and so is what follows.
pub(super) fn queried(world: &World, cell: usize, floors: &[u32], shown: u32) {
    if shown < floors[cell] {
        let text = format!("cell {cell}: {shown}, but it had {}", floors[cell]);
        world.fail("stale read", text);
    }
    show(&mut world.state(), cell, shown);
}

/// Whoever asks from now on sees no less of what guards announce.
fn show(state: &mut State, cell: usize, shown: u32) {
    if state.writers.contains(&Ambient::current().tag()) {
        return;
    }
    let seen = state.guarded[cell].range(..=shown).next_back().copied();
    let given = &mut state.given[cell];
    *given = seen.unwrap_or(0).max(*given);
}

/// Nothing is used any more: everything can be thrown out.
pub(super) fn emptied(world: &World) {
    for graph in world.graphs.lock().expect("never poisoned").iter().flatten() {
        graph.set_budget(0);
        // Deadlines of what is gone are forgotten when they are due.
        graph.advance(world.epoch + Duration::from_secs(3600));
        let stats = graph.stats();
        if stats.bytes != 0 || stats.nodes != 0 {
            world.fail("memory is left", format!("{} bytes, {} nodes", stats.bytes, stats.nodes));
        }
    }
}
