//! Sets of values of which one bell tells: what is in them is current, or has rung.

use std::future::poll_fn;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Arc, Mutex};
use std::task::Poll;

use tidewire_memo::{Member, NotifySet};

use super::actions::{ask, guarded};
use super::checks;
use super::program::Node;
use super::schedule;
use super::user::{Key, Sight};
use super::world::World;

/// The set of a program, and what is in it by number.
#[derive(Default)]
pub(super) struct Sets {
    set: NotifySet,
    members: Mutex<Vec<Enrolled>>,
    /// A task listens.
    is_heard: AtomicBool,
}

struct Enrolled {
    member: Member,
    number: u32,
    node: Node,
    sights: Vec<Sight>,
    /// It was current when it was last asked, and nothing rang since.
    is_silent: bool,
}

/// Asks for a value and puts it into the set, in place of what had the number.
pub(super) async fn enroll(world: &Arc<World>, node: Node, number: u32, after: bool) {
    let Some(Ok(value)) = ask(world, node).await else { return };
    let (version, sights) = (value.version(), value.sights.clone());
    guarded(world, "a handle's drop", || drop(value));
    if !world.sets.is_heard.swap(true, SeqCst) {
        listen(world);
    }
    // A function may enroll while another one does.
    let leave = || {
        let mut members = world.sets.members.lock().expect("never poisoned");
        let at = members.iter().position(|member| member.number == number);
        at.map(|at| members.swap_remove(at))
    };
    let mut old = if after { None } else { leave() };
    drop(if after { None } else { old.take() });
    let key = Key::new(node.key);
    let add = || world.sets.set.add(&world.memo(node), &key, version, number);
    let member = guarded(world, "a set", add);
    guarded(world, "a key's drop", || drop(key));
    let Some(member) = member else { return };
    if after {
        old = leave();
    }
    // What rang for the one before says nothing of this one.
    hear(world);
    let is_silent = member.is_current();
    let enrolled = Enrolled { member, number, node, sights, is_silent };
    world.sets.members.lock().expect("never poisoned").push(enrolled);
    drop(old);
}

/// A task that takes what rings.
fn listen(world: &Arc<World>) {
    let mine = world.clone();
    let task = Box::pin(poll_fn(move |context| {
        mine.sets.set.wakes(context.waker());
        hear(&mine);
        Poll::<()>::Pending
    }));
    schedule::spawn(world, "a set's listener".to_owned(), true, task);
}

/// Takes what rang; who has the number asks whether it is current. Returns how many did.
fn hear(world: &World) -> usize {
    let mut rung = Vec::new();
    world.sets.set.take(&mut rung);
    let mut members = world.sets.members.lock().expect("never poisoned");
    for member in members.iter_mut().filter(|member| rung.contains(&member.number)) {
        member.is_silent = member.member.is_current();
    }
    rung.len()
}

/// A change was announced: whatever shows less than that has rung.
pub(super) fn announced(world: &World) {
    hear(world);
    let (counts, floors) = {
        let state = world.state();
        (state.counts.clone(), state.floors.clone())
    };
    let members = world.sets.members.lock().expect("never poisoned");
    for member in members.iter().filter(|member| member.is_silent) {
        if let Some(sight) = checks::outdated(world, &member.sights, &floors, &counts) {
            world.fail("a set is silent", format!("{:?}: {sight:?}", member.node));
        }
    }
}

/// When everything is quiet, what is silent is what it would be without memory.
pub(super) fn quiet(world: &World, phase: usize) {
    let has_hooks = !world.program.hooks.is_empty();
    if hear(world) > 0 && world.sets.is_heard.load(SeqCst) && !has_hooks {
        world.fail("a set wakes nobody", format!("phase {phase}"));
    }
    let members = world.sets.members.lock().expect("never poisoned");
    for member in members.iter() {
        let is_current = member.member.is_current();
        if (is_current || member.is_silent) && !checks::is_truth(world, member.node, &member.sights)
        {
            let kind = if is_current { "a stale member is current" } else { "a set is silent" };
            let text = format!("phase {phase}: {:?} has {:?}", member.node, member.sights);
            world.fail(kind, text);
        }
    }
}

/// Nobody is in it any more.
pub(super) fn clear(world: &World) {
    let members = std::mem::take(&mut *world.sets.members.lock().expect("never poisoned"));
    drop(members);
}
