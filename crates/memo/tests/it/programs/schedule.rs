//! A deterministic executor: one task is polled at a time, and chance decides which.
//!
//! Besides tasks that were woken it polls some that were not, and lets things outside happen that
//! functions wait for.

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};

use tidewire_memo::Ambient;

use super::hooks;
use super::program::Place;
use super::random::Random;
use super::world::World;

pub(super) type Running = Pin<Box<dyn Future<Output = ()> + Send>>;

/// All tasks of a program.
pub(super) struct Tasks {
    slots: Vec<Slot>,
    random: Random,
    /// What functions wait for.
    outside: Vec<Arc<Mutex<Outside>>>,
    /// What happens when the next phase begins.
    later: Vec<Arc<Mutex<Outside>>>,
}

struct Slot {
    name: String,
    /// Taken out while it is polled.
    future: Option<Running>,
    ready: bool,
    polled: bool,
    over: bool,
    aborted: bool,
    /// Ends only with the program.
    lasting: bool,
}

#[derive(Default)]
struct Outside {
    happened: bool,
    waker: Option<Waker>,
}

impl Tasks {
    pub(super) fn new(schedule: u64) -> Self {
        Self {
            slots: Vec::new(),
            random: Random::new(schedule),
            outside: Vec::new(),
            later: Vec::new(),
        }
    }

    /// The tasks that are not over although they should be.
    pub(super) fn pending(&self) -> Vec<String> {
        let pending = self.slots.iter().filter(|slot| !slot.over && !slot.lasting);
        pending.map(|slot| slot.name.clone()).collect()
    }

    pub(super) fn random(&mut self) -> &mut Random {
        &mut self.random
    }
}

/// Starts a task.
pub(super) fn spawn(world: &World, name: String, lasting: bool, future: Running) -> usize {
    let mut tasks = world.tasks.lock().expect("never poisoned");
    // Who writes is told apart from who reads by the number of its task.
    let future = Box::pin(Ambient::new(tasks.slots.len() as u64 + 1).scope(future));
    tasks.slots.push(Slot {
        name,
        future: Some(future),
        ready: true,
        polled: false,
        over: false,
        aborted: false,
        lasting,
    });
    tasks.slots.len() - 1
}

/// Drops a task, now or after its poll.
pub(super) fn abort(world: &World, id: usize) {
    let future = {
        let mut tasks = world.tasks.lock().expect("never poisoned");
        let slot = &mut tasks.slots[id];
        slot.aborted = true;
        if !slot.polled {
            slot.over = true;
        }
        slot.future.take()
    };
    drop_safely(world, future);
}

/// Drops every task.
pub(super) fn abort_all(world: &World) {
    let count = world.tasks.lock().expect("never poisoned").slots.len();
    (0..count).for_each(|id| abort(world, id));
}

/// Polls one task, or lets one thing outside happen. `false` when there is nothing to do.
pub(super) fn step(world: &Arc<World>) -> bool {
    world.tick();
    let mut tasks = world.tasks.lock().expect("never poisoned");
    let of = |is_it: &dyn Fn(&Slot) -> bool| -> Vec<usize> {
        let slots = tasks.slots.iter().enumerate();
        slots
            .filter(|(_, slot)| !slot.over && !slot.polled && is_it(slot))
            .map(|(id, _)| id)
            .collect()
    };
    let mut ready = of(&|slot| slot.ready);
    let idle = of(&|slot| !slot.ready);
    let choices = ready.len() + tasks.outside.len();
    if choices == 0 {
        return false;
    }
    if !idle.is_empty() && tasks.random.one_in(12) {
        ready = vec![tasks.random.pick(&idle)];
    } else {
        let chosen = tasks.random.below(choices);
        if chosen >= ready.len() {
            let event = tasks.outside.swap_remove(chosen - ready.len());
            drop(tasks);
            happen(&event);
            return true;
        }
        ready = vec![ready[chosen]];
    }
    let id = ready[0];
    let slot = &mut tasks.slots[id];
    (slot.ready, slot.polled) = (false, true);
    let future = slot.future.take();
    let name = slot.name.clone();
    drop(tasks);
    poll(world, id, &name, future);
    true
}

fn poll(world: &Arc<World>, id: usize, name: &str, future: Option<Running>) {
    let Some(mut future) = future else { return };
    let waker = Waker::from(Arc::new(TaskWaker { id, world: world.clone() }));
    let polled =
        catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(&mut Context::from_waker(&waker))));
    let over = !matches!(polled, Ok(Poll::Pending));
    if let Err(payload) = polled {
        hooks::judge_panic(world, name, &*payload);
    }
    let dropped = {
        let mut tasks = world.tasks.lock().expect("never poisoned");
        let slot = &mut tasks.slots[id];
        slot.polled = false;
        slot.over = over || slot.aborted;
        if slot.over {
            Some(future)
        } else {
            slot.future = Some(future);
            None
        }
    };
    drop_safely(world, dropped);
}

fn drop_safely(world: &World, future: Option<Running>) {
    if let Err(payload) = catch_unwind(AssertUnwindSafe(|| drop(future))) {
        hooks::judge_panic(world, "a task's drop", &*payload);
    }
}

struct TaskWaker {
    id: usize,
    world: Arc<World>,
}

impl Wake for TaskWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.world.tasks.lock().expect("never poisoned").slots[self.id].ready = true;
        hooks::hit(Place::Wake);
    }
}

/// Waits until something outside happens.
pub(super) fn outside(world: &World) -> impl Future<Output = ()> + Send + use<> {
    let event = Arc::new(Mutex::new(Outside::default()));
    world.tasks.lock().expect("never poisoned").outside.push(event.clone());
    happened(event)
}

/// Waits for the next phase of the program.
pub(super) fn next_phase(world: &World) -> impl Future<Output = ()> + Send + use<> {
    let event = Arc::new(Mutex::new(Outside::default()));
    world.tasks.lock().expect("never poisoned").later.push(event.clone());
    happened(event)
}

/// Lets those who wait for it know of a new phase.
pub(super) fn begin_phase(world: &World) {
    let later = std::mem::take(&mut world.tasks.lock().expect("never poisoned").later);
    later.iter().for_each(|event| happen(event));
}

fn happen(event: &Mutex<Outside>) {
    let waker = {
        let mut event = event.lock().expect("never poisoned");
        event.happened = true;
        event.waker.take()
    };
    waker.into_iter().for_each(|waker| _ = catch_unwind(AssertUnwindSafe(|| waker.wake())));
}

fn happened(event: Arc<Mutex<Outside>>) -> impl Future<Output = ()> + Send {
    std::future::poll_fn(move |context| {
        let mut event = event.lock().expect("never poisoned");
        if event.happened {
            return Poll::Ready(());
        }
        event.waker = Some(context.waker().clone());
        Poll::Pending
    })
}

/// A place for one answer.
pub(super) struct Channel<T>(Arc<Mutex<Answer<T>>>);

struct Answer<T> {
    value: Option<T>,
    closed: bool,
    waker: Option<Waker>,
}

pub(super) fn channel<T>() -> (Channel<T>, Channel<T>) {
    let answer = Arc::new(Mutex::new(Answer { value: None, closed: false, waker: None }));
    (Channel(answer.clone()), Channel(answer))
}

impl<T> Channel<T> {
    /// Sends an answer; the receiver may be overtaking from here on.
    pub(super) fn send(self, value: T) {
        self.0.lock().expect("never poisoned").value = Some(value);
        drop(self);
        hooks::hit(Place::Send);
    }

    /// The answer; `None` when the sender is gone.
    pub(super) async fn receive(self) -> Option<T> {
        std::future::poll_fn(|context| {
            let mut answer = self.0.lock().expect("never poisoned");
            if answer.value.is_some() || answer.closed {
                return Poll::Ready(answer.value.take());
            }
            answer.waker = Some(context.waker().clone());
            Poll::Pending
        })
        .await
    }
}

impl<T> Drop for Channel<T> {
    fn drop(&mut self) {
        let waker = {
            let mut answer = self.0.lock().expect("never poisoned");
            answer.closed = true;
            answer.waker.take()
        };
        waker.into_iter().for_each(Waker::wake);
    }
}
