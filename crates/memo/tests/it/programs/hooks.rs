//! User code that does something unexpected: it panics, calls back, or is overtaken by other threads.

use std::any::Any;
use std::sync::Mutex;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicBool, AtomicU64};

use super::program::{Action, Hook, PLACES, Place};
use super::world::World;
use super::{actions, schedule};

/// What a planned panic says; the number of the step follows.
const PLANNED: &str = "planned at step ";

/// Counts a call of user code, and does what is planned there.
pub(super) fn hit(place: Place) {
    let call = CALLS[place as usize].fetch_add(1, SeqCst);
    if call < NEXT[place as usize].load(SeqCst) {
        return;
    }
    act(place, call);
}

#[cold]
fn act(place: Place, call: u64) {
    if std::thread::panicking() || BUSY.load(SeqCst) || PAUSED.load(SeqCst) {
        return;
    }
    let hook = {
        let mut hooks = HOOKS.lock().expect("never poisoned");
        let at = hooks.iter().position(|hook| hook.place == place && hook.nth <= call);
        let hook = at.map(|at| hooks.remove(at));
        arm(&hooks);
        hook
    };
    let Some(hook) = hook else { return };
    let Some(world) = World::current() else { return };
    match hook.action {
        Action::Panic => panic_as_planned(&world),
        Action::Inline(op) => busy(|| actions::at_once(&world, &op)),
        Action::Elsewhere(op) => busy(|| elsewhere(|| actions::at_once(&world, &op))),
        Action::Schedule(polls) => busy(|| {
            elsewhere(|| {
                for _ in 0..polls {
                    schedule::step(&world);
                }
            });
        }),
    }
}

/// Panics in a way that the checks expect.
pub(super) fn panic_as_planned(world: &World) -> ! {
    let step = {
        let mut state = world.state();
        state.panicked_at = Some(state.step);
        state.step
    };
    std::panic::panic_any(planned(step));
}

/// What an error says that is due to a planned panic.
pub(super) fn planned(step: u64) -> String {
    format!("{PLANNED}{step}")
}

/// The step of a planned panic that an error or a payload names.
pub(super) fn planned_step(text: &str) -> Option<u64> {
    let (_, step) = text.rsplit_once(PLANNED)?;
    step.trim().parse().ok()
}

/// Reports a panic that nobody planned.
pub(super) fn judge_panic(world: &World, place: &str, payload: &(dyn Any + Send)) {
    let text = payload_text(payload);
    if planned_step(&text).is_none() {
        world.fail("unplanned panic", format!("{place}: {text}"));
    }
}

pub(super) fn payload_text(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| payload.downcast_ref::<String>().cloned()).unwrap_or_default()
}

/// Sets what happens in the next program.
pub(super) fn set(hooks: &[Hook]) {
    CALLS.iter().for_each(|calls| calls.store(0, SeqCst));
    let mut planned = HOOKS.lock().expect("never poisoned");
    *planned = hooks.to_vec();
    planned.sort_by_key(|hook| hook.nth);
    arm(&planned);
}

/// Nothing unexpected happens while this is set.
pub(super) fn pause(on: bool) {
    PAUSED.store(on, SeqCst);
}

fn arm(hooks: &[Hook]) {
    for (place, next) in NEXT.iter().enumerate() {
        let here = hooks.iter().filter(|hook| hook.place as usize == place);
        next.store(here.map(|hook| hook.nth).min().unwrap_or(u64::MAX), SeqCst);
    }
}

/// Hooks within hooks do nothing.
fn busy(work: impl FnOnce()) {
    struct Reset;
    impl Drop for Reset {
        fn drop(&mut self) {
            BUSY.store(false, SeqCst);
        }
    }
    BUSY.store(true, SeqCst);
    let _reset = Reset;
    work();
}

/// Runs on another thread, while this one waits: as if it were preempted here.
pub(super) fn elsewhere(work: impl FnOnce() + Send) {
    let ended = std::thread::scope(|scope| scope.spawn(work).join());
    if let (Err(payload), Some(world)) = (ended, World::current()) {
        judge_panic(&world, "another thread", &*payload);
    }
}

static CALLS: [AtomicU64; PLACES] = [const { AtomicU64::new(0) }; PLACES];
static NEXT: [AtomicU64; PLACES] = [const { AtomicU64::new(u64::MAX) }; PLACES];
static HOOKS: Mutex<Vec<Hook>> = Mutex::new(Vec::new());
static PAUSED: AtomicBool = AtomicBool::new(false);
static BUSY: AtomicBool = AtomicBool::new(false);
