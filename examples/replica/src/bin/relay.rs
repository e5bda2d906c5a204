//! Serves cards made of contacts of another server: `relay ws://127.0.0.1:8080`.
//!
//! It asks for a contact once. Then it has a replica, until the other server says that the contact
//! changed; and so the cards that are made of it are kept, and whoever holds one is told in turn.

use replica::cards::v1::{Card, Cards, CardsServer, GetRequest, RenameRequest};
use replica::contacts::v1::{self as contacts, Contact, Contacts, ContactsClient};
use tidewire::client::{Protocol, Replicas};
use tidewire::config::Flags;
use tidewire::memo::Graph;
use tidewire::{Client, Context, Reply, Result};

struct OfContacts(ContactsClient);

impl Cards for OfContacts {
    async fn get(&self, _: Context, request: GetRequest) -> Result<Reply<Card>> {
        let contact = contacts::GetRequest { id: request.id, ..Default::default() };
        let contact = self.0.get(contact).await?.body;
        println!("made a card of contact {}", contact.id);
        Ok(card(&contact).into())
    }

    async fn rename(&self, context: Context, request: RenameRequest) -> Result<Reply<Card>> {
        let first_name = Some(request.first_name);
        let update = contacts::UpdateRequest { id: request.id, first_name, ..Default::default() };
        let contact = Contacts::update(&self.0, context.outgoing(), update).await?.body;
        Ok(card(&contact).into())
    }
}

fn card(contact: &Contact) -> Card {
    let text = format!("{} {}", contact.first_name, contact.surname);
    Card { text, ..Default::default() }
}

#[tokio::main]
async fn main() -> tidewire::Exit {
    let url = std::env::args().nth(1).ok_or("where are the contacts? such as ws://HOST:8080")?;
    let config = Flags::default().load(std::env::vars())?;
    config.log.start()?;
    let replicas = Replicas::new(&Graph::global());
    let client = Client::builder(url).protocol(Protocol::Live).replicas(replicas).build()?;
    let cards = OfContacts(ContactsClient::new(client.channel()));
    let server = config.server()?.service(CardsServer::new(cards)).start().await?;
    let url = server.url();
    let stopped = server.until_stopped();
    println!("cards at {url}");
    stopped.await?;
    Ok(())
}
