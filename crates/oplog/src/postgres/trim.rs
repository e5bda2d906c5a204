//! The log is trimmed by snapshot, not by time.
//!
//! A tick notes when which transactions had ended. Rows below the newest tick that is older than
//! `oplog.keep` go: whoever polled since then has seen them, and a transaction that was open longer
//! has a higher id than that tick. The horizon moves first, so that a host which has not polled for
//! that long knows what it missed. Any host does it.

use tokio_postgres::{Client, Error};

use crate::settings::Settings;
use crate::sql::identifier;

/// Adds a tick and removes some of what nobody needs; whether there is more.
pub(super) async fn trim(client: &Client, settings: &Settings) -> Result<bool, Error> {
    let schema = identifier(&settings.schema);
    let keep = settings.keep.as_secs_f64();
    let begin = BEGIN.replace("{schema}", &schema).replace("{keep}", &keep.to_string());
    client.batch_execute(&begin).await?;
    let chunk = CHUNK.replace("{schema}", &schema);
    // Bounded, so that polls go on in between.
    Ok(client.execute(&chunk, &[]).await? == ROWS_AT_ONCE)
}

/// About how many rows the log has, and how many hosts read it.
pub(super) async fn figures(
    client: &Client,
    settings: &Settings,
) -> Result<(Option<u64>, Option<u64>), Error> {
    let log = format!("{}.log", identifier(&settings.schema));
    let row = client.query_one(FIGURES, &[&log, &super::application_name(settings)]).await?;
    let figure = |at: usize| row.get::<_, Option<i64>>(at).and_then(|n| u64::try_from(n).ok());
    Ok((figure(0), figure(1)))
}

const BEGIN: &str = "
DO $$
DECLARE bound xid8;
BEGIN
    IF NOT pg_try_advisory_xact_lock(hashtext('tidewire oplog trim')) THEN RETURN; END IF;
    -- Before this turn's tick, which may be old as soon as it is made, where the server is slow.
    SELECT max(ended) INTO bound FROM {schema}.tick
        WHERE at < clock_timestamp() - make_interval(secs => {keep});
    IF NOT EXISTS (SELECT FROM {schema}.tick
        WHERE at > clock_timestamp() - make_interval(secs => {keep} / 20.0)) THEN
        INSERT INTO {schema}.tick (ended) VALUES (pg_snapshot_xmin(pg_current_snapshot()));
    END IF;
    IF bound IS NOT NULL THEN
        UPDATE {schema}.horizon SET xid = bound WHERE xid < bound;
        DELETE FROM {schema}.tick WHERE ended < bound;
    END IF;
END $$";

/// No more than this at once.
const CHUNK: &str = "
DELETE FROM {schema}.log WHERE ctid = ANY (ARRAY(
    SELECT l.ctid FROM {schema}.log l JOIN {schema}.horizon h ON l.xid < h.xid LIMIT 10000))";
const ROWS_AT_ONCE: u64 = 10_000;

const FIGURES: &str = "
SELECT greatest(c.reltuples, 0)::bigint,
    (SELECT count(*) FROM pg_stat_activity WHERE application_name = $2 AND datname = current_database())
FROM pg_class c WHERE c.oid = to_regclass($1)";
