//! What triggers capture: every way of writing, each key that it concerns and no other.

use crate::support::{Host, database, psql};

#[tokio::test]
async fn each_way_of_writing_is_captured() {
    let (config, client) = database().await;
    let host = Host::start(&config).await;
    for (sql, fresh) in [
        ("UPDATE contact SET surname = 'Y' WHERE id = 2", &[0, 1, 3][..]),
        ("UPDATE contact SET surname = 'Y' WHERE id = 999", &[0, 1, 2, 3]),
        ("BEGIN; UPDATE contact SET surname = 'Z' WHERE id = 2; ROLLBACK", &[0, 1, 2, 3]),
        ("INSERT INTO contact VALUES (9, 'a', 'b')", &[1, 2, 3]),
        ("UPDATE contact SET id = 10 WHERE id = 9", &[0, 1, 2, 3]),
        ("DELETE FROM contact WHERE id = 10", &[1, 2, 3]),
        ("DELETE FROM contact WHERE id = 3", &[1, 2]),
        ("INSERT INTO contact VALUES (3, 'a', 'b')", &[1, 2]),
        (
            "UPDATE contact SET id = 4 WHERE id = 3; UPDATE contact SET id = 3 WHERE id = 4",
            &[0, 1, 2],
        ),
        (
            "INSERT INTO contact VALUES (1, '', 'u') ON CONFLICT (id) DO UPDATE SET surname = 'u'",
            &[0, 2, 3],
        ),
        ("INSERT INTO contact VALUES (1, '', 'u') ON CONFLICT DO NOTHING", &[0, 1, 2, 3]),
        (
            "MERGE INTO contact c USING (VALUES (2), (77)) v(id) ON c.id = v.id WHEN MATCHED THEN UPDATE SET \
          surname = 'm' WHEN NOT MATCHED THEN INSERT VALUES (v.id, 'm', 'm')",
            &[1, 3],
        ),
        (
            "WITH gone AS (DELETE FROM contact WHERE id = 77 RETURNING *) SELECT count(*) FROM gone",
            &[1, 2, 3],
        ),
        (
            "SET session_replication_role = replica; UPDATE contact SET surname = 'r' WHERE id = 3; \
          RESET session_replication_role",
            &[0, 1, 2],
        ),
        (
            "BEGIN; UPDATE contact SET surname = 's' WHERE id = 1; SAVEPOINT s; UPDATE contact SET surname = \
          's' WHERE id = 2; ROLLBACK TO s; COMMIT",
            &[0, 2, 3],
        ),
        ("UPDATE contact SET surname = 'all'", &[0]),
        ("TRUNCATE contact", &[]),
    ] {
        assert_eq!(host.after(&client, sql).await, fresh, "{sql}");
    }
    host.world.warm().await;
    psql(&config, "\\copy contact from program 'echo 1,a,b' csv");
    host.look().await;
    assert_eq!(host.world.fresh(), [2, 3]);
}
