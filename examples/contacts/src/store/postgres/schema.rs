//! The tables: contacts as the web-server comparison has them, and the creates that came with a key.

use anyhow::{Context as _, Result};
use tokio_postgres::Config;

use super::session::{connect, place};

/// Makes sequence and tables where they are not there.
pub(super) async fn prepare(config: &Config) -> Result<()> {
    let (client, _line) = connect(config).await?;
    let what = || format!("tables contact and contact_command of {}", place(config));
    // Of several programs that start at once, one makes the tables. Whoever finds them needs no right
    // to make any.
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
    IF to_regclass('contact_command') IS NULL THEN
        CREATE TABLE contact_command (
            key varchar PRIMARY KEY,
            made_at timestamptz NOT NULL DEFAULT now(),
            contact_id integer NOT NULL,
            firstname varchar NOT NULL,
            surname varchar NOT NULL,
            repeats integer NOT NULL DEFAULT 0
        );
        CREATE INDEX contact_command_made_at ON contact_command (made_at);
    END IF;
END $$";
