//! connectrpc's generated client under load, with the transports that it recommends.

#[path = "../measure.rs"]
mod measure;

#[allow(warnings)]
mod proto {
    connectrpc::include_generated!();
}

use connectrpc::Protocol;
use connectrpc::client::{ClientConfig, Http2Connection, HttpClient};
use proto::hello::v1::{GreeterClient, Hello, Pet, hello::Choice};

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let asked = measure::Asked::of_arguments();
    let uri: hyper::Uri = format!("http://{}", asked.address).parse().unwrap();
    let mut config = ClientConfig::new(uri.clone());
    if asked.is_grpc {
        config = config.with_protocol(Protocol::Grpc);
    }
    if asked.is_json {
        config = config.json();
    }
    if asked.is_http2 {
        let greeter = GreeterClient::new(Http2Connection::lazy_plaintext(uri).shared(1024), config);
        asked
            .run(|| async {
                let reply = greeter.say_hello(hello()).await.unwrap();
                assert_eq!(reply.into_owned().n, 42);
            })
            .await;
    } else {
        let greeter = GreeterClient::new(HttpClient::plaintext(), config);
        asked
            .run(|| async {
                let reply = greeter.say_hello(hello()).await.unwrap();
                assert_eq!(reply.into_owned().n, 42);
            })
            .await;
    }
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
