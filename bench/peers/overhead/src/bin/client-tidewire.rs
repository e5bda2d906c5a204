//! Tidewire's generated client under load.

#[path = "../measure.rs"]
mod measure;

mod proto {
    tidewire::include_protos!();
}

use proto::hello::v1::{GreeterClient, Hello, Pet, hello::Choice};
use tidewire::client::{HttpVersion, Protocol};
use tidewire::{Client, Codec};

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let asked = measure::Asked::of_arguments();
    let client = Client::builder(format!("http://{}", asked.address))
        .protocol(if asked.is_grpc { Protocol::Grpc } else { Protocol::Connect })
        .http(if asked.is_http2 { HttpVersion::Http2 } else { HttpVersion::Http1 })
        .codec(if asked.is_json { Codec::Json } else { Codec::Proto })
        .build()
        .unwrap();
    let greeter = GreeterClient::new(client.channel());
    asked
        .run(|| async {
            let reply = greeter.say_hello(hello()).await.unwrap();
            assert_eq!(reply.body.n, 42);
        })
        .await;
}

fn hello() -> Hello {
    let pet = |name: &str, color: &str| Pet { name: name.into(), color: color.into(), ..Default::default() };
    Hello {
        name: "it".into(),
        d: 4.2,
        f: 4.2,
        b: true,
        n: 42,
        l: 42,
        choice: Some(Choice::C1("hello".into())),
        pets: vec![pet("Garfield", "orange"), pet("Snoopy", "white")],
        ..Default::default()
    }
}
