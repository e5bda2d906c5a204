//! The shop in Rust.

tidewire::include_protos!();

use std::collections::HashMap;
use std::sync::Mutex;

use shop::v1::{Item, ItemRequest, RustShop, RustShopServer};
use tidewire::program::{Program, Source};
use tidewire::{Context, Reply, Result};

struct Shop {
    items: Source<i32>,
    counts: Mutex<HashMap<i32, i32>>,
}

impl RustShop for Shop {
    async fn get_item(&self, _: Context, request: ItemRequest) -> Result<Reply<Item>> {
        self.items.read(&request.id);
        let count = self.counts.lock().unwrap().get(&request.id).copied().unwrap_or_default();
        Ok(Item { id: request.id, count, language: "Rust".into(), ..Default::default() }.into())
    }

    async fn set_item(&self, _: Context, item: Item) -> Result<Reply<Item>> {
        self.counts.lock().unwrap().insert(item.id, item.count);
        self.items.changed(&item.id);
        Ok(item.into())
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> tidewire::Exit {
    let shop = Shop { items: Source::new("rust-items"), counts: Mutex::default() };
    Ok(Program::new().service(RustShopServer::new(shop)).run().await?)
}
