//! A create that comes again with its key, over HTTP: one contact, and the first outcome each time.

use bytes::Bytes;
use contacts::store::{KEYS_KEPT, postgres, sqlite};
use http_body_util::Full;
use hyper::Request;
use tokio::task::JoinSet;

use crate::app::{Answer, App, database_in, exchange};
use crate::cluster;

const ADA: &str = r#"{"firstName":"Ada","surname":"Lovelace"}"#;

/// Posts JSON with values of the header `Idempotency-Key`.
async fn post(address: &str, path: &str, keys: &[&[u8]], json: &str) -> Answer {
    let mut request = Request::post(path).header("host", address);
    for &key in keys {
        request = request.header("idempotency-key", key);
    }
    let request = request.header("content-type", "application/json");
    exchange(address, request.body(Full::new(Bytes::from(json.to_owned()))).unwrap()).await
}

async fn create(app: &App, key: &str, json: &str) -> Answer {
    post(&app.address(), "/contacts", &[key.as_bytes()], json).await
}

async fn all(app: &App) -> String {
    app.get("/contacts").await.text().to_owned()
}

#[tokio::test]
async fn a_repeated_create_gives_the_first_outcome_whatever_protocol_it_comes_by() {
    for app in App::each().await {
        let first = create(&app, "one", ADA).await;
        let location = format!("http://{}/contacts/1", app.address());
        assert_eq!((first.status.as_u16(), first.header("location")), (201, &*location));
        for key in ["one", "\"one\""] {
            let again = create(&app, key, ADA).await;
            assert_eq!((again.status, again.text()), (first.status, first.text()));
            assert_eq!(again.header("location"), first.header("location"));
        }
        let connect = "/contacts.v1.Contacts/Create";
        let again = post(&app.address(), connect, &[b"one"], ADA).await;
        assert_eq!((again.status.as_u16(), again.text()), (200, first.text()));
        assert_eq!(create(&app, "two", ADA).await.text().replace(":2,", ":1,"), first.text());
        let without = app.post("/contacts", ADA).await;
        assert!(without.text().starts_with(r#"{"id":3,"#), "{}", without.text());
        app.stop().await;
    }
}

#[tokio::test]
async fn the_first_outcome_is_given_whatever_became_of_the_contact() {
    for app in App::each().await {
        let first = create(&app, "one", ADA).await;
        app.send(hyper::Method::PATCH, "/contacts/1", "application/json", r#"{"surname":"Byron"}"#)
            .await;
        assert_eq!(create(&app, "one", ADA).await.text(), first.text());
        app.delete("/contacts/1").await;
        assert_eq!(create(&app, "one", ADA).await.text(), first.text());
        assert_eq!(all(&app).await, "[]", "nothing was added again");
        app.stop().await;
    }
}

#[tokio::test]
async fn the_same_key_with_another_request_is_refused_and_says_so() {
    for app in App::each().await {
        create(&app, "one", ADA).await;
        for other in [r#"{"firstName":"Ada"}"#, r#"{"firstName":"Eve","surname":"Lovelace"}"#] {
            let refused = create(&app, "one", other).await;
            assert_eq!(refused.status, 422, "{}", refused.text());
            assert!(refused.text().contains("failed_precondition"), "{}", refused.text());
            assert!(refused.text().contains("Idempotency-Key"), "{}", refused.text());
        }
        assert_eq!(all(&app).await, r#"[{"id":1,"firstName":"Ada","surname":"Lovelace"}]"#);
        app.stop().await;
    }
}

#[tokio::test]
async fn a_key_that_is_none_is_refused_and_nothing_is_added() {
    for app in App::each().await {
        let long = [b'x'; 256];
        let bad: [&[&[u8]]; 5] = [&[b""], &[b"a", b"b"], &[&long], &[b"a b"], &[b"\xff"]];
        for keys in bad {
            let refused = post(&app.address(), "/contacts", keys, ADA).await;
            assert_eq!(refused.status, 400, "{keys:?}: {}", refused.text());
            assert!(refused.text().contains("Idempotency-Key"), "{}", refused.text());
        }
        let refused = create(&app, "one", r#"{"firstName":""}"#).await;
        assert_eq!(refused.status, 400, "a request that is refused uses up no key");
        assert_eq!(create(&app, "one", ADA).await.status, 201);
        assert_eq!(all(&app).await, r#"[{"id":1,"firstName":"Ada","surname":"Lovelace"}]"#);
        app.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn those_that_come_at_the_same_time_are_one_too() {
    for app in App::each().await {
        let mut posts = JoinSet::new();
        for number in 0..48 {
            let address = app.address();
            posts.spawn(async move {
                let (key, json) = (number % 3, format!(r#"{{"firstName":"{}"}}"#, number % 3));
                let key = format!("key-{key}");
                post(&address, "/contacts", &[key.as_bytes()], &json).await
            });
        }
        let mut answers = Vec::new();
        while let Some(answer) = posts.join_next().await {
            let answer = answer.unwrap();
            assert_eq!(answer.status, 201, "{}", answer.text());
            answers.push(answer.text().to_owned());
        }
        answers.sort_unstable();
        answers.dedup();
        assert_eq!(answers.len(), 3, "{answers:?}");
        assert_eq!(all(&app).await, format!("[{}]", answers.join(",")));
        app.stop().await;
    }
}

#[tokio::test]
async fn a_key_outlives_a_restart_and_is_forgotten_a_day_later_two_at_a_time() {
    let ages = "UPDATE command SET made_at = made_at - ";
    let app = App::start().await;
    let first = create(&app, "one", ADA).await;
    let app = App::start_on(app.stop().await, sqlite::Options::default()).await;
    assert_eq!(create(&app, "one", ADA).await.text(), first.text());
    for key in ["two", "three", "four"] {
        create(&app, key, ADA).await;
    }
    let database = rusqlite::Connection::open(database_in(app.database().parent().unwrap()));
    let database = database.unwrap();
    let keys = || -> u32 {
        database.query_row("SELECT count(*) FROM command", [], |row| row.get(0)).unwrap()
    };
    let age = KEYS_KEPT.as_secs();
    database.execute(&format!("{ages}{}", age - 60), []).unwrap();
    create(&app, "five", ADA).await;
    assert_eq!(keys(), 5, "none is old enough");
    database.execute(&format!("{ages}61"), []).unwrap();
    assert_eq!(create(&app, "one", ADA).await.text(), first.text(), "it may be kept longer");
    for (key, left) in [("six", 4), ("seven", 3), ("eight", 4)] {
        create(&app, key, ADA).await;
        assert_eq!(keys(), left, "after {key}");
    }
    assert_ne!(create(&app, "one", ADA).await.text(), first.text(), "it is a new command");
    app.stop().await;
}

#[tokio::test]
async fn postgres_forgets_keys_likewise() {
    let config = cluster::database().await;
    let app = App::start_on_postgres(&config, postgres::Options::default()).await;
    let first = create(&app, "one", ADA).await;
    app.stop().await;
    let app = App::start_on_postgres(&config, postgres::Options::default()).await;
    assert_eq!(create(&app, "one", ADA).await.text(), first.text());
    for key in ["two", "three", "four"] {
        create(&app, key, ADA).await;
    }
    let database = cluster::open(&config).await;
    let keys = async || -> i64 {
        database.query_one("SELECT count(*) FROM contact_command", &[]).await.unwrap().get(0)
    };
    let age = async |seconds: u64| {
        let all = format!("UPDATE contact_command SET made_at = made_at - interval '{seconds} s'");
        database.execute(&all, &[]).await.unwrap();
    };
    age(KEYS_KEPT.as_secs() - 60).await;
    create(&app, "five", ADA).await;
    assert_eq!(keys().await, 5, "none is old enough");
    age(61).await;
    assert_eq!(create(&app, "one", ADA).await.text(), first.text(), "it may be kept longer");
    let left = keys().await;
    assert_eq!(left, 3, "the repetition removed two others");
    for (key, left) in [("six", 2), ("seven", 3)] {
        create(&app, key, ADA).await;
        assert_eq!(keys().await, left, "after {key}");
    }
    assert_ne!(create(&app, "one", ADA).await.text(), first.text(), "it is a new command");
    app.stop().await;
}

#[tokio::test]
async fn a_contact_whose_key_cannot_be_kept_is_not_added() {
    let app = App::start().await;
    let database = rusqlite::Connection::open(app.database()).unwrap();
    let trigger = "CREATE TRIGGER no BEFORE INSERT ON command BEGIN SELECT RAISE(FAIL, 'no'); END";
    database.execute_batch(trigger).unwrap();
    assert!(!create(&app, "one", ADA).await.status.is_success());
    assert_eq!(all(&app).await, "[]");
    database.execute_batch("DROP TRIGGER no").unwrap();
    assert_eq!(create(&app, "one", ADA).await.status, 201);
    app.stop().await;

    let config = cluster::database().await;
    let app = App::start_on_postgres(&config, postgres::Options::default()).await;
    let check = "ALTER TABLE contact_command ADD CONSTRAINT no CHECK (false) NOT VALID";
    cluster::execute(&config, check).await;
    assert!(!create(&app, "one", ADA).await.status.is_success());
    assert_eq!(all(&app).await, "[]");
    cluster::execute(&config, "ALTER TABLE contact_command DROP CONSTRAINT no").await;
    assert_eq!(create(&app, "one", ADA).await.status, 201);
    app.stop().await;
}
