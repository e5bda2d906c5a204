//! Attacks on subscriptions, over real sockets: what is told late, twice or to the wrong one, or
//! not at all.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use futures_util::{StreamExt as _, stream};
use tidewire::client::Replicas;
use tidewire::memo::{Graph, Source};
use tidewire::schema::Value;
use tidewire::service::Staleness;
use tidewire::{
    Call, Client, Code, Codec, Context, Error, Head, Implementation, Message, Method, Reply,
    ReplyCache, Result, RunningServer, Schema, Server, Service,
};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

use crate::harness::start;
use crate::memoized::without_memory;

/// Cells of a server, each with its own number.
#[derive(Clone)]
struct Cells {
    schema: Schema,
    source: Source<i64>,
    numbers: Arc<Mutex<HashMap<i64, i64>>>,
    looks: Arc<AtomicUsize>,
}

impl Cells {
    fn number(&self, id: i64) -> i64 {
        self.numbers.lock().unwrap().get(&id).copied().unwrap_or_default()
    }

    /// Writes without a call; whoever reads from now on is given it.
    fn set(&self, id: i64, number: i64) {
        let write = self.source.write(&id);
        self.numbers.lock().unwrap().insert(id, number);
        write.finish();
    }
}

impl Implementation for Cells {
    async fn unary(&self, method: &Method, _: Context, request: Message) -> Result<Reply<Message>> {
        let id = match request.get("id") {
            Ok(Some(Value::I64(id))) => id,
            _ => 0,
        };
        self.source.read(&id);
        self.looks.fetch_add(1, Ordering::SeqCst);
        let mut row = self.schema.message(&method.output)?;
        row.set("id", id)?;
        row.set("value", self.number(id))?;
        Ok(row.into())
    }
}

struct World {
    _running: RunningServer,
    address: SocketAddr,
    cells: Cells,
    graph: Graph,
    is_locked: Arc<AtomicBool>,
}

async fn world() -> World {
    let (_, rows, _) = without_memory();
    let graph = Graph::new();
    let source = Source::new_in(&graph, "cells");
    let cells = Cells {
        schema: rows.schema.clone(),
        source,
        numbers: Arc::default(),
        looks: Arc::default(),
    };
    let is_locked = Arc::new(AtomicBool::new(false));
    let of_gate = Arc::clone(&is_locked);
    let gate = move |_: &mut Head| match of_gate.load(Ordering::SeqCst) {
        true => Err(Error::permission_denied("not any more")),
        false => Ok(()),
    };
    let service = cells.schema.implement("test.v1.Rows", cells.clone()).unwrap();
    let builder = Server::builder().service(service).memo(ReplyCache::new(&graph)).gate(gate);
    let (_running, address) = start(builder).await;
    World { _running, address, cells, graph, is_locked }
}

impl World {
    /// A client that is told of what it has read.
    fn watching(&self) -> Reader {
        let client = Client::builder(format!("tcp://{}", self.address)).watch_queries();
        self.reader(client.build().unwrap(), Graph::new())
    }

    fn reader(&self, client: Client, graph: Graph) -> Reader {
        Reader { client, schema: self.cells.schema.clone(), _graph: graph }
    }

    /// A client that keeps what it has read.
    fn keeping(&self, address: SocketAddr) -> Reader {
        let graph = Graph::new();
        let client = Client::builder(format!("tcp://{address}")).replicas(Replicas::new(&graph));
        self.reader(client.build().unwrap(), graph)
    }

    /// Answers in the memos of the server that anybody watches.
    fn watched(&self) -> usize {
        let memos = self.graph.owners();
        let entries =
            memos.iter().flat_map(|memo| self.graph.entries(&memo.name, 0, 100_000).entries);
        entries.filter(|entry| entry.is_watched).count()
    }
}

#[derive(Clone)]
struct Reader {
    client: Client,
    schema: Schema,
    /// Where replicas are, for as long as there is the reader.
    _graph: Graph,
}

impl Reader {
    async fn read(&self, id: i64) -> Result<Reply> {
        let interface = self.schema.interface("test.v1.Rows").unwrap().unwrap();
        let get = interface.methods().iter().find(|known| known.method == "Get").unwrap();
        let json = format!(r#"{{"id":"{id}"}}"#).into_bytes();
        self.client.call(Call::method(get.clone(), Context::default(), Codec::Json, json)).await
    }

    async fn number(&self, id: i64) -> Result<i64> {
        let bytes = self.read(id).await?.body.collect(1000).await?;
        let row: serde_json::Value = serde_json::from_slice(&bytes).unwrap();
        let value = &row["value"];
        Ok(value.as_i64().or_else(|| value.as_str()?.parse().ok()).unwrap_or_default())
    }

    async fn held(&self, id: i64) -> Arc<dyn Staleness> {
        let reply = self.read(id).await.unwrap();
        Arc::clone(reply.freshness.staleness().expect("it is watched"))
    }

    /// What the server wrote to this reader before now has arrived.
    async fn is_up_to_date(&self) {
        let _ = self.read(-1).await;
    }
}

async fn stale(held: &Arc<dyn Staleness>) {
    std::future::poll_fn(|cx| held.poll_stale(cx)).await;
}

/// What passes on a wire.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Passes {
    All,
    /// What the server says is not heard.
    Calls,
    Nothing,
}

/// A wire to a server that loses what it does not pass, and breaks when it passes nothing.
async fn wire(server: SocketAddr) -> (SocketAddr, watch::Sender<Passes>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let state = watch::Sender::new(Passes::All);
    let known = state.subscribe();
    tokio::spawn(async move {
        while let Ok((near, _)) = listener.accept().await {
            let known = known.clone();
            if *known.borrow() == Passes::All {
                tokio::spawn(carry(near, server, known));
            }
        }
    });
    (address, state)
}

async fn carry(near: TcpStream, server: SocketAddr, known: watch::Receiver<Passes>) {
    let far = TcpStream::connect(server).await.unwrap();
    let ((mut near_says, mut near_hears), (mut far_says, mut far_hears)) =
        (near.into_split(), far.into_split());
    let mut ends = known.clone();
    let back = async {
        let mut bytes = vec![0; 1 << 16];
        while let Ok(count @ 1..) = far_says.read(&mut bytes).await {
            if *known.borrow() != Passes::All {
                // What was said before it was known that nothing is heard is lost too: the stream
                // is broken.
                let _ = known.clone().wait_for(|now| *now == Passes::Nothing).await;
                return;
            }
            if near_hears.write_all(&bytes[..count]).await.is_err() {
                return;
            }
        }
    };
    tokio::select! {
        _ = tokio::io::copy(&mut near_says, &mut far_hears) => {}
        () = back => {}
        _ = ends.wait_for(|now| *now == Passes::Nothing) => {}
    }
}

#[tokio::test]
async fn each_of_two_connections_that_watch_a_key_is_told_whatever_the_other_does() {
    let world = world().await;
    let (one, two) = (world.watching(), world.watching());
    let (held, other) = (one.held(7).await, two.held(7).await);
    let twice = one.held(7).await;
    world.cells.set(7, 1);
    stale(&held).await;
    stale(&twice).await;
    stale(&other).await;
    let (held, other) = (one.held(7).await, two.held(7).await);
    drop(held);
    one.is_up_to_date().await;
    drop(one);
    assert!(!other.is_stale());
    world.cells.set(7, 2);
    stale(&other).await;
}

#[tokio::test]
async fn an_answer_that_the_server_has_no_room_for_is_told_of_when_it_is_stale_and_not_before() {
    let world = world().await;
    let reader = world.watching();
    let held = [reader.held(7).await, reader.held(8).await];
    world.graph.set_budget(1);
    for id in 100..200 {
        reader.number(id).await.unwrap();
    }
    assert!(held.iter().all(|held| !held.is_stale()));
    world.cells.set(7, 1);
    stale(&held[0]).await;
    reader.is_up_to_date().await;
    assert!(!held[1].is_stale(), "another cell");
    assert_eq!(reader.number(7).await.unwrap(), 1);
    world.cells.set(8, 1);
    stale(&held[1]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn subscriptions_that_end_while_they_ring_leave_nothing_behind_and_take_no_other_along() {
    let world = Arc::new(world().await);
    let done = Arc::new(AtomicBool::new(false));
    let (cells, is_done) = (world.cells.clone(), Arc::clone(&done));
    let writing = tokio::task::spawn_blocking(move || {
        let mut number = 0;
        while !is_done.load(Ordering::SeqCst) {
            number += 1;
            cells.set(number % 16, number);
        }
    });
    let readers = [(); 2].map(|()| world.watching());
    for round in 0..100 {
        for (at, reader) in readers.iter().enumerate() {
            let mut held = Vec::new();
            for id in 0..16 {
                held.push(reader.read(id).await.unwrap());
            }
            // Every second one goes, at whatever moment; each of the others is told of.
            for (id, reply) in held.into_iter().enumerate() {
                if let Some(held) = reply.freshness.staleness()
                    && (id + round + at) % 2 == 0
                {
                    stale(held).await;
                }
            }
        }
    }
    done.store(true, Ordering::SeqCst);
    writing.await.unwrap();
    for reader in &readers {
        let held = reader.held(3).await;
        world.cells.set(3, -1);
        stale(&held).await;
    }
    // Nobody holds anything.
    while world.watched() > 0 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn what_was_rung_and_written_but_never_arrived_is_known_once_the_session_is_resumed() {
    let world = world().await;
    let (address, state) = wire(world.address).await;
    let reader = world.keeping(address);
    for round in 1..=5 {
        for id in 0..20 {
            let before = reader.number(id).await.unwrap();
            assert_eq!(before, if id < 10 { round - 1 } else { 0 });
        }
        state.send_replace(Passes::Calls);
        // Told, and lost on the way; and one that comes while there is no connection.
        (0..9).for_each(|id| world.cells.set(id, round));
        tokio::task::yield_now().await;
        state.send_replace(Passes::Nothing);
        world.cells.set(9, round);
        state.send_replace(Passes::All);
        for id in 0..10 {
            while reader.number(id).await.unwrap() != round {
                tokio::task::yield_now().await;
            }
        }
    }
}

#[tokio::test]
async fn ten_thousand_replicas_are_right_again_after_cuts_under_which_some_of_them_changed() {
    const CELLS: i64 = 10_000;
    const CHANGED: i64 = 50;
    let world = world().await;
    let (address, state) = wire(world.address).await;
    let reader = world.keeping(address);
    let all = |reader: Reader| async move {
        let numbers = stream::iter(0..CELLS).map(|id| {
            let reader = reader.clone();
            async move { (id, reader.number(id).await.unwrap()) }
        });
        numbers.buffer_unordered(100).collect::<HashMap<_, _>>().await
    };
    all(reader.clone()).await;
    assert_eq!(reader.client.replicas_held(), CELLS as usize);
    let (looks, mut written) = (world.cells.looks.load(Ordering::SeqCst), 0);
    for round in 1..=3 {
        let write = |from: i64| {
            (0..CHANGED).for_each(|at| world.cells.set((from + at * 97) % CELLS, round));
        };
        write(round * 1000);
        state.send_replace(Passes::Nothing);
        write(round * 2000);
        state.send_replace(Passes::All);
        write(round * 3000);
        written += 3 * CHANGED as usize;
        // What is told to a reader who waits is never older than what it was told before.
        for at in 0..CHANGED {
            for from in [1000, 2000, 3000] {
                let id = (round * from + at * 97) % CELLS;
                while reader.number(id).await.unwrap() != world.cells.number(id) {
                    tokio::task::yield_now().await;
                }
            }
        }
        for (id, number) in all(reader.clone()).await {
            assert_eq!(number, world.cells.number(id), "cell {id} in round {round}");
        }
    }
    let looked = world.cells.looks.load(Ordering::SeqCst) - looks;
    assert!(looked <= written, "{looked}: what did not change is not computed again");
    assert_eq!(reader.client.replicas_held(), CELLS as usize);
}

#[tokio::test]
async fn who_may_not_read_any_more_is_given_neither_the_new_answer_nor_the_old_one() {
    let world = world().await;
    let reader = world.keeping(world.address);
    let watching = world.watching();
    assert_eq!(reader.number(7).await.unwrap(), 0);
    let held = watching.held(7).await;
    world.is_locked.store(true, Ordering::SeqCst);
    world.cells.set(7, 1);
    stale(&held).await;
    assert_eq!(watching.read(7).await.unwrap_err().code(), Code::PermissionDenied);
    let error = loop {
        match reader.number(7).await {
            Ok(number) => assert_eq!(number, 0, "not told yet"),
            Err(error) => break error,
        }
        tokio::task::yield_now().await;
    };
    assert_eq!(error.code(), Code::PermissionDenied);
    world.is_locked.store(false, Ordering::SeqCst);
    assert_eq!(reader.number(7).await.unwrap(), 1);
}
