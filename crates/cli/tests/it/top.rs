//! `tidewire top` against a server with an admin listener.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Stdio};

use crate::program::{command, folder, run};

const PROTO: &str = r#"
syntax = "proto3";
package shop.v1;
service Items { rpc Get(Item) returns (Item); }
message Item { string name = 1; }
"#;

struct Ends(Child);

impl Drop for Ends {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn it_shows_what_was_called_over_a_socket_or_with_the_token() {
    for (listen, flags) in
        [("unix:admin.sock", &[][..]), ("127.0.0.1:0", &["--token-file", "admin.token"])]
    {
        let settings = format!("[admin]\nlisten = \"{listen}\"\ntoken_file = \"admin.token\"\n");
        let folder = folder(&[("shop.proto", PROTO), ("tidewire.toml", &settings)]);
        let mut serve = command(folder.path(), &["serve", "shop.proto", "--port", "0"]);
        let mut serve = Ends(serve.stdout(Stdio::piped()).spawn().unwrap());
        let mut lines = BufReader::new(serve.0.stdout.take().unwrap()).lines().map(Result::unwrap);
        let address = lines.next().unwrap().strip_prefix("listening on ").unwrap().to_owned();
        let admin = lines.next().unwrap().strip_prefix("admin on ").unwrap().to_owned();
        run(folder.path(), &["call", &address, "Get", r#"{"name":"tea"}"#]).check(0, &["tea"]);
        let arguments = [&["top", "--once", &admin][..], flags].concat();
        let top = run(folder.path(), &arguments);
        top.check(0, &["ready, up", "CALLS/S", "shop.v1.Items/Get"]);
        if !flags.is_empty() {
            run(folder.path(), &arguments[..3]).check(1, &["401"]);
        }
    }
}
