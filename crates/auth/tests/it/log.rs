//! What is logged, by thread: each test has its thread.

use std::cell::RefCell;
use std::sync::Once;

use tracing::{Event, Level, Metadata, Subscriber, span};

thread_local! {
    static LEVELS: RefCell<Vec<Level>> = const { RefCell::new(Vec::new()) };
}

/// Before anything is logged: a line that another thread logs first, while one thread listens for
/// itself, is switched off for all of them (`tracing` asks only the thread that comes first).
pub(crate) fn listen() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| tracing::subscriber::set_global_default(Levels).unwrap());
}

/// The levels of what this thread logged.
pub(crate) fn levels() -> Vec<Level> {
    LEVELS.with_borrow(Clone::clone)
}

struct Levels;

impl Subscriber for Levels {
    fn enabled(&self, about: &Metadata<'_>) -> bool {
        *about.level() <= Level::WARN
    }

    fn event(&self, event: &Event<'_>) {
        LEVELS.with_borrow_mut(|levels| levels.push(*event.metadata().level()));
    }

    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }

    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}
    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}
    fn enter(&self, _: &span::Id) {}
    fn exit(&self, _: &span::Id) {}
}
