//! Commands of a process whose end is not known, and what ends with the process for their sake.
//!
//! A process that ends with a command under way may have changed anything that it has to do with
//! and said nothing of it: every key of every source that the service has ever named is stale then.
//!
//! | a command | is under way |
//! |---|---|
//! | answered, by a reply or an error of its handler | no more |
//! | refused before any handler saw it | no more |
//! | answered by a stream | until its end |
//! | that nobody waits for any more: cancelled, overdue | until the process ends, since nothing says when it does |
//!
//! The sources are those of the service, not of the one process: the command may be the first call
//! of a process, and what is kept was made by one before it.

use parking_lot::Mutex;
use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;
use std::task::Poll;

use futures_util::StreamExt;
use tidewire_live::Link;
use tidewire_service::{Body, Error, Outcome, Reply};

use crate::native::sources::{Hold, NAMES_MAX, Sources};

/// The sources that the processes of a service have named.
#[derive(Debug)]
pub(crate) struct NamedSources {
    service: String,
    sources: Arc<Sources>,
    names: Mutex<HashSet<String>>,
}

/// The commands of one process whose end is not known.
#[derive(Debug)]
pub(crate) struct Commands {
    named: Arc<NamedSources>,
    under_way: Mutex<UnderWay>,
}

#[derive(Default)]
struct UnderWay {
    count: usize,
    /// While there are any.
    hold: Option<Hold>,
}

/// A command under way: it stays so unless it is settled.
#[derive(Debug)]
pub(crate) struct Command {
    of: Arc<Commands>,
    link: Link,
}

impl NamedSources {
    pub(crate) fn new(service: &str, sources: &Arc<Sources>) -> Self {
        let service = service.to_owned();
        let sources = Arc::clone(sources);
        Self { service, sources, names: Mutex::default() }
    }

    /// The service's name.
    pub(crate) fn service(&self) -> &str {
        &self.service
    }

    /// A process names a source.
    pub(crate) fn add(&self, source: &str) {
        let mut names = self.names.lock();
        if !names.contains(source) && names.len() < NAMES_MAX {
            names.insert(source.to_owned());
        }
    }

    /// Any key of any of them may have changed.
    fn changed(&self) {
        let names = self.names.lock().clone();
        names.iter().for_each(|source| self.sources.changed_all(source));
    }
}

impl fmt::Debug for UnderWay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UnderWay").field("count", &self.count).finish_non_exhaustive()
    }
}

impl Commands {
    pub(crate) fn new(named: &Arc<NamedSources>) -> Self {
        Self { named: Arc::clone(named), under_way: Mutex::default() }
    }

    /// What the service has named.
    pub(crate) fn named(&self) -> &NamedSources {
        &self.named
    }

    /// One is sent.
    pub(crate) fn begin(self: &Arc<Self>, link: &Link) -> Command {
        let mut under_way = self.under_way.lock();
        if under_way.count == 0 {
            under_way.hold = self.named.sources.hold();
        }
        under_way.count += 1;
        drop(under_way);
        Command { of: Arc::clone(self), link: link.clone() }
    }

    /// The process is gone.
    pub(crate) fn end(&self) {
        let under_way = std::mem::take(&mut *self.under_way.lock());
        if under_way.count > 0 {
            self.named.changed();
        }
    }
}

impl Command {
    fn settle(self) {
        // The process may have ended in the same moment, and all its commands with it.
        let mut under_way = self.of.under_way.lock();
        under_way.count = under_way.count.saturating_sub(1);
        if under_way.count == 0 {
            under_way.hold = None;
        }
    }

    /// It ended with an error. Whoever is told so finds nothing that was kept from before.
    pub(crate) fn fail(self, error: &Error) {
        match error.outcome() {
            Outcome::Unknown if self.link.is_over() => self.of.named.changed(),
            Outcome::Unknown => {}
            _ => self.settle(),
        }
    }
}

/// The reply to a command, which is under way until it was read to its end.
pub(crate) fn settled_by(mut reply: Reply, command: Option<Command>) -> Reply {
    let Some(command) = command else { return reply };
    let Body::Stream(mut frames) = reply.body else {
        command.settle();
        return reply;
    };
    let mut command = Some(command);
    reply.body = Body::frames(futures_util::stream::poll_fn(move |cx| {
        let frame = std::task::ready!(frames.poll_next_unpin(cx));
        match (&frame, command.is_some()) {
            (None, true) => command.take().into_iter().for_each(Command::settle),
            (Some(Err(error)), true) => {
                command.take().into_iter().for_each(|command| command.fail(error));
            }
            _ => {}
        }
        Poll::Ready(frame)
    }));
    reply
}
