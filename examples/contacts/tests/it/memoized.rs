//! Answers from memory, on each database: right after a write by any protocol, by another program,
//! by a caller who has gone.

use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Waker};
use std::time::Duration;

use bytes::Bytes;
use contacts::proto::contacts::v1::{CreateRequest, UpdateRequest};
use contacts::store::{Store, Tracked, postgres, sqlite};
use http_body_util::Full;
use hyper::{Method, Request};
use rusqlite::Connection;
use tidewire::memo::{Graph, Memo};
use tokio::net::{UnixListener, UnixStream};
use tokio::task::JoinSet;

use crate::app::{Answer, App, database_in, exchange};
use crate::cluster;

/// `GET`, of whoever holds an answer with this tag; of whoever holds none where it is empty.
async fn get(app: &App, path: &str, tag: &str) -> Answer {
    let mut request = Request::get(path).header("host", app.address());
    if !tag.is_empty() {
        request = request.header("if-none-match", tag);
    }
    exchange(&app.address(), request.body(Full::new(Bytes::new())).unwrap()).await
}

/// The answers to some requests, computed or not; then each comes from memory.
async fn held(app: &App, paths: &[&str]) -> Vec<String> {
    app.settle().await;
    let mut tags = Vec::new();
    for path in paths {
        let tag = get(app, path, "").await.header("etag").to_owned();
        let again = get(app, path, &tag).await;
        assert_eq!((again.status.as_u16(), again.text()), (304, ""), "{path}");
        assert_eq!(again.header("cache-status"), "tidewire; hit", "{path}");
        tags.push(tag);
    }
    tags
}

async fn create(app: &App, names: &[&str]) {
    for name in names {
        let created = app.post("/contacts", format!(r#"{{"firstName":"{name}"}}"#)).await;
        assert_eq!(created.status, 201);
    }
    app.settle().await;
}

const OF_CONTACT_1: [&str; 3] = [
    "/contacts/1",
    "/contacts.v1.Contacts/Get?connect=v1&encoding=json&message=%7B%22id%22%3A1%7D",
    "/contacts:page?page_size=2",
];

#[tokio::test]
async fn an_update_through_grpc_is_seen_by_the_next_rest_get_connect_get_and_page() {
    for app in App::each().await {
        create(&app, &["Ada", "Grace", "Edsger"]).await;
        let tags = held(&app, &OF_CONTACT_1).await;
        // `id: 1, first_name: "Augusta"`
        let updated = app.grpc("/contacts.v1.Contacts/Update", b"\x08\x01\x12\x07Augusta").await;
        assert_eq!(updated.trailer("grpc-status"), "0");
        for (path, tag) in OF_CONTACT_1.iter().zip(&tags) {
            let seen = get(&app, path, tag).await;
            assert_eq!(seen.status, 200, "{path}");
            assert!(seen.text().contains("Augusta"), "{path}: {}", seen.text());
        }

        let user = ["/users/7", "/users.v1.Users/Get?encoding=json&message=%7B%22id%22%3A7%7D"];
        let tags = held(&app, &user).await;
        // `id: 7, email: "a@b"`
        let updated = app.grpc("/users.v1.Users/Update", b"\x08\x07\x1a\x03a@b").await;
        assert_eq!(updated.trailer("grpc-status"), "0");
        for (path, tag) in user.iter().zip(&tags) {
            let seen = get(&app, path, tag).await;
            assert!(seen.text().contains(r#""email":"a@b""#), "{path}: {}", seen.text());
        }
        app.stop().await;
    }
}

#[tokio::test]
async fn a_new_contact_is_on_the_last_page_and_leaves_the_pages_before_in_memory() {
    for app in App::each().await {
        create(&app, &["a", "b", "c"]).await;
        let first = "/contacts:page?page_size=2";
        let token = app.get(first).await.text().split('"').rev().nth(1).unwrap().to_owned();
        let last = format!("/contacts:page?page_size=2&page_token={token}");
        let paths = [first, &last, "/contacts:count", "/contacts/4", "/contacts/1"];
        for path in paths {
            get(&app, path, "").await;
        }
        create(&app, &["d"]).await;
        for path in [first, "/contacts/1"] {
            assert_eq!(get(&app, path, "").await.header("cache-status"), "tidewire; hit", "{path}");
        }
        assert!(get(&app, &last, "").await.text().contains(r#""id":4,"firstName":"d""#));
        assert_eq!(get(&app, "/contacts:count", "").await.text(), r#"{"contacts":4}"#);
        assert_eq!(get(&app, "/contacts/4", "").await.status, 200);

        held(&app, &[&last, "/contacts:count", "/contacts/4"]).await;
        assert_eq!(app.delete("/contacts/4").await.status, 204);
        assert!(!get(&app, &last, "").await.text().contains(r#""id":4"#));
        assert_eq!(get(&app, "/contacts:count", "").await.text(), r#"{"contacts":3}"#);
        app.settle().await;
        assert_eq!(get(&app, "/contacts/4", "").await.status, 404);
        assert_eq!(get(&app, "/contacts/4", "").await.header("cache-status"), "tidewire; hit");
        app.stop().await;
    }
}

#[tokio::test]
async fn a_user_is_found_changed_and_refused_by_name_of_the_field() {
    for app in App::each().await {
        let user = r#"{"id":1000,"name":"User_1000","email":"user_1000@example.com"}"#;
        assert_eq!(app.get("/users/1000").await.text(), user);
        assert_eq!(app.get("/users/1001").await.status, 404);
        let patch = async |body: String| {
            app.send(Method::PATCH, "/users/1000", "application/json", body).await
        };
        let renamed = patch(r#"{"name":"Ada"}"#.to_owned()).await;
        assert_eq!(renamed.text(), user.replace("User_1000", "Ada"));
        assert_eq!(app.get("/users/1000").await.text(), renamed.text());
        for (field, value) in [
            ("name", ""),
            ("name", &*"n".repeat(121)),
            ("email", &*"e".repeat(251)),
            ("email", "\\u0000"),
        ] {
            let refused = patch(format!(r#"{{"{field}":"{value}"}}"#)).await;
            assert_eq!(refused.status, 400, "{value}");
            assert!(refused.text().contains(field), "{}", refused.text());
        }
        app.stop().await;
    }
}

#[tokio::test]
async fn what_another_program_writes_into_the_file_is_seen() {
    let graph = Graph::new();
    let folder = tempfile::tempdir().unwrap();
    let path = database_in(folder.path());
    let store = Tracked::open(&graph, &path, &sqlite::Options::default()).unwrap();
    store.create(named("Ada")).await.unwrap();
    let name = first_name(&graph, &Arc::new(store));
    let mut watch = name.watch(1);
    assert_eq!(*watch.next().await.unwrap().unwrap(), "Ada");
    let other_program = Connection::open(&path).unwrap();
    other_program.execute_batch("UPDATE contact SET firstname = 'Augusta' WHERE id = 1").unwrap();
    assert_eq!(*watch.next().await.unwrap().unwrap(), "Augusta");
}

/// An update whose caller goes away is made or it is not, and who reads is told of it.
async fn check_callers_who_go<S: Store>(graph: &Graph, store: Tracked<S>) {
    store.create(named("0")).await.unwrap();
    let store = Arc::new(store);
    let name = first_name(graph, &store);
    let mut watch = name.watch(1);
    assert_eq!(*watch.next().await.unwrap().unwrap(), "0");
    let mut kept = "0".to_owned();
    for polls in 0..4 {
        let wanted = format!("polled {polls} times");
        {
            let mut change = UpdateRequest { id: 1, ..Default::default() };
            change.first_name = Some(wanted.clone());
            let mut update = pin!(store.update(change));
            for _ in 0..polls {
                let _ = update.as_mut().poll(&mut Context::from_waker(Waker::noop()));
                tokio::task::yield_now().await;
            }
        }
        if polls > 0 {
            // Begun, so it is made; who watches is woken after it and not only before.
            while kept != wanted {
                let seen = tokio::time::timeout(Duration::from_secs(300), watch.next()).await;
                kept = seen.expect("the change is announced").unwrap().unwrap().to_string();
            }
        }
        assert_eq!(*name.get(1).await.unwrap(), kept);
    }
}

#[tokio::test]
async fn an_update_whose_caller_goes_away_at_any_point_is_never_seen_late() {
    let graph = Graph::new();
    let folder = tempfile::tempdir().unwrap();
    let options = sqlite::Options::default();
    let store = Tracked::open(&graph, &database_in(folder.path()), &options).unwrap();
    check_callers_who_go(&graph, store).await;

    let (config, options) = (cluster::database().await, postgres::Options::default());
    graph.set_external_life(None);
    let store = Tracked::connect(&graph, &config, &options).await.unwrap();
    check_callers_who_go(&graph, store).await;
}

fn named(first_name: &str) -> CreateRequest {
    CreateRequest { first_name: first_name.to_owned(), ..Default::default() }
}

fn first_name<S: Store>(graph: &Graph, store: &Arc<S>) -> Memo<i32, String> {
    let store = Arc::clone(store);
    Memo::new_in(graph, "first name", move |id: i32| {
        let store = Arc::clone(&store);
        async move { store.find(id).await.map(|found| found.unwrap().first_name) }
    })
}

/// Stands between a store and its PostgreSQL until it is cut.
async fn cuttable(config: &postgres::Config) -> (postgres::Config, tempfile::TempDir, JoinSet<()>) {
    let tokio_postgres::config::Host::Unix(real) = &config.get_hosts()[0] else {
        panic!("tests use Unix sockets")
    };
    let real = real.join(".s.PGSQL.5432");
    let folder = tempfile::tempdir().unwrap();
    let listener = UnixListener::bind(folder.path().join(".s.PGSQL.5432")).unwrap();
    let mut line = JoinSet::new();
    line.spawn(async move {
        let mut connections = JoinSet::new();
        loop {
            let (mut here, _) = listener.accept().await.unwrap();
            let mut there = UnixStream::connect(&real).await.unwrap();
            connections.spawn(async move {
                let _ = tokio::io::copy_bidirectional(&mut here, &mut there).await;
            });
        }
    });
    let mut through = postgres::Config::new();
    through.host_path(folder.path()).user("postgres").dbname(config.get_dbname().unwrap());
    (through, folder, line)
}

#[tokio::test]
async fn a_write_that_the_database_does_after_it_was_cut_off_is_not_seen_late() {
    let graph = Graph::new();
    graph.set_external_life(None);
    let config = cluster::database().await;
    let (through, _folder, line) = cuttable(&config).await;
    let options = postgres::Options::default();
    let writing = Tracked::connect(&graph, &through, &options).await.unwrap();
    writing.create(named("before")).await.unwrap();
    let writing = Arc::new(writing);

    let other_program = cluster::open(&config).await;
    other_program.batch_execute("BEGIN; SELECT FROM contact FOR UPDATE").await.unwrap();
    let mut change = UpdateRequest { id: 1, ..Default::default() };
    change.first_name = Some("after".to_owned());
    let update = tokio::spawn({
        let writing = Arc::clone(&writing);
        async move { writing.update(change).await }
    });
    // It waits for the row now. Other tests wait for rows of their own databases.
    let waits = "SELECT count(*) FROM pg_stat_activity \
                 WHERE wait_event_type = 'Lock' AND datname = current_database()";
    while cluster::open(&config).await.query_one(waits, &[]).await.unwrap().get::<_, i64>(0) == 0 {}
    drop(line);
    assert!(update.await.unwrap().is_err());

    let direct = postgres::Postgres::connect(&config, &options).await.unwrap();
    let reading = Arc::new(direct);
    let sources = Arc::clone(&writing);
    let name = Memo::new_in(&graph, "first name", move |id: i32| {
        let (sources, reading) = (Arc::clone(&sources), Arc::clone(&reading));
        async move {
            // Declares what it reads, though its own database is not there any more.
            let _ = sources.find(id).await;
            reading.find(id).await.map(|found| found.unwrap().first_name)
        }
    });
    assert_eq!(*name.get(1).await.unwrap(), "before");
    other_program.batch_execute("COMMIT").await.unwrap();
    // The database makes the update some time after that.
    let made = "SELECT count(*) FROM contact WHERE firstname = 'after'";
    while other_program.query_one(made, &[]).await.unwrap().get::<_, i64>(0) == 0 {}
    assert_eq!(*name.get(1).await.unwrap(), "after");
}
