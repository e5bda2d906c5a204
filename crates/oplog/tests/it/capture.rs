//! What triggers capture: every way of writing, each key that it concerns and no other.

use tidewire_memo::{Graph, Memo, Source};
use tidewire_oplog::Oplog;

use crate::cluster;
use crate::support::{Host, World, database, psql, refusal, settings};

#[tokio::test]
async fn each_way_of_writing_is_captured() {
    let (config, client) = database().await;
    let host = Host::start(&config).await;
    for (sql, fresh) in [
        ("UPDATE contact SET surname = 'Y' WHERE id = 2", &[0, 1, 3][..]),
        ("UPDATE contact SET surname = 'Y' WHERE id = 999", &[0, 1, 2, 3]),
        ("BEGIN; UPDATE contact SET surname = 'Z' WHERE id = 2; ROLLBACK", &[0, 1, 2, 3]),
        ("INSERT INTO contact VALUES (9, 'a', 'b')", &[1, 2, 3]),
        ("UPDATE contact SET id = 10 WHERE id = 9", &[0, 1, 2, 3]),
        ("DELETE FROM contact WHERE id = 10", &[1, 2, 3]),
        ("DELETE FROM contact WHERE id = 3", &[1, 2]),
        ("INSERT INTO contact VALUES (3, 'a', 'b')", &[1, 2]),
        (
            "UPDATE contact SET id = 4 WHERE id = 3; UPDATE contact SET id = 3 WHERE id = 4",
            &[0, 1, 2],
        ),
        (
            "INSERT INTO contact VALUES (1, '', 'u') ON CONFLICT (id) DO UPDATE SET surname = 'u'",
            &[0, 2, 3],
        ),
        ("INSERT INTO contact VALUES (1, '', 'u') ON CONFLICT DO NOTHING", &[0, 1, 2, 3]),
        (
            "MERGE INTO contact c USING (VALUES (2), (77)) v(id) ON c.id = v.id WHEN MATCHED THEN UPDATE SET \
          surname = 'm' WHEN NOT MATCHED THEN INSERT VALUES (v.id, 'm', 'm')",
            &[1, 3],
        ),
        (
            "WITH gone AS (DELETE FROM contact WHERE id = 77 RETURNING *) SELECT count(*) FROM gone",
            &[1, 2, 3],
        ),
        (
            "SET session_replication_role = replica; UPDATE contact SET surname = 'r' WHERE id = 3; \
          RESET session_replication_role",
            &[0, 1, 2],
        ),
        (
            "BEGIN; UPDATE contact SET surname = 's' WHERE id = 1; SAVEPOINT s; UPDATE contact SET surname = \
          's' WHERE id = 2; ROLLBACK TO s; COMMIT",
            &[0, 2, 3],
        ),
        ("UPDATE contact SET surname = 'all'", &[0]),
        ("TRUNCATE contact", &[]),
    ] {
        assert_eq!(host.after(&client, sql).await, fresh, "{sql}");
    }
    host.world.warm().await;
    psql(&config, "\\copy contact from program 'echo 1,a,b' csv");
    host.poll().await;
    assert_eq!(host.world.fresh(), [2, 3]);
}

/// Case 11 is above; case 10: what a foreign key does to other tables.
#[tokio::test]
async fn what_a_foreign_key_cascades_to_is_captured() {
    let (config, client) = database().await;
    client
        .batch_execute(
            "CREATE TABLE phone (contact integer REFERENCES contact ON DELETE CASCADE ON UPDATE CASCADE, \
             number text, PRIMARY KEY (contact, number)); \
             INSERT INTO phone VALUES (1, '+1/2'), (1, '3'), (2, '4')",
        )
        .await
        .unwrap();
    let graph = Graph::new();
    let phones = Source::<(i32, String)>::new_in(&graph, "phones");
    let memo = Memo::infallible_in(&graph, "phone", move |key: (i32, String)| async move {
        phones.read(&key);
    });
    let log = Oplog::postgres(&config).settings(settings());
    let oplog = log.capture("public.phone", &phones, ["contact", "number"]).start().await.unwrap();
    let keys = [(1, "+1/2".to_owned()), (1, "3".to_owned()), (2, "4".to_owned())];
    for (sql, fresh) in [
        ("UPDATE contact SET surname = 'x'", &[true, true, true][..]),
        ("UPDATE contact SET id = 7 WHERE id = 1", &[false, false, true]),
        ("DELETE FROM contact WHERE id = 2", &[true, true, false]),
        ("TRUNCATE contact CASCADE", &[false, false, false]),
    ] {
        for key in &keys {
            memo.get(key.clone()).await.unwrap();
        }
        client.batch_execute(sql).await.unwrap();
        oplog.barrier().await.unwrap();
        let seen: Vec<bool> = keys.iter().map(|key| memo.cached(key).is_some()).collect();
        assert_eq!(seen, fresh, "{sql}");
    }
}

/// Case 12: rows are where their partition is, and partitions come while hosts run.
#[tokio::test]
async fn writes_into_partitions_are_captured_also_of_those_that_come_later() {
    let config = cluster::database().await;
    let client = cluster::open(&config).await;
    client
        .batch_execute(
            "CREATE TABLE contact (id integer PRIMARY KEY, firstname varchar, surname varchar) \
             PARTITION BY RANGE (id); \
             CREATE TABLE \"Low\" PARTITION OF contact FOR VALUES FROM (0) TO (3) PARTITION BY LIST (id); \
             CREATE TABLE low1 PARTITION OF \"Low\" FOR VALUES IN (1); \
             CREATE TABLE low2 PARTITION OF \"Low\" FOR VALUES IN (2); \
             CREATE TABLE high PARTITION OF contact FOR VALUES FROM (3) TO (100); \
             INSERT INTO contact SELECT id, 'First', 'Last' FROM generate_series(1, 3) AS id",
        )
        .await
        .unwrap();
    let mut often = settings();
    often.check = std::time::Duration::ZERO;
    let host = Host::start_with(&config, often).await;
    for (sql, fresh) in [
        ("UPDATE contact SET surname = 'a' WHERE id = 1", &[0, 2, 3][..]),
        ("UPDATE \"Low\" SET surname = 'a' WHERE id = 1", &[0, 2, 3]),
        ("UPDATE low1 SET surname = 'a' WHERE id = 1", &[0, 2, 3]),
        ("UPDATE high SET surname = 'a' WHERE id = 3", &[0, 1, 2]),
        ("UPDATE contact SET id = 50 WHERE id = 3", &[0, 1, 2]),
        ("TRUNCATE low2", &[]),
        ("INSERT INTO high VALUES (3, '', '')", &[1, 2]),
    ] {
        assert_eq!(host.after(&client, sql).await, fresh, "{sql}");
    }
    client
        .batch_execute(
            "CREATE TABLE late PARTITION OF contact FOR VALUES FROM (100) TO (200); \
             CREATE TABLE attached (LIKE contact INCLUDING ALL); \
             ALTER TABLE contact ATTACH PARTITION attached FOR VALUES FROM (200) TO (300)",
        )
        .await
        .unwrap();
    // A poll that begins later sees to their triggers, and the one after that is after it.
    host.poll().await;
    host.poll().await;
    let late = |table: &str, id: u32| format!("INSERT INTO {table} VALUES ({id}, '', '')");
    assert_eq!(host.after(&client, &late("late", 100)).await, [1, 2, 3]);
    assert_eq!(host.after(&client, &late("attached", 200)).await, [1, 2, 3]);
    let started = Oplog::postgres(&config).capture("low1", &Source::<i32>::new("s"), ["id"]);
    let text = refusal(started.start().await);
    assert!(text.contains("it is a part of \"Low\"; capture that"), "{text}");
}

/// Case 12: a subscription fires triggers of rows, not of statements.
#[tokio::test]
async fn what_a_subscription_writes_is_captured() {
    let (from, publisher) = database().await;
    let (config, client) = database().await;
    let slot = format!("slot_{}", config.get_dbname().unwrap());
    publisher.batch_execute("CREATE PUBLICATION all_rows FOR TABLE contact").await.unwrap();
    let make_slot = format!("SELECT pg_create_logical_replication_slot('{slot}', 'pgoutput')");
    publisher.batch_execute(&make_slot).await.unwrap();
    let host = from.get_hosts().iter().find_map(|host| match host {
        tokio_postgres::config::Host::Unix(path) => Some(path.display().to_string()),
        tokio_postgres::config::Host::Tcp(_) => None,
    });
    let subscription = format!(
        "CREATE SUBSCRIPTION s CONNECTION 'host={} user=postgres dbname={}' PUBLICATION all_rows \
         WITH (create_slot = false, slot_name = '{slot}', copy_data = false)",
        host.unwrap(),
        from.get_dbname().unwrap()
    );
    client.batch_execute(&subscription).await.unwrap();
    let subscriber = Host::start(&config).await;
    let mut watch = subscriber.world.surname.watch(1);
    assert_eq!(watch.next().await.unwrap().as_ref().unwrap().as_deref(), Some("Last"));
    publisher.batch_execute("UPDATE contact SET surname = 'X' WHERE id = 1").await.unwrap();
    assert_eq!(watch.next().await.unwrap().as_ref().unwrap().as_deref(), Some("X"));
    subscriber.world.warm().await;
    let sql = "UPDATE contact SET surname = 'by hand' WHERE id = 2";
    assert_eq!(subscriber.after(&client, sql).await, [0, 1, 3]);
    client.batch_execute("DROP SUBSCRIPTION s").await.unwrap();
}

#[tokio::test]
async fn what_cannot_be_captured_is_said_at_the_start() {
    let (config, client) = database().await;
    client
        .batch_execute(
            "CREATE COLLATION ci (provider = icu, locale = 'und-u-ks-level2', deterministic = false); \
             CREATE DOMAIN money_like AS numeric; CREATE DOMAIN short AS varchar; \
             CREATE TABLE odd (f float8, n numeric, t timestamptz, c char(3), m money_like, ci text COLLATE ci, \
             s short); CREATE VIEW v AS SELECT * FROM contact",
        )
        .await
        .unwrap();
    let source = Source::<String>::new("s");
    for (table, column, says) in [
        ("none", "id", "table none: it does not exist"),
        ("contact", "ident", "table contact: it has no column ident"),
        ("odd", "f", "column f is of type double precision"),
        ("odd", "n", "column n is of type numeric"),
        ("odd", "t", "column t is of type timestamp with time zone"),
        ("odd", "c", "column c is of type character"),
        ("odd", "m", "column m is of type money_like"),
        ("odd", "ci", "whose collation calls unequal text equal"),
        ("v", "id", "it is not a table"),
    ] {
        let log = Oplog::postgres(&config).capture(table, &source, [column]);
        let text = refusal(log.start().await);
        assert!(text.contains(says), "{text}");
    }
    Oplog::postgres(&config).capture("odd", &source, ["s"]).start().await.unwrap();
    let mut elsewhere = config;
    elsewhere.dbname("absent");
    let text = refusal(Oplog::postgres(&elsewhere).start().await);
    assert!(text.starts_with("cannot connect to PostgreSQL"), "{text}");
}

/// What `tidewire oplog sql` prints is all that a role without rights needs.
#[tokio::test]
async fn a_role_that_may_make_nothing_follows_what_another_has_made() {
    let (config, client) = database().await;
    let role = format!("host_{}", config.get_dbname().unwrap());
    client
        .batch_execute(&format!(
            "CREATE ROLE \"{role}\" LOGIN; GRANT SELECT, UPDATE ON contact TO \"{role}\"; \
             REVOKE CREATE ON SCHEMA public FROM PUBLIC"
        ))
        .await
        .unwrap();
    let mut as_role = config.clone();
    as_role.user(&role);
    let world = World::new(&as_role);
    let text = refusal(world.log(&as_role, settings()).start().await);
    assert!(text.contains("tidewire oplog sql"), "{text}");
    let ddl = world.log(&config, settings()).ddl(Some(&role)).await.unwrap();
    psql(&config, &ddl);
    // Whoever runs it twice changes nothing.
    psql(&config, &ddl);
    let mut by_hand = settings();
    by_hand.install = false;
    let oplog = world.log(&as_role, by_hand.clone()).start().await.unwrap();
    let host = Host { oplog, world };
    let own = cluster::open(&as_role).await;
    let sql = "UPDATE contact SET surname = 'Y' WHERE id = 2";
    assert_eq!(host.after(&own, sql).await, [0, 1, 3]);
    // It may trim too. A host that has not polled for that long forgets all, and is right to.
    by_hand.keep = std::time::Duration::from_millis(10);
    let world = World::new(&as_role);
    let oplog = world.log(&as_role, by_hand).start().await.unwrap();
    let host = Host { oplog, world };
    for name in ["A", "B", "C", "D", "E"] {
        let sql = format!("UPDATE contact SET surname = '{name}' WHERE id = 2");
        own.batch_execute(&sql).await.unwrap();
        host.poll().await;
        assert_eq!(host.world.surname(2).await.as_deref(), Some(name));
    }
    assert_eq!(host.oplog.status().counts.failures, 0, "{:?}", host.oplog.status());
}
