//! The tables: contacts as the web-server comparison has them, the creates that came
//! with a key, and users.

use anyhow::{Context as _, Result};
use tokio_postgres::Config;

use super::session::{connect, place};
use crate::store::USERS;

/// Makes sequence and tables where they are not there.
pub(super) async fn prepare(config: &Config) -> Result<()> {
    let (client, _line) = connect(config).await?;
    let what = || format!("tables contact, contact_command and app_user of {}", place(config));
    // Of several programs that start at once, one makes the tables. Whoever finds them needs no
    // right to make any.
    client.batch_execute(&CREATE.replace("{USERS}", &USERS.to_string())).await.with_context(what)
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
    IF to_regclass('app_user') IS NULL THEN
        CREATE TABLE app_user (
            id bigint PRIMARY KEY,
            name varchar(120) NOT NULL,
            email varchar(250) NOT NULL
        );
        INSERT INTO app_user
            SELECT id, 'User_' || id, 'user_' || id || '@example.com'
            FROM generate_series(1, {USERS}) AS id;
    END IF;
END $$";
