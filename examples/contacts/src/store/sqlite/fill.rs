//! Filling a database with made-up contacts, the same ones each time.
//!
//! All of it is one transaction: when it is interrupted nothing was done, and the next start does it
//! anew. Ids count from 1; a database where ids up to `rows` were ever given is left alone, so
//! contacts that were deleted stay deleted.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use rusqlite::{Connection, TransactionBehavior};

use super::{Options, schema};

/// How far a fill is.
#[derive(Debug, Clone, Copy)]
pub struct Progress {
    /// Rows that are there.
    pub done: u32,
    /// Rows that will be there.
    pub rows: u32,
    /// Rows added since the start.
    pub added: u32,
    /// Time since the start.
    pub elapsed: Duration,
}

impl Progress {
    /// How much of it is done, in percent, rounded down.
    pub fn percent(&self) -> u32 {
        let percent = u64::from(self.done) * 100 / u64::from(self.rows.max(1));
        u32::try_from(percent).unwrap_or(100)
    }

    /// How fast it goes.
    pub fn rows_per_second(&self) -> f64 {
        f64::from(self.added) / self.elapsed.as_secs_f64().max(1e-9)
    }
}

/// Adds contacts until ids up to `rows` were given; returns how many it added.
///
/// # Errors
/// When the database cannot be opened or written; nothing is added then.
pub fn fill(path: &Path, rows: u32, mut report: impl FnMut(Progress)) -> Result<u32> {
    let mut database = schema::open(path, Options::default().busy_timeout)?;
    let what = || format!("filling database {}", path.display());
    add(&mut database, rows, &mut report).with_context(what)
}

fn add(database: &mut Connection, rows: u32, report: &mut dyn FnMut(Progress)) -> Result<u32> {
    let transaction = database.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let given: u32 = transaction.query_row(
        "SELECT coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'contact'), 0)",
        [],
        |row| row.get(0),
    )?;
    if given >= rows {
        return Ok(0);
    }
    let started = Instant::now();
    let mut insert =
        transaction.prepare("INSERT INTO contact (id, firstname, surname) VALUES (?1, ?2, ?3)")?;
    for id in given + 1..=rows {
        let (first_name, surname) = names(id);
        insert.execute((id, first_name, surname))?;
        if id % REPORT_EVERY_ROWS == 0 || id == rows {
            let (added, elapsed) = (id - given, started.elapsed());
            report(Progress { done: id, rows, added, elapsed });
        }
    }
    drop(insert);
    transaction.commit()?;
    Ok(rows - given)
}

/// The first name and surname of a made-up contact.
fn names(id: u32) -> (&'static str, &'static str) {
    let mixed = mix(u64::from(id));
    let pick = |names: &[&'static str], bits: u64| names[(bits % names.len() as u64) as usize];
    (pick(FIRST_NAMES, mixed >> 32), pick(SURNAMES, mixed & 0xffff_ffff))
}

/// SplitMix64: neighbouring numbers come out unlike each other.
const fn mix(number: u64) -> u64 {
    let mut z = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

const REPORT_EVERY_ROWS: u32 = 10_000;

const FIRST_NAMES: &[&str] = &[
    "Ada",
    "Aiko",
    "Alejandro",
    "Amara",
    "Amélie",
    "Anders",
    "Anna",
    "Arjun",
    "Astrid",
    "Ayşe",
    "Beatriz",
    "Benedikt",
    "Björn",
    "Bronwyn",
    "Carlos",
    "Chiara",
    "Chloé",
    "Dmitri",
    "Ebony",
    "Eleni",
    "Elif",
    "Emeka",
    "Emma",
    "Fatima",
    "Felix",
    "Finn",
    "Freya",
    "Giulia",
    "Grace",
    "Gustav",
    "Hannah",
    "Haruto",
    "Hassan",
    "Hugo",
    "Ines",
    "Ingrid",
    "Isaac",
    "Ivan",
    "Jamal",
    "Jan",
    "Joana",
    "José",
    "Jürgen",
    "Kamala",
    "Katarzyna",
    "Kenji",
    "Kwame",
    "Lars",
    "Leila",
    "Liam",
    "Linnea",
    "Lucía",
    "Łukasz",
    "Maria",
    "Matteo",
    "Mei",
    "Miguel",
    "Mila",
    "Mohammed",
    "Nadia",
    "Ngozi",
    "Nikolai",
    "Noah",
    "Olga",
    "Olivia",
    "Omar",
    "Óscar",
    "Petra",
    "Priya",
    "Rafael",
    "Ravi",
    "Renée",
    "Rosa",
    "Saoirse",
    "Sara",
    "Siobhán",
    "Sofia",
    "Søren",
    "Tariq",
    "Thandiwe",
    "Tomás",
    "Uma",
    "Valentina",
    "Victor",
    "Wei",
    "William",
    "Ximena",
    "Yara",
    "Yusuf",
    "Zahra",
    "Zoë",
    "Zsófia",
];

const SURNAMES: &[&str] = &[
    "Abe",
    "Adeyemi",
    "Ahmed",
    "Almeida",
    "Andersson",
    "Bauer",
    "Becker",
    "Bianchi",
    "Brown",
    "Çelik",
    "Chen",
    "Costa",
    "Dahl",
    "Dubois",
    "Eriksen",
    "Fernández",
    "Ferrari",
    "Fischer",
    "Fontaine",
    "García",
    "González",
    "Green",
    "Gupta",
    "Haddad",
    "Hansen",
    "Hashimoto",
    "Hoang",
    "Horváth",
    "Ibrahim",
    "Ivanova",
    "Jansen",
    "Jensen",
    "Johansson",
    "Jones",
    "Kamau",
    "Kaya",
    "Keller",
    "Khan",
    "Kim",
    "Kowalska",
    "Kumar",
    "Laurent",
    "Lee",
    "Lindqvist",
    "López",
    "Lopes",
    "MacDonald",
    "Martin",
    "Mensah",
    "Meyer",
    "Moreau",
    "Müller",
    "Murphy",
    "Nagy",
    "Nakamura",
    "Nguyen",
    "Nielsen",
    "Novák",
    "Nowak",
    "O'Brien",
    "Okafor",
    "Olsen",
    "Omondi",
    "Öztürk",
    "Papadopoulos",
    "Park",
    "Patel",
    "Pereira",
    "Petrov",
    "Popescu",
    "Quinn",
    "Ramírez",
    "Rossi",
    "Ryan",
    "Sánchez",
    "Santos",
    "Sato",
    "Schmidt",
    "Schneider",
    "Silva",
    "Singh",
    "Smith",
    "Sokolov",
    "Sørensen",
    "Suzuki",
    "Svoboda",
    "Tanaka",
    "Taylor",
    "Tremblay",
    "van der Berg",
    "Virtanen",
    "Wagner",
    "Wang",
    "Weber",
    "Williams",
    "Wójcik",
    "Yamamoto",
    "Yılmaz",
    "Zhang",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn made_up_names_are_the_same_each_time_and_spread_over_both_lists() {
        assert_eq!(names(1), names(1));
        let pairs: std::collections::HashSet<_> = (1..=1000).map(names).collect();
        assert!(pairs.len() > 900, "{}", pairs.len());
    }
}
