//! A shared task board: the service, and the page that `web/` builds.
//!
//! ```text
//! proto/board/v1/board.proto ─▶ service.rs ─▶ database.rs (SQLite)
//!                               pages.rs: the files of web/dist
//! ```
#![allow(clippy::print_stdout, reason = "the program's own output")]

mod database;
mod pages;
mod service;

use std::path::PathBuf;
use std::sync::Arc;

use tidewire::config::Flags;

use crate::database::Database;
use crate::proto::board::v1::BoardServer;
use crate::service::SharedBoard;

#[allow(missing_docs, reason = "generated")]
mod proto {
    ::tidewire::include_protos!();
}

#[tokio::main]
async fn main() -> tidewire::Exit {
    let path = PathBuf::from(std::env::var_os("BOARD_DB").unwrap_or_else(|| "board.sqlite".into()));
    if std::env::args().nth(1).as_deref() == Some("meddle") {
        database::meddle(&path)?;
        return Ok(());
    }
    let config = Flags::default().load(std::env::vars())?;
    config.log.start()?;
    let database = Arc::new(Database::open(&path)?);
    let looking = database.look_at_others();
    let board = SharedBoard::new(Arc::clone(&database), path);
    let server = pages::add_to(config.server()?).service(BoardServer::new(board)).start().await?;
    let url = server.url();
    let stopped = server.until_stopped();
    println!("open {url}/ in several tabs");
    stopped.await?;
    looking.abort();
    Ok(())
}
