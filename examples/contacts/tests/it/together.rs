//! Rows that are looked up together are one query, on each database.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use contacts::proto::contacts::v1::{Contact, CreateRequest, UpdateRequest};
use contacts::proto::users::v1::{UpdateRequest as UserChange, User};
use contacts::store::{Store, Tracked, postgres, sqlite};
use futures_util::future::join_all;
use tidewire::memo::{Graph, Memo};
use tidewire::service::CommandKey;
use tidewire::{Result, Stream};

use crate::app::database_in;
use crate::cluster;

/// A store that counts what it is asked for: each look-up is one statement.
struct Counting<S> {
    store: S,
    queries: Arc<AtomicUsize>,
}

impl<S: Store> Counting<S> {
    fn statement(&self) -> &S {
        self.queries.fetch_add(1, Ordering::Relaxed);
        &self.store
    }
}

impl<S: Store> Store for Counting<S> {
    async fn create(&self, names: CreateRequest) -> Result<Contact> {
        self.store.create(names).await
    }

    async fn create_once(&self, names: CreateRequest, key: CommandKey) -> Result<Contact> {
        self.store.create_once(names, key).await
    }

    async fn find(&self, id: i32) -> Result<Option<Contact>> {
        self.statement().find(id).await
    }

    async fn find_many(&self, ids: Vec<i32>) -> Result<Vec<Contact>> {
        self.statement().find_many(ids).await
    }

    async fn page(&self, after: i32, rows: u32) -> Result<Vec<Contact>> {
        self.statement().page(after, rows).await
    }

    async fn list(&self) -> Result<Stream<Contact>> {
        self.store.list().await
    }

    async fn count(&self) -> Result<i64> {
        self.store.count().await
    }

    async fn update(&self, change: UpdateRequest) -> Result<Option<Contact>> {
        self.store.update(change).await
    }

    async fn delete(&self, id: i32) -> Result<()> {
        self.store.delete(id).await
    }

    async fn find_user(&self, id: i64) -> Result<Option<User>> {
        self.statement().find_user(id).await
    }

    async fn find_users(&self, ids: Vec<i64>) -> Result<Vec<User>> {
        self.statement().find_users(ids).await
    }

    async fn update_user(&self, change: UserChange) -> Result<Option<User>> {
        self.store.update_user(change).await
    }
}

/// A page that shows 100 contacts and 3 users, each a memoized look-up of its row.
async fn check_a_page_of_rows(store: impl Store) {
    let graph = Graph::new();
    let queries = Arc::new(AtomicUsize::new(0));
    let asked = || queries.swap(0, Ordering::Relaxed);
    let counting = Counting { store, queries: Arc::clone(&queries) };
    let store = Arc::new(Tracked::over(&graph, counting));
    for id in 1..100 {
        let first_name = format!("Ada {id}");
        store.create(CreateRequest { first_name, ..Default::default() }).await.unwrap();
    }
    let rows = Arc::clone(&store);
    let contact = Memo::new_in(&graph, "contact", move |id: i32| {
        let rows = Arc::clone(&rows);
        async move { rows.find(id).await.map(|found| found.map(|contact| contact.first_name)) }
    });
    let page = async || {
        let names = join_all((1..=100).map(|id| contact.get(id))).await;
        names.into_iter().map(|name| name.unwrap()).collect::<Vec<_>>()
    };

    let mut names: Vec<_> = (1..100).map(|id| Some(format!("Ada {id}"))).collect();
    names.push(None);
    assert_eq!(page().await, names);
    assert_eq!(asked(), 1, "queries for 100 rows, of which one is not there");
    assert_eq!(page().await, names);
    assert_eq!(asked(), 0, "queries for 100 rows from memory");

    for id in [7, 8] {
        let first_name = Some("Grace".to_owned());
        store.update(UpdateRequest { id, first_name, ..Default::default() }).await.unwrap();
        names[usize::try_from(id).unwrap() - 1] = Some("Grace".to_owned());
    }
    store.delete(9).await.unwrap();
    names[8] = None;
    assert_eq!(page().await, names);
    assert_eq!(asked(), 1, "queries for the three rows that changed");

    let users = join_all([1, 1000, 1001].map(|id| store.find_user(id))).await;
    let users: Vec<_> = users.into_iter().map(|user| user.unwrap().map(|user| user.name)).collect();
    assert_eq!(users, [Some("User_1".to_owned()), Some("User_1000".to_owned()), None]);
    assert_eq!(asked(), 1, "queries for three users");
}

#[tokio::test]
async fn a_page_of_rows_that_are_looked_up_one_by_one_is_one_query() {
    let folder = tempfile::tempdir().unwrap();
    let options = sqlite::Options::default();
    check_a_page_of_rows(sqlite::Sqlite::open(&database_in(folder.path()), &options).unwrap())
        .await;

    let (config, options) = (cluster::database().await, postgres::Options::default());
    check_a_page_of_rows(postgres::Postgres::connect(&config, &options).await.unwrap()).await;
}
