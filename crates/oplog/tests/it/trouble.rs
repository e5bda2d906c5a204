//! What goes wrong between a host and its database, and that no host tells anything old for it.

use std::sync::Arc;
use std::time::Duration;

use tidewire_memo::{Graph, Memo, Source};
use tidewire_oplog::{CatchUpError, Incarnation, Oplog, ResetReason, Settings, Token, WriteError};
use tokio::sync::Semaphore;
use tokio_postgres::Client;

use crate::cluster::{self, Cluster};
use crate::support::{Heard, Host, database, psql, settings, try_psql};

fn resets(host: &Host, reason: ResetReason) -> u64 {
    host.oplog.status().counts.resets.get(&reason).copied().unwrap_or(0)
}

fn no_resets(host: &Host) {
    assert!(host.oplog.status().counts.resets.is_empty(), "{:?}", host.oplog.status().counts);
}

/// A host that polls only when it is asked to, and does not trim.
fn asked_only() -> Settings {
    let mut settings = settings();
    settings.poll = Duration::from_hours(1);
    settings.keep = Duration::from_hours(1);
    settings.wake = false;
    settings
}

/// A host that trims at every poll what is older than a moment.
fn trims() -> Settings {
    let mut settings = settings();
    settings.poll = Duration::from_millis(1);
    settings.keep = Duration::from_millis(10);
    settings
}

async fn number(client: &Client, sql: &str) -> i64 {
    client.query_one(sql, &[]).await.unwrap().get(0)
}

/// Writes until the rows of the transactions that were there before are gone.
async fn until_trimmed(client: &Client) {
    let xid = "SELECT pg_current_xact_id()::text::bigint";
    let now = number(client, xid).await;
    let horizon = "SELECT xid::text::bigint FROM tidewire.horizon";
    let rows = format!("SELECT count(*) FROM tidewire.log WHERE xid::text::bigint <= {now}");
    while number(client, horizon).await <= now || number(client, &rows).await > 0 {
        client.batch_execute("UPDATE contact SET surname = 'w' WHERE id = 2").await.unwrap();
        // tidy: allow-sleep the log is trimmed by time
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Case 1.
#[tokio::test]
async fn a_transaction_that_is_open_longer_than_the_log_is_kept_loses_nothing() {
    let (config, client) = database().await;
    let host = Host::start_with(&config, trims()).await;
    let long = cluster::open(&config).await;
    long.batch_execute("BEGIN; UPDATE contact SET surname = 'late' WHERE id = 1").await.unwrap();
    // The open transaction holds every snapshot back, so nothing of its time is trimmed.
    for _ in 0..20 {
        client.batch_execute("UPDATE contact SET surname = 'w' WHERE id = 2").await.unwrap();
        host.poll().await;
    }
    host.world.warm().await;
    long.batch_execute("COMMIT").await.unwrap();
    host.poll().await;
    assert_eq!(host.world.surname(1).await.as_deref(), Some("late"));
    assert_eq!(host.world.surname(3).await.as_deref(), Some("Last"));
    until_trimmed(&client).await;
    no_resets(&host);
}

/// Case 2; rollback and savepoint are with the ways of writing.
#[tokio::test]
async fn a_prepared_transaction_counts_when_it_is_committed() {
    let (config, client) = database().await;
    let host = Host::start(&config).await;
    let sql = "BEGIN; UPDATE contact SET surname = 'p' WHERE id = 1; PREPARE TRANSACTION 'one'";
    assert_eq!(host.after(&client, sql).await, [0, 1, 2, 3]);
    let other = "UPDATE contact SET surname = 'o' WHERE id = 2";
    assert_eq!(host.after(&client, other).await, [0, 1, 3]);
    assert_eq!(host.after(&client, "COMMIT PREPARED 'one'").await, [0, 2, 3]);
    assert_eq!(host.world.surname(1).await.as_deref(), Some("p"));
    let sql = "BEGIN; UPDATE contact SET surname = 'q' WHERE id = 1; PREPARE TRANSACTION 'two'";
    assert_eq!(host.after(&client, sql).await, [0, 1, 2, 3]);
    assert_eq!(host.after(&client, "ROLLBACK PREPARED 'two'").await, [0, 1, 2, 3]);
}

/// Case 3: a crash ends the incarnation, a clean restart does not.
#[tokio::test]
async fn a_crash_resets_each_host_once_and_a_clean_restart_does_not() {
    let cluster = Cluster::start();
    let config = cluster.database().await;
    psql(
        &config,
        "CREATE TABLE contact (id integer PRIMARY KEY, firstname varchar, surname varchar); \
                   INSERT INTO contact SELECT id, 'First', 'Last' FROM generate_series(1, 3) AS id",
    );
    let (a, b) = (Host::start(&config).await, Host::start(&config).await);
    for (crash, expected) in [(false, 0), (true, 1), (false, 1), (true, 2)] {
        host_loads(&[&a, &b]).await;
        let failures = [&a, &b].map(|host| host.oplog.status().counts.failures);
        if crash {
            // Ids that are given out and not on disk come again after this.
            let lost = cluster::open(&config).await;
            lost.batch_execute("BEGIN; UPDATE contact SET surname = 'lost' WHERE id = 1")
                .await
                .unwrap();
            cluster.crash();
        } else {
            cluster.shut_down();
        }
        cluster.resume();
        psql(&config, "UPDATE contact SET surname = surname || '+' WHERE id = 1");
        for (host, failures) in [&a, &b].into_iter().zip(failures) {
            host.until(|status| status.counts.failures > failures && status.problem.is_none())
                .await;
            host.poll().await;
            assert_eq!(resets(host, ResetReason::NewIncarnation), expected, "crash: {crash}");
            assert_eq!(host.world.fresh(), if crash { vec![] } else { vec![0, 2, 3] });
        }
        host_loads(&[&a, &b]).await;
        assert_eq!(a.world.surname(1).await, b.world.surname(1).await);
    }
    assert_eq!(a.world.surname(1).await.as_deref(), Some("Last++++"));
}

async fn host_loads(hosts: &[&Host]) {
    for host in hosts {
        host.world.warm().await;
        assert_eq!(host.world.fresh(), [0, 1, 2, 3]);
    }
}

/// Case 5.
#[tokio::test]
async fn a_connection_that_is_cut_during_the_commit_loses_no_change() {
    let (config, mut client) = database().await;
    let (a, b) = (Host::start(&config).await, Host::start(&config).await);
    // The commit waits for the check of a constraint, until the backend is ended.
    psql(
        &config,
        "CREATE FUNCTION wait() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN \
                   PERFORM pg_advisory_lock(7); RETURN NULL; END $$; \
                   CREATE CONSTRAINT TRIGGER wait AFTER UPDATE ON contact INITIALLY DEFERRED \
                   FOR EACH ROW EXECUTE FUNCTION wait()",
    );
    let holder = cluster::open(&config).await;
    holder.batch_execute("SELECT pg_advisory_lock(7)").await.unwrap();
    a.world.warm().await;
    b.world.warm().await;
    let contacts = a.world.contacts;
    let pid = number(&client, "SELECT pg_backend_pid()::bigint").await;
    let write = a.oplog.transaction(&mut client, async move |transaction, changes| {
        changes.changed(&contacts, &1);
        transaction.execute("UPDATE contact SET surname = 'cut' WHERE id = 1", &[]).await?;
        Ok::<_, tokio_postgres::Error>(())
    });
    let cut = async {
        let waits = format!(
            "SELECT count(*) FROM pg_locks WHERE pid = {pid} AND locktype = 'advisory' AND NOT granted"
        );
        while number(&holder, &waits).await == 0 {
            // tidy: allow-sleep PostgreSQL tells nobody who waits for a lock
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        holder
            .execute("SELECT pg_terminate_backend($1)", &[&i32::try_from(pid).unwrap()])
            .await
            .unwrap();
    };
    let (written, ()) = tokio::join!(write, cut);
    assert!(matches!(written, Err(WriteError::Unknown(_) | WriteError::Refused(_))), "{written:?}");
    for host in [&a, &b] {
        host.poll().await;
        let truth: String =
            holder.query_one("SELECT surname FROM contact WHERE id = 1", &[]).await.unwrap().get(0);
        assert_eq!(host.world.surname(1).await, Some(truth));
    }
}

/// Case 6.
#[tokio::test]
async fn what_is_computed_before_the_first_position_is_not_kept() {
    let (config, client) = database().await;
    let graph = Graph::new();
    let contacts = Source::<i32>::new_in(&graph, "contacts");
    let (gate, loaded) = (Arc::new(Semaphore::new(0)), Arc::new(Semaphore::new(0)));
    let (of_memo, of_load) = (gate.clone(), loaded.clone());
    let reader = Arc::new(cluster::open(&config).await);
    let surname = Memo::infallible_in(&graph, "surname", move |id: i32| {
        let (gate, loaded, client) = (of_memo.clone(), of_load.clone(), reader.clone());
        async move {
            contacts.read(&id);
            let row = client
                .query_one("SELECT surname FROM contact WHERE id = $1", &[&id])
                .await
                .unwrap();
            loaded.add_permits(1);
            gate.acquire().await.unwrap().forget();
            row.get::<_, String>(0)
        }
    });
    let log = Oplog::postgres(&config).settings(settings()).capture("contact", &contacts, ["id"]);
    let mut early = Box::pin(surname.get(1));
    tokio::select! {
        _ = &mut early => panic!("the gate is shut"),
        _ = loaded.acquire() => {}
    }
    // It has loaded and waits. The row changes before any trigger is there.
    client.batch_execute("UPDATE contact SET surname = 'unseen' WHERE id = 1").await.unwrap();
    let _oplog = log.start().await.unwrap();
    gate.add_permits(100);
    early.await.unwrap();
    assert_eq!(*surname.get(1).await.unwrap(), "unseen");
}

/// Case 7.
#[tokio::test]
async fn a_host_whose_lease_has_ended_answers_and_keeps_nothing() {
    let (config, client) = database().await;
    let mut settings = asked_only();
    settings.lease = Duration::from_millis(300);
    let host = Host::start_with(&config, settings).await;
    let heard = Heard::by(&host.oplog);
    host.world.warm().await;
    while host.oplog.check_lease() {
        // tidy: allow-sleep a lease ends by time alone
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    client.batch_execute("UPDATE contact SET surname = 'X' WHERE id = 1").await.unwrap();
    assert_eq!(host.world.surname(1).await.as_deref(), Some("X"));
    host.world.warm().await;
    assert_eq!(host.world.fresh(), [0; 0]);
    assert!(host.oplog.status().is_suspended);
    client.batch_execute("UPDATE contact SET surname = 'Y' WHERE id = 1").await.unwrap();
    assert_eq!(host.world.surname(1).await.as_deref(), Some("Y"));
    host.poll().await;
    assert_eq!(host.world.surname(1).await.as_deref(), Some("Y"));
    assert!(heard.all().contains(&"everything".to_owned()), "what others keep by it ends, too");
}

/// Case 8.
#[tokio::test]
async fn a_host_that_missed_trimmed_rows_starts_over() {
    let (config, client) = database().await;
    let late = Host::start_with(&config, asked_only()).await;
    late.world.warm().await;
    let trimmer = Host::start_with(&config, trims()).await;
    client.batch_execute("UPDATE contact SET surname = 'X' WHERE id = 1").await.unwrap();
    until_trimmed(&client).await;
    no_resets(&trimmer);
    // It trims no more, so that the next poll of the other one misses nothing.
    trimmer.oplog.stop().await;
    late.poll().await;
    assert_eq!(resets(&late, ResetReason::Trimmed), 1);
    assert_eq!(late.world.fresh(), [0; 0]);
    assert_eq!(late.world.surname(1).await.as_deref(), Some("X"));
    late.world.warm().await;
    late.poll().await;
    assert_eq!(late.world.fresh(), [0, 1, 2, 3]);
}

/// Case 13.
#[tokio::test]
async fn a_trigger_that_is_disabled_suspends_its_sources_until_it_is_back() {
    let (config, client) = database().await;
    let mut by_hand = settings();
    by_hand.check = Duration::ZERO;
    let installed = Host::start_with(&config, by_hand.clone()).await;
    by_hand.install = false;
    let host = Host::start_with(&config, by_hand).await;
    installed.oplog.stop().await;
    host.world.warm().await;
    let name: String = client
        .query_one("SELECT tgname::text FROM pg_trigger WHERE tgname LIKE 'tidewire_update%'", &[])
        .await
        .unwrap()
        .get(0);
    client.batch_execute(&format!("ALTER TABLE contact DISABLE TRIGGER {name}")).await.unwrap();
    let is_broken =
        |status: &tidewire_oplog::Status| status.sources.iter().any(|s| s.problem.is_some());
    host.until(is_broken).await;
    client.batch_execute("UPDATE contact SET surname = 'unseen' WHERE id = 1").await.unwrap();
    assert_eq!(host.world.surname(1).await.as_deref(), Some("unseen"));
    assert_eq!(host.world.fresh(), [0; 0]);
    let problem = host.oplog.status().sources[0].problem.clone().unwrap();
    assert!(problem.contains("is disabled") && problem.contains("tidewire oplog sql"), "{problem}");
    client
        .batch_execute(&format!("ALTER TABLE contact ENABLE ALWAYS TRIGGER {name}"))
        .await
        .unwrap();
    host.until(|status| !is_broken(status)).await;
    assert_eq!(
        host.after(&client, "UPDATE contact SET surname = 'Y' WHERE id = 1").await,
        [0, 2, 3]
    );
}

/// Case 14.
#[tokio::test]
async fn a_key_that_gets_a_type_without_text_is_not_kept_any_more() {
    let (config, client) = database().await;
    let mut often = settings();
    often.check = Duration::ZERO;
    let host = Host::start_with(&config, often).await;
    client.batch_execute("ALTER TABLE contact ALTER COLUMN id TYPE bigint").await.unwrap();
    host.poll().await;
    host.poll().await;
    assert!(host.oplog.status().sources.iter().all(|source| source.problem.is_none()));
    client.batch_execute("ALTER TABLE contact ALTER COLUMN id TYPE numeric").await.unwrap();
    host.until(|status| status.sources.iter().any(|source| source.problem.is_some())).await;
    let problem = host.oplog.status().sources[0].problem.clone().unwrap();
    assert!(problem.contains("column id is of type numeric"), "{problem}");
}

/// Case 15, and a hot key (26): a long list of changes costs one mark.
#[tokio::test]
async fn an_update_of_many_rows_is_one_row_of_the_log() {
    let (config, client) = database().await;
    let host = Host::start(&config).await;
    let sql = "INSERT INTO contact SELECT id, 'a', 'b' FROM generate_series(10, 100000) AS id";
    assert_eq!(host.after(&client, sql).await, [0; 0]);
    let before = number(&client, "SELECT count(*) FROM tidewire.log").await;
    assert_eq!(host.after(&client, "UPDATE contact SET surname = 'all'").await, [0]);
    assert_eq!(number(&client, "SELECT count(*) FROM tidewire.log").await, before + 1);
    let counts = host.oplog.status().counts;
    assert_eq!((counts.keys, counts.whole_sources), (1, 2), "{counts:?}");
    let hot = "DO $$ BEGIN FOR i IN 1..2000 LOOP UPDATE contact SET surname = i::text WHERE id = 1; \
               END LOOP; END $$";
    assert_eq!(host.after(&client, hot).await, [0, 2, 3]);
    assert_eq!(host.oplog.status().counts.keys, 2);
}

/// Case 16.
#[tokio::test]
async fn a_source_that_nobody_has_changes_nothing_and_a_key_that_nobody_reads_changes_all() {
    let (config, client) = database().await;
    let host = Host::start(&config).await;
    let log = "INSERT INTO tidewire.log (source, keys) VALUES";
    for (values, fresh) in [
        ("('nobody', '{1}')", &[0, 1, 2, 3][..]),
        ("('nobody', NULL)", &[0, 1, 2, 3]),
        ("('', '{}')", &[0, 1, 2, 3]),
        ("('contacts', '{}')", &[0, 1, 2, 3]),
        ("('contacts', '{1,2}')", &[0, 3]),
        ("('contacts', '{x}')", &[0]),
        ("('contacts', '{007}')", &[0]),
        ("('contacts', '{99999999999999999999}')", &[0]),
        ("('contacts', ARRAY[NULL])", &[0]),
        ("('contacts.count', '{1}')", &[1, 2, 3]),
        ("('contacts', NULL), ('contacts.count', NULL)", &[]),
    ] {
        assert_eq!(host.after(&client, &format!("{log} {values}")).await, fresh, "{values}");
    }
    let counts = host.oplog.status().counts;
    assert!(counts.unknown_sources == 2 && counts.unreadable_keys == 4, "{counts:?}");
}

/// Case 18.
#[tokio::test]
async fn a_token_that_says_nothing_costs_a_poll_and_a_flood_of_them_few() {
    let (config, client) = database().await;
    let host = Host::start_with(&config, asked_only()).await;
    let here = host.oplog.position().unwrap().incarnation;
    let many = (0..31).fold(Token::default(), |mut token, xid| {
        token.merge(&Token::of(&here, u64::MAX / 4 + xid));
        token
    });
    let foreign = Token::of(&Incarnation([9; 16]), 3);
    for token in [Token::parse("garbage"), foreign, Token::of(&here, u64::MAX / 4), many] {
        host.world.warm().await;
        client.batch_execute("UPDATE contact SET surname = 'X' WHERE id = 1").await.unwrap();
        host.oplog.caught_up(&token).await.unwrap();
        assert_eq!(host.world.fresh(), [0, 2, 3], "{token:?}");
    }
    let before = host.oplog.status().counts.polls;
    let flood = (0..5000).map(|_| {
        let handle = host.oplog.handle();
        tokio::spawn(async move { handle.caught_up(&Token::parse("?")).await })
    });
    for request in flood.collect::<Vec<_>>() {
        request.await.unwrap().unwrap();
    }
    let polls = host.oplog.status().counts.polls - before;
    assert!(polls < 500, "{polls} polls for 5000 requests");
}

/// Case 19: nobody is woken, through a pooler or because notifications are off.
#[tokio::test]
async fn without_wake_ups_the_next_poll_finds_the_change() {
    let (config, client) = database().await;
    let mut quiet = settings();
    quiet.wake = false;
    let host = Host::start_with(&config, quiet).await;
    let mut watch = host.world.surname.watch(1);
    watch.next().await;
    client.batch_execute("UPDATE contact SET surname = 'X' WHERE id = 1").await.unwrap();
    assert_eq!(watch.next().await.unwrap().as_ref().unwrap().as_deref(), Some("X"));
}

/// Case 21.
#[tokio::test]
async fn a_log_that_is_dropped_or_forbidden_is_never_trusted() {
    let (config, client) = database().await;
    let host = Host::start(&config).await;
    host.world.warm().await;
    client
        .batch_execute("DROP SCHEMA tidewire CASCADE; UPDATE contact SET surname = 'X'")
        .await
        .unwrap();
    host.until(|status| status.counts.failures > 0 && status.problem.is_none()).await;
    assert_eq!(host.world.fresh(), [0; 0]);
    assert_eq!(host.world.surname(1).await.as_deref(), Some("X"));
    assert_eq!(
        host.after(&client, "UPDATE contact SET surname = 'Y' WHERE id = 1").await,
        [0, 2, 3]
    );
    // Writers go on without any right to the log.
    client
        .batch_execute("CREATE ROLE writer; GRANT SELECT, UPDATE ON contact TO writer")
        .await
        .unwrap();
    let sql = "SET ROLE writer; UPDATE contact SET surname = 'Z' WHERE id = 1; RESET ROLE";
    assert_eq!(host.after(&client, sql).await, [0, 2, 3]);
    let refused = try_psql(&config, "SET ROLE writer; DELETE FROM tidewire.log");
    assert!(String::from_utf8_lossy(&refused.stderr).contains("permission denied"));
}

/// Case 13, where the host may put the trigger back by itself.
#[tokio::test]
async fn what_was_written_while_a_trigger_was_missing_is_heard_once_it_is_put_back() {
    let (config, client) = database().await;
    let mut settings = settings();
    settings.check = Duration::ZERO;
    let host = Host::start_with(&config, settings).await;
    host.world.warm().await;
    let name: String = client
        .query_one("SELECT tgname::text FROM pg_trigger WHERE tgname LIKE 'tidewire_update%'", &[])
        .await
        .unwrap()
        .get(0);
    let sql = format!(
        "BEGIN; DROP TRIGGER {name} ON contact; UPDATE contact SET surname = 'unseen' WHERE id = 1; \
         COMMIT"
    );
    client.batch_execute(&sql).await.unwrap();
    host.until(|status| status.counts.resets.contains_key(&ResetReason::CaptureRestored)).await;
    assert_eq!(host.world.surname(1).await.as_deref(), Some("unseen"));
    let again = host.after(&client, "UPDATE contact SET surname = 'Y' WHERE id = 1").await;
    assert_eq!(again, [0, 2, 3]);
}

/// Case 21: somebody emptied the log's own tables.
#[tokio::test]
async fn a_log_whose_tables_were_emptied_is_begun_anew() {
    let (config, client) = database().await;
    let host = Host::start(&config).await;
    host.world.warm().await;
    let sql = "TRUNCATE tidewire.log, tidewire.horizon, tidewire.incarnation, tidewire.tick";
    client.batch_execute(sql).await.unwrap();
    host.poll().await;
    assert_eq!(host.world.fresh(), [0; 0]);
    // Rows of transactions that ran meanwhile may be among those that are gone: until these end,
    // each poll makes everything stale.
    let horizon = client.query_one("SELECT xid::text FROM tidewire.horizon", &[]).await.unwrap();
    let horizon: u64 = horizon.get::<_, &str>(0).parse().unwrap();
    let oldest = || {
        let position = host.oplog.status().position.unwrap();
        let (_, snapshot) = position.split_once('/').unwrap();
        snapshot.split(':').next().unwrap().parse::<u64>().unwrap()
    };
    while oldest() < horizon {
        host.poll().await;
    }
    let again = host.after(&client, "UPDATE contact SET surname = 'Y' WHERE id = 1").await;
    assert_eq!(again, [0, 2, 3]);
}

#[tokio::test(flavor = "multi_thread")]
async fn hosts_that_start_at_once_on_a_new_database_all_start() {
    let (config, client) = database().await;
    let start = || Host::start(&config);
    let (one, two, three, four) = tokio::join!(start(), start(), start(), start());
    for host in [one, two, three, four] {
        host.poll().await;
        let again = host.after(&client, "UPDATE contact SET surname = 'Y' WHERE id = 1").await;
        assert_eq!(again, [0, 2, 3]);
    }
}

#[tokio::test]
async fn nothing_is_kept_after_a_log_that_nobody_holds_any_more() {
    let (config, client) = database().await;
    let host = Host::start(&config).await;
    host.world.warm().await;
    let Host { oplog, world } = host;
    drop(oplog);
    client.batch_execute("UPDATE contact SET surname = 'X' WHERE id = 1").await.unwrap();
    assert_eq!(world.surname(1).await.as_deref(), Some("X"));
    world.warm().await;
    assert_eq!(world.fresh(), [0; 0]);
}

/// Case 28.
#[tokio::test]
async fn a_stop_ends_every_wait_and_nothing_is_kept_after_it() {
    let (config, client) = database().await;
    let host = Host::start(&config).await;
    host.world.warm().await;
    // The table of the log is locked, so no poll ends.
    let locker = cluster::open(&config).await;
    locker.batch_execute("BEGIN; LOCK TABLE tidewire.log").await.unwrap();
    let handle = host.oplog.handle();
    let waiting: Vec<_> = (0..10)
        .map(|_| {
            let handle = handle.clone();
            tokio::spawn(async move { handle.caught_up(&Token::unclear()).await })
        })
        .collect();
    while handle.status().counts.barriers < 10 {
        tokio::task::yield_now().await;
    }
    host.oplog.stop().await;
    for waiter in waiting {
        assert_eq!(waiter.await.unwrap(), Err(CatchUpError::Stopped));
    }
    locker.batch_execute("ROLLBACK").await.unwrap();
    assert_eq!(host.world.fresh(), [0; 0]);
    client.batch_execute("UPDATE contact SET surname = 'X' WHERE id = 1").await.unwrap();
    assert_eq!(host.world.surname(1).await.as_deref(), Some("X"));
    host.world.warm().await;
    assert_eq!(host.world.fresh(), [0; 0]);
    assert!(!handle.check_lease());
}

#[tokio::test]
async fn of_a_trigger_that_one_host_puts_back_every_host_hears() {
    let (config, client) = database().await;
    let mut often = settings();
    often.check = Duration::from_millis(1);
    let mut seldom = settings();
    seldom.check = Duration::from_hours(1);
    let b = Host::start_with(&config, seldom).await;
    b.world.warm().await;
    let (a, mut watch) = (Host::start_with(&config, often).await, b.world.surname.watch(1));
    assert_eq!(watch.next().await.unwrap().as_ref().unwrap().as_deref(), Some("Last"));
    client
        .batch_execute(
            "BEGIN; ALTER TABLE contact DISABLE TRIGGER ALL; \
             UPDATE contact SET surname = 'X' WHERE id = 1; COMMIT",
        )
        .await
        .unwrap();
    assert_eq!(watch.next().await.unwrap().as_ref().unwrap().as_deref(), Some("X"));
    drop(a);
}

#[tokio::test]
async fn a_change_that_is_no_text_of_the_database_holds_up_no_other() {
    let (config, _) = database().await;
    let (a, b) = (Host::start(&config).await, Host::start(&config).await);
    let heard = Heard::by(&b.oplog);
    for (source, key) in
        [("pages", Some("a\0b")), ("a\0b", Some("1")), ("a\0b", None), ("others", Some("é'\"%/\n"))]
    {
        a.oplog.publish(source, key);
    }
    let token = a.oplog.published().await.unwrap();
    b.oplog.caught_up(&token).await.unwrap();
    let mut all = heard.all();
    all.sort();
    assert_eq!(all, ["others/é'\"%/\n", "pages"]);
}
