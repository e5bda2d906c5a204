//! How a server begins to be one: what keeps it from that, and from when on signals end it well.

use tidewire_server::{Address, Server};

#[tokio::test]
async fn a_port_in_use_is_said_with_what_chooses_another() {
    let any: Address = "127.0.0.1:0".parse().unwrap();
    let first = Server::builder().listen(any).start().await.unwrap();
    let taken = first.addresses()[0].clone();
    let error = Server::builder().listen(taken.clone()).start().await.unwrap_err().to_string();
    assert_eq!(
        error,
        format!(
            "{taken} is in use by another program; stop it, or listen elsewhere: server.listen in \
             tidewire.toml, or TIDEWIRE_SERVER_LISTEN (port 0 is any free port)"
        )
    );
}

/// Without that the signal would end this program of tests.
#[tokio::test]
async fn signals_are_heard_before_the_end_is_awaited() {
    let any: Address = "127.0.0.1:0".parse().unwrap();
    let stopped = Server::builder().listen(any).start().await.unwrap().until_stopped();
    let this = std::process::id().to_string();
    let sent = std::process::Command::new("kill").args(["-s", "TERM", &this]).status().unwrap();
    assert!(sent.success());
    assert!(stopped.await.unwrap(), "it was drained");
}
