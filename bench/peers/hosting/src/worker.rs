//! The workers, and one of them alone.

use std::io::{Read as _, Write as _};
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::{Result, ask};

/// A worker in one language, over `http` or `pipe`.
#[derive(Clone)]
pub struct Worker {
    pub run: Vec<String>,
}

impl Worker {
    pub fn new(language: &str, kind: &str) -> Result<Self> {
        let here = std::env::current_dir()?;
        let file = |name: &str| here.join("hosting/workers").join(name).display().to_string();
        let own = std::env::current_exe()?.with_file_name("hosting-worker").display().to_string();
        let go = here.join("target/hosting-go").display().to_string();
        let run = match language {
            "python" => vec![python()?, file(&format!("{kind}_worker.py"))],
            "node" => vec!["node".to_owned(), file(&format!("{kind}_worker.js"))],
            "go" => vec![go, kind.to_owned()],
            "dotnet" => dotnet(&here, kind)?,
            "rust" => vec![own, kind.to_owned()],
            other => return Err(format!("no worker in {other}").into()),
        };
        Ok(Self { run })
    }

    /// Whether it makes its socket itself, where `{socket}` is.
    pub fn is_told_its_socket(&self) -> bool {
        self.run.iter().any(|word| word.contains(SOCKET))
    }

    /// The worker on the socket of this path.
    pub fn at(&self, path: &Path) -> Self {
        let path = path.display().to_string();
        Self { run: self.run.iter().map(|word| word.replace(SOCKET, &path)).collect() }
    }

    /// Starts it with this socket as descriptor 3.
    pub fn spawn(&self, socket: BorrowedFd<'_>) -> Result<Child> {
        let mut command = Command::new(&self.run[0]);
        // As little of the environment as a gateway passes on: with more, interpreters start
        // slower.
        let passed_on = std::env::vars_os().filter(|(name, _)| {
            let name = name.to_str().unwrap_or_default();
            ["PATH", "HOME", "USER", "LANG", "TZ", "TMPDIR"].contains(&name)
        });
        command.args(&self.run[1..]).env_clear().envs(passed_on);
        command.env("TIDEWIRE_FD", "3").env("PYTHONPATH", sdk()?);
        command.stdin(Stdio::null()).stdout(Stdio::null());
        let number = socket.as_raw_fd();
        // SAFETY: dup2 may be called between fork and exec.
        unsafe {
            command.pre_exec(move || match libc::dup2(number, 3) {
                -1 => Err(std::io::Error::last_os_error()),
                _ if number == 3 => {
                    libc::fcntl(3, libc::F_SETFD, 0);
                    Ok(())
                }
                _ => Ok(()),
            });
        }
        Ok(command.spawn()?)
    }

    /// Starts it with a request waiting in the socket that it listens on, until that is answered.
    pub fn answers_http(&self, request: &[u8]) -> Result<Child> {
        let path = std::env::temp_dir().join(format!("hosting-{}.sock", std::process::id()));
        let _ = std::fs::remove_file(&path);
        if self.is_told_its_socket() {
            let child = self.at(&path).spawn(std::io::stdin().as_fd())?;
            let mut stream = once_it_listens(&path)?;
            stream.write_all(request)?;
            read_answer(&mut stream)?;
            return Ok(child);
        }
        let listener = UnixListener::bind(&path)?;
        let mut stream = UnixStream::connect(&path)?;
        stream.write_all(request)?;
        let child = self.spawn(listener.as_fd())?;
        read_answer(&mut stream)?;
        Ok(child)
    }
}

/// A connection to a socket that is not there yet.
fn once_it_listens(path: &Path) -> Result<UnixStream> {
    let began = Instant::now();
    loop {
        match UnixStream::connect(path) {
            Ok(stream) => return Ok(stream),
            Err(error) if began.elapsed() > Duration::from_secs(10) => return Err(error.into()),
            Err(_) => std::thread::sleep(Duration::from_micros(200)),
        }
    }
}

/// Reads an answer to its end.
fn read_answer(stream: &mut UnixStream) -> Result<()> {
    stream.set_read_timeout(Some(Duration::from_secs(20)))?;
    let mut answer = Vec::new();
    let mut buffer = [0; 4096];
    while ask::body_of(&answer)?.is_none() {
        let read = stream.read(&mut buffer)?;
        if read == 0 {
            return Err("the worker closed the connection".into());
        }
        answer.extend_from_slice(&buffer[..read]);
    }
    Ok(())
}

/// Where a worker is told the path of its socket, as in `tidewire.toml`.
const SOCKET: &str = "{socket}";

/// The worker in C#, started without the script that sets variables for builds.
fn dotnet(here: &Path, kind: &str) -> Result<Vec<String>> {
    let name = format!("hosting-dotnet-{kind}");
    let program = here.join(format!("target/dotnet-out/{name}/bin/netcoreapp3.1/{name}.dll"));
    if !program.exists() {
        return Err("no .NET: bash bench/peers/setup.sh".into());
    }
    let sdk = here.join("target/dotnet/sdk/dotnet");
    let mut run = vec![sdk.display().to_string(), program.display().to_string()];
    if kind == "http" {
        // Kestrel of this version takes no socket that it inherits.
        run.extend(["--urls".to_owned(), format!("http://unix:{SOCKET}")]);
    }
    Ok(run)
}

/// Where the file for Python is.
pub fn sdk() -> Result<String> {
    Ok(std::env::current_dir()?.join("../../sdk/python").canonicalize()?.display().to_string())
}

/// The interpreter itself: what is first on the path may be a script that looks for it.
fn python() -> Result<String> {
    let words = ["-c", "import sys; print(sys.executable)"];
    let said = Command::new("python3").args(words).output()?;
    Ok(String::from_utf8(said.stdout)?.trim().to_owned())
}

/// The process that gave an answer.
pub fn pid_of(body: &str) -> Result<u32> {
    let body: serde_json::Value = serde_json::from_str(body)?;
    let pid = body["pid"].as_u64().and_then(|pid| u32::try_from(pid).ok());
    pid.ok_or_else(|| format!("no pid in {body}").into())
}

pub fn end(mut child: Child) {
    let _ = child.kill();
    let _ = child.wait();
}
