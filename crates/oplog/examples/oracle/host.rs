//! A host: answers reads from memory, and writes with a guard. Asked by lines on standard input.

use std::io::Write as _;
use std::sync::Arc;
use std::time::Duration;

use tidewire_memo::{Graph, Memo, Source};
use tidewire_oplog::{Oplog, OplogHandle, Settings, Token};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::sync::Mutex;
use tokio_postgres::{Client, Config, NoTls};

/// Shorter than usual, so that a stop passes it often.
pub(crate) const LEASE: Duration = Duration::from_secs(1);

struct Host {
    config: Config,
    log: OplogHandle,
    cells: Source<i64>,
    value: Memo<i64, i64>,
    writer: Mutex<Option<Client>>,
}

/// Runs until standard input ends.
pub(crate) async fn run(url: &str) {
    let config: Config = url.parse().unwrap();
    let graph = Graph::new();
    let cells = Source::new_in(&graph, "cells");
    let reader = Arc::new(Mutex::new(None::<Arc<Client>>));
    let of_memo = config.clone();
    let value = Memo::new_in(&graph, "value", move |id: i64| {
        let reader = Arc::clone(&reader);
        let config = of_memo.clone();
        async move {
            cells.read(&id);
            load(&reader, &config, id).await
        }
    })
    .strict();
    let mut settings = Settings::default();
    settings.lease = LEASE;
    settings.keep = Duration::from_secs(2);
    settings.check = Duration::from_secs(1);
    let log = loop {
        let log = Oplog::postgres(&config).settings(settings.clone());
        // The database may be away now.
        if let Ok(log) = log.capture("cell", &cells, ["id"]).start().await {
            break log;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    };
    let host = Arc::new(Host { config, log: log.handle(), cells, value, writer: Mutex::default() });
    say("ready");
    let mut lines = BufReader::new(tokio::io::stdin()).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        let host = Arc::clone(&host);
        tokio::spawn(async move {
            let (number, request) = line.split_once(' ').unwrap();
            let reply = host.answer(request).await.unwrap_or_else(|| "failed".to_owned());
            say(&format!("{number} {reply}"));
        });
    }
}

fn say(line: &str) {
    let _ = writeln!(std::io::stdout().lock(), "{line}");
}

async fn load(
    reader: &Mutex<Option<Arc<Client>>>,
    config: &Config,
    id: i64,
) -> Result<i64, tokio_postgres::Error> {
    let client = {
        let mut reader = reader.lock().await;
        match &*reader {
            Some(open) if !open.is_closed() => Arc::clone(open),
            _ => Arc::clone(reader.insert(Arc::new(connect(config).await?))),
        }
    };
    Ok(client.query_one("SELECT value FROM cell WHERE id = $1", &[&id]).await?.get(0))
}

async fn connect(config: &Config) -> Result<Client, tokio_postgres::Error> {
    let (client, connection) = config.connect(NoTls).await?;
    tokio::spawn(connection);
    Ok(client)
}

impl Host {
    async fn answer(&self, request: &str) -> Option<String> {
        let mut words = request.splitn(3, ' ');
        let verb = words.next()?;
        let id = words.next()?.parse().ok()?;
        match verb {
            "read" => {
                // As the façade's gate does for each request.
                self.log.check_lease();
                let token = words.next().filter(|text| !text.is_empty()).map(Token::parse);
                self.log.caught_up(&token.unwrap_or_default()).await.ok()?;
                Some(self.value.get(id).await.ok()?.to_string())
            }
            _ => {
                let mut writer = self.writer.lock().await;
                if writer.as_ref().is_none_or(Client::is_closed) {
                    *writer = Some(connect(&self.config).await.ok()?);
                }
                let client = writer.as_ref()?;
                let guard = self.cells.write(&id);
                let sql = "UPDATE cell SET value = value + 1 WHERE id = $1 \
                           RETURNING value, tidewire.mark()";
                let row = client.query_one(sql, &[&id]).await.ok()?;
                let token = self.log.wrote(guard, row.get(1));
                Some(format!("{} {token}", row.get::<_, i64>(0)))
            }
        }
    }
}
