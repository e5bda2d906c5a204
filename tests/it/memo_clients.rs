//! Caches of HTTP in other programs hold answers and are told when they are right no more.

use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tidewire::http::header::CONTENT_TYPE;
use tidewire::http::{Method, StatusCode};
use tidewire::rest::{Int64, RestOptions};
use tidewire::{Body, Call, Layer, Reply, Service};
use tidewire_tests::program::{browser, root, run, succeed, tool};
use tokio::process::Command;
use tokio::sync::mpsc;

use crate::harness::{send, start};
use crate::memoized::{built, call, header, served};
use tidewire::service::Protocol;

/// Where each hold the value of row 7: REST, compressed REST, Connect by GET, compressed, a page.
const PATHS: [&str; 5] = [
    "/rows/7",
    "/long/7",
    "/test.v1.Rows/Get?connect=v1&encoding=json&message=%7B%22id%22:%227%22%7D",
    "/test.v1.Rows/Long?connect=v1&encoding=json&message=%7B%22id%22:%227%22%7D",
    "/page/7",
];

#[track_caller]
fn check_cases(output: &str, cases: usize) {
    let failed: Vec<_> = output.lines().filter(|line| !line.starts_with("ok ")).collect();
    assert!(failed.is_empty(), "{failed:#?}");
    assert_eq!(output.lines().count(), cases, "{output}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cache_of_go_confirms_what_it_holds_and_sees_every_change() {
    let (_running, address, _) = served().await;
    let address = address.to_string();
    let arguments: Vec<&str> = [&*address].into_iter().chain(PATHS).collect();
    let output = succeed(tool("foreign-http-cache"), &arguments).await;
    check_cases(&output, PATHS.len() * 6);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cache_of_python_confirms_what_it_holds_and_sees_every_change() {
    let (_running, address, _) = served().await;
    let address = address.to_string();
    let program = root().join("tests/foreign/python/http_cache.py");
    let python = root().join(".tools/http-cache/bin/python");
    assert!(python.exists(), "CacheControl is not installed; run `make setup` once");
    let arguments: Vec<&str> =
        [program.to_str().unwrap(), &address].into_iter().chain(PATHS).collect();
    let output = run(python, &arguments).await;
    let (stdout, stderr) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{stderr}");
    check_cases(&stdout, PATHS.len() * 9);
}

#[tokio::test(flavor = "multi_thread")]
async fn curl_keeps_tags_and_is_answered_304_until_a_write_through_grpc() {
    let (_running, address, rows) = served().await;
    let folder = tempfile::tempdir().unwrap();
    for (number, path) in PATHS.into_iter().enumerate() {
        for coding in [&["-s"][..], &["-s", "--compressed"]] {
            let tag = folder.path().join(format!("{number}{}", coding.len()));
            let tag = tag.to_str().unwrap();
            let url = format!("http://{address}{path}");
            let ask = async |how: &[&str]| {
                let status = ["-w", "\n%{http_code}", &url];
                succeed("curl", &[coding, how, &status].concat()).await
            };
            assert!(ask(&["--etag-save", tag]).await.ends_with("\n200"), "{path}");
            let held = ["--etag-compare", tag, "--etag-save", tag];
            assert_eq!(ask(&held).await, "\n304", "{path} {coding:?}");
            let value = format!("5{number}{}", coding.len());
            let row = format!(r#"{{"id":"7","value":"{value}"}}"#);
            call(address, Protocol::Grpc, &rows, "Set", &row).await;
            let changed = ask(&held).await;
            assert!(changed.contains(&value) && changed.ends_with("\n200"), "{path}: {changed}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reply_and_its_304_vary_by_the_same() {
    let (_running, address, _) = served().await;
    for path in PATHS {
        for coding in ["", "\naccept-encoding: gzip"] {
            let vary = |response: &crate::harness::Response| {
                let lines = response.head.lines().filter_map(|line| line.strip_prefix("vary: "));
                lines.map(str::to_owned).collect::<Vec<_>>()
            };
            let whole = send(address, &format!("GET {path}{coding}"), b"").await;
            let tag = header(&whole, "etag").unwrap();
            let held = format!("GET {path}{coding}\nif-none-match: {tag}");
            let unchanged = send(address, &held, b"").await;
            assert_eq!((whole.status, unchanged.status), (200, 304), "{path}");
            assert_eq!(vary(&whole), vary(&unchanged), "{path} {coding:?}");
            // There are caches that look at one line only.
            assert_eq!(vary(&whole).len(), 1, "{path} {coding:?}");
        }
    }
}

/// Counts the answers that say only that what the caller holds is right.
struct Unchanged(Arc<AtomicUsize>);

impl Layer for Unchanged {
    fn layer(&self, inner: Arc<dyn Service>) -> Arc<dyn Service> {
        let count = Arc::clone(&self.0);
        Arc::new(move |call: Call| {
            let (answer, count) = (inner.call(call), Arc::clone(&count));
            async move {
                let reply = answer.await?;
                count.fetch_add(usize::from(reply.is_unchanged()), Ordering::SeqCst);
                Ok(reply)
            }
        })
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_in_a_browser_confirms_what_it_holds_and_sees_every_change() {
    let (results, mut result) = mpsc::unbounded_channel();
    let take = move |call: Call| {
        let results = results.clone();
        async move {
            let lines = call.body.collect(1 << 20).await?;
            let _ = results.send(String::from_utf8_lossy(&lines).into_owned());
            Ok(Reply::empty(StatusCode::NO_CONTENT))
        }
    };
    let page = async |_: Call| {
        let content = std::fs::read(root().join("tests/foreign/node/memo.html")).unwrap();
        Reply::new(Body::from(content)).with_header(CONTENT_TYPE, "text/html")
    };
    let unchanged = Arc::new(AtomicUsize::new(0));
    let (builder, _) = built();
    let builder = builder
        .layer(Unchanged(Arc::clone(&unchanged)))
        .route(Method::GET, "/memo.html", page)
        .route(Method::POST, "/result", take);
    let (_running, address) = start(builder).await;

    let profile = tempfile::tempdir().unwrap();
    let encoded = |path: &str| path.replace('%', "%25").replace('&', "%26");
    let query: Vec<_> = PATHS.iter().map(|path| format!("path={}", encoded(path))).collect();
    // A run that is killed leaves no browser behind.
    let mut browser = Command::new("setpriv")
        .args(["--pdeathsig", "KILL", "--"])
        .arg(browser())
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run"])
        .args(["--disable-background-networking", "--disable-dev-shm-usage"])
        .arg(format!("--user-data-dir={}", profile.path().display()))
        .arg(format!("http://{address}/memo.html?{}", query.join("&")))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    // A bound on a hang, not a measurement.
    let lines = tokio::select! {
        lines = tokio::time::timeout(Duration::from_secs(120), result.recv()) => {
            lines.expect("the page says something in time").unwrap()
        }
        ended = browser.wait() => panic!("the browser ended before the page did: {ended:?}"),
    };
    browser.kill().await.unwrap();
    check_cases(&lines, PATHS.len() * 9);
    assert!(unchanged.load(Ordering::SeqCst) >= PATHS.len() * 3, "the browser asks by its tags");
}

#[tokio::test]
async fn a_compressed_form_has_a_tag_of_its_own_and_is_confirmed_by_it() {
    let (_running, address, _) = served().await;
    for get in [
        "GET /long/7",
        "GET /test.v1.Rows/Long?connect=v1&encoding=json&message=%7B%22id%22:%227%22%7D",
    ] {
        let tag = async |accept: &str, verb: &str| {
            let request = format!("{}\naccept-encoding: {accept}", get.replace("GET", verb));
            let response = send(address, &request, b"").await;
            response.check(200, &[]);
            let vary = header(&response, "vary").unwrap_or_default();
            assert!(vary.contains("accept-encoding"), "{get}: {vary}");
            (header(&response, "etag").unwrap(), response)
        };
        let (plain, whole) = tag("identity", "GET").await;
        let (gzip, small) = tag("gzip", "GET").await;
        assert_eq!(gzip, format!("{}-gzip\"", plain.trim_end_matches('"')), "{get}");
        assert!(small.body.len() < whole.body.len() / 2, "{get}");
        assert_eq!(tag("gzip", "GET").await.1.body, small.body, "one strong tag, the same bytes");
        for (held, accept) in
            [(&plain, "identity"), (&gzip, "gzip"), (&gzip, "identity"), (&plain, "gzip")]
        {
            for mark in ["", "W/"] {
                let head = format!("{get}\naccept-encoding: {accept}\nif-none-match: {mark}{held}");
                let answer = send(address, &head, b"").await;
                answer.check(304, &[]);
                assert_eq!(header(&answer, "etag").as_ref(), Some(held), "{get} {accept}");
                assert!(header(&answer, "vary").unwrap().contains("accept-encoding"), "{get}");
            }
        }
    }
    let head = |accept| format!("HEAD /long/7\naccept-encoding: {accept}");
    let get = |accept| format!("GET /long/7\naccept-encoding: {accept}");
    for accept in ["gzip", "identity"] {
        let whole = send(address, &get(accept), b"").await;
        let only_head = send(address, &head(accept), b"").await;
        assert_eq!(header(&only_head, "etag"), header(&whole, "etag"));
        assert_eq!(header(&only_head, "content-length"), Some(whole.body.len().to_string()));
    }
}

#[tokio::test]
async fn a_tag_names_no_json_that_is_printed_in_another_way() {
    let mut renamed = RestOptions::default();
    renamed.json.int64 = Int64::Text;
    let (_one, one, _) = served().await;
    let (builder, _) = built();
    let (_two, two) = start(builder.rest(renamed)).await;
    let tag = header(&send(one, "GET /rows/7", b"").await, "etag").unwrap();
    let held = format!("GET /rows/7\nif-none-match: {tag}");
    send(one, &held, b"").await.check(304, &[]);
    let other = send(two, &held, b"").await;
    other.check(200, &[r#""id":"7""#]);
    assert_ne!(header(&other, "etag").unwrap(), tag);
    // Another host with the same settings says the same.
    let (_same, same, _) = served().await;
    send(same, &held, b"").await.check(304, &[]);
}
