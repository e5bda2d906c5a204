//! Two hosts on one database: whoever writes, each tells the truth.

use std::convert::Infallible;

use tidewire_memo::{Graph, Memo, Source};
use tidewire_oplog::{CatchUpError, Changes, Oplog, Token, WriteError, collect};
use tokio_postgres::Transaction;

use crate::support::{Heard, Host, database, psql, settings};

#[tokio::test]
async fn what_psql_changes_is_recomputed_on_every_host_and_nothing_else_is() {
    let (config, _) = database().await;
    let hosts = [Host::start(&config).await, Host::start(&config).await];
    for host in &hosts {
        host.world.warm().await;
    }
    psql(&config, "UPDATE contact SET surname = 'X' WHERE id = 1");
    for host in &hosts {
        host.poll().await;
        assert_eq!(host.world.fresh(), [0, 2, 3]);
        let loads = host.world.loads();
        assert_eq!(host.world.surname(1).await.as_deref(), Some("X"));
        assert_eq!(host.world.surname(2).await.as_deref(), Some("Last"));
        assert_eq!(host.world.loads(), loads + 1);
    }
}

#[tokio::test]
async fn a_host_hears_of_a_change_without_being_asked() {
    let (config, _) = database().await;
    let host = Host::start(&config).await;
    let mut watch = host.world.surname.watch(1);
    assert_eq!(watch.next().await.unwrap().as_ref().unwrap().as_deref(), Some("Last"));
    psql(&config, "UPDATE contact SET surname = 'X' WHERE id = 1");
    assert_eq!(watch.next().await.unwrap().as_ref().unwrap().as_deref(), Some("X"));
}

#[tokio::test]
async fn a_guarded_write_is_seen_here_at_once_and_elsewhere_with_its_token() {
    let (config, client) = database().await;
    let (a, b) = (Host::start(&config).await, Host::start(&config).await);
    for turn in 0..20 {
        a.world.warm().await;
        b.world.warm().await;
        let name = format!("X{turn}");
        let guard = a.world.contacts.write(&1);
        let sql = "UPDATE contact SET surname = $1 WHERE id = 1 RETURNING tidewire.mark()";
        let row = client.query_one(sql, &[&name]).await.unwrap();
        let token = a.oplog.wrote(guard, row.get(0));
        assert_eq!(a.world.surname(1).await.as_ref(), Some(&name));
        let token = Token::parse(&token.to_string());
        b.oplog.caught_up(&token).await.unwrap();
        assert_eq!(b.world.surname(1).await.as_ref(), Some(&name));
        // It is in the position now: no poll is needed.
        assert!(token.is_met_by(&b.oplog.position().unwrap()));
    }
}

#[tokio::test]
async fn a_transaction_carries_what_no_trigger_captures() {
    let (config, mut client) = database().await;
    let lists = || async {
        let graph = Graph::new();
        let list = Source::<(String, i64)>::new_in(&graph, "lists");
        let memo = Memo::infallible_in(&graph, "list", move |key: (String, i64)| async move {
            list.read(&key);
        });
        let oplog = Oplog::postgres(&config).settings(settings()).source(&list).start().await;
        (oplog.unwrap(), list, memo, graph)
    };
    let ((a, list, of_a, _graph), (b, _, of_b, _other)) = (lists().await, lists().await);
    let key = |id| ("50% a/b".to_owned(), id);
    for memo in [&of_a, &of_b] {
        memo.get(key(1)).await.unwrap();
        memo.get(key(2)).await.unwrap();
    }
    let work = async |_: &Transaction<'_>, changes: &mut Changes| {
        changes.changed(&list, &key(1));
        Ok::<_, Infallible>(7)
    };
    let (output, token) = a.transaction(&mut client, work).await.unwrap();
    assert_eq!(output, 7);
    b.caught_up(&token).await.unwrap();
    for memo in [&of_a, &of_b] {
        assert!(memo.cached(&key(1)).is_none() && memo.cached(&key(2)).is_some());
    }
    // What fails is rolled back, and no host hears of it.
    let work = async |_: &Transaction<'_>, changes: &mut Changes| {
        changes.changed(&list, &key(2));
        Err::<(), _>("no")
    };
    let failed = a.transaction(&mut client, work).await;
    assert!(matches!(failed, Err(WriteError::Work("no"))), "{failed:?}");
    b.barrier().await.unwrap();
    assert!(of_b.cached(&key(2)).is_some());
}

#[tokio::test]
async fn the_tokens_of_a_call_are_collected_for_its_reply() {
    let (config, client) = database().await;
    let host = Host::start(&config).await;
    let call = async {
        for id in [1, 2] {
            let guard = host.world.contacts.write(&id);
            let sql = "UPDATE contact SET surname = 'X' WHERE id = $1 RETURNING tidewire.mark()";
            let row = client.query_one(sql, &[&id]).await.unwrap();
            host.oplog.wrote(guard, row.get(0));
        }
    };
    let ((), token) = collect(call).await;
    host.poll().await;
    assert!(token.is_met_by(&host.oplog.position().unwrap()), "{token:?}");
    assert_eq!(collect(async { 1 }).await, (1, Token::default()));
}

#[tokio::test]
async fn a_write_of_this_process_is_marked_once_and_what_it_did_not_announce_by_the_log() {
    let (config, client) = database().await;
    let host = Host::start(&config).await;
    let sql = "WITH other AS (UPDATE contact SET surname = 'o' WHERE id = 2 RETURNING id) \
               UPDATE contact SET surname = 'X' WHERE id = 1 RETURNING tidewire.mark()";
    for _ in 0..20 {
        host.world.warm().await;
        let guard = host.world.contacts.write(&1);
        let row = client.query_one(sql, &[]).await.unwrap();
        host.oplog.wrote(guard, row.get(0));
        host.world.surname(1).await;
        host.poll().await;
        // The log named both; only the second was news.
        assert_eq!(host.world.fresh(), [0, 1, 3]);
    }
    // A poll between the commit and the announcement marks; so does one after the guard was dropped
    // unused.
    host.world.warm().await;
    let guard = host.world.contacts.write(&1);
    let row = client.query_one(sql, &[]).await.unwrap();
    let token = host.oplog.committed(row.get(0));
    host.poll().await;
    assert_eq!(host.world.fresh(), [0, 3]);
    guard.unchanged();
    assert!(host.oplog.includes(&token));
}

#[tokio::test]
async fn what_a_host_publishes_is_heard_by_the_others_with_its_token_and_not_by_itself() {
    let (config, _) = database().await;
    let (a, b) = (Host::start(&config).await, Host::start(&config).await);
    let heard = [Heard::by(&a.oplog), Heard::by(&b.oplog)];
    a.world.warm().await;
    b.world.warm().await;
    let before = a.oplog.publish_count();
    a.oplog.publish("contacts", Some("2"));
    a.oplog.publish("pages", Some("a/1"));
    a.oplog.publish("others", None);
    assert_eq!(a.oplog.publish_count(), before + 3);
    let token = a.oplog.published().await.unwrap();
    b.oplog.caught_up(&token).await.unwrap();
    assert_eq!(b.world.fresh(), [0, 1, 3]);
    a.poll().await;
    assert_eq!(a.world.fresh(), [0, 1, 2, 3], "who publishes has marked it before");
    let mut of_b = heard[1].all();
    of_b.sort();
    assert_eq!(of_b, ["contacts/2", "others", "pages/a/1"]);
    assert_eq!(heard[0].all(), [""; 0]);
}

#[tokio::test]
async fn what_waits_to_be_published_is_written_when_the_database_is_back() {
    let (config, client) = database().await;
    let (a, b) = (Host::start(&config).await, Host::start(&config).await);
    let heard = Heard::by(&b.oplog);
    a.oplog.publish("pages", Some("1"));
    a.oplog.published().await.unwrap();
    // Whatever connection it writes on.
    let end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
               WHERE application_name LIKE 'tidewire oplog%' AND datname = current_database()";
    client.query(end, &[]).await.unwrap();
    a.oplog.publish("pages", Some("2"));
    let token = a.oplog.published().await.unwrap();
    b.oplog.caught_up(&token).await.unwrap();
    b.poll().await;
    assert!(heard.all().contains(&"pages/2".to_owned()));
}

#[tokio::test]
async fn nobody_waits_for_a_change_that_a_stopped_host_does_not_write() {
    let (config, _) = database().await;
    let host = Host::start(&config).await;
    let handle = host.oplog.handle();
    host.oplog.stop().await;
    handle.publish("pages", Some("1"));
    assert_eq!(handle.published().await, Err(CatchUpError::Stopped));
}

#[tokio::test]
async fn a_migration_that_no_trigger_sees_says_so_by_a_row_of_the_log() {
    let (config, client) = database().await;
    let host = Host::start(&config).await;
    let rewrite = "ALTER TABLE contact ALTER surname TYPE varchar(99) USING 'X'; \
                   INSERT INTO tidewire.log (source) VALUES ('contacts')";
    assert_eq!(host.after(&client, rewrite).await, [0]);
    assert_eq!(host.world.surname(2).await.as_deref(), Some("X"));
}

#[tokio::test]
async fn a_host_that_stops_writes_first_what_it_published() {
    let (config, _) = database().await;
    let (a, b) = (Host::start(&config).await, Host::start(&config).await);
    let heard = Heard::by(&b.oplog);
    a.oplog.publish("pages", Some("1"));
    a.oplog.stop().await;
    b.poll().await;
    assert_eq!(heard.all(), ["pages/1"]);
}
