//! The ways of looking users up.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use anyhow::{Context as _, Result};
use contacts::proto::users::v1::{UpdateRequest, User};
use contacts::store::Store;
use redis::AsyncCommands as _;
use tidewire::memo::{Graph, Memo};
use tidewire::oplog::{OplogHandle, Token, collect};

use crate::cases::Way;

async fn load(store: &impl Store, id: i64) -> Result<User> {
    store.find_user(id).await?.context("a user is missing")
}

async fn rename(store: &impl Store, id: i64, name: String) -> Result<()> {
    let change = UpdateRequest { id, name: Some(name), ..UpdateRequest::default() };
    store.update_user(change).await?;
    Ok(())
}

/// Tidewire: a memoized function; writes go through the store's sources.
pub(crate) struct Memoized<S> {
    store: Arc<S>,
    users: Memo<i64, User>,
}

impl<S: Store> Memoized<S> {
    pub(crate) fn new(store: Arc<S>) -> Self {
        let of = Arc::clone(&store);
        let users = Memo::new("user", move |id: i64| {
            let store = Arc::clone(&of);
            async move { load(&*store, id).await }
        });
        Self { store, users }
    }
}

impl<S: Store> Way for Memoized<S> {
    async fn get<R: Send>(&self, id: i64, look: impl FnOnce(&str) -> R + Send) -> Result<R> {
        let user = self.users.get(id).await?;
        Ok(look(&user.name))
    }

    async fn rename(&self, id: i64, name: String) -> Result<()> {
        rename(&*self.store, id, name).await
    }
}

/// Tidewire on two hosts: one writes, and the other reads what it has memoized. With tokens a read
/// names the last write that was acknowledged before it, as a caller does that was told of it.
pub(crate) struct TwoHosts<S> {
    writer: Arc<S>,
    users: Memo<i64, User>,
    log: OplogHandle,
    last: Option<RwLock<Token>>,
}

impl<S: Store> TwoHosts<S> {
    /// `graph` and `log` are those of the host that reads.
    pub(crate) fn new(
        writer: Arc<S>,
        reader: Arc<S>,
        graph: &Graph,
        log: OplogHandle,
        has_tokens: bool,
    ) -> Self {
        let users = Memo::new_in(graph, "user", move |id: i64| {
            let store = Arc::clone(&reader);
            async move { load(&*store, id).await }
        });
        Self { writer, users, log, last: has_tokens.then(RwLock::default) }
    }
}

impl<S: Store> Way for TwoHosts<S> {
    async fn get<R: Send>(&self, id: i64, look: impl FnOnce(&str) -> R + Send) -> Result<R> {
        // As a server does for each request.
        self.log.check_lease();
        if let Some(last) = &self.last {
            let token = last.read().unwrap_or_else(PoisonError::into_inner).clone();
            self.log.caught_up(&token).await?;
        }
        let user = self.users.get(id).await?;
        Ok(look(&user.name))
    }

    async fn rename(&self, id: i64, name: String) -> Result<()> {
        let (renamed, token) = collect(rename(&*self.writer, id, name)).await;
        if let Some(last) = &self.last {
            *last.write().unwrap_or_else(PoisonError::into_inner) = token;
        }
        renamed
    }
}

/// Nothing is kept.
pub(crate) struct Straight<S>(pub(crate) Arc<S>);

impl<S: Store> Way for Straight<S> {
    async fn get<R: Send>(&self, id: i64, look: impl FnOnce(&str) -> R + Send) -> Result<R> {
        Ok(look(&load(&*self.0, id).await?.name))
    }

    async fn rename(&self, id: i64, name: String) -> Result<()> {
        rename(&*self.0, id, name).await
    }
}

/// A cache of the process.
pub(crate) trait Cache: Send + Sync + 'static {
    fn find(&self, id: i64) -> Option<Arc<User>>;
    fn keep(&self, id: i64, user: Arc<User>);
    fn forget(&self, id: i64);
}

/// A cache beside the database.
pub(crate) struct Aside<S, C> {
    store: Arc<S>,
    cache: C,
}

impl<S, C> Aside<S, C> {
    pub(crate) fn new(store: Arc<S>, cache: C) -> Self {
        Self { store, cache }
    }
}

impl<S: Store, C: Cache> Way for Aside<S, C> {
    async fn get<R: Send>(&self, id: i64, look: impl FnOnce(&str) -> R + Send) -> Result<R> {
        if let Some(user) = self.cache.find(id) {
            return Ok(look(&user.name));
        }
        let user = Arc::new(load(&*self.store, id).await?);
        self.cache.keep(id, Arc::clone(&user));
        Ok(look(&user.name))
    }

    async fn rename(&self, id: i64, name: String) -> Result<()> {
        rename(&*self.store, id, name).await?;
        self.cache.forget(id);
        Ok(())
    }
}

const CAPACITY: usize = 10_000;

#[derive(Clone)]
pub(crate) struct Moka(moka::sync::Cache<i64, Arc<User>>);

impl Moka {
    pub(crate) fn new() -> Self {
        Self(moka::sync::Cache::new(CAPACITY as u64))
    }

    /// What it keeps expires.
    pub(crate) fn with_ttl(life: Duration) -> Self {
        let cache = moka::sync::Cache::builder().max_capacity(CAPACITY as u64);
        Self(cache.time_to_live(life).build())
    }

    pub(crate) fn forget_all(&self) {
        self.0.invalidate_all();
    }
}

impl Cache for Moka {
    fn find(&self, id: i64) -> Option<Arc<User>> {
        self.0.get(&id)
    }
    fn keep(&self, id: i64, user: Arc<User>) {
        self.0.insert(id, user);
    }
    fn forget(&self, id: i64) {
        self.0.invalidate(&id);
    }
}

pub(crate) struct QuickCache(quick_cache::sync::Cache<i64, Arc<User>>);

impl QuickCache {
    pub(crate) fn new() -> Self {
        Self(quick_cache::sync::Cache::new(CAPACITY))
    }
}

impl Cache for QuickCache {
    fn find(&self, id: i64) -> Option<Arc<User>> {
        self.0.get(&id)
    }
    fn keep(&self, id: i64, user: Arc<User>) {
        self.0.insert(id, user);
    }
    fn forget(&self, id: i64) {
        self.0.remove(&id);
    }
}

#[derive(Default)]
pub(crate) struct Papaya(papaya::HashMap<i64, Arc<User>>);

impl Cache for Papaya {
    fn find(&self, id: i64) -> Option<Arc<User>> {
        self.0.pin().get(&id).cloned()
    }
    fn keep(&self, id: i64, user: Arc<User>) {
        self.0.pin().insert(id, user);
    }
    fn forget(&self, id: i64) {
        self.0.pin().remove(&id);
    }
}

#[derive(Default)]
pub(crate) struct RwLockMap(RwLock<HashMap<i64, Arc<User>>>);

impl Cache for RwLockMap {
    fn find(&self, id: i64) -> Option<Arc<User>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).get(&id).cloned()
    }
    fn keep(&self, id: i64, user: Arc<User>) {
        self.0.write().unwrap_or_else(PoisonError::into_inner).insert(id, user);
    }
    fn forget(&self, id: i64) {
        self.0.write().unwrap_or_else(PoisonError::into_inner).remove(&id);
    }
}

/// Redis beside the database, over one connection that all readers share.
pub(crate) struct Redis<S> {
    store: Arc<S>,
    connection: redis::aio::MultiplexedConnection,
}

impl<S> Redis<S> {
    /// To the server that `REDIS` names.
    pub(crate) async fn connect(store: Arc<S>) -> Result<Self> {
        let address = std::env::var("REDIS").context("REDIS is not set")?;
        let client = redis::Client::open(format!("redis://{address}/"))?;
        let mut connection = client.get_multiplexed_async_connection().await?;
        let _: () = redis::cmd("FLUSHALL").query_async(&mut connection).await?;
        Ok(Self { store, connection })
    }
}

impl<S: Store> Way for Redis<S> {
    async fn get<R: Send>(&self, id: i64, look: impl FnOnce(&str) -> R + Send) -> Result<R> {
        let mut connection = self.connection.clone();
        if let Some(name) = connection.get::<_, Option<String>>(id).await? {
            return Ok(look(&name));
        }
        let user = load(&*self.store, id).await?;
        let _: () = connection.set(id, &user.name).await?;
        Ok(look(&user.name))
    }

    async fn rename(&self, id: i64, name: String) -> Result<()> {
        rename(&*self.store, id, name).await?;
        let _: () = self.connection.clone().del(id).await?;
        Ok(())
    }
}
