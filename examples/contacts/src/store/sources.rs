//! What can change in a store, as sources of the memo graph: what answers depend on, and what makes
//! them stale.
//!
//! | source | key | read by | changed by |
//! |---|---|---|---|
//! | `contacts` | id | a contact, absent ones too; a page reads the interval that it covers | create, update, delete |
//! | `contacts.count` | none | the count | create, delete |
//! | `users` | id | a user | update |

use tidewire::memo::{Graph, Source, Suspension};

/// The sources of one store.
#[derive(Debug, Clone, Copy)]
pub struct Sources {
    pub(super) contacts: Source<i32>,
    pub(super) count: Source<()>,
    pub(super) users: Source<i64>,
}

impl Sources {
    /// Makes the sources of a store whose every change is heard of: this program announces its own,
    /// and a change log tells of all others.
    pub fn new(graph: &Graph) -> Self {
        Self {
            contacts: Source::new_in(graph, "contacts"),
            count: Source::new_in(graph, "contacts.count"),
            users: Source::new_in(graph, "users"),
        }
    }

    /// Makes the sources of a store that others may write to unseen: what depends on it lives for
    /// as long as the graph allows, 5 seconds unless that is set.
    pub fn external(graph: &Graph) -> Self {
        let Self { contacts, count, users } = Self::new(graph);
        Self { contacts: contacts.external(), count: count.external(), users: users.external() }
    }

    /// Says that what changes cannot be told from now on: until all of this is dropped, what reads
    /// the store is answered and not kept.
    pub(super) fn suspend(&self) -> [Suspension; 3] {
        [self.contacts.suspend(), self.count.suspend(), self.users.suspend()]
    }
}
