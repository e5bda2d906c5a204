//! What a page cache needs of its surroundings, by tokio: time, and tasks for what nobody waits
//! for.

use std::fmt;
use std::pin::Pin;
use std::time::{Instant, SystemTime};

use parking_lot::Mutex;
use tidewire_cache::PageRuntime;
use tokio::runtime::Handle;
use tokio::task::JoinSet;

/// The clock of tokio and tasks of it, which end with this.
#[derive(Default)]
pub struct TokioPages {
    tasks: Mutex<JoinSet<()>>,
    commands: Mutex<JoinSet<()>>,
}

impl PageRuntime for TokioPages {
    fn now(&self) -> Instant {
        tokio::time::Instant::now().into_std()
    }

    fn wall(&self) -> SystemTime {
        SystemTime::now()
    }

    fn spawn(&self, work: Pin<Box<dyn Future<Output = ()> + Send>>) {
        let mut tasks = self.tasks.lock();
        while tasks.try_join_next().is_some() {}
        // More wait for a server that does not answer: pages are validated by who asks for them.
        if tasks.len() < TASKS_MAX {
            tasks.spawn(work);
        }
    }

    fn run(&self, command: Pin<Box<dyn Future<Output = ()> + Send>>) {
        let Ok(runtime) = Handle::try_current() else { return };
        let mut commands = self.commands.lock();
        while commands.try_join_next().is_some() {}
        commands.spawn_on(command, &runtime);
    }
}

impl fmt::Debug for TokioPages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TokioPages").field("tasks", &self.tasks.lock().len()).finish()
    }
}

const TASKS_MAX: usize = 1000;
