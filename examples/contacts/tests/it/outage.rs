//! PostgreSQL goes away and comes back, is slow, is full, or is not there at all.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use contacts::proto::contacts::v1::CreateRequest;
use contacts::store::Store;
use contacts::store::postgres::{Backoff, Config, Options, Postgres};
use tidewire::Code;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::app::App;
use crate::cluster::{self, Cluster};

fn options() -> Options {
    let backoff = Backoff { first: Duration::from_millis(1), longest: Duration::from_millis(20) };
    Options { connections: 2, backoff, ..Options::default() }
}

#[tokio::test]
async fn a_database_that_goes_away_is_503_and_its_return_needs_no_restart() {
    let cluster = Cluster::start();
    let config = cluster.database().await;
    let app = App::start_on_postgres(&config, options()).await;
    assert_eq!(app.post("/contacts", r#"{"firstName":"Ada"}"#).await.status, 201);

    cluster.crash();
    for _ in 0..3 {
        for answer in [app.get("/contacts/1").await, app.get("/contacts").await] {
            assert_eq!(answer.status, 503);
            assert!(answer.text().starts_with(r#"{"code":"unavailable","message":"the "#));
        }
        assert_eq!(app.post("/contacts", r#"{"firstName":"x"}"#).await.status, 503);
        assert_eq!(app.delete("/contacts/1").await.status, 503);
        assert_eq!(app.get("/health").await.status, 204, "the application itself is there");
    }
    cluster.resume();

    let found = loop {
        let found = app.get("/contacts/1").await;
        if found.status != 503 {
            break found;
        }
    };
    assert_eq!(found.text(), r#"{"id":1,"firstName":"Ada","surname":""}"#);
    app.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_acknowledged_before_during_and_after_an_outage_is_there() {
    let cluster = Cluster::start();
    let config = cluster.database().await;
    let app = Arc::new(App::start_on_postgres(&config, options()).await);
    let acknowledged = Arc::new(Mutex::new(BTreeMap::new()));
    let (acknowledgements, over) = (Arc::new(Semaphore::new(0)), Arc::new(AtomicBool::new(false)));
    let mut writers = JoinSet::new();
    for writer in 0..8 {
        let (app, acknowledged) = (Arc::clone(&app), Arc::clone(&acknowledged));
        let (acknowledgements, over) = (Arc::clone(&acknowledgements), Arc::clone(&over));
        writers.spawn(async move {
            for number in 0.. {
                if over.load(Ordering::Relaxed) {
                    break;
                }
                let name = format!("{writer}-{number}");
                let json = format!(r#"{{"firstName":"{name}"}}"#);
                let created = app.post("/contacts", json).await;
                if created.status == 201 {
                    let json: serde_json::Value = serde_json::from_str(created.text()).unwrap();
                    let id = json["id"].as_i64().unwrap();
                    let before = acknowledged.lock().unwrap().insert(id, name);
                    assert_eq!(before, None, "id {id} was given twice");
                    acknowledgements.add_permits(1);
                } else {
                    assert_eq!(created.status, 503, "{}", created.text());
                }
            }
        });
    }
    for _ in 0..2 {
        acknowledgements.acquire_many(100).await.unwrap().forget();
        cluster.crash();
        // Whatever was acknowledged up to here is counted; the next hundred are of after.
        acknowledgements.forget_permits(usize::MAX >> 4);
        cluster.resume();
    }
    acknowledgements.acquire_many(100).await.unwrap().forget();
    over.store(true, Ordering::Relaxed);
    while let Some(ended) = writers.join_next().await {
        ended.unwrap();
    }

    let all: serde_json::Value = serde_json::from_str(app.get("/contacts").await.text()).unwrap();
    let there: BTreeMap<_, _> = all
        .as_array()
        .unwrap()
        .iter()
        .map(|contact| (contact["id"].as_i64().unwrap(), contact["firstName"].as_str().unwrap()))
        .collect();
    for (id, name) in acknowledged.lock().unwrap().iter() {
        assert_eq!(there.get(id), Some(&name.as_str()), "contact {id} was acknowledged");
    }
}

#[tokio::test]
async fn a_statement_that_takes_too_long_is_undone_and_its_caller_told() {
    let config = cluster::database().await;
    // Of every statement, so long enough for all that no lock holds up.
    let statement_timeout = Duration::from_secs(2);
    let options = Options { statement_timeout, ..options() };
    let app = App::start_on_postgres(&config, options).await;
    let other_program = cluster::open(&config).await;
    other_program.batch_execute("BEGIN; LOCK contact").await.unwrap();
    let refused = app.post("/contacts", r#"{"firstName":"x"}"#).await;
    assert_eq!(refused.status, 503);
    assert_eq!(
        refused.text(),
        r#"{"code":"unavailable","message":"the database took too long; nothing was changed, try again"}"#
    );
    assert_eq!(app.get("/contacts").await.status, 503);
    other_program.batch_execute("COMMIT").await.unwrap();
    assert_eq!(app.get("/contacts").await.text(), "[]");
    app.stop().await;
}

#[tokio::test]
async fn a_call_over_the_bound_fails_at_once_and_those_within_it_are_done() {
    let config = cluster::database().await;
    let options = Options { in_flight_max: 2, ..options() };
    let store = Arc::new(Postgres::connect(&config, &options).await.unwrap());
    let other_program = cluster::open(&config).await;
    other_program.batch_execute("BEGIN; LOCK contact").await.unwrap();
    let mut writes = JoinSet::new();
    for _ in 0..3 {
        let store = Arc::clone(&store);
        writes.spawn(async move { store.create(CreateRequest::default()).await });
    }
    let refused = writes.join_next().await.unwrap().unwrap().unwrap_err();
    assert_eq!(refused.code(), Code::ResourceExhausted);
    assert_eq!(refused.message(), "2 calls wait for the database already; try again later");
    other_program.batch_execute("COMMIT").await.unwrap();
    while let Some(outcome) = writes.join_next().await {
        let id = outcome.unwrap().unwrap().id;
        assert!(store.find(id).await.unwrap().is_some());
    }
}

#[tokio::test]
async fn a_list_is_what_was_there_when_it_began_and_too_many_lists_are_refused() {
    let config = cluster::database().await;
    let options = Options { lists_max: 1, ..options() };
    contacts::store::postgres::fill::fill(&config, 2500, |_| {}).await.unwrap();
    let store = Postgres::connect(&config, &options).await.unwrap();
    let mut list = store.list().await.unwrap();
    assert_eq!(list.next().await.unwrap().unwrap().id, 1);
    let refused = store.list().await.unwrap_err();
    assert_eq!(refused.code(), Code::ResourceExhausted);
    assert!(refused.message().starts_with("1 lists are being read"), "{refused}");
    store.create(CreateRequest::default()).await.unwrap();
    store.delete(2400).await.unwrap();
    let mut last = 1;
    while let Some(contact) = list.next().await.unwrap() {
        assert_eq!(contact.id, last + 1);
        last = contact.id;
    }
    assert_eq!(last, 2500);
    drop(list);
    // The connection is used again.
    let mut again = store.list().await.unwrap();
    let mut rows = 0;
    while again.next().await.unwrap().is_some() {
        rows += 1;
    }
    assert_eq!(rows, 2500);
}

#[tokio::test]
async fn what_another_program_did_to_the_table_is_said_or_lived_with() {
    let config = cluster::database().await;
    let app = App::start_on_postgres(&config, options()).await;
    cluster::execute(&config, "INSERT INTO contact VALUES (1, NULL, 'x')").await;
    assert_eq!(app.get("/contacts/1").await.text(), r#"{"id":1,"firstName":"","surname":"x"}"#);
    let taken = app.post("/contacts", r#"{"firstName":"x"}"#).await;
    assert_eq!(taken.status, 409);
    assert!(taken.text().contains("another program has added a contact with the next id"));
    assert_eq!(app.post("/contacts", r#"{"firstName":"x"}"#).await.status, 201);
    cluster::execute(&config, "SELECT setval('contact_id_seq', 2147483647)").await;
    let full = app.post("/contacts", r#"{"firstName":"x"}"#).await;
    assert_eq!(full.status, 429);
    assert!(full.text().contains("every id is used"));
    app.stop().await;
}

#[tokio::test]
async fn a_database_that_is_not_there_at_start_ends_the_start_with_its_place() {
    let check = async |url: &str, needles: &[&str]| {
        let config: Config = url.parse().unwrap();
        let error = Postgres::connect(&config, &options()).await.unwrap_err();
        let text = format!("{error:#}");
        for needle in needles {
            assert!(text.contains(needle), "{text}");
        }
        assert!(!text.contains("secret"), "{text}");
    };
    check("postgres://u:secret@127.0.0.1:1/n", &["u@127.0.0.1:1/n", "refused"]).await;
    let there = cluster::url(&cluster::database().await);
    let other = there.replace("test_", "nowhere_");
    check(&other, &["nowhere_", "does not exist"]).await;
}
