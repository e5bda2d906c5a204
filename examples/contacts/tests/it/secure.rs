//! The program with a PostgreSQL that is reached over TLS alone.

use std::process::{Command, Stdio};

use contacts::store::postgres::Config;

use crate::cluster::{Cluster, open};
use crate::durability::Program;

const TLS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/fixtures/tls");

fn command(url: &str, authorities: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_contacts"));
    command
        .env("DATABASE_URL", url)
        .env("SSL_CERT_FILE", format!("{TLS}/{authorities}"))
        .env_remove("SSL_CERT_DIR")
        .env("TIDEWIRE_SERVER_LISTEN", "127.0.0.1:0");
    command
}

#[tokio::test]
async fn a_database_over_tls_is_trusted_by_its_certificate_or_not_at_all() {
    let cluster = Cluster::start();
    let pem = |name: &str| std::fs::read(format!("{TLS}/{name}")).unwrap();
    let port = cluster.secure(&pem("server.pem"), &pem("server.key"));
    let mut local: Config = cluster.at_port(port);
    let admin = open(&local).await;
    admin.batch_execute("CREATE DATABASE shop").await.unwrap();
    let url = |host: &str, mode: &str| format!("postgres://postgres@{host}:{port}/shop{mode}");

    let mut app =
        Program::start_with(&mut command(&url("127.0.0.1", "?sslmode=require"), "authority.pem"));
    let made = app.call("Create", r#"{"firstName":"Ada","surname":"L"}"#).await;
    assert_eq!(made.status, 200, "{}", made.text());
    local.dbname("shop");
    let sql = "SELECT bool_and(ssl) FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) \
               WHERE application_name = 'contacts'";
    let row = open(&local).await.query_one(sql, &[]).await.unwrap();
    assert_eq!(row.get::<_, Option<bool>>(0), Some(true), "every connection is over TLS");
    drop(app);

    for (url, authorities, expected) in [
        (url("127.0.0.1", "?sslmode=require"), "server.pem", "certificate"),
        (url("127.0.0.1", "?sslmode=require"), "none.pem", "no authority is trusted"),
        (url("127.0.0.2", "?sslmode=require"), "authority.pem", "cannot connect to PostgreSQL"),
        (url("127.0.0.1", ""), "authority.pem", "no encryption"),
    ] {
        let refused = command(&url, authorities).stdin(Stdio::null()).output().unwrap();
        let text = String::from_utf8_lossy(&refused.stderr);
        assert!(!refused.status.success() && text.contains(expected), "{url}: {text}");
    }
}
