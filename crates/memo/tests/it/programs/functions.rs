//! What the memoized functions of a program do, by memo and with memory.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tidewire_memo::{Error, ErrorKind, Memo, scope};

use super::checks::{self, Start};
use super::hooks::{hit, panic_as_planned, planned, planned_step};
use super::program::{Ask, CELLS, Node, Parting, Place, Stmt, View};
use super::reference::sorted;
use super::schedule::{self, channel};
use super::user::{Fault, Key, RunGuard, Sight, Value};
use super::world::{World, cell_key};
use crate::support::yield_once;

type Seen<'a> = &'a mut Vec<Sight>;
type Outcome<'a> = Pin<Box<dyn Future<Output = Result<(), Fault>> + Send + 'a>>;

/// Makes one memo of a program.
pub(super) fn memo(world: &Arc<World>, number: usize) -> Memo<Key, Value> {
    let spec = &world.program.memos[number];
    let graph = world.graph(spec.graph).expect("nothing is closed yet");
    let weak = Arc::downgrade(world);
    let function = move |key: Key| {
        hit(Place::Body);
        let node = Node { memo: number, key: key.number() };
        drop(key);
        run(weak.upgrade(), node)
    };
    let name = ["m0", "m1", "m2", "m3", "m4"][number];
    let mut memo = match spec.no_cutoff {
        true => Memo::no_cutoff_in(&graph, name, function),
        false => Memo::new_in(&graph, name, function),
    };
    if spec.strict {
        memo = memo.strict();
    }
    if spec.fingerprint {
        memo = memo.fingerprint(|value: &Value| {
            hit(Place::Fingerprint);
            let number = |sight: &Sight| {
                (sight.cell as u64) << 40 | u64::from(sight.shown) << 8 | sight.view as u64
            };
            let sights = value.sights.iter().map(number);
            sights.fold(1, |sum, sight| {
                (sum ^ sight).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(23)
            })
        });
    }
    if spec.verify {
        memo = memo.verify(1.0);
    }
    if let Some(millis) = spec.ttl {
        memo = memo.ttl(Duration::from_millis(millis));
    }
    if let Some(millis) = spec.error_ttl {
        memo = memo.error_ttl(Duration::from_millis(millis));
    }
    let bytes = spec.weigh.unwrap_or(0);
    memo = memo.weigh(move |_| {
        hit(Place::Weigh);
        bytes
    });
    spec.budget.map_or(memo, |bytes| memo.budget(bytes))
}

/// A run of a function; hooks can tell when it is dropped, also after its end.
struct Run {
    inner: Pin<Box<dyn Future<Output = Result<Value, Fault>> + Send>>,
    guard: RunGuard,
}

impl Future for Run {
    type Output = Result<Value, Fault>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let polled = self.inner.as_mut().poll(context);
        self.guard.is_over = polled.is_ready();
        polled
    }
}

fn run(world: Option<Arc<World>>, node: Node) -> Run {
    let mine = world.clone();
    let inner = Box::pin(async move {
        let Some(world) = mine else { return Err(passing("the program is over".to_owned())) };
        let mut sights = Vec::new();
        stmts(&world, node, world.program.rule(node), &mut sights).await?;
        Ok(Value::new(sorted(sights)))
    });
    let guard = RunGuard::new(world.as_ref().map(Arc::downgrade).unwrap_or_default(), node);
    if let Some(world) = world {
        let mut state = world.state();
        *state.runs.entry(node).or_default() += 1;
        let running = state.running.entry(node).or_default();
        *running += 1;
        // What is verified runs beside.
        let twice = *running > 1
            && world.program.hooks.is_empty()
            && state.writers.is_empty()
            && !world.program.verifies();
        drop(state);
        if twice {
            world.fail("two runs at once", format!("{node:?}"));
        }
    }
    Run { inner, guard }
}

fn stmts<'a>(world: &'a Arc<World>, node: Node, all: &'a [Stmt], sights: Seen<'a>) -> Outcome<'a> {
    Box::pin(async move {
        for stmt in all {
            hit(Place::Body);
            one(world, node, stmt, sights).await?;
        }
        Ok(())
    })
}

async fn one(world: &Arc<World>, node: Node, stmt: &Stmt, sights: Seen<'_>) -> Result<(), Fault> {
    match stmt {
        Stmt::Yield => yield_once().await,
        Stmt::Wait => schedule::outside(world).await,
        Stmt::Read { cell, view, declare_late, pause } => {
            let shown = row(world, *cell, *view, *declare_late, *pause).await;
            sights.push(Sight { cell: *cell, view: *view, shown });
        }
        Stmt::Range { graph, low, high, view, declare_late } => {
            let cells = graph * CELLS + low..graph * CELLS + high;
            range(world, *graph, cells, *view, *declare_late, sights).await;
        }
        Stmt::FailIf { cell, view, shown } => {
            if see(world, *cell, *view, sights) == *shown {
                return Err(failed(sights));
            }
        }
        Stmt::PanicIf { cell, view, shown } => {
            if see(world, *cell, *view, sights) == *shown {
                panic_as_planned(world);
            }
        }
        Stmt::Branch { cell, even, odd } => {
            let chosen = if see(world, *cell, View::Parity, sights) == 0 { even } else { odd };
            return stmts(world, node, chosen, sights).await;
        }
        Stmt::Call { node: below, how, tolerate, forget } => {
            return call(world, *below, *how, (*tolerate, *forget), sights).await;
        }
        Stmt::Both(nodes) => {
            let gets = nodes.iter().map(|below| ask(world, *below));
            let answers = futures::future::join_all(gets).await;
            for (below, answer) in nodes.iter().zip(answers) {
                merge(world, *below, answer, (false, false), sights)?;
            }
        }
        Stmt::ReadLate { cell, view, turns } => {
            let shown = view.of(read_late(world, node, *cell, *turns).await);
            sights.push(Sight { cell: *cell, view: *view, shown });
        }
        Stmt::Glance { node: below, polls, parting } => {
            if !glance(world, node, *below, *polls, *parting).await {
                sights.push(Sight::unanswered(*below));
            }
        }
        Stmt::Inherit { polls } => inherit(world, node, *polls).await,
        Stmt::Glimpse { node: below } => sights.extend(glimpse(world, *below)),
        Stmt::Scope { body, channel, after, abort } => {
            let shape = Scope { body, channel: *channel, after, abort: *abort };
            return scoped(world, node, shape, sights).await;
        }
        Stmt::Spawn { body } => unscoped(world, node, body).await,
        Stmt::Touch { cell } => _ = world.row(*cell).changed(&cell_key(*cell)),
    }
    Ok(())
}

/// What a row shows, which is declared before or after it is looked at.
async fn row(world: &World, cell: usize, view: View, declare_late: bool, pause: bool) -> u32 {
    let declare = || world.row(cell).read(&cell_key(cell));
    if !declare_late {
        declare();
    }
    if pause {
        yield_once().await;
    }
    let shown = view.of(world.count(cell));
    if pause {
        yield_once().await;
    }
    if declare_late {
        declare();
    }
    shown
}

fn see(world: &World, cell: usize, view: View, sights: Seen<'_>) -> u32 {
    world.row(cell).read(&cell_key(cell));
    let shown = view.of(world.count(cell));
    sights.push(Sight { cell, view, shown });
    shown
}

/// What a call gave, without the handle.
type Told = Result<Vec<Sight>, Error>;

async fn ask(world: &Arc<World>, node: Node) -> Told {
    let start = Start::now(world, node);
    let answer = world.memo(node).get(Key::new(node.key)).await;
    checks::read(world, node, &start, &answer);
    answer.map(|value| value.sights.clone())
}

async fn call(
    world: &Arc<World>,
    node: Node,
    how: Ask,
    (tolerate, forget): (bool, bool),
    sights: Seen<'_>,
) -> Result<(), Fault> {
    let memo = world.memo(node);
    let there = match how {
        Ask::Get => None,
        Ask::Cached => memo.cached(&Key::new(node.key)).map(|value| value.sights.clone()),
        Ask::With => memo.with(&Key::new(node.key), |value| value.sights.clone()),
        Ask::Peek => memo.peek(&Key::new(node.key)).map(|value| value.sights.clone()),
    };
    let answer = match there {
        Some(there) => Ok(there),
        None => ask(world, node).await,
    };
    merge(world, node, answer, (tolerate, forget), sights)
}

fn merge(
    world: &World,
    node: Node,
    answer: Told,
    (tolerate, forget): (bool, bool),
    sights: Seen<'_>,
) -> Result<(), Fault> {
    match answer {
        Ok(_) if forget => {}
        Ok(theirs) => sights.extend(theirs),
        Err(error) => match error.downcast_ref::<Fault>() {
            Some(fault) if error.kind() == ErrorKind::Failed && fault.passing.is_none() => {
                sights.extend(&fault.sights);
                sights.push(Sight::failed(node));
                if !tolerate {
                    return Err(failed(sights));
                }
            }
            // For those who join later, it happens now.
            _ if planned_step(&error.to_string()).is_some() => {
                return Err(passing(planned(world.state().step)));
            }
            _ => return Err(passing(error.to_string())),
        },
    }
    Ok(())
}

async fn range(
    world: &Arc<World>,
    graph: usize,
    cells: std::ops::Range<usize>,
    view: View,
    declare_late: bool,
    sights: Seen<'_>,
) {
    let (low, high) = (cells.start - graph * CELLS, cells.end - graph * CELLS);
    let declare = || world.rows[graph].range(Key::new(low)..Key::new(high));
    if !declare_late {
        declare();
    }
    yield_once().await;
    for cell in cells {
        sights.push(Sight { cell, view, shown: view.of(world.count(cell)) });
    }
    if declare_late {
        yield_once().await;
        declare();
    }
}

/// A task gives the count and says afterwards that it read it.
async fn read_late(world: &Arc<World>, node: Node, cell: usize, turns: usize) -> u32 {
    let (sender, receiver) = channel();
    let mine = world.clone();
    let task = scope(async move {
        sender.send(mine.count(cell));
        for _ in 0..turns {
            yield_once().await;
        }
        mine.row(cell).read(&cell_key(cell));
    });
    schedule::spawn(world, format!("a late read of {node:?}"), false, Box::pin(task));
    receiver.receive().await.unwrap_or_else(|| panic_as_planned(world))
}

/// Whether it was answered, or may be before the function ends.
async fn glance(
    world: &Arc<World>,
    asker: Node,
    node: Node,
    polls: usize,
    parting: Parting,
) -> bool {
    let is_in_task = matches!(parting, Parting::InTask | Parting::Aborted);
    let mut get: schedule::Running = {
        let get = world.memo(node).get(Key::new(node.key));
        let ask = async move { _ = get.await };
        if is_in_task { Box::pin(scope(ask)) } else { Box::pin(ask) }
    };
    for _ in 0..polls {
        if futures::poll!(&mut get).is_ready() {
            return true;
        }
        yield_once().await;
    }
    match parting {
        Parting::Dropped => drop(get),
        // Another task has it from now on, and goes on or drops it at its first turn.
        Parting::Elsewhere | Parting::InTask => {
            _ = schedule::spawn(world, format!("left by a glance at {node:?}"), false, get);
        }
        Parting::DroppedElsewhere => {
            let task = Box::pin(async move { drop(get) });
            _ = schedule::spawn(world, format!("dropped for a glance at {node:?}"), false, task);
        }
        Parting::Aborted => {
            let id = schedule::spawn(world, format!("aborted by a glance at {node:?}"), false, get);
            let mine = world.clone();
            let task = Box::pin(async move {
                yield_once().await;
                schedule::abort(&mine, id);
            });
            _ = schedule::spawn(world, format!("aborts a glance at {node:?}"), false, task);
        }
        Parting::Left => world.left.lock().expect("never poisoned").push((asker, get)),
    }
    is_in_task
}

/// The mark of a value that is not there.
fn glimpse(world: &World, node: Node) -> Option<Sight> {
    let found = world.memo(node).cached(&Key::new(node.key));
    found.is_none().then(|| Sight::unanswered(node))
}

/// Goes on for a while with what another function has left.
async fn inherit(world: &Arc<World>, heir: Node, polls: usize) {
    let taken = {
        let mut left = world.left.lock().expect("never poisoned");
        let at = left.iter().position(|(asker, _)| *asker != heir);
        at.map(|at| left.swap_remove(at))
    };
    let Some((_, mut get)) = taken else { return };
    for _ in 0..polls {
        if futures::poll!(&mut get).is_ready() {
            return;
        }
        yield_once().await;
    }
    drop(get);
}

struct Scope<'a> {
    body: &'a [Stmt],
    channel: bool,
    after: &'a [Stmt],
    abort: bool,
}

async fn scoped(
    world: &Arc<World>,
    node: Node,
    shape: Scope<'_>,
    sights: Seen<'_>,
) -> Result<(), Fault> {
    let (sender, receiver) = channel();
    let (mine, body, after) = (world.clone(), shape.body.to_vec(), shape.after.to_vec());
    let task: schedule::Running = if shape.channel {
        Box::pin(scope(async move {
            let mut sights = Vec::new();
            let ended = stmts(&mine, node, &body, &mut sights).await;
            sender.send(ended.map(|()| sights));
            let _ = stmts(&mine, node, &after, &mut Vec::new()).await;
        }))
    } else {
        let scoped = scope(async move {
            let mut sights = Vec::new();
            let ended = stmts(&mine, node, &body, &mut sights).await;
            ended.map(|()| sights)
        });
        Box::pin(async move { sender.send(scoped.await) })
    };
    let id = schedule::spawn(world, format!("a scoped task of {node:?}"), false, task);
    let _abort = shape.abort.then(|| Abort { world: world.clone(), id });
    match receiver.receive().await {
        Some(Ok(theirs)) => {
            sights.extend(theirs);
            Ok(())
        }
        Some(Err(fault)) if fault.passing.is_none() => {
            sights.extend(fault.sights);
            Err(failed(sights))
        }
        // For those who join later, it happens now.
        Some(Err(Fault { passing: Some(text), .. })) if planned_step(&text).is_some() => {
            Err(passing(planned(world.state().step)))
        }
        Some(Err(fault)) => Err(fault),
        // The task panicked, and who waits for a task passes that on.
        None => panic_as_planned(world),
    }
}

async fn unscoped(world: &Arc<World>, node: Node, body: &[Stmt]) {
    let (sender, receiver) = channel();
    let (mine, body) = (world.clone(), body.to_vec());
    let task = Box::pin(async move {
        let _ = stmts(&mine, node, &body, &mut Vec::new()).await;
        sender.send(());
    });
    schedule::spawn(world, format!("a spawned task of {node:?}"), false, task);
    receiver.receive().await;
}

struct Abort {
    world: Arc<World>,
    id: usize,
}

impl Drop for Abort {
    fn drop(&mut self) {
        schedule::abort(&self.world, self.id);
    }
}

fn failed(sights: &[Sight]) -> Fault {
    Fault { sights: sorted(sights.to_vec()), passing: None }
}

fn passing(text: String) -> Fault {
    Fault { sights: Vec::new(), passing: Some(text) }
}
