//! The configuration file, followed while the server runs.

use tidewire::config::Flags;

use crate::harness::{HANG, send};

fn settings(route: &str) -> String {
    // Nobody listens there, so what has a route is 502.
    let service = format!(
        "[[service]]\nname = \"shop\"\nurl = \"http://127.0.0.1:1\"\nroute = \"{route}\"\n"
    );
    format!("[server]\nlisten = \"127.0.0.1:0\"\n{service}")
}

#[tokio::test]
async fn a_file_that_changed_before_it_was_followed_is_taken_up() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("tidewire.toml");
    std::fs::write(&file, settings("/before")).unwrap();
    let flags = Flags { file: Some(file.clone()), ..Flags::default() };
    let config = flags.load([]).unwrap();
    std::fs::write(&file, settings("/changed")).unwrap();
    let (builder, mut programs) = config.host(config.server().unwrap()).unwrap();
    let server = builder.start().await.unwrap();
    let address = server.url().trim_start_matches("http://").parse().unwrap();
    let taken_up = async { while send(address, "GET /changed", b"").await.status != 502 {} };
    tokio::select! {
        never = programs.follow(&flags) => match never {},
        taken_up = tokio::time::timeout(HANG, taken_up) => taken_up.expect("it is taken up"),
    }
    send(address, "GET /before", b"").await.check(404, &[]);
}
