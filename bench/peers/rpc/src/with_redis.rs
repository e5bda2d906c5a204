//! Users as bytes in a Redis: asked for each time, or kept by the client until the server says that
//! they changed.

use anyhow::{Context as _, Result};
use redis::aio::MultiplexedConnection;
use redis::caching::CacheConfig;
use redis::{AsyncCommands as _, AsyncConnectionConfig};

use crate::answers::{EMAIL, NAME, USERS};
use crate::load::Caller;

#[derive(Clone)]
pub struct Users(MultiplexedConnection);

/// A connection to a Redis that has all users.
pub async fn connect(address: &str, is_cached: bool) -> Result<Users> {
    let client = redis::Client::open(format!("redis://{address}/?protocol=resp3"))?;
    let mut config = AsyncConnectionConfig::new();
    if is_cached {
        config = config.set_cache_config(CacheConfig::default());
    }
    let mut connection = client.get_multiplexed_async_connection_with_config(&config).await?;
    for id in 0..USERS {
        let user = format!("{id} {NAME} {EMAIL}");
        connection.set::<_, _, ()>(id, user).await?;
    }
    Ok(Users(connection))
}

impl Caller for Users {
    async fn user(&self, id: i64) -> Result<i64> {
        let user: String = self.0.clone().get(id).await?;
        Ok(user.split(' ').next().context("an empty user")?.parse()?)
    }
}
