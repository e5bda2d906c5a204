//! What the tests of the browser client call: the behaviour service, and notes that are watched.
//!
//! It prints its address first, and serves until it is stopped. Settings are those of the
//! environment, such as `TIDEWIRE_SERVER_LISTEN`.
#![allow(clippy::print_stdout, reason = "its address goes to standard output")]

use std::collections::HashMap;
use std::sync::Mutex;

use tidewire::config::Flags;
use tidewire::memo::Source;
use tidewire::{Context, Error, Reply, Result, Stream};
use tidewire_tests::behaviour::Behaviour;
use tidewire_tests::proto::BehaviourServiceServer;

use crate::proto::notes::v1::{AddRequest, GetRequest, Note, Notes, NotesServer, RepeatRequest};

#[allow(missing_docs, reason = "generated")]
mod proto {
    ::tidewire::include_protos!();
}

struct Shelf {
    source: Source<String>,
    notes: Mutex<HashMap<String, Note>>,
}

impl Shelf {
    fn read(&self, key: &str) -> Result<Note> {
        self.source.read(&key.to_owned());
        let notes = self.notes.lock().expect("no handler panics with it");
        notes.get(key).cloned().ok_or_else(|| Error::not_found(format!("no note is called {key}")))
    }

    fn write(&self, key: &str, change: impl FnOnce(&mut Note)) -> Note {
        let write = self.source.write(&key.to_owned());
        let note = {
            let mut notes = self.notes.lock().expect("no handler panics with it");
            let note = notes.entry(key.to_owned()).or_default();
            key.clone_into(&mut note.key);
            change(note);
            note.clone()
        };
        write.finish();
        note
    }
}

impl Notes for Shelf {
    async fn get(&self, _: Context, request: GetRequest) -> Result<Reply<Note>> {
        Ok(self.read(&request.key)?.into())
    }

    async fn set(&self, _: Context, note: Note) -> Result<Reply<Note>> {
        Ok(self.write(&note.key, |kept| kept.text = note.text).into())
    }

    async fn remove(&self, _: Context, request: GetRequest) -> Result<Reply<Note>> {
        let write = self.source.write(&request.key);
        let note = self.notes.lock().expect("no handler panics with it").remove(&request.key);
        write.finish();
        Ok(note.unwrap_or_default().into())
    }

    async fn add(&self, _: Context, request: AddRequest) -> Result<Reply<Note>> {
        Ok(self.write(&request.key, |note| note.count += request.by).into())
    }

    async fn repeat(&self, _: Context, request: RepeatRequest) -> Result<Reply<Note>> {
        let mut note = self.read(&request.key)?;
        note.text = note.text.repeat(request.times as usize);
        Ok(note.into())
    }

    async fn ticks(&self, _: Context, request: GetRequest) -> Result<Reply<Stream<Note>>> {
        let notes = (0_i64..).map(move |count| {
            Ok(Note {
                key: request.key.clone(),
                count,
                text: "x".repeat(1000),
                ..Default::default()
            })
        });
        Ok(Stream::from_results(notes).into())
    }
}

#[tokio::main]
async fn main() -> tidewire::Exit {
    let config = Flags::default().load(std::env::vars())?;
    config.log.start()?;
    let shelf = Shelf { source: Source::new("notes"), notes: Mutex::default() };
    let server = config
        .server()?
        .service(BehaviourServiceServer::new(Behaviour::default()))
        .service(NotesServer::new(shelf))
        .start()
        .await?;
    let address = server.addresses()[0].clone();
    let stopped = server.until_stopped();
    println!("listening on {address}");
    stopped.await?;
    Ok(())
}
