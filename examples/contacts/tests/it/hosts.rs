//! Several hosts on one database, and people who write past all of them: cached replies tell the
//! truth.

use std::process::Command;

use contacts::store::postgres;
use hyper::{Method, Request};
use rusqlite::Connection;

use crate::app::{Answer, App, exchange};
use crate::cluster;

async fn get(app: &App, path: &str, token: Option<&str>) -> Answer {
    let mut request = Request::builder().uri(path).header("host", app.address());
    if let Some(token) = token {
        request = request.header("tidewire-token", token);
    }
    exchange(&app.address(), request.body(Default::default()).unwrap()).await
}

/// Waits until the reply from memory is of the changed row: the log tells of it by itself.
async fn until(app: &App, path: &str, text: &str) {
    while !get(app, path, None).await.text().contains(text) {
        // tidy: allow-sleep a client of HTTP has nobody to tell it; it asks again
        tokio::time::sleep(std::time::Duration::from_millis(2)).await;
    }
}

/// The reply comes from memory.
async fn is_hit(app: &App, path: &str) -> bool {
    get(app, path, None).await.headers.get("cache-status").is_some_and(|it| it == "tidewire; hit")
}

async fn warm(app: &App) {
    app.settle().await;
    for path in ["/contacts/1", "/contacts/2", "/contacts:page?page_size=1", "/contacts:count"] {
        get(app, path, None).await;
        assert!(is_hit(app, path).await, "{path}");
    }
}

fn psql(config: &postgres::Config, sql: &str) {
    let tokio_postgres::config::Host::Unix(folder) = &config.get_hosts()[0] else {
        panic!("tests use Unix sockets")
    };
    let mut psql = Command::new("psql");
    psql.args(["-X", "-q", "-v", "ON_ERROR_STOP=1", "-U", "postgres", "-c", sql]);
    psql.arg("-h").arg(folder).arg("-d").arg(config.get_dbname().unwrap());
    assert!(psql.status().unwrap().success(), "{sql}");
}

async fn three(config: &postgres::Config) -> [App; 3] {
    [
        App::start_on_postgres(config, postgres::Options::default()).await,
        App::start_on_postgres(config, postgres::Options::default()).await,
        App::start_on_postgres(config, postgres::Options::default()).await,
    ]
}

#[tokio::test]
async fn what_psql_changes_is_new_on_three_hosts_and_nothing_else_is() {
    let config = cluster::database().await;
    let hosts = three(&config).await;
    for name in ["Ada", "Grace"] {
        hosts[0].post("/contacts", format!(r#"{{"firstName":"{name}","surname":"S"}}"#)).await;
    }
    let mut tags = Vec::new();
    for host in &hosts {
        until(host, "/contacts:count", "2").await;
        warm(host).await;
        tags.push(get(host, "/contacts/1", None).await.header("etag").to_owned());
    }
    psql(&config, "UPDATE contact SET surname = 'X' WHERE id = 1");
    for (host, tag) in hosts.iter().zip(tags) {
        until(host, "/contacts/1", r#""surname":"X""#).await;
        assert_ne!(get(host, "/contacts/1", None).await.header("etag"), tag);
        assert!(get(host, "/contacts:page?page_size=1", None).await.text().contains(r#""X""#));
        assert!(is_hit(host, "/contacts/2").await);
        assert!(is_hit(host, "/contacts:count").await);
    }
    for host in hosts {
        host.stop().await;
    }
}

#[tokio::test]
async fn a_write_on_one_host_is_read_on_another_with_its_token() {
    let config = cluster::database().await;
    let [a, b, c] = three(&config).await;
    a.post("/contacts", r#"{"firstName":"Ada","surname":"S"}"#.to_owned()).await;
    for turn in 0..20 {
        for host in [&b, &c] {
            get(host, "/contacts/1", None).await;
        }
        let body = format!(r#"{{"surname":"X{turn}"}}"#);
        let patched = a.send(Method::PATCH, "/contacts/1", "application/json", body.clone()).await;
        let token = patched.header("tidewire-token").to_owned();
        for host in [&b, &c, &a] {
            let seen = get(host, "/contacts/1", Some(&token)).await;
            assert!(seen.text().contains(&format!("X{turn}")), "{}", seen.text());
        }
    }
    for garbage in ["?", "AAAA", ""] {
        assert_eq!(get(&b, "/contacts/1", Some(garbage)).await.status, 200);
    }
    for host in [a, b, c] {
        host.stop().await;
    }
}

#[tokio::test]
async fn what_the_sqlite_shell_changes_is_new_and_nothing_else_is() {
    let app = App::start().await;
    for name in ["Ada", "Grace"] {
        app.post("/contacts", format!(r#"{{"firstName":"{name}","surname":"S"}}"#)).await;
    }
    warm(&app).await;
    let shell = Connection::open(app.database()).unwrap();
    shell.execute("UPDATE contact SET surname = 'X' WHERE id = 1", []).unwrap();
    until(&app, "/contacts/1", r#""surname":"X""#).await;
    assert!(is_hit(&app, "/contacts/2").await);
    assert!(is_hit(&app, "/contacts:count").await);
    app.stop().await;
}
