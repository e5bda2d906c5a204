//! Starting the application in this process, and speaking HTTP to it.

use std::path::{Path, PathBuf};
use std::time::Duration;

use bytes::Bytes;
use contacts::store::sqlite::Options;
use contacts::store::{Store, Tracked, postgres};
use http_body_util::{BodyExt, Full};
use hyper::client::conn::{http1, http2};
use hyper::header::{CONTENT_TYPE, HOST};
use hyper::{HeaderMap, Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tempfile::TempDir;
use tidewire::config::Config;
use tidewire::memo::Graph;
use tidewire::oplog::{OplogHandle, Settings};
use tidewire::{Client, RunningServer};
use tokio::net::TcpStream;

use crate::cluster;

/// The application on a free port, on a database in its own folder.
pub(crate) struct App {
    server: RunningServer,
    folder: TempDir,
    log: Option<OplogHandle>,
}

/// A response, whole.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) trailers: HeaderMap,
    pub(crate) body: Bytes,
}

/// A wait that is too short fails a test on a slow machine, one that is long costs nothing.
fn patient(mut settings: Settings) -> Settings {
    settings.lease = Duration::from_hours(1);
    settings.token_wait = Duration::from_mins(1);
    settings
}

impl App {
    /// Starts on an empty database.
    pub(crate) async fn start() -> Self {
        Self::start_on(tempfile::tempdir().unwrap(), Options::default()).await
    }

    /// Starts on an empty database of each kind.
    pub(crate) async fn each() -> [Self; 2] {
        let postgres = cluster::database().await;
        [
            Self::start().await,
            Self::start_on_postgres(&postgres, postgres::Options::default()).await,
        ]
    }

    /// Starts on the SQLite database in a folder.
    pub(crate) async fn start_on(folder: TempDir, options: Options) -> Self {
        let log = options.log.map(patient);
        let options = Options { log, ..options };
        let store = Tracked::open(&Graph::global(), &database_in(folder.path()), &options).unwrap();
        Self::start_with(store, folder).await
    }

    /// Starts on a PostgreSQL database.
    pub(crate) async fn start_on_postgres(
        config: &postgres::Config,
        options: postgres::Options,
    ) -> Self {
        let log = options.log.map(patient);
        let options = postgres::Options { log, ..options };
        let store = Tracked::connect(&Graph::global(), config, &options).await.unwrap();
        Self::start_with(store, tempfile::tempdir().unwrap()).await
    }

    /// Starts on an empty database, with a relay that asks the key/value store at a URL.
    pub(crate) async fn start_with_relay_to(key_values: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store =
            Tracked::open(&Graph::global(), &database_in(folder.path()), &Options::default())
                .unwrap();
        Self::start_on_parts(store, folder, key_values).await
    }

    async fn start_with<S: Store>(store: Tracked<S>, folder: TempDir) -> Self {
        Self::start_on_parts(store, folder, NOWHERE).await
    }

    /// Starts on an empty database, with these settings of `tidewire.toml`.
    pub(crate) async fn start_with_settings(toml: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let database = database_in(folder.path());
        let store = Tracked::open(&Graph::global(), &database, &Options::default()).unwrap();
        let config = Config::parse(toml, "tidewire.toml").unwrap();
        Self::start_on_config(config, store, folder, NOWHERE).await
    }

    async fn start_on_parts<S: Store>(
        store: Tracked<S>,
        folder: TempDir,
        key_values: &str,
    ) -> Self {
        Self::start_on_config(Config::default(), store, folder, key_values).await
    }

    async fn start_on_config<S: Store>(
        config: Config,
        store: Tracked<S>,
        folder: TempDir,
        key_values: &str,
    ) -> Self {
        let key_values = Client::builder(key_values).build().unwrap();
        let mut config = contacts::with_defaults(config);
        config.server.listen = vec!["127.0.0.1:0".parse().unwrap()];
        let log = store.log();
        let builder = config.server_with_log(log.as_ref()).unwrap();
        let server = contacts::add_to(builder, store, key_values).start().await.unwrap();
        Self { server, folder, log }
    }

    /// Waits until the change log has been read up to here: what was written before makes nothing
    /// stale any more.
    pub(crate) async fn settle(&self) {
        if let Some(log) = &self.log {
            log.barrier().await.unwrap();
        }
    }

    /// Drains the server; the database stays.
    pub(crate) async fn stop(self) -> TempDir {
        assert!(self.server.drain().await, "all calls end by themselves");
        self.folder
    }

    /// The database file.
    pub(crate) fn database(&self) -> PathBuf {
        database_in(self.folder.path())
    }

    /// Where it listens, `127.0.0.1:1234`.
    pub(crate) fn address(&self) -> String {
        self.server.addresses()[0].to_string()
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.send(Method::GET, path, "", "").await
    }

    pub(crate) async fn delete(&self, path: &str) -> Answer {
        self.send(Method::DELETE, path, "", "").await
    }

    /// Posts JSON.
    pub(crate) async fn post(&self, path: &str, json: impl Into<Bytes>) -> Answer {
        self.send(Method::POST, path, "application/json", json).await
    }

    /// Sends a request by HTTP/1.1 on its own connection.
    pub(crate) async fn send(
        &self,
        method: Method,
        path: &str,
        content_type: &str,
        body: impl Into<Bytes>,
    ) -> Answer {
        let mut request = Request::builder().method(method).uri(path).header(HOST, self.address());
        if !content_type.is_empty() {
            request = request.header(CONTENT_TYPE, content_type);
        }
        exchange(&self.address(), request.body(Full::new(body.into())).unwrap()).await
    }

    /// Calls a method by gRPC: HTTP/2 with prior knowledge.
    pub(crate) async fn grpc(&self, method: &str, message: &[u8]) -> Answer {
        let mut envelope = vec![0];
        envelope.extend(u32::try_from(message.len()).unwrap().to_be_bytes());
        envelope.extend(message);
        let request = Request::post(format!("http://{}{method}", self.address()))
            .header(CONTENT_TYPE, "application/grpc")
            .header("te", "trailers")
            .body(Full::new(Bytes::from(envelope)))
            .unwrap();
        let io = TokioIo::new(TcpStream::connect(self.address()).await.unwrap());
        let (mut sender, connection) = http2::handshake(TokioExecutor::new(), io).await.unwrap();
        let connection = tokio::spawn(connection);
        let answer = collect(sender.send_request(request).await.unwrap()).await;
        drop(sender);
        connection.await.unwrap().unwrap();
        answer
    }
}

/// Sends a request by HTTP/1.1 on its own connection.
pub(crate) async fn exchange(address: &str, request: Request<Full<Bytes>>) -> Answer {
    let io = TokioIo::new(TcpStream::connect(address).await.unwrap());
    let (mut sender, connection) = http1::handshake(io).await.unwrap();
    let connection = tokio::spawn(connection);
    let answer = collect(sender.send_request(request).await.unwrap()).await;
    drop(sender);
    connection.await.unwrap().unwrap();
    answer
}

async fn collect(response: Response<hyper::body::Incoming>) -> Answer {
    let (parts, body) = response.into_parts();
    let body = body.collect().await.unwrap();
    let trailers = body.trailers().cloned().unwrap_or_default();
    Answer { status: parts.status, headers: parts.headers, trailers, body: body.to_bytes() }
}

impl Answer {
    /// The body as text.
    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }

    /// A header as text; empty when it is not there.
    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }

    /// A trailer of gRPC, which is a header when there is no message.
    pub(crate) fn trailer(&self, name: &str) -> &str {
        let value = self.trailers.get(name).or_else(|| self.headers.get(name));
        value.map_or("", |value| value.to_str().unwrap())
    }
}

/// A URL where nothing listens.
pub(crate) const NOWHERE: &str = "http://127.0.0.1:1";

/// The database file in a folder.
pub(crate) fn database_in(folder: &Path) -> PathBuf {
    folder.join("contacts.sqlite")
}
