//! What the program does because it is told to: end, send what is not a frame, print much, panic,
//! be busy.

use std::io::Write;
use std::sync::Mutex;

use tidewire::Result;
use tidewire::program::{Busy, Level, log};

static WORK: Mutex<Option<Busy>> = Mutex::new(None);

fn work(busy: Option<Busy>) {
    *WORK.lock().expect("nobody panics with it") = busy;
}

/// Does it, and answers with the word, or what was asked for.
pub(crate) async fn as_told(word: &str) -> Result<String> {
    match word {
        "pid" => return Ok(std::process::id().to_string()),
        "crash" => std::process::abort(),
        "garbage" => {
            // Another descriptor of the same socket.
            let number = std::env::var("TIDEWIRE_FD").unwrap_or_default();
            let again = std::fs::read_link(format!("/proc/self/fd/{number}")).is_ok();
            let echo =
                format!("printf 'HTTP/1.1 200 OK\\r\\n\\r\\nthis is not a frame' >&{number}");
            if again {
                let _ = std::process::Command::new("sh").arg("-c").arg(echo).status();
            }
            std::future::pending::<()>().await;
        }
        "noise" => {
            let mut out = std::io::stdout().lock();
            for _ in 0..20_000 {
                let _ = writeln!(out, "{}", "x".repeat(100));
            }
            log(Level::Warn, "noise is over", &[("lines", &20_000)]);
        }
        "raise" => panic!("secret"),
        "busy" => work(Some(Busy::begin())),
        "idle" => work(None),
        _ => {}
    }
    Ok(word.to_owned())
}
