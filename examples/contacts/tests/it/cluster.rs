//! A PostgreSQL of the tests' own, from Debian's package: a data folder in a temporary one, a Unix
//! socket in it, and no network.
//!
//! It is stopped and its folder removed when the test process is gone, however that ends: a shell
//! waits for the end of a pipe that only this process holds. That PostgreSQL is not installed is a
//! failure, never a skip.

use std::fs::Permissions;
use std::net::TcpListener;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use tokio_postgres::{Config, NoTls};

/// A PostgreSQL server.
pub(crate) struct Cluster {
    folder: PathBuf,
    bin: PathBuf,
    _watcher: Child,
}

/// A new database in a cluster that all tests share.
pub(crate) async fn database() -> Config {
    static CLUSTER: OnceLock<Cluster> = OnceLock::new();
    CLUSTER.get_or_init(Cluster::start).database().await
}

impl Cluster {
    /// Makes a cluster and starts it.
    pub(crate) fn start() -> Self {
        let bin = installed();
        let folder = tempfile::Builder::new().prefix("contacts-pg").tempdir().unwrap().keep();
        if is_root() {
            // PostgreSQL does not run as root.
            run(Command::new("chown").arg(USER).arg(&folder));
        }
        let script = r#"read -r _; "$0" -D "$1/data" -m immediate -w stop; rm -rf "$1""#;
        let watcher = unprivileged("sh")
            .args(["-c", script])
            .args([bin.join("pg_ctl"), folder.clone()])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let cluster = Self { folder, bin, _watcher: watcher };
        let mut initdb = unprivileged(cluster.bin.join("initdb"));
        initdb.args(["-A", "trust", "-U", "postgres", "-E", "UTF8", "--locale=C", "-N", "-D"]);
        run(initdb.arg(cluster.folder.join("data")));
        cluster.resume();
        cluster
    }

    /// Starts it anew, at a port of 127.0.0.1 too, over TLS alone there: the port is returned.
    pub(crate) fn secure(&self, certificate: &[u8], key: &[u8]) -> u16 {
        let data = self.folder.join("data");
        for (name, pem) in [("server.crt", certificate), ("server.key", key)] {
            let path = data.join(name);
            std::fs::write(&path, pem).unwrap();
            std::fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
            if is_root() {
                run(Command::new("chown").arg(USER).arg(&path));
            }
        }
        let rules = "local all all trust\nhostssl all all 127.0.0.1/32 trust\n";
        std::fs::write(data.join("pg_hba.conf"), rules).unwrap();
        // Of those that the system gives to nobody.
        let mut ports = (11_000..20_000).cycle().skip(std::process::id() as usize * 257 % 9_000);
        let port = ports.find(|port| TcpListener::bind(("127.0.0.1", *port)).is_ok()).unwrap();
        self.crash();
        self.start_with(&format!("-h 127.0.0.1 -p {port} -c ssl=on"));
        port
    }

    /// Starts it where it was stopped; it answers when this returns.
    pub(crate) fn resume(&self) {
        self.start_with("-h ''");
    }

    /// Starts it anew with more options, as `-c fsync=on`.
    #[allow(dead_code, reason = "measurements use it")]
    pub(crate) fn restart_with(&self, options: &str) {
        self.shut_down();
        self.start_with(&format!("-h '' {options}"));
    }

    fn start_with(&self, more: &str) {
        let socket = self.folder.display();
        // What a crash of PostgreSQL, not of the machine, must not lose needs no sync.
        let options = format!(
            "-k {socket} -F -c max_connections=1000 -c max_prepared_transactions=8 -c wal_level=logical {more}"
        );
        let mut start = self.pg_ctl("start");
        run(start.args(["-o", &options, "-l"]).arg(self.folder.join("log")));
    }

    /// Stops it as a crash would: no connection is told, nothing is written out.
    pub(crate) fn crash(&self) {
        run(self.pg_ctl("stop").args(["-m", "immediate"]));
    }

    /// Stops it as a person would.
    #[allow(dead_code, reason = "the change log's tests use it")]
    pub(crate) fn shut_down(&self) {
        run(self.pg_ctl("stop").args(["-m", "fast"]));
    }

    /// Copies the whole cluster as it is now.
    #[allow(dead_code, reason = "the change log's tests use it")]
    pub(crate) fn back_up(&self) {
        let mut back_up = unprivileged(self.bin.join("pg_basebackup"));
        back_up.args(["-U", "postgres", "-c", "fast", "-h"]).arg(&self.folder);
        run(back_up.arg("-D").arg(self.folder.join("backup")));
    }

    /// Starts again from the copy: what was committed since is gone.
    #[allow(dead_code, reason = "the change log's tests use it")]
    pub(crate) fn restore(&self) {
        self.crash();
        std::fs::remove_dir_all(self.folder.join("data")).unwrap();
        std::fs::rename(self.folder.join("backup"), self.folder.join("data")).unwrap();
        self.resume();
    }

    fn pg_ctl(&self, action: &str) -> Command {
        let mut command = unprivileged(self.bin.join("pg_ctl"));
        command.args(["-w", "-s", "-D"]).arg(self.folder.join("data")).arg(action);
        command
    }

    /// A new database in it.
    pub(crate) async fn database(&self) -> Config {
        static COUNT: AtomicU32 = AtomicU32::new(1);
        let name = format!("test_{}", COUNT.fetch_add(1, Ordering::Relaxed));
        execute(&self.config("postgres"), &format!("CREATE DATABASE {name}")).await;
        self.config(&name)
    }

    /// By its socket, where it was started at another port.
    pub(crate) fn at_port(&self, port: u16) -> Config {
        let mut config = self.config("postgres");
        config.port(port);
        config
    }

    fn config(&self, database: &str) -> Config {
        let mut config = Config::new();
        config.host_path(&self.folder).user("postgres").dbname(database);
        config
    }
}

/// A URL for a configuration of a test.
pub(crate) fn url(config: &Config) -> String {
    let tokio_postgres::config::Host::Unix(folder) = &config.get_hosts()[0] else {
        panic!("tests use Unix sockets")
    };
    format!(
        "postgres:///{}?host={}&user=postgres",
        config.get_dbname().unwrap(),
        folder.display().to_string().replace('/', "%2F")
    )
}

/// Runs statements on their own connection.
pub(crate) async fn execute(config: &Config, sql: &str) {
    let session = open(config).await;
    session.batch_execute(sql).await.unwrap();
}

/// Another program's connection; it ends when it is dropped.
pub(crate) async fn open(config: &Config) -> tokio_postgres::Client {
    let (client, connection) = config.connect(NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

/// Where the newest installed PostgreSQL has its programs.
fn installed() -> PathBuf {
    let versions = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let mut versions: Vec<(u32, PathBuf)> = versions
        .filter_map(|entry| {
            let version = entry.file_name().to_str()?.parse().ok()?;
            Some((version, entry.path().join("bin")))
        })
        .filter(|(_, bin)| bin.join("initdb").exists())
        .collect();
    versions.sort();
    versions.pop().map(|(_, bin)| bin).expect(
        "PostgreSQL is not installed below /usr/lib/postgresql; run `make setup` (Debian: \
         apt-get install postgresql)",
    )
}

fn unprivileged(program: impl AsRef<std::ffi::OsStr>) -> Command {
    if !is_root() {
        return Command::new(program);
    }
    let mut command = Command::new("setpriv");
    command.args(["--reuid", USER, "--regid", USER, "--clear-groups", "--"]).arg(program);
    command.current_dir("/");
    command
}

fn is_root() -> bool {
    Path::new("/proc/self").metadata().unwrap().uid() == 0
}

fn run(command: &mut Command) {
    let output = command.stdin(Stdio::null()).output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {text}");
}

/// The user that Debian's package makes.
const USER: &str = "postgres";
