//! The log's own tables.
//!
//! | table | holds |
//! |---|---|
//! | `log` | a row for each statement that changed a captured table: which source, which keys |
//! | `incarnation` | one random id, unlogged: a crash or a promotion empties it, a clean restart does not |
//! | `tick` | when which transactions had ended, so that the log is trimmed by snapshot and not by time |
//! | `horizon` | below which transaction rows were trimmed |
//! | `intent` | a row for each host that runs commands whose changes are still to be published |

use crate::sql::identifier;

/// Taken by whoever makes tables or triggers, for the transaction: several hosts start at once.
pub(crate) const INSTALL_LOCK: &str =
    "SELECT pg_advisory_xact_lock(hashtext('tidewire oplog install'))";

/// The statements that make the tables in a schema where they are missing. Anybody may run them
/// again.
pub(crate) fn tables(schema: &str) -> String {
    TABLES.replace("{mark}", MARK).replace("{schema}", &identifier(schema))
}

/// What `mark()` does: an older one is replaced where that is allowed, and serves where it is not.
pub(crate) fn mark_body(schema: &str) -> String {
    MARK.replace("{schema}", &identifier(schema))
}

/// Makes an incarnation where there is none, and a horizon where somebody emptied the table, so
/// that every host resets; of several hosts one does.
pub(crate) fn incarnate(schema: &str) -> String {
    INCARNATE.replace("{schema}", &identifier(schema))
}

/// What lets a role follow the log that another one made. A role that only writes captured tables
/// needs none of this; one that asks for `mark()` needs the schema's `USAGE`.
pub(crate) fn grants(schema: &str, role: &str) -> String {
    GRANTS.replace("{schema}", &identifier(schema)).replace("{role}", &identifier(role))
}

/// A text as SQL has it. It holds no backslash escapes, whatever the settings are.
pub(crate) fn literal(text: &str) -> String {
    let quoted = text.replace('\'', "''");
    if quoted.contains('\\') {
        return format!("E'{}'", quoted.replace('\\', "\\\\"));
    }
    format!("'{quoted}'")
}

const TABLES: &str = "\
CREATE SCHEMA IF NOT EXISTS {schema};
CREATE TABLE IF NOT EXISTS {schema}.log (
    xid xid8 NOT NULL DEFAULT pg_current_xact_id(),
    source text NOT NULL,
    keys text[]
);
CREATE INDEX IF NOT EXISTS log_xid ON {schema}.log (xid);
CREATE UNLOGGED TABLE IF NOT EXISTS {schema}.incarnation (
    one boolean PRIMARY KEY DEFAULT true CHECK (one),
    id uuid NOT NULL
);
CREATE TABLE IF NOT EXISTS {schema}.horizon (
    one boolean PRIMARY KEY DEFAULT true CHECK (one),
    xid xid8 NOT NULL
);
INSERT INTO {schema}.horizon (xid) VALUES ('0') ON CONFLICT DO NOTHING;
CREATE TABLE IF NOT EXISTS {schema}.tick (
    at timestamptz NOT NULL DEFAULT clock_timestamp(),
    ended xid8 NOT NULL
);
CREATE TABLE IF NOT EXISTS {schema}.intent (
    id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    since timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE OR REPLACE FUNCTION {schema}.mark() RETURNS text LANGUAGE plpgsql VOLATILE SECURITY DEFINER
    AS $${mark}$$;
";

/// In plpgsql, which keeps the plan; a function in SQL is planned at each call. It is run with the
/// rights of its owner and the `search_path` of its caller, so every name in it is qualified, which
/// costs less than setting the path for each call.
const MARK: &str = " BEGIN RETURN pg_catalog.concat(pg_catalog.pg_current_xact_id(), ':', \
                    (SELECT i.id FROM {schema}.incarnation AS i)); END ";

const INCARNATE: &str = "
INSERT INTO {schema}.incarnation (id) VALUES (gen_random_uuid()) ON CONFLICT DO NOTHING;
INSERT INTO {schema}.horizon (xid) VALUES (pg_snapshot_xmax(pg_current_snapshot())) ON CONFLICT DO NOTHING";

const GRANTS: &str = "\
GRANT USAGE ON SCHEMA {schema} TO {role};
GRANT SELECT, INSERT, DELETE ON {schema}.log, {schema}.tick, {schema}.intent TO {role};
GRANT SELECT, INSERT ON {schema}.incarnation TO {role};
GRANT SELECT, INSERT, UPDATE ON {schema}.horizon TO {role};
";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_texts_cannot_leave_their_quotes() {
        assert_eq!(identifier("a\"b"), "\"a\"\"b\"");
        assert_eq!(literal("it's"), "'it''s'");
        assert_eq!(literal(r"a\'b"), r"E'a\\''b'");
    }
}
