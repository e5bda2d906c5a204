//! Follows the card of a contact: `reader ws://127.0.0.1:8080 1`. A line of standard input is
//! another first name for the contact. With a third argument it ends after so many texts.

use std::time::Duration;

use replica::cards::v1::{CardsClient, GetRequest, RenameRequest};
use tidewire::client::{Protocol, Replicas};
use tidewire::memo::{Graph, Memo};
use tidewire::{Client, Error};
use tokio::io::{AsyncBufReadExt as _, BufReader};

#[tokio::main]
async fn main() -> tidewire::Exit {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [url, id, rest @ ..] = &arguments[..] else { return Err("reader URL ID [TEXTS]".into()) };
    let id: i32 = id.parse()?;
    let texts_max: usize = rest.first().map_or(Ok(usize::MAX), |n| n.parse())?;
    let replicas = Replicas::new(&Graph::global());
    let client = Client::builder(&**url).protocol(Protocol::Live).replicas(replicas).build()?;
    let cards = CardsClient::new(client.channel());

    // What is made of a replica is kept as long as the replica is what the server has.
    let asked = cards.clone();
    let badges = Memo::new("badges", move |id: i32| {
        let cards = asked.clone();
        async move {
            let card = cards.get(GetRequest { id, ..Default::default() }).await?.body;
            Ok::<_, Error>(format!("[{id}: {}]", card.text))
        }
    });

    let mut followed = badges.watch(id);
    let mut names = BufReader::new(tokio::io::stdin()).lines();
    let mut seen = 0;
    let mut hears = true;
    while seen < texts_max {
        tokio::select! {
            Some(badge) = followed.next() => match badge {
                Ok(badge) => {
                    println!("{}", *badge);
                    seen += 1;
                }
                Err(error) => {
                    eprintln!("{error}");
                    tokio::time::sleep(Duration::from_secs(1)).await;
                }
            },
            name = names.next_line(), if hears => match name? {
                Some(first_name) => {
                    let rename = RenameRequest { id, first_name, ..Default::default() };
                    match cards.rename(rename).await {
                        Ok(card) => println!("wrote {}, read {}", card.body.text, *badges.get(id).await?),
                        Err(error) => println!("not written: {error}"),
                    }
                }
                None => hears = false,
            },
        }
    }
    Ok(())
}
