//! A page of another origin in a real browser, with the client that pages have.

use std::path::{Component, Path};
use std::process::Stdio;
use std::time::Duration;

use tidewire::http::header::{CONTENT_TYPE, HeaderValue};
use tidewire::http::{Method, StatusCode};
use tidewire::server::Cors;
use tidewire::{Body, Call, Error, Reply, Server};
use tidewire_tests::program::{browser, root};
use tokio::process::Command;
use tokio::sync::mpsc;

use crate::harness::{behaviour, start};

/// A bound on a hang, not a measurement.
const PATIENCE: Duration = Duration::from_secs(120);

/// A file of `tests/foreign/node`.
fn page(call: &Call) -> Result<Reply, Error> {
    let path = call.param::<String>("path")?;
    let inside = Path::new(&path).components().all(|part| matches!(part, Component::Normal(_)));
    let content = std::fs::read(root().join("tests/foreign/node").join(&path));
    let content = content.ok().filter(|_| inside).ok_or_else(|| Error::not_found(&*path))?;
    let kind = if path.ends_with(".js") { "text/javascript" } else { "text/html" };
    let mut reply = Reply::new(Body::from(content));
    reply.headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    Ok(reply)
}

/// A server that allows the pages of one origin.
fn open_to(origin: &str) -> tidewire::Builder {
    let mut cors = Cors::new([origin]);
    cors.headers.push("x-ping".to_owned());
    cors.exposed_headers.extend(["x-pong".to_owned(), "trailer-x-pong-trailer".to_owned()]);
    let (mut builder, _) = behaviour();
    for verb in [Method::PUT, Method::PATCH, Method::DELETE] {
        let answer = async |call: Call| Ok(call.http_target().unwrap().method.to_string());
        builder = builder.route(verb, "/thing", answer);
    }
    builder.cors(cors)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_of_another_origin_calls_what_allows_it_and_nothing_else() {
    let (results, mut result) = mpsc::unbounded_channel();
    let take = move |call: Call| {
        let results = results.clone();
        async move {
            let lines = call.body.collect(1 << 20).await?;
            let _ = results.send(String::from_utf8_lossy(&lines).into_owned());
            Ok(Reply::empty(StatusCode::NO_CONTENT))
        }
    };
    let pages = Server::builder()
        .route(Method::GET, "/{*path}", async |call: Call| page(&call))
        .route(Method::POST, "/result", take);
    let (_pages, pages) = start(pages).await;
    let (_open, open) = start(open_to(&format!("http://{pages}"))).await;
    let (_closed, closed) = start(open_to("https://app.example")).await;

    let profile = tempfile::tempdir().unwrap();
    // A run that is killed leaves no browser behind.
    let mut browser = Command::new("setpriv")
        .args(["--pdeathsig", "KILL", "--"])
        .arg(browser())
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run"])
        .args(["--disable-background-networking", "--disable-dev-shm-usage"])
        .arg(format!("--user-data-dir={}", profile.path().display()))
        .arg(format!("http://{pages}/browser.html?open=http://{open}&closed=http://{closed}"))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let lines = tokio::select! {
        lines = tokio::time::timeout(PATIENCE, result.recv()) => {
            lines.expect("the page says something in time").unwrap()
        }
        ended = browser.wait() => panic!("the browser ended before the page did: {ended:?}"),
    };
    browser.kill().await.unwrap();
    let failed: Vec<_> = lines.lines().filter(|line| !line.starts_with("ok ")).collect();
    assert!(failed.is_empty(), "{failed:#?}");
    assert_eq!(lines.lines().count(), 3 * 6 + 3, "{lines}");
}
