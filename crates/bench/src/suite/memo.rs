//! The suite `memo`: looking users up through what keeps them, in process, while somebody renames
//! them.

use std::time::Duration;

use super::{Case, Load, Suite, Work};

pub(super) const MEMO: Suite = Suite {
    name: "memo",
    about: "1,000 users in SQLite and PostgreSQL looked up in process: memoized, not, and through caches by hand",
    reading: "Users are looked up in the process that has the answers: memoized by Tidewire, straight from the \
              database, and through caches as people use them by hand: look, else ask the database and keep; \
              after a write, forget. Twenty readers a core; one writer renames a user every 10 ms, or without \
              a rest. There every read is compared with what had been acknowledged before it began: an older \
              name is a *stale read*. A cache by hand may have them, since a reader may keep what it asked for \
              before the write; how often depends on who is interrupted when. Where another host writes, a reader \
              hears of it a moment later, by the change log, unless it names the write by its token. CPU is that of the process, without \
              PostgreSQL's and Redis's. All cores are for everyone.",
    duration: Duration::from_secs(4),
    quick: Duration::from_secs(1),
    cases: &[
        case("One reader, no writer", "alone"),
        case("Readers, a write every 10 ms", "readers"),
        case("Readers, writes without a rest, every read checked", "checked"),
    ],
};

const fn case(name: &'static str, word: &'static str) -> Case {
    Case { name, needs: word, work: Work::Itself(word), load: Load::Itself }
}
