//! Answers from memory over live: who holds one is told when it is stale, whoever writes and
//! however.

use std::net::SocketAddr;
use std::sync::Arc;

use tidewire::server::TokioClock;
use tidewire::service::{FollowOptions, Staleness, follow};
use tidewire::{Call, Client, Codec, Context, Method, Reply, Result, Service};
use tidewire_live_proto::Watch;

use crate::harness::send;
use crate::memoized::{Rows, served};

use super::by_hand::{ByHand, Told};

struct Reader {
    client: Client,
    rows: Rows,
}

impl Reader {
    fn new(address: SocketAddr, scheme: &str, rows: &Rows) -> Self {
        let client = Client::builder(format!("{scheme}://{address}")).watch_queries().build();
        Self { client: client.unwrap(), rows: rows.clone() }
    }

    fn method(&self, name: &str) -> Method {
        let interface = self.rows.schema.interface("test.v1.Rows").unwrap().unwrap();
        interface.methods().iter().find(|known| known.method == name).unwrap().clone()
    }

    fn call(&self, name: &str, json: String) -> Call {
        Call::method(self.method(name), Context::default(), Codec::Json, json.into_bytes())
    }

    async fn read(&self, id: u32) -> Reply {
        self.client.call(self.call("Get", format!(r#"{{"id":"{id}"}}"#))).await.unwrap()
    }
}

fn staleness(reply: &Reply) -> Arc<dyn Staleness> {
    Arc::clone(reply.freshness.staleness().expect("it is watched"))
}

async fn stale(staleness: &Arc<dyn Staleness>) {
    std::future::poll_fn(|cx| staleness.poll_stale(cx)).await;
}

async fn text(reply: Reply) -> String {
    String::from_utf8(reply.body.collect(1000).await.unwrap().to_vec()).unwrap()
}

async fn set(address: SocketAddr, id: u32, value: u32) {
    let row = format!(r#"{{"id":"{id}","value":"{value}"}}"#);
    let head = "POST /rows\ncontent-type: application/json";
    send(address, head, row.as_bytes()).await.check(200, &[]);
}

#[tokio::test]
async fn a_row_written_through_rest_makes_what_is_held_over_live_stale_and_no_other() {
    let (_running, address, rows) = served().await;
    for scheme in ["ws", "tcp"] {
        let reader = Reader::new(address, scheme, &rows);
        let (seven, eight) = (reader.read(7).await, reader.read(8).await);
        let (of_seven, of_eight) = (staleness(&seven), staleness(&eight));
        set(address, 7, 41).await;
        stale(&of_seven).await;
        assert!(!of_eight.is_stale(), "another row");
        let again = reader.read(7).await;
        assert!(text(again).await.contains("41"));
        // What is held and did not change costs a frame without it.
        let mut held = reader.call("Get", r#"{"id":"8"}"#.to_owned());
        held.context.set_held(eight.freshness.validator().into_iter().collect());
        assert!(reader.client.call(held).await.unwrap().is_unchanged());
    }
}

#[tokio::test]
async fn a_writer_over_live_never_holds_its_own_older_row_as_fresh() {
    let (_running, address, rows) = served().await;
    let writer = Reader::new(address, "ws", &rows);
    for value in 1..50 {
        let held = staleness(&writer.read(7).await);
        let row = format!(r#"{{"id":"7","value":"{value}"}}"#);
        writer.client.call(writer.call("Set", row)).await.unwrap();
        assert!(held.is_stale(), "known before the reply of the write");
        let again = text(writer.read(7).await).await;
        assert!(
            again.contains(&format!(r#""value":{value}"#)) || again.contains(&value.to_string())
        );
    }
}

/// A page under writes that never pause: it is told each value, though none is right for long.
#[tokio::test]
async fn a_row_that_changes_faster_than_it_is_read_is_shown_to_who_watches_it() {
    let (_running, address, rows) = served().await;
    let mut peer = ByHand::dial(address).await;
    rows.set_busy(true);
    peer.ask("/test.v1.Rows/Get", r#"{"id":"7"}"#, Watch::Values);
    let mut last = None;
    for _ in 0..10 {
        let value = value_told(&mut peer).await;
        assert!(Some(value) > last, "{value} after {last:?}");
        last = Some(value);
    }
    rows.set_busy(false);
    while Some(value_told(&mut peer).await) <= last {}
}

/// The next value of a watch.
async fn value_told(peer: &mut ByHand) -> i64 {
    loop {
        if let Told::Reply { text, .. } = peer.next().await {
            let digits = text.split("\"value\":\"").nth(1).unwrap_or("0\"");
            return digits.split('"').next().unwrap().parse().unwrap();
        }
    }
}

#[tokio::test]
async fn a_query_is_followed_over_live_and_each_new_row_is_told() -> Result<()> {
    let (_running, address, rows) = served().await;
    let reader = Reader::new(address, "ws", &rows);
    let query = reader.call("Get", r#"{"id":"7"}"#.to_owned()).buffered().await?;
    let pace = FollowOptions::default().with_min_interval(std::time::Duration::ZERO);
    let mut answers = follow(Arc::new(reader.client.clone()), query, pace, TokioClock);
    answers.next().await?.expect("the first answer")?;
    for value in [11, 12, 13] {
        set(address, 7, value).await;
        let told = text(answers.next().await?.expect("a new answer")?).await;
        assert!(told.contains(&value.to_string()), "{told}");
    }
    Ok(())
}
