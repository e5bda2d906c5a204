//! Fronts: started before a case, ended after it with all that they started.

use std::fmt::Write as _;
use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::os::fd::AsFd as _;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::worker::{Worker, sdk};
use crate::{Case, Result, ask, usage};

/// The gateway's admin listener, in its folder.
const ADMIN: &str = "admin.sock";

/// A front and its worker.
pub struct Front {
    pub address: String,
    child: Child,
    /// The worker, where the front does not start it.
    worker: Option<Child>,
    /// All processes of the front are its own, not the worker's.
    is_tree: bool,
    folder: PathBuf,
}

impl Front {
    pub fn start(name: &str, case: &Case) -> Result<Self> {
        let folder = std::env::temp_dir().join(format!("hosting-{}", std::process::id()));
        std::fs::create_dir_all(&folder)?;
        // Whoever is alone is compared with a worker that is asked by its Unix socket.
        let address = match case.state.as_str() {
            "alone" => format!("unix:{}", folder.join("front.sock").display()),
            _ => TcpListener::bind("127.0.0.1:0")?.local_addr()?.to_string(),
        };
        let socket = folder.join("worker.sock");
        let needs_worker = matches!(name, "nginx" | "proxy");
        let worker = if needs_worker { Some(listening(&case.worker, &socket)?) } else { None };
        let mut command = match name {
            "tidewire" => tidewire(case, &folder, &address)?,
            "nginx" => nginx(&folder, &address, &socket)?,
            "proxy" => itself(&["serve", "proxy", &socket.display().to_string()], &address)?,
            "frames" => {
                let language = case_language(case);
                itself(&["serve", "frames", language], &address)?
            }
            "uwsgi" => uwsgi(&address)?,
            other => return Err(format!("no front {other}").into()),
        };
        let log = std::fs::File::create(folder.join("log"))?;
        command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log).process_group(0);
        let child = command.spawn()?;
        let front =
            Self { address, child, worker, is_tree: matches!(name, "nginx" | "uwsgi"), folder };
        let takes = usage::until(|| ask::open(&front.address).is_ok(), "it listens");
        match takes {
            Ok(()) => Ok(front),
            Err(_) => {
                let log = std::fs::read_to_string(front.folder.join("log")).unwrap_or_default();
                // A list of what is known instead follows the first semicolon.
                let first = log.lines().next().unwrap_or_default().split(';').next();
                Err(format!("did not start: {}", first.unwrap_or_default()).into())
            }
        }
    }

    fn pids(&self) -> Vec<u32> {
        match self.is_tree {
            true => usage::tree(self.child.id()),
            false => vec![self.child.id()],
        }
    }

    /// Whether a process stands by, as the gateway says where it keeps spares. It is asked seldom,
    /// since that is CPU time of its own.
    pub fn has_spare(&self) -> bool {
        std::thread::sleep(Duration::from_millis(20));
        let asks = || -> Result<bool> {
            let mut stream = UnixStream::connect(self.folder.join(ADMIN))?;
            let head = "POST /tidewire.admin.v1.Processes/List HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n";
            write!(
                stream,
                "{head}content-type: application/json\r\ncontent-length: 2\r\n\r\n{{}}"
            )?;
            let mut answer = Vec::new();
            stream.read_to_end(&mut answer)?;
            let body = ask::body_of(&answer)?.ok_or("the answer broke off")?;
            let body: serde_json::Value = serde_json::from_str(&body)?;
            Ok(body["processes"][0]["spares"] == "1")
        };
        asks().unwrap_or(false)
    }

    /// CPU seconds of the front, without its worker's.
    pub fn cpu(&self) -> f64 {
        usage::cpu(&self.pids())
    }

    /// RSS of the front, PSS of all.
    pub fn memory(&self) -> (u64, u64) {
        let mut all = usage::tree(self.child.id());
        all.extend(self.worker.as_ref().map(Child::id));
        usage::memory(&self.pids(), &all)
    }
}

impl Drop for Front {
    fn drop(&mut self) {
        // SAFETY: a signal to a process group that this program made.
        unsafe { libc::kill(-(self.child.id() as i32), libc::SIGKILL) };
        let _ = self.child.wait();
        if let Some(mut worker) = self.worker.take() {
            let _ = worker.kill();
            let _ = worker.wait();
        }
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// The worker, on a Unix socket.
fn listening(worker: &Worker, socket: &Path) -> Result<Child> {
    if worker.is_told_its_socket() {
        let child = worker.at(socket).spawn(std::io::stdin().as_fd())?;
        usage::until(|| UnixStream::connect(socket).is_ok(), "the worker listens")?;
        std::fs::set_permissions(socket, std::fs::Permissions::from_mode(0o777))?;
        return Ok(child);
    }
    let listener = UnixListener::bind(socket)?;
    // A proxy may be another user.
    std::fs::set_permissions(socket, std::fs::Permissions::from_mode(0o777))?;
    worker.spawn(listener.as_fd())
}

fn case_language(case: &Case) -> &'static str {
    let run = case.worker.run.join(" ");
    ["python", "node", "hosting-go", "hosting-dotnet"]
        .iter()
        .position(|part| run.contains(part))
        .map_or("rust", |at| ["python", "node", "go", "dotnet"][at])
}

/// This program, told where to listen.
fn itself(words: &[&str], address: &str) -> Result<Command> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(words).env("LISTEN", address);
    Ok(command)
}

/// The gateway of this tree, or the one that `TIDEWIRE` names.
fn tidewire(case: &Case, folder: &Path, address: &str) -> Result<Command> {
    let mut toml = String::from("[[service]]\nname = \"worker\"\n");
    let run = serde_json::to_string(&case.worker.run)?;
    let proto = std::env::current_dir()?.join("hosting/proto");
    match case.kind.as_str() {
        "http" => {
            let listen = if case.worker.is_told_its_socket() { "unix" } else { "inherited" };
            writeln!(toml, "route = \"/worker\"\nlisten = \"{listen}\"")?
        }
        _ => {
            writeln!(toml, "proto = {proto:?}\nnames = [\"hosting.v1.Greeter\"]\ncodec = \"json\"")?
        }
    }
    writeln!(toml, "run = {run}\nenvironment = {{ PYTHONPATH = {:?} }}", sdk()?)?;
    match case.state.as_str() {
        "cold" => toml.push_str("idle_stop = \"10ms\"\n"),
        "large" => {
            toml.push_str("idle_stop = \"10ms\"\n[memo]\nbudget_bytes = \"3GiB\"\n");
            toml.push_str("key_bytes_max = \"1MiB\"\nreply_bytes_max = \"1MiB\"\n");
        }
        "spare" => {
            let admin = folder.join(ADMIN);
            writeln!(toml, "idle_stop = \"10ms\"\nspares = 1\n[admin]")?;
            writeln!(toml, "listen = \"unix:{}\"", admin.display())?;
        }
        "frozen" => toml.push_str("idle_freeze = \"10ms\"\nidle_stop = \"never\"\n"),
        _ => toml.push_str("idle_stop = \"never\"\n"),
    }
    let path = folder.join("tidewire.toml");
    std::fs::write(&path, toml)?;
    let program = match std::env::var_os("TIDEWIRE") {
        Some(program) => PathBuf::from(program),
        None => std::env::current_dir()?.join("../../target/release/tidewire"),
    };
    let mut command = Command::new(program);
    command.arg("serve").arg("--config").arg(path).args(["--listen", address]);
    Ok(command)
}

fn nginx(folder: &Path, address: &str, socket: &Path) -> Result<Command> {
    let text = format!(
        "daemon off; worker_processes 1; pid {0}/pid; error_log {0}/error; events {{ worker_connections 1024; }}\n\
         http {{ access_log off; client_body_temp_path {0}/a; proxy_temp_path {0}/b; fastcgi_temp_path {0}/c;\n\
         uwsgi_temp_path {0}/d; scgi_temp_path {0}/e; keepalive_requests 1000000000;\n\
         upstream worker {{ server unix:{1}; keepalive 64; keepalive_requests 1000000000; }}\n\
         server {{ listen {address}; location / {{ proxy_pass http://worker; proxy_http_version 1.1;\n\
         proxy_set_header Connection \"\"; }} }} }}\n",
        folder.display(),
        socket.display(),
    );
    let path = folder.join("nginx.conf");
    std::fs::write(&path, text)?;
    let mut command = Command::new(std::env::current_dir()?.join("target/nginx"));
    command.arg("-e").arg("stderr").arg("-p").arg(folder).arg("-c").arg(path);
    Ok(command)
}

fn uwsgi(address: &str) -> Result<Command> {
    let mut command = Command::new(std::env::current_dir()?.join("target/uwsgi/bin/uwsgi"));
    command.args(["--http11-socket", address, "--master", "--processes", "1", "--threads", "8"]);
    command.args(["--wsgi-file", "hosting/workers/wsgi.py", "--disable-logging", "--die-on-term"]);
    Ok(command)
}
