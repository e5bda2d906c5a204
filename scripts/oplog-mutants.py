#!/usr/bin/env python3
"""Puts deliberate faults into crates/oplog, one at a time, and sees that a test finds each.

    scripts/oplog-mutants.py            all of them
    scripts/oplog-mutants.py NAME...    those with this in their name
    scripts/oplog-mutants.py --check    only that every edit still applies exactly once

Each is an edit and the tests that have to fail with it. Its text is looked for in all files, and has to be
there exactly once, so that files may move. The file is put back after each, also when this is interrupted. It
ends with 1 if a fault is found by nobody.
"""

import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
CRATE = ROOT / "crates/oplog/src"

MUTANTS = [
    ("running transactions are taken for seen",
     "UnreadRange { from: snapshot.xmax(), running: snapshot.running() }",
     "UnreadRange { from: snapshot.xmax(), running: &[] }",
     ["a_transaction_that_is_open_longer", "a_prepared_transaction_counts"]),
    ("a crash does not end the incarnation",
     "CREATE UNLOGGED TABLE", "CREATE TABLE", ["a_crash_resets_each_host_once"]),
    ("another incarnation is no doubt",
     "if last.incarnation != now.incarnation {",
     "if false && last.incarnation != now.incarnation {",
     ["a_crash_resets_each_host_once"]),
    ("the log is trimmed by time",
     "VALUES (pg_snapshot_xmin(pg_current_snapshot()))",
     "VALUES (pg_snapshot_xmax(pg_current_snapshot()))",
     ["a_transaction_that_is_open_longer"]),
    ("trimmed rows are not missed",
     "if poll.horizon > last.snapshot.xmin() {",
     "if false && poll.horizon > last.snapshot.xmin() {",
     ["a_host_that_missed_trimmed_rows"]),
    ("rows of this process are always skipped",
     "keys.retain(|key| !registered.target.changed_since(key, tick));",
     "let _ = (registered, tick); keys.clear();",
     ["a_write_of_this_process_is_marked_once"]),
    ("values are kept before the first position",
     "self.suspended.push(source.suspend());",
     "drop(source.tick());",
     ["what_is_computed_before_the_first_position"]),
    ("the lease is ignored",
     "let has_lapsed = !self.lease.is_valid() && state.suspended.is_none();",
     "let has_lapsed = false && state.suspended.is_none();",
     ["a_host_whose_lease_has_ended"]),
    ("a token is met by any position",
     "&& self.transactions.iter().all(|&xid| snapshot.contains(xid))",
     "&& (true || self.transactions.iter().all(|&xid| snapshot.contains(xid)))",
     ["a_token_that_says_nothing", "a_guarded_write_is_seen"]),
    ("a barrier joins a poll that has begun",
     "let number = polls.borrow().begun + 1;",
     "let number = polls.borrow().begun;",
     ["a_guarded_write_is_seen", "each_way_of_writing", "a_source_that_nobody_has"]),
    ("triggers rest under the replica role",
     "ENABLE ALWAYS TRIGGER {name};", "ENABLE TRIGGER {name};", ["each_way_of_writing"]),
    ("REPLACE is not looked at",
     '("before_insert", "BEFORE INSERT", replaced(false)),',
     '("before_insert", "BEFORE INSERT", String::new()),',
     ["replace_marks_the_rows"]),
    ("nonces are not compared",
     "is_continued |= Some(&here) == self.last.as_ref();",
     "is_continued |= self.last.as_ref().is_some_and(|(seq, _)| *seq == here.0);",
     ["an_older_backup_in_place"]),
    ("a command runs before the log knows of it",
     "let _ = tokio::time::timeout(patience, registration.wait_for(is_tried)).await;",
     "let _ = (patience, &mut registration, is_tried);",
     ["of_a_host_that_is_gone"]),
    ("a host that lives is taken for one that is gone",
     "SELECT id, pg_advisory_lock({class}, id) FROM added", "SELECT id FROM added",
     ["of_a_host_that_is_gone"]),
    ("a lock on the table of intents is waited for by polls",
     "\"SET LOCAL lock_timeout = '{PATIENCE_OF_POLLS}';", "\"SET LOCAL lock_timeout = '0';",
     ["a_lock_on_the_table_holds_up"]),
    ("a host that cannot be removed lets its lock go",
     "Err(IntentFailure::Locked(_)) if step == NextStep::Remove => {",
     "Err(IntentFailure::Locked(_)) if step == NextStep::Remove => { writer = None;",
     ["a_lock_on_the_table_when_commands"]),
    ("a lost connection is not noticed",
     "self.registration.send_if_modified(|registration| {", "let _ = |it: &watch::Sender<Registration>| it.send_if_modified(|registration| {",
     ["a_host_that_loses_its_connection"]),
    ("a host that stops leaves its word",
     "let _ = tokio::time::timeout(patience, removed).await;", "let _ = (patience, removed);",
     ["a_host_that_stops_after_its_commands"]),
    ("a process in a file gives no sign of life",
     "SET beat = beat + 1 WHERE", "SET beat = beat + 0 WHERE", ["of_a_process_that_is_gone"]),
    ("a process that died in a file is not told of",
     "if is_dead {", "if false && is_dead {", ["of_a_process_that_is_gone"]),
    ("a long transaction is taken for death",
     "if begun.elapsed() >= WAIT_MAX && silent", "if false && silent", ["a_long_transaction_makes_nobody_dead"]),
    ("a process that was taken for dead does not say that it lives",
     "register(&database).map(Some)\n            }", "Ok(None)\n            }", ["a_process_that_was_taken_for_gone"]),
]


def tests_fail(names):
    command = ["cargo", "test", "--offline", "-q", "-p", "tidewire-oplog", "--test", "it", "--", *names]
    try:
        return subprocess.run(command, cwd=ROOT, capture_output=True, timeout=180).returncode != 0
    except subprocess.TimeoutExpired:
        return True


def place_of(name, old):
    """The one file that has this text."""
    files = [path for path in sorted(CRATE.rglob("*.rs")) for _ in range(path.read_text().count(old))]
    if len(files) != 1:
        sys.exit(f"{name}: its place is there {len(files)} times; mend the table in {__file__}")
    return files[0]


def main():
    missed = 0
    places = {name: place_of(name, old) for name, old, _, _ in MUTANTS}
    if sys.argv[1:] == ["--check"]:
        return
    for name, old, new, names in MUTANTS:
        if sys.argv[1:] and not any(part in name for part in sys.argv[1:]):
            continue
        path = places[name]
        text = path.read_text()
        try:
            path.write_text(text.replace(old, new))
            check = ["cargo", "check", "--offline", "-q", "-p", "tidewire-oplog"]
            if subprocess.run(check, cwd=ROOT, capture_output=True).returncode != 0:
                sys.exit(f"{name}: does not compile")
            found = tests_fail(names)
        finally:
            path.write_text(text)
        print(f"{'found ' if found else 'MISSED'}  {name}", flush=True)
        missed += not found
    sys.exit(1 if missed else 0)


main()
