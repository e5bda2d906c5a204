//! Commands over the live protocol while the program is killed: each runs once, and its caller
//! knows.

use std::collections::BTreeMap;
use std::sync::Arc;

use contacts::proto::contacts::v1::contacts::CREATE;
use contacts::proto::contacts::v1::{Contact, ContactsClient, CreateRequest, ListRequest};
use tidewire::service::{Channel, Protocol};
use tidewire::{Client, Code, Context, Outcome, Reply, Result};
use tokio::sync::Semaphore;

use crate::durability::{Program, command};

const ROUNDS: usize = 4;
const CREATES: usize = 60;

fn start(folder: &tempfile::TempDir) -> Program {
    let socket = folder.path().join("socket");
    let listen = format!("unix:{}", socket.display());
    Program::start_with(command(folder, "0").env("TIDEWIRE_SERVER_LISTEN", listen))
}

fn client(folder: &tempfile::TempDir) -> ContactsClient {
    let url = format!("unix:{}", folder.path().join("socket").display());
    let client = Client::builder(url).protocol(Protocol::Live).build().unwrap();
    ContactsClient::new(client)
}

async fn names(client: &ContactsClient) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    let mut list = client.list(ListRequest::default()).await.unwrap().body;
    while let Some(contact) = list.next().await.unwrap() {
        *counts.entry(contact.first_name).or_default() += 1;
    }
    counts
}

#[tokio::test]
async fn a_create_that_a_killed_program_had_is_sent_again_and_there_once() {
    let folder = tempfile::tempdir().unwrap();
    let mut program = start(&folder);
    let client = client(&folder);
    let mut expected = BTreeMap::new();
    for round in 0..ROUNDS {
        let answered = Arc::new(Semaphore::new(0));
        let creates = (0..CREATES).map(|n| {
            let (client, answered) = (client.clone(), Arc::clone(&answered));
            let first_name = format!("{round}-{n}");
            expected.insert(first_name.clone(), 1);
            tokio::spawn(async move {
                let create = CreateRequest { first_name, ..Default::default() };
                let created = client.create(create).await;
                answered.add_permits(1);
                created.map(|reply| reply.body.id)
            })
        });
        let creates: Vec<_> = creates.collect();
        // In the middle of them, somewhere else each time.
        answered.acquire_many(1 + 7 * round as u32).await.unwrap().forget();
        program.child.kill().unwrap();
        program.child.wait().unwrap();
        program = start(&folder);
        for created in creates {
            created.await.unwrap().expect("no create ends unknown");
        }
    }
    assert_eq!(names(&client).await, expected);
}

#[tokio::test]
async fn a_key_in_a_header_counts_over_every_protocol() {
    let folder = tempfile::tempdir().unwrap();
    let program = start(&folder);
    let url = format!("unix:{}", folder.path().join("socket").display());
    let create = async |protocol, name: &str| {
        let channel: Channel = Client::builder(&url).protocol(protocol).build().unwrap().into();
        let context = Context::default().with_header("idempotency-key", "k1")?;
        let request = CreateRequest { first_name: name.to_owned(), ..Default::default() };
        let created: Result<Reply<Contact>> = channel.unary(&CREATE, context, request).await;
        created.map(|reply| reply.body.id)
    };
    let first = create(Protocol::Live, "Ada").await.unwrap();
    // Another session each time, and another protocol.
    for protocol in [Protocol::Live, Protocol::Connect, Protocol::Grpc, Protocol::Live] {
        assert_eq!(create(protocol, "Ada").await.unwrap(), first);
    }
    let other = create(Protocol::Live, "Eve").await.unwrap_err();
    assert_eq!((other.code(), other.outcome()), (Code::FailedPrecondition, Outcome::NotRun));
    drop(program);
}
