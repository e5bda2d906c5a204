//! The table, as the web-server comparison has it, made where there is none.

use anyhow::{Context as _, Result};
use tokio_postgres::Config;

use super::session::{connect, place};

/// Makes sequence and table where they are not there.
pub(super) async fn prepare(config: &Config) -> Result<()> {
    let (client, _line) = connect(config).await?;
    let what = || format!("table contact of {}", place(config));
    // Of several programs that start at once, one makes the table. Whoever finds it needs no right
    // to make one.
    client.batch_execute(CREATE).await.with_context(what)
}

const CREATE: &str = "
DO $$ BEGIN
    PERFORM pg_advisory_xact_lock(hashtext('tidewire contacts'));
    IF to_regclass('contact') IS NULL THEN
        CREATE SEQUENCE IF NOT EXISTS contact_id_seq AS integer;
        CREATE TABLE contact (
            id integer DEFAULT nextval('contact_id_seq') PRIMARY KEY,
            firstname varchar,
            surname varchar
        );
        ALTER SEQUENCE contact_id_seq OWNED BY contact.id;
    END IF;
END $$";
