//! What the tasks of a program do: each operation is a future that may be dropped at any poll.

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use tidewire_memo::{Ambient, CachedValue, Error, OrderedReads, Suspension, batch};

use super::checks::{self, Start};
use super::eyes;
use super::hooks::{self, hit};
use super::program::{Ask, Named, Node, Op, Place, Program, WriteEnd};
use super::sets;
use super::user::{Key, Value};
use super::world::{World, cell_key};
use crate::support::yield_once;

/// A task of a program.
pub(super) async fn task(world: Arc<World>, ops: Vec<Op>) {
    let mut hand = Vec::new();
    for op in &ops {
        perform(&world, op, &mut hand).await;
        for value in &hand {
            checks::handle(&world, value);
        }
        yield_once().await;
    }
    while let Some(value) = hand.pop() {
        guarded(&world, "a handle's drop", || drop(value));
    }
}

/// One operation as far as it gets in one poll.
pub(super) fn at_once(world: &Arc<World>, op: &Op) {
    let mut hand = Vec::new();
    {
        let mut future = pin!(perform(world, op, &mut hand));
        let _ = future.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    }
    guarded(world, "a handle's drop", || drop(hand));
}

/// Runs what may panic as planned; `None` when it did.
pub(super) fn guarded<T>(world: &World, place: &str, work: impl FnOnce() -> T) -> Option<T> {
    let done = catch_unwind(AssertUnwindSafe(work));
    done.map_err(|payload| hooks::judge_panic(world, place, &*payload)).ok()
}

/// The same for every poll of a future; `None` when it panicked as planned.
pub(super) async fn careful<F: Future + Unpin>(
    world: &World,
    place: &str,
    future: F,
) -> Option<F::Output> {
    let mut future = Some(future);
    let done = std::future::poll_fn(|context| {
        let Some(running) = &mut future else { return Poll::Ready(None) };
        match guarded(world, place, || Pin::new(running).poll(context)) {
            Some(Poll::Pending) => Poll::Pending,
            Some(Poll::Ready(output)) => Poll::Ready(Some(output)),
            None => Poll::Ready(None),
        }
    })
    .await;
    guarded(world, place, || drop(future));
    done
}

/// A `get` with every check that a read allows. `None` when it panicked as planned.
pub(super) async fn ask(
    world: &Arc<World>,
    node: Node,
) -> Option<Result<CachedValue<Value>, Error>> {
    let start = Start::now(world, node);
    let get = world.memo(node).get(Key::new(node.key));
    let answer = careful(world, "get", get).await?;
    checks::read(world, node, &start, &answer);
    Some(answer)
}

async fn perform(world: &Arc<World>, op: &Op, hand: &mut Vec<CachedValue<Value>>) {
    match op {
        Op::Get { node } => {
            let answer = ask(world, *node).await;
            guarded(world, "a handle's drop", || drop(answer));
        }
        Op::Leave { node, polls, turns } => leave(world, *node, *polls, *turns).await,
        Op::Together(nodes) => {
            let mut gets: FuturesUnordered<_> =
                nodes.iter().map(|node| ask(world, *node)).collect();
            while let Some(answer) = gets.next().await {
                guarded(world, "a handle's drop", || drop(answer));
            }
        }
        Op::Hold { node } => hand.extend(ask(world, *node).await.and_then(Result::ok)),
        Op::Look { node, how } => look(world, *node, *how),
        Op::Yield => yield_once().await,
        Op::Watch { node } => eyes::watch(world, *node),
        Op::Notify { node } => eyes::notify(world, *node),
        Op::Query { cell, turns } => query(world, *cell, *turns).await,
        Op::Suspend { cells, turns } => suspend(world, cells, *turns).await,
        Op::Rollback { cells, turns, named } => rollback(world, cells, *turns, *named).await,
        Op::Since { cell, turns } => since(world, *cell, *turns).await,
        Op::Enroll { node, number, after } => sets::enroll(world, *node, *number, *after).await,
        Op::Thread { node } => {
            hooks::elsewhere(|| look(world, *node, Ask::Cached));
        }
        Op::Change { .. }
        | Op::ChangeAll { .. }
        | Op::ChangeMany { .. }
        | Op::Batch { .. }
        | Op::ChangeAsync { .. }
        | Op::Write { .. } => change(world, op).await,
        _ => {
            guarded(world, "housekeeping", || house(world, op));
        }
    }
}

fn house(world: &Arc<World>, op: &Op) {
    match op {
        Op::Evict { node } => _ = world.memo(*node).evict(&Key::new(node.key)),
        Op::EvictSource { cell } => _ = world.row(*cell).evict(&cell_key(*cell)),
        Op::ForceOut { node } => _ = world.memo(*node).force_out(&Key::new(node.key)),
        Op::Invalidate { node } => _ = world.memo(*node).invalidate(&Key::new(node.key)),
        Op::Budget { graph, bytes } => {
            world.graph(*graph).into_iter().for_each(|graph| graph.set_budget(*bytes));
        }
        Op::Advance { graph, millis } => world.advance(*graph, *millis),
        Op::Steer { graph, nth, evict } => steer(world, *graph, *nth, *evict),
        Op::ChangeSilently { cell } => world.state().counts[*cell] += 1,
        Op::Validate { node } => {
            let start = Start::now(world, *node);
            let version = world.state().newest.get(node).copied().unwrap_or(0);
            if world.memo(*node).validate(&Key::new(node.key), version) {
                checks::validated(world, *node, &start, version);
            }
        }
        Op::Close { graph } => {
            world.state().closed[*graph] = true;
            let closed = world.graphs.lock().expect("never poisoned")[*graph].take();
            drop(closed);
        }
        _ => unreachable!("performed elsewhere"),
    }
}

async fn leave(world: &Arc<World>, node: Node, polls: usize, turns: usize) {
    let start = Start::now(world, node);
    let mut get = world.memo(node).get(Key::new(node.key));
    for _ in 0..polls {
        let polled = std::future::poll_fn(|context| {
            Poll::Ready(guarded(world, "get", || Pin::new(&mut get).poll(context)))
        })
        .await;
        match polled {
            Some(Poll::Pending) => {}
            Some(Poll::Ready(answer)) => {
                checks::read(world, node, &start, &answer);
                guarded(world, "a handle's drop", || drop(answer));
                break;
            }
            None => break,
        }
        yield_once().await;
    }
    for _ in 0..turns {
        yield_once().await;
    }
    guarded(world, "a get's drop", || drop(get));
}

fn look(world: &Arc<World>, node: Node, how: Ask) {
    let start = Start::now(world, node);
    let memo = world.memo(node);
    let key = Key::new(node.key);
    if how == Ask::With {
        let seen = guarded(world, "with", || {
            memo.with(&key, |value| {
                hit(Place::With);
                (value.is_alive(), value.sights.clone())
            })
        });
        if let Some(Some((alive, sights))) = seen {
            checks::seen(world, node, &start, alive, &sights);
        }
    } else if let Some(Some(value)) = guarded(world, "cached", || memo.cached(&key)) {
        checks::read(world, node, &start, &Ok(value.clone()));
        guarded(world, "a handle's drop", || drop(value));
    }
    guarded(world, "a key's drop", || drop(key));
}

/// Writes of some cells that are about to be announced.
struct Announcing {
    world: Arc<World>,
    cells: Vec<usize>,
    counts: Vec<u32>,
}

impl Announcing {
    /// Writes the cells.
    fn write(world: &Arc<World>, cells: &[usize]) -> Self {
        let mut state = world.state();
        cells.iter().for_each(|&cell| state.counts[cell] += 1);
        let counts = cells.iter().map(|&cell| state.counts[cell]).collect();
        drop(state);
        Self { world: world.clone(), cells: cells.to_vec(), counts }
    }

    /// Announces, and again by other means when that panicked as planned.
    fn by(self, announce: impl FnOnce()) {
        if guarded(&self.world, "an announcement", announce).is_none() {
            for &cell in &self.cells {
                let changed = || _ = self.world.row(cell).changed(&cell_key(cell));
                while guarded(&self.world, "changed", changed).is_none() {}
            }
        }
        self.announced();
    }

    /// From here on, nobody who asks sees less than what was written.
    fn announced(&self) {
        let mut state = self.world.state();
        for (&cell, &count) in self.cells.iter().zip(&self.counts) {
            state.floors[cell] = state.floors[cell].max(count);
        }
        drop(state);
        sets::announced(&self.world);
    }
}

/// Reads a cell in order.
async fn query(world: &Arc<World>, cell: usize, turns: usize) {
    let Some(graph) = world.graph(Program::graph_of(cell)) else { return };
    let floors = world.state().shown();
    let mine = world.clone();
    let run = async move {
        mine.row(cell).read(&cell_key(cell));
        for _ in 0..turns {
            yield_once().await;
        }
        mine.count(cell)
    };
    let ordered = Box::pin(OrderedReads::new(&graph).follow(run));
    drop(graph);
    if let Some(shown) = careful(world, "a query", ordered).await {
        checks::queried(world, cell, &floors, shown);
    }
}

/// A time in which changes cannot be told.
struct Suspended {
    world: Arc<World>,
    cells: Vec<usize>,
    suspension: Option<Suspension>,
}

impl Drop for Suspended {
    fn drop(&mut self) {
        let written = {
            let state = self.world.state();
            self.cells.iter().map(|&cell| state.counts[cell]).collect()
        };
        drop(self.suspension.take());
        self.world.state().suspensions -= 1;
        let (world, cells) = (self.world.clone(), std::mem::take(&mut self.cells));
        Announcing { world, cells, counts: written }.announced();
    }
}

/// Begins to write, and does not.
async fn rollback(world: &Arc<World>, cells: &[usize], turns: usize, named: bool) {
    let keys: Vec<Key> = cells.iter().map(|&cell| cell_key(cell)).collect();
    let begin = || match named {
        true => {
            let first = world.row(cells[0]).write(&keys[0]);
            keys.iter().skip(1).fold(first, |guard, key| guard.also(&world.row(cells[0]), key))
        }
        false => world.row(cells[0]).write_unknown(),
    };
    let guard = guarded(world, "write", begin);
    guarded(world, "a key's drop", || drop(keys));
    for _ in 0..turns {
        yield_once().await;
    }
    guarded(world, "unchanged", || {
        guard.into_iter().for_each(tidewire_memo::WriteGuard::unchanged)
    });
}

/// What was true at a tick is shown to all who ask after a change is known to be announced since.
async fn since(world: &Arc<World>, cell: usize, turns: usize) {
    let (row, count) = (world.row(cell), world.count(cell));
    let tick = row.tick();
    for _ in 0..turns {
        yield_once().await;
    }
    let key = cell_key(cell);
    if guarded(world, "changed_since", || row.changed_since(&key, tick)) == Some(true) {
        let mut state = world.state();
        state.floors[cell] = state.floors[cell].max(count);
        drop(state);
        sets::announced(world);
    }
    guarded(world, "a key's drop", || drop(key));
}

fn steer(world: &World, graph: usize, nth: usize, evict: bool) {
    let Some(graph) = world.graph(graph) else { return };
    let mut entries = Vec::new();
    for owner in graph.owners() {
        let mut page = graph.entries(&owner.name, 0, 2);
        entries.extend(page.entries);
        while let Some(next) = page.next {
            page = graph.entries(&owner.name, next, 2);
            entries.extend(page.entries);
        }
    }
    if entries.is_empty() {
        return;
    }
    let id = entries[nth % entries.len()].id;
    if evict {
        graph.evict(id);
    } else {
        graph.invalidate(id);
    }
}

async fn suspend(world: &Arc<World>, cells: &[usize], turns: usize) {
    world.state().suspensions += 1;
    let suspension = Some(world.row(cells[0]).suspend());
    let _suspended = Suspended { world: world.clone(), cells: cells.to_vec(), suspension };
    for cell in cells {
        for _ in 0..turns {
            yield_once().await;
        }
        world.state().counts[*cell] += 1;
    }
    yield_once().await;
}

async fn change(world: &Arc<World>, op: &Op) {
    match op {
        Op::Change { cell } => {
            Announcing::write(world, &[*cell])
                .by(|| _ = world.row(*cell).changed(&cell_key(*cell)));
        }
        Op::ChangeMany { cells } => {
            let keys: Vec<Key> = cells.iter().map(|&cell| cell_key(cell)).collect();
            Announcing::write(world, cells).by(|| _ = world.row(cells[0]).changed_many(&keys));
            guarded(world, "a key's drop", || drop(keys));
        }
        Op::ChangeAll { cells } => {
            Announcing::write(world, cells).by(|| _ = world.row(cells[0]).changed_all());
        }
        Op::Batch { cells, panics: false } => {
            Announcing::write(world, cells).by(|| {
                batch(|batch| {
                    cells.iter().for_each(|&cell| batch.changed(&world.row(cell), &cell_key(cell)));
                });
            });
        }
        Op::Batch { cells, panics: true } => {
            // What was collected before the closure panics has happened all the same.
            let announcing = Announcing::write(world, cells);
            let mut collected = false;
            let done = guarded(world, "a batch", || {
                batch(|batch| {
                    cells.iter().for_each(|&cell| batch.changed(&world.row(cell), &cell_key(cell)));
                    collected = true;
                    hooks::panic_as_planned(world);
                })
            });
            match (done, collected) {
                (None, true) => announcing.announced(),
                _ => announcing.by(|| hooks::panic_as_planned(world)),
            }
        }
        Op::ChangeAsync { cell, polls } => {
            let announcing = Announcing::write(world, &[*cell]);
            let (row, key) = (world.row(*cell), cell_key(*cell));
            let made = guarded(world, "changed_async", || row.changed_async(&key));
            let Some(future) = made else {
                return announcing.by(|| _ = row.changed(&cell_key(*cell)));
            };
            Ending::new(announcing, Box::pin(future)).run(*polls).await;
        }
        Op::Write { cells, turns, end, named } => write(world, cells, *turns, *end, *named).await,
        _ => unreachable!("performed elsewhere"),
    }
}

/// The task that holds a guard.
struct Writer {
    world: Arc<World>,
    task: u64,
}

impl Writer {
    fn new(announcing: &Announcing) -> Self {
        let (world, task) = (announcing.world.clone(), Ambient::current().tag());
        let mut state = world.state();
        state.writers.push(task);
        for (&cell, &count) in announcing.cells.iter().zip(&announcing.counts) {
            state.guarded[cell].insert(count);
        }
        drop(state);
        Self { world, task }
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        let mut state = self.world.state();
        let at = state.writers.iter().position(|&task| task == self.task);
        at.into_iter().for_each(|at| _ = state.writers.swap_remove(at));
    }
}

async fn write(world: &Arc<World>, cells: &[usize], turns: usize, end: WriteEnd, named: Named) {
    let keys: Vec<Key> = cells.iter().map(|&cell| cell_key(cell)).collect();
    let guard = guarded(world, "write", || {
        if named != Named::First {
            return world.row(cells[0]).write_unknown();
        }
        let first = world.row(cells[0]).write(&keys[0]);
        let rest = cells.iter().zip(&keys).skip(1);
        rest.fold(first, |guard, (&cell, key)| guard.also(&world.row(cell), key))
    });
    let Some(guard) = guard else {
        guarded(world, "a key's drop", || drop(keys));
        return Announcing::write(world, cells).by(|| hooks::panic_as_planned(world));
    };
    debug_assert!(cells.iter().all(|&cell| Program::graph_of(cell) == Program::graph_of(cells[0])));
    let announcing = Announcing::write(world, cells);
    let _writer = Writer::new(&announcing);
    let mut ending =
        Ending { announcing: Some(announcing), future: None, guard: Some(guard), was_polled: true };
    for _ in 0..turns {
        yield_once().await;
    }
    let (Some(announcing), Some(mut guard)) = (ending.announcing.take(), ending.guard.take())
    else {
        return;
    };
    if named == Named::Later {
        let mut given = Some(guard);
        let also = || {
            for (&cell, key) in cells.iter().zip(&keys) {
                given = given.take().map(|guard| guard.also(&world.row(cell), key));
            }
        };
        guarded(world, "also", also);
        let Some(named) = given else {
            guarded(world, "a key's drop", || drop(keys));
            return announcing.by(|| hooks::panic_as_planned(world));
        };
        guard = named;
    }
    guarded(world, "a key's drop", || drop(keys));
    match end {
        WriteEnd::Finish => announcing.by(|| guard.finish()),
        WriteEnd::Drop => announcing.by(|| drop(guard)),
        WriteEnd::Async(polls) => {
            let mut ending = Ending::new(announcing, Box::pin(guard.finish_async()));
            // A guard marks whatever happens to it.
            ending.was_polled = true;
            ending.run(polls).await;
        }
    }
}

/// An announcement that is made when this is dropped at the latest.
struct Ending {
    announcing: Option<Announcing>,
    future: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
    guard: Option<tidewire_memo::WriteGuard>,
    /// Dropping it announces.
    was_polled: bool,
}

impl Ending {
    fn new(announcing: Announcing, future: Pin<Box<dyn Future<Output = ()> + Send>>) -> Self {
        Self { announcing: Some(announcing), future: Some(future), guard: None, was_polled: false }
    }

    /// Polls to the end, or so many times.
    async fn run(mut self, polls: Option<usize>) {
        let mut left = polls.unwrap_or(usize::MAX);
        let Some(world) = self.announcing.as_ref().map(|it| it.world.clone()) else { return };
        while left > 0 {
            left -= 1;
            let Some(future) = &mut self.future else { return };
            self.was_polled = true;
            let polled = std::future::poll_fn(|context| {
                let polled =
                    guarded(&world, "an asynchronous change", || future.as_mut().poll(context));
                match polled {
                    Some(Poll::Pending) if polls.is_none() => Poll::Pending,
                    polled => Poll::Ready(polled),
                }
            })
            .await;
            match polled {
                Some(Poll::Pending) => yield_once().await,
                Some(Poll::Ready(())) => {
                    self.future = None;
                    break;
                }
                None => {
                    self.was_polled = false;
                    break;
                }
            }
        }
    }
}

impl Drop for Ending {
    fn drop(&mut self) {
        let Some(announcing) = self.announcing.take() else { return };
        let (future, guard) = (self.future.take(), self.guard.take());
        let world = announcing.world.clone();
        if self.was_polled {
            announcing.by(move || drop((future, guard)));
        } else {
            guarded(&world, "an asynchronous change's drop", move || drop(future));
            let cells = announcing.cells.clone();
            announcing.by(|| {
                cells.iter().for_each(|&cell| _ = world.row(cell).changed(&cell_key(cell)));
            });
        }
    }
}
