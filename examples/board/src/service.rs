//! The typed service of `board.proto`.

use std::path::PathBuf;
use std::sync::Arc;

use tidewire::{Context, Error, Reply, Result, Stream};
use tokio::sync::broadcast;

use crate::database::Database;
use crate::proto::board::v1::{
    AddRequest, Board, ListReply, ListRequest, MeddleReply, MeddleRequest, Pointer, RemoveReply,
    RemoveRequest, Task,
};

/// Pointers that a slow tab may be behind; older ones are left out.
const POINTERS_KEPT: usize = 64;
const TITLE_BYTES_MAX: usize = 200;

/// `board.v1.Board` on a database.
pub(crate) struct SharedBoard {
    database: Arc<Database>,
    path: PathBuf,
    pointers: broadcast::Sender<Pointer>,
}

impl SharedBoard {
    /// The service; `path` is the database's file.
    pub(crate) fn new(database: Arc<Database>, path: PathBuf) -> Self {
        Self { database, path, pointers: broadcast::Sender::new(POINTERS_KEPT) }
    }
}

impl Board for SharedBoard {
    async fn list(&self, _: Context, _: ListRequest) -> Result<Reply<ListReply>> {
        let tasks = self.database.list().map_err(failed)?;
        Ok(ListReply { tasks, ..Default::default() }.into())
    }

    async fn add(&self, _: Context, request: AddRequest) -> Result<Reply<Task>> {
        check(&request.title)?;
        if request.id <= 0 {
            return Err(Error::invalid_argument("field id is not positive; make one up at random"));
        }
        Ok(self.database.add(request.id, &request.title).map_err(failed)?.into())
    }

    async fn change(&self, _: Context, task: Task) -> Result<Reply<Task>> {
        check(&task.title)?;
        match self.database.change(&task).map_err(failed)? {
            true => Ok(task.into()),
            false => Err(Error::not_found(format!("no task has id {}", task.id))),
        }
    }

    async fn remove(&self, _: Context, request: RemoveRequest) -> Result<Reply<RemoveReply>> {
        self.database.remove(request.id).map_err(failed)?;
        Ok(RemoveReply::default().into())
    }

    async fn meet(&self, _: Context, requests: Stream<Pointer>) -> Result<Reply<Stream<Pointer>>> {
        let guest = Guest {
            requests,
            others: self.pointers.subscribe(),
            pointers: self.pointers.clone(),
            who: String::new(),
        };
        let heard = Stream::unfold(guest, |mut guest| async move {
            let pointer = guest.next().await?;
            Some((Ok(pointer), guest))
        });
        Ok(heard.into())
    }

    async fn meddle(&self, _: Context, _: MeddleRequest) -> Result<Reply<MeddleReply>> {
        let program = std::env::current_exe().map_err(|cause| unavailable(cause.to_string()))?;
        let path = self.path.clone();
        let run = move || {
            std::process::Command::new(program).arg("meddle").env("BOARD_DB", path).status()
        };
        let status = tokio::task::spawn_blocking(run)
            .await
            .map_err(|cause| unavailable(cause.to_string()))?;
        match status {
            Ok(status) if status.success() => Ok(MeddleReply::default().into()),
            other => Err(unavailable(format!("the other process ended with {other:?}"))),
        }
    }
}

/// One tab: what it says is passed on, and what others say comes back.
struct Guest {
    requests: Stream<Pointer>,
    others: broadcast::Receiver<Pointer>,
    pointers: broadcast::Sender<Pointer>,
    who: String,
}

impl Guest {
    /// The next pointer of another tab.
    async fn next(&mut self) -> Option<Pointer> {
        loop {
            tokio::select! {
                said = self.requests.next() => match said {
                    Ok(Some(pointer)) => {
                        self.who.clone_from(&pointer.who);
                        // Nobody else may be there.
                        let _ = self.pointers.send(pointer);
                    }
                    _ => return None,
                },
                heard = self.others.recv() => match heard {
                    Ok(pointer) if pointer.who != self.who => return Some(pointer),
                    Ok(_) | Err(broadcast::error::RecvError::Lagged(_)) => {}
                    Err(broadcast::error::RecvError::Closed) => return None,
                },
            }
        }
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        let who = std::mem::take(&mut self.who);
        let _ = self.pointers.send(Pointer { who, left: true, ..Default::default() });
    }
}

fn check(title: &str) -> Result<()> {
    if title.trim().is_empty() || title.len() > TITLE_BYTES_MAX {
        return Err(Error::invalid_argument(format!(
            "field title has {} bytes; give 1 to {TITLE_BYTES_MAX}",
            title.len()
        )));
    }
    Ok(())
}

fn failed(cause: rusqlite::Error) -> Error {
    Error::unavailable("the database cannot be used for now; nothing was changed, try again")
        .with_cause(cause)
}

fn unavailable(text: String) -> Error {
    Error::unavailable(text)
}
