//! A page in a real browser, from a server that it may reach through a proxy.

use std::net::SocketAddr;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use tidewire::http::header::CONTENT_TYPE;
use tidewire::http::{Method, StatusCode};
use tidewire::{Body, Builder, Call, Reply};
use tidewire_tests::program::browser;
use tokio::net::{TcpListener, TcpStream};
use tokio::process::Command;
use tokio::sync::{Notify, mpsc};

use crate::harness::start;

/// A bound on a hang, not a measurement.
const PATIENCE: Duration = Duration::from_secs(120);

/// What a page posts to `/result` in the end; `reached` says where the browser reaches the server.
pub(crate) async fn visited(
    builder: Builder,
    page: Vec<u8>,
    reached: impl AsyncFnOnce(SocketAddr) -> SocketAddr,
) -> String {
    let (results, mut result) = mpsc::unbounded_channel();
    let take = move |call: Call| {
        let results = results.clone();
        async move {
            let lines = call.body.collect(1 << 20).await?;
            let _ = results.send(String::from_utf8_lossy(&lines).into_owned());
            Ok(Reply::empty(StatusCode::NO_CONTENT))
        }
    };
    let page = move |_: Call| {
        let reply = Reply::new(Body::from(page.clone()));
        async move { reply.with_header(CONTENT_TYPE, "text/html") }
    };
    let builder =
        builder.route(Method::GET, "/page.html", page).route(Method::POST, "/result", take);
    let (_running, address) = start(builder).await;
    let address = reached(address).await;
    let profile = tempfile::tempdir().unwrap();
    // A run that is killed leaves no browser behind.
    let mut browser = Command::new("setpriv")
        .args(["--pdeathsig", "KILL", "--"])
        .arg(browser())
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run"])
        .args(["--disable-background-networking", "--disable-dev-shm-usage"])
        .arg(format!("--user-data-dir={}", profile.path().display()))
        .arg(format!("http://{address}/page.html"))
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
    lines
}

/// Passes connections on to `server`; all that there are end with each `cut`.
pub(crate) async fn cutting_proxy(server: SocketAddr, cut: Arc<Notify>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut near, _)) = listener.accept().await {
            let cut = Arc::clone(&cut);
            tokio::spawn(async move {
                let mut far = TcpStream::connect(server).await.unwrap();
                tokio::select! {
                    _ = tokio::io::copy_bidirectional(&mut near, &mut far) => {}
                    () = cut.notified() => {}
                }
            });
        }
    });
    address
}
