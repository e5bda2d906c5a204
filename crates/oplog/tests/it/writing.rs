//! What writers send, and what the log's own functions do for them.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::SeqCst;

use tidewire_memo::{Graph, Source};
use tidewire_oplog::{Changes, Oplog, WriteError};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream};
use tokio::net::UnixStream;
use tokio_postgres::{Client, Config, NoTls, Transaction};

use crate::cluster;
use crate::support::{Heard, Host, database, psql, settings};

/// Passes bytes on and counts how often the client speaks after the server did.
async fn relay(mut near: DuplexStream, mut far: UnixStream, round_trips: Arc<AtomicUsize>) {
    let mut is_answered = true;
    let (mut from_near, mut from_far) = (vec![0; 65536], vec![0; 65536]);
    loop {
        tokio::select! {
            Ok(length @ 1..) = near.read(&mut from_near) => {
                round_trips.fetch_add(usize::from(is_answered), SeqCst);
                is_answered = false;
                far.write_all(&from_near[..length]).await.unwrap();
            }
            Ok(length @ 1..) = far.read(&mut from_far) => {
                is_answered = true;
                near.write_all(&from_far[..length]).await.unwrap();
            }
            else => return,
        }
    }
}

/// A connection, and how many round trips it has taken.
async fn counted(config: &Config) -> (Client, Arc<AtomicUsize>) {
    let tokio_postgres::config::Host::Unix(folder) = &config.get_hosts()[0] else {
        panic!("tests use Unix sockets")
    };
    let far = UnixStream::connect(folder.join(".s.PGSQL.5432")).await.unwrap();
    let (near, here) = tokio::io::duplex(65536);
    let round_trips = Arc::default();
    tokio::spawn(relay(near, far, Arc::clone(&round_trips)));
    let (client, connection) = config.connect_raw(here, NoTls).await.unwrap();
    tokio::spawn(connection);
    (client, round_trips)
}

#[tokio::test]
async fn a_transaction_takes_no_more_round_trips_than_one_without_a_log() {
    let (config, _) = database().await;
    let host = Host::start(&config).await;
    let (contacts, count) = (host.world.contacts, host.world.count);
    let (mut client, round_trips) = counted(&config).await;
    let sql = "UPDATE contact SET surname = 'X' WHERE id = $1";
    let update = client.prepare(sql).await.unwrap();
    let before = round_trips.load(SeqCst);
    let bare = client.transaction().await.unwrap();
    bare.execute(&update, &[&1]).await.unwrap();
    bare.commit().await.unwrap();
    let bare = round_trips.load(SeqCst) - before;
    let before = round_trips.load(SeqCst);
    let work = async |transaction: &Transaction<'_>, changes: &mut Changes| {
        changes.changed(&contacts, &1);
        changes.changed(&count, &());
        transaction.execute(&update, &[&1]).await
    };
    let (rows, token) = host.oplog.transaction(&mut client, work).await.unwrap();
    assert_eq!(rows, 1);
    assert_eq!(round_trips.load(SeqCst) - before, bare);
    host.poll().await;
    assert!(token.is_met_by(&host.oplog.position().unwrap()));
    // Where nothing is listed, too.
    let before = round_trips.load(SeqCst);
    let work = async |transaction: &Transaction<'_>, _: &mut Changes| {
        transaction.execute(&update, &[&2]).await
    };
    let (_, token) = host.oplog.transaction(&mut client, work).await.unwrap();
    assert_eq!(round_trips.load(SeqCst) - before, bare);
    host.poll().await;
    assert!(token.is_met_by(&host.oplog.position().unwrap()));
}

#[tokio::test]
async fn a_transaction_whose_changes_cannot_be_logged_is_rolled_back() {
    let (config, mut client) = database().await;
    let graph = Graph::new();
    let lists = Source::<i64>::new_in(&graph, "lists");
    let oplog = Oplog::postgres(&config).settings(settings()).source(&lists);
    let oplog = oplog.start().await.unwrap();
    psql(&config, "ALTER TABLE tidewire.log ADD CHECK (source <> 'lists')");
    // More sources than a statement can name.
    let many: Vec<_> =
        (0..33_000).map(|at| Source::<()>::new_in(&graph, &format!("many {at}"))).collect();
    let work = async |transaction: &Transaction<'_>, changes: &mut Changes| {
        changes.changed(&lists, &1);
        transaction.execute("UPDATE contact SET surname = 'X'", &[]).await
    };
    let written = oplog.transaction(&mut client, work).await;
    assert!(matches!(written, Err(WriteError::Refused(_))), "{written:?}");
    let work = async |transaction: &Transaction<'_>, changes: &mut Changes| {
        many.iter().for_each(|source| changes.changed(source, &()));
        transaction.execute("UPDATE contact SET surname = 'X'", &[]).await
    };
    let written = oplog.transaction(&mut client, work).await;
    assert!(matches!(written, Err(WriteError::Refused(_))), "{written:?}");
    let changed = client.query("SELECT FROM contact WHERE surname = 'X'", &[]).await.unwrap();
    assert!(changed.is_empty());
}

/// The functions run with the rights of whoever made them, and with the path of whoever writes.
#[tokio::test]
async fn what_a_writer_puts_in_its_search_path_is_not_run_by_the_log() {
    let (config, client) = database().await;
    psql(&config, "CREATE TABLE note (name text, id bigint)");
    let graph = Graph::new();
    let notes = Source::<(String, i64)>::new_in(&graph, "notes");
    let log = Oplog::postgres(&config).settings(settings()).capture("note", &notes, ["name", "id"]);
    let oplog = log.start().await.unwrap();
    oplog.published().await.unwrap();
    let heard = Heard::by(&oplog);
    let refuse = "LANGUAGE plpgsql AS $$ BEGIN RAISE 'it was run'; END $$";
    let mut evil = "CREATE SCHEMA evil; CREATE TABLE evil.new_rows (name text, id bigint); \
                    CREATE TABLE evil.log (source text, keys text[]); \
                    CREATE TABLE evil.incarnation (id uuid); CREATE DOMAIN evil.xid8 AS integer;"
        .to_owned();
    for (name, left, right, result) in [
        ("=", "text", "text", "boolean"),
        ("=", "name", "text", "boolean"),
        ("<=", "bigint", "integer", "boolean"),
        ("<=", "integer", "integer", "boolean"),
        (">", "bigint", "integer", "boolean"),
        ("||", "text", "text", "text"),
    ] {
        evil.push_str(&format!(
            "CREATE FUNCTION evil.\"{name}\"({left}, {right}) RETURNS {result} {refuse}; \
             CREATE OPERATOR evil.{name} \
             (FUNCTION = evil.\"{name}\", LEFTARG = {left}, RIGHTARG = {right});"
        ));
    }
    for function in [
        "replace(text, text, text) RETURNS text",
        "octet_length(text) RETURNS integer",
        "max(integer) RETURNS integer",
        "count() RETURNS bigint",
        "array_agg(text) RETURNS text[]",
        "unnest(text[]) RETURNS SETOF text",
        "concat(VARIADIC text[]) RETURNS text",
        "pg_current_xact_id() RETURNS text",
    ] {
        evil.push_str(&format!("CREATE FUNCTION evil.{function} {refuse};"));
    }
    client.batch_execute(&evil).await.unwrap();
    client.batch_execute("SET search_path = evil, pg_catalog, public").await.unwrap();
    for sql in ["INSERT INTO note VALUES ('a/b', 1)", "UPDATE note SET id = 2", "TRUNCATE note"] {
        client.batch_execute(sql).await.unwrap();
        oplog.barrier().await.unwrap();
    }
    let keys = ["notes/a%2Fb/1", "notes/a%2Fb/1", "notes/a%2Fb/2", "notes"];
    assert_eq!(heard.all(), keys);
    let mark = client.query_one("SELECT tidewire.mark()", &[]).await.unwrap();
    let mark: &str = mark.get(0);
    assert!(mark.split_once(':').is_some_and(|(_, incarnation)| incarnation.len() == 36), "{mark}");
}

#[tokio::test]
async fn the_mark_of_an_older_version_serves_and_is_replaced_where_that_is_allowed() {
    const SOURCE: &str = "SELECT prosrc FROM pg_proc WHERE proname = 'mark'";
    let (config, client) = database().await;
    let host = Host::start(&config).await;
    let current: String = client.query_one(SOURCE, &[]).await.unwrap().get(0);
    let old = "CREATE OR REPLACE FUNCTION tidewire.mark() RETURNS text LANGUAGE sql VOLATILE \
               SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$ SELECT \
               pg_current_xact_id()::text || ':' || (SELECT id::text FROM tidewire.incarnation) $$";
    client.batch_execute(old).await.unwrap();
    let mut by_hand = settings();
    by_hand.install = false;
    let other = Host::start_with(&config, by_hand).await;
    let guard = other.world.contacts.write(&1);
    let sql = "UPDATE contact SET surname = 'X' WHERE id = 1 RETURNING tidewire.mark()";
    let token = other.oplog.wrote(guard, client.query_one(sql, &[]).await.unwrap().get(0));
    host.poll().await;
    assert!(token.is_met_by(&host.oplog.position().unwrap()));
    let _third = Host::start(&config).await;
    let replaced: String =
        cluster::open(&config).await.query_one(SOURCE, &[]).await.unwrap().get(0);
    assert_eq!(replaced, current);
}
