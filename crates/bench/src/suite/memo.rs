//! The suite `memo`: looking users up through what keeps them, in process, while somebody renames
//! them; in the same process or on another host.

use std::time::Duration;

use super::{Case, Load, Suite, Work};

/// Tidewire in the cases for two hosts.
pub(super) const OURS_ON_TWO_HOSTS: &str = "tidewire, PostgreSQL, written on another host";

pub(super) const MEMO: Suite = Suite {
    name: "memo",
    about: "1,000 users in SQLite and PostgreSQL looked up in process: memoized, not, and through caches by hand; \
            also where another host writes",
    reading: "Users are looked up in the process that has the answers: memoized by Tidewire, straight from the \
              database, and through caches as people use them by hand: look, else ask the database and keep; \
              after a write, forget. Twenty readers a core; one writer renames a user every 10 ms, or without \
              a rest. There every read is compared with what had been acknowledged before it began: an older \
              name is a *stale read*. A cache by hand may have them, since a reader may keep what it asked for \
              before the write; how often depends on who is interrupted when. Where another host writes, a reader \
              hears of it a moment later, by the change log, unless it names the write by its token. CPU is that of the process, without \
              PostgreSQL's and Redis's. All cores are for everyone.\n\n\
              *Two hosts* are two processes on one PostgreSQL: one writes at the rate in the title, to users picked at random, \
              and the other reads, on half of the cores. Both and PostgreSQL share the cores of this machine. \
              Figures are those of the host that reads. It hears of writes by the change log, by a `LISTEN` written by hand, \
              only when what it keeps expires, or keeps nothing. *Stale for* is the time from the acknowledgement of a \
              write to the last answer without it, 0 if there was none; *stale after 100 ms* are stale reads that \
              came later than that. *Wrong* are names that nobody gave this user. What is wrong or failed is in no other figure.",
    duration: Duration::from_secs(4),
    quick: Duration::from_secs(1),
    cases: &[
        case("One reader, no writer", "alone"),
        case("Readers, a write every 10 ms", "readers"),
        case("Readers, writes without a rest, every read checked", "checked"),
        two_hosts("Two hosts on the same cores, 100 writes/s", "hosts-100"),
        two_hosts("Two hosts on the same cores, 1,000 writes/s", "hosts-1000"),
    ],
};

const fn case(name: &'static str, word: &'static str) -> Case {
    Case { name, needs: word, work: Work::Itself(word), load: Load::Itself }
}

const fn two_hosts(name: &'static str, word: &'static str) -> Case {
    Case { name, needs: word, work: Work::Itself(word), load: Load::TwoHosts }
}
