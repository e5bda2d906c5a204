//! A host process, as its parent sees it: it can be asked, stopped, and killed.

use std::collections::HashMap;
use std::process::Stdio;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::process::{Child, ChildStdin, Command};
use tokio::sync::{Mutex as AsyncMutex, oneshot};

/// A host that may be started several times.
pub(crate) struct HostProcess {
    url: String,
    running: AsyncMutex<Option<Running>>,
    pending: Arc<Mutex<HashMap<u64, oneshot::Sender<String>>>>,
    next: AtomicU64,
    generation: AtomicU64,
}

struct Running {
    child: Child,
    input: ChildStdin,
}

/// What a host answers.
pub(crate) struct Reply {
    pub(crate) value: u64,
    pub(crate) token: String,
}

impl HostProcess {
    pub(crate) fn new(url: String) -> Self {
        Self {
            url,
            running: AsyncMutex::default(),
            pending: Arc::default(),
            next: AtomicU64::new(0),
            generation: AtomicU64::new(0),
        }
    }

    /// How often it was started.
    pub(crate) fn generation(&self) -> u64 {
        self.generation.load(SeqCst)
    }

    /// Starts it, and waits until it answers.
    pub(crate) async fn start(&self) {
        let mut running = self.running.lock().await;
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["host", &self.url])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        assert_eq!(lines.next_line().await.unwrap().as_deref(), Some("ready"));
        let pending = Arc::clone(&self.pending);
        tokio::spawn(async move {
            while let Ok(Some(line)) = lines.next_line().await {
                let (number, reply) = line.split_once(' ').unwrap();
                let waiting = pending.lock().unwrap().remove(&number.parse().unwrap());
                if let Some(waiting) = waiting {
                    let _ = waiting.send(reply.to_owned());
                }
            }
            // Whoever waits for a process that is gone is told so.
            pending.lock().unwrap().clear();
        });
        self.generation.fetch_add(1, SeqCst);
        let input = child.stdin.take().unwrap();
        *running = Some(Running { child, input });
    }

    /// Asks for something; `None` where it fails or is not told.
    pub(crate) async fn ask(&self, request: &str) -> Option<Reply> {
        let number = self.next.fetch_add(1, SeqCst);
        let (waiting, reply) = oneshot::channel();
        self.pending.lock().unwrap().insert(number, waiting);
        let line = format!("{number} {request}\n");
        let sent = match &mut *self.running.lock().await {
            Some(running) => running.input.write_all(line.as_bytes()).await.is_ok(),
            None => false,
        };
        if !sent {
            self.pending.lock().unwrap().remove(&number);
            tokio::time::sleep(Duration::from_millis(5)).await;
            return None;
        }
        let reply = reply.await.ok()?;
        let mut words = reply.split(' ');
        let value = words.next()?.parse().ok()?;
        Some(Reply { value, token: words.next().unwrap_or_default().to_owned() })
    }

    /// Kills it as a crash would, and starts another.
    pub(crate) async fn kill(&self) {
        let running = self.running.lock().await.take();
        if let Some(mut running) = running {
            running.child.kill().await.unwrap();
        }
        self.start().await;
    }

    /// Stops it for a while, as a machine that is overloaded or suspended.
    pub(crate) async fn pause(&self, length: Duration) {
        let pid = self.running.lock().await.as_ref().and_then(|running| running.child.id());
        let Some(pid) = pid else { return };
        for (signal, then) in [("-STOP", length), ("-CONT", Duration::ZERO)] {
            Command::new("kill").args([signal, &pid.to_string()]).status().await.unwrap();
            tokio::time::sleep(then).await;
        }
    }
}
