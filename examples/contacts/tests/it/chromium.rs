//! A page in Chromium, driven by the DevTools protocol over two pipes: JSON, each message ended by
//! a zero byte. Keys and text go in as a person's would; what the page did wrong is kept.

use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

/// A tab of its own browser.
pub(crate) struct Page {
    browser: Child,
    commands: ChildStdin,
    messages: BufReader<ChildStdout>,
    session: Value,
    sent: u64,
    /// URLs that the page asked for.
    pub(crate) requested: Vec<String>,
    /// Exceptions, and what the content security policy refused.
    pub(crate) faults: Vec<String>,
    _profile: TempDir,
}

impl Page {
    /// Opens a URL in a window of this width.
    pub(crate) async fn open(url: &str, width: u32) -> Self {
        let profile = tempfile::tempdir().unwrap();
        // The browser reads descriptor 3 and writes 4. A run that is killed leaves none behind.
        let mut browser = Command::new("setpriv")
            .args(["--pdeathsig", "KILL", "--", "sh", "-c"])
            .args(["exec \"$0\" \"$@\" 3<&0 4>&1 </dev/null >/dev/null 2>&1"])
            .arg(browser())
            .args(["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run"])
            .args(["--disable-background-networking", "--disable-dev-shm-usage"])
            .args(["--remote-debugging-pipe", "about:blank"])
            .arg(format!("--user-data-dir={}", profile.path().display()))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let mut page = Self {
            commands: browser.stdin.take().unwrap(),
            messages: BufReader::new(browser.stdout.take().unwrap()),
            browser,
            session: Value::Null,
            sent: 0,
            requested: Vec::new(),
            faults: Vec::new(),
            _profile: profile,
        };
        let target = page.command("Target.createTarget", json!({"url": "about:blank"})).await;
        let attach = json!({"targetId": target["targetId"], "flatten": true});
        page.session = page.command("Target.attachToTarget", attach).await["sessionId"].take();
        for domain in ["Page", "Runtime", "Log", "Network"] {
            page.command(&format!("{domain}.enable"), json!({})).await;
        }
        let size = json!({"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": false});
        page.command("Emulation.setDeviceMetricsOverride", size).await;
        page.command("Page.navigate", json!({"url": url})).await;
        page
    }

    /// The value of an expression; a promise is waited for.
    pub(crate) async fn value(&mut self, expression: &str) -> Value {
        let what = json!({"expression": expression, "awaitPromise": true, "returnByValue": true});
        let mut answer = self.command("Runtime.evaluate", what).await;
        assert!(answer["exceptionDetails"].is_null(), "{expression}: {answer}");
        answer["result"]["value"].take()
    }

    /// Waits until an expression is true, looking again at each change of the page.
    pub(crate) async fn until(&mut self, expression: &str) {
        let wait = format!(
            "new Promise((done) => {{
               const look = () => {{ if ({expression}) {{ observer.disconnect(); done(true); }} }};
               const observer = new MutationObserver(look);
               observer.observe(document, {{
                 subtree: true, childList: true, attributes: true, characterData: true
               }});
               look();
             }})"
        );
        let waited = tokio::time::timeout(PATIENCE, self.value(&wait)).await;
        assert!(waited.is_ok(), "never so: {expression}");
    }

    /// Presses a key: `Tab`, `Enter`, `Escape`.
    pub(crate) async fn press(&mut self, key: &str) {
        let (code, text) = match key {
            "Tab" => (9, ""),
            "Enter" => (13, "\r"),
            "Escape" => (27, ""),
            _ => panic!("{key} has no code here"),
        };
        for kind in ["keyDown", "keyUp"] {
            let event = json!({
                "type": kind, "key": key, "code": key, "windowsVirtualKeyCode": code, "text": text
            });
            self.command("Input.dispatchKeyEvent", event).await;
        }
    }

    /// Types text into what has the focus.
    pub(crate) async fn write(&mut self, text: &str) {
        self.command("Input.insertText", json!({"text": text})).await;
    }

    /// What a screen reader is told: role and name of everything on the page.
    pub(crate) async fn heard(&mut self) -> Vec<(String, String)> {
        let tree = self.command("Accessibility.getFullAXTree", json!({})).await;
        let text = |node: &Value, of: &str| node[of]["value"].as_str().unwrap_or("").to_owned();
        let nodes = tree["nodes"].as_array().unwrap();
        nodes.iter().map(|node| (text(node, "role"), text(node, "name"))).collect()
    }

    /// Ends the browser.
    pub(crate) async fn close(mut self) {
        self.browser.kill().await.unwrap();
    }

    /// A command of the protocol, and its result.
    async fn command(&mut self, method: &str, parameters: Value) -> Value {
        self.sent += 1;
        let mut command = json!({"id": self.sent, "method": method, "params": parameters});
        if !self.session.is_null() {
            command["sessionId"] = self.session.clone();
        }
        let mut bytes = command.to_string().into_bytes();
        bytes.push(0);
        self.commands.write_all(&bytes).await.unwrap();
        loop {
            let mut message = self.message().await;
            if message["id"] == self.sent {
                assert!(message["error"].is_null(), "{method}: {message}");
                return message["result"].take();
            }
        }
    }

    async fn message(&mut self) -> Value {
        let mut bytes = Vec::new();
        let read = tokio::time::timeout(PATIENCE, self.messages.read_until(0, &mut bytes));
        read.await.expect("the browser answers in time").unwrap();
        assert_eq!(bytes.pop(), Some(0), "the browser ended: {:?}", self.browser.try_wait());
        let message: Value = serde_json::from_slice(&bytes).unwrap();
        let what = &message["params"];
        match message["method"].as_str() {
            Some("Network.requestWillBeSent") => {
                self.requested.push(what["request"]["url"].as_str().unwrap().to_owned());
            }
            Some("Runtime.exceptionThrown") => self.faults.push(what.to_string()),
            // Statuses of errors are entries of "network", and no fault of the page.
            Some("Log.entryAdded") if what["entry"]["source"] != "network" => {
                self.faults.push(what.to_string());
            }
            _ => {}
        }
        message
    }
}

/// The browser, by the names that systems have for Chromium.
fn browser() -> PathBuf {
    const NAMES: [&str; 3] = ["chromium", "chromium-browser", "google-chrome"];
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .flat_map(|folder| NAMES.map(|name| folder.join(name)))
        .find(|program| program.exists())
        .expect("there is no chromium in the PATH; run `make setup` once")
}

/// A bound on a hang, not a measurement.
const PATIENCE: Duration = Duration::from_secs(120);
