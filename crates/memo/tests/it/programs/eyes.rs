//! Watches and subscriptions of a program: tasks that last as long as it does.

use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;

use futures::Stream;
use tidewire_memo::{CachedValue, Error, ErrorKind};

use super::actions::{ask, guarded};
use super::checks::{self, Start};
use super::program::{Node, Op};
use super::reference::evaluate;
use super::schedule;
use super::user::{Fault, Key, Sight, Value};
use super::world::{Eye, World};

type Told = Result<CachedValue<Value>, Error>;

/// Starts a watch.
pub(super) fn watch(world: &Arc<World>, node: Node) {
    let at = open(world, node, true);
    let mine = world.clone();
    let task = Box::pin(async move {
        let world = mine;
        let made = guarded(&world, "watch", || world.memo(node).watch(Key::new(node.key)));
        let Some(mut watch) = made else { return };
        loop {
            let start = Start::now(&world, node);
            let Some(item) = next(&world, at, &mut watch).await else { break };
            checks::read(&world, node, &start.of_any_version(), &item);
            let is_promised = item.as_ref().is_ok_and(|value| value.version() != 0);
            let is_answer =
                item.as_ref().map_or_else(|error| error.kind() == ErrorKind::Failed, |_| true);
            // An error that no `error_ttl` keeps is asked for anew by each poll, also where the reference
            // has a value by now: a write that is under way may show both.
            let keeps = item.is_ok() || world.program.memos[node.memo].error_ttl.is_some();
            let keeps = keeps && !checks::asks_late(&world.program);
            // Who does not know of a change has that error where the reference has one that is kept, or a value
            // (seed 8000114686).
            let is_passing = item.as_ref().is_err_and(|error| error.version() == 0);
            let is_silent = |op: &Op| matches!(op, Op::ChangeSilently { .. });
            let keeps = keeps && !(is_passing && world.program.any_op(is_silent));
            let is_kept = (is_promised || is_answer && keeps && kept(&world, node))
                && !checks::rings_others(&world.program);
            remember(&world, at, &item, is_kept);
            guarded(&world, "a handle's drop", || drop(item));
            if !is_kept {
                // Asking again is up to us, and nothing may have changed.
                schedule::next_phase(&world).await;
            }
        }
        guarded(&world, "a watch's drop", || drop(watch));
    });
    schedule::spawn(world, format!("a watch of {node:?}"), true, task);
}

/// Starts a subscription: it asks, and asks again whenever it is told to.
pub(super) fn notify(world: &Arc<World>, node: Node) {
    let at = open(world, node, false);
    let mine = world.clone();
    let task = Box::pin(async move {
        let world = mine;
        let made = guarded(&world, "notify", || world.memo(node).notify(Key::new(node.key)));
        let Some(mut notify) = made else { return };
        loop {
            let before = kept(&world, node);
            let counts = world.state().counts.clone();
            let Some(answer) = ask(&world, node).await else { break };
            let early = answer.as_ref().is_ok_and(|value| value.version() == 0);
            let keeps = answer.is_ok() || world.program.memos[node.memo].error_ttl.is_some();
            let is_passing = answer.as_ref().is_err_and(|error| error.version() == 0);
            let is_kept = before
                && kept(&world, node)
                // As in a watch (seed 4200046777), or made of a panic (seed 4400044403).
                && (!is_passing
                    || kept_since(&world, node, &counts)
                        && !checks::asks_late(&world.program)
                        && !checks::has_panics(&world.program))
                && keeps
                && (!early || checks::keeps_everything(&world))
                && !checks::rings_others(&world.program);
            remember(&world, at, &answer, is_kept);
            guarded(&world, "a handle's drop", || drop(answer));
            if !is_kept {
                // What is stale at once would ring for ever.
                schedule::next_phase(&world).await;
            }
            if next(&world, at, &mut notify).await.is_none() {
                break;
            }
        }
        guarded(&world, "a subscription's drop", || drop(notify));
    });
    schedule::spawn(world, format!("a subscription to {node:?}"), true, task);
}

fn open(world: &World, node: Node, is_watch: bool) -> usize {
    let mut state = world.state();
    state.eyes.push(Eye { node, is_watch, waits: false, last: None });
    state.eyes.len() - 1
}

/// The next item; notes whether it has to be waited for.
async fn next<S: Stream + Unpin>(world: &World, at: usize, stream: &mut S) -> Option<S::Item> {
    std::future::poll_fn(|context| {
        world.state().eyes[at].waits = false;
        match guarded(world, "a stream", || Pin::new(&mut *stream).poll_next(context)) {
            Some(Poll::Pending) => {
                world.state().eyes[at].waits = true;
                Poll::Pending
            }
            Some(Poll::Ready(item)) => Poll::Ready(item),
            None => Poll::Ready(None),
        }
    })
    .await
}

fn kept(world: &World, node: Node) -> bool {
    let state = world.state();
    state.suspensions == 0 && evaluate(&world.program, &state.counts, &state.closed, node).is_kept
}

/// Whether it is kept whichever of the changes since had been made when it was computed: two that undo each
/// other may have an error between them that is not kept, and nothing tells of (seed 1800012074).
fn kept_since(world: &World, node: Node, before: &[u32]) -> bool {
    let state = world.state();
    let mut possible = vec![Vec::new()];
    for (&first, &last) in before.iter().zip(&state.counts) {
        let more = |counts: &Vec<u32>| {
            let counts = counts.clone();
            (first..=last).map(move |count| [counts.as_slice(), &[count]].concat())
        };
        possible = possible.iter().flat_map(more).collect();
        if possible.len() > MOMENTS_MAX {
            return false;
        }
    }
    possible.iter().all(|counts| evaluate(&world.program, counts, &state.closed, node).is_kept)
}

fn remember(world: &World, at: usize, told: &Told, is_kept: bool) {
    let last: Option<Result<Vec<Sight>, Vec<Sight>>> = match told {
        Ok(value) => Some(Ok(value.sights.clone())),
        Err(error) if error.kind() == ErrorKind::Failed => {
            let fault = error.downcast_ref::<Fault>();
            fault.filter(|fault| fault.passing.is_none()).map(|fault| Err(fault.sights.clone()))
        }
        Err(_) => None,
    };
    world.state().eyes[at].last = last.filter(|_| is_kept);
}

/// Moments between two that are looked at.
const MOMENTS_MAX: usize = 256;
