//! A poll of the log: one statement, so that all it shows is of one moment.

use std::pin::pin;

use futures_util::TryStreamExt as _;
use tokio_postgres::{Client, Statement};

use super::failure::read_error;
use super::schema::incarnate;
use crate::change::{Change, ChangeSet};
use crate::core::Core;
use crate::cursor::{Incarnation, Poll, Position};
use crate::error::{Error, ErrorKind};
use crate::snapshot::Snapshot;
use crate::sql::identifier;

/// The prepared statement of one connection.
pub(super) struct PollStatement {
    statement: Statement,
    incarnate: String,
}

impl PollStatement {
    pub(super) async fn prepare(client: &Client, schema: &str) -> Result<Self, Error> {
        let sql = POLL.replace("{schema}", &identifier(schema));
        let statement = client.prepare(&sql).await.map_err(read_error)?;
        Ok(Self { statement, incarnate: incarnate(schema) })
    }

    /// Polls once, and applies what there is.
    pub(super) async fn poll(&self, client: &Client, core: &Core) -> Result<(), Error> {
        for _ in 0..2 {
            let begun = core.begin();
            if let Some(poll) = self.read(client, core).await? {
                core.end(&begun, poll);
                return Ok(());
            }
            // The database crashed, or this is its first host.
            client.batch_execute(&self.incarnate).await.map_err(read_error)?;
        }
        Err(Error::new(ErrorKind::Corrupt, "the change log has no incarnation and takes none"))
    }

    /// `None` where the log has no incarnation.
    async fn read(&self, client: &Client, core: &Core) -> Result<Option<Poll>, Error> {
        let (from, running) = core.with_cursor(|cursor| {
            let unread = cursor.unread();
            let running = unread.running.iter().map(ToString::to_string).collect::<Vec<_>>();
            (unread.from.to_string(), running)
        });
        let params: [&(dyn tokio_postgres::types::ToSql + Sync); 2] = [&from, &running];
        let rows = client.query_raw(&self.statement, params).await.map_err(read_error)?;
        let mut rows = pin!(rows);
        let mut poll = None::<Poll>;
        while let Some(row) = rows.try_next().await.map_err(read_error)? {
            let poll = match &mut poll {
                Some(poll) => poll,
                none => none.insert(Poll {
                    position: Position {
                        snapshot: row.get::<_, &str>(0).parse::<Snapshot>().map_err(corrupt)?,
                        incarnation: Incarnation::parse(row.get(1))
                            .ok_or_else(|| Error::new(ErrorKind::Corrupt, "not a uuid"))?,
                    },
                    horizon: row.get::<_, &str>(2).parse().map_err(corrupt)?,
                    changes: ChangeSet::default(),
                }),
            };
            // No source: nothing was changed, or somebody added a row that no writer of a log adds.
            if let Some(source) = row.get::<_, Option<String>>(3) {
                let keys: Option<Vec<Option<String>>> = row.get(4);
                let keys = keys.and_then(|keys| keys.into_iter().collect());
                let mut change = Change { source, keys };
                let xid = row.get::<_, Option<&str>>(5).and_then(|xid| xid.parse().ok());
                if let Some(xid) = xid {
                    let incarnation = poll.position.incarnation.short();
                    let own = core.own.lock();
                    if own.is_published(incarnation, xid) {
                        continue;
                    }
                    own.strip(&core.registry, &mut change, incarnation, xid);
                }
                poll.changes.add(change);
            }
        }
        if let Some(poll) = &poll {
            core.own.lock().forget(&poll.position);
        }
        Ok(poll)
    }
}

fn corrupt(error: impl std::error::Error + Send + Sync + 'static) -> Error {
    Error::new(ErrorKind::Corrupt, "the change log shows what PostgreSQL does not write")
        .because(error)
}

/// What the last position does not contain: two conditions on one index.
const POLL: &str = "
SELECT pg_current_snapshot()::text, i.id::text, h.xid::text, l.source, l.keys, l.xid::text
FROM {schema}.incarnation i CROSS JOIN {schema}.horizon h
LEFT JOIN {schema}.log l ON l.xid >= $1::text::xid8 OR l.xid = ANY ($2::text[]::xid8[])";
