//! A create under a key: one statement, so one round trip and one transaction.
//!
//! The key's unique index decides. Who comes second, at the same time too, waits for the first:
//! when that committed, the row is there and counts the repetition; when it was undone, the second
//! is the first. A repetition so leaves a row version behind, but no contact.

use crate::store::{FORGOTTEN_AT_ONCE, KEYS_KEPT};

/// Gives the contact as it was when the key came first, and the mark of the transaction.
/// Parameters: first name, surname, key.
pub(super) fn statement(mark: &str) -> String {
    let kept = KEYS_KEPT.as_secs();
    format!(
        "WITH forgotten AS (
            DELETE FROM contact_command WHERE key IN (
                SELECT key FROM contact_command
                WHERE made_at < now() - interval '{kept} seconds' AND key <> $3
                ORDER BY made_at LIMIT {FORGOTTEN_AT_ONCE} FOR UPDATE SKIP LOCKED
            )
        ), command AS (
            INSERT INTO contact_command AS known (contact_id, firstname, surname, key)
            VALUES (
                coalesce(
                    (SELECT contact_id FROM contact_command WHERE key = $3),
                    nextval('contact_id_seq')
                ),
                $1, $2, $3
            )
            ON CONFLICT (key) DO UPDATE SET repeats = known.repeats + 1
            RETURNING contact_id, firstname, surname, repeats
        ), added AS (
            INSERT INTO contact (id, firstname, surname)
            SELECT contact_id, firstname, surname FROM command WHERE repeats = 0
        )
        SELECT contact_id, firstname, surname, {mark} FROM command"
    )
}
