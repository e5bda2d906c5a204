//! A running mock with an admin listener, for tests that steer it.

use std::io::{BufRead as _, BufReader, Lines, Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, ChildStdout, Stdio};

use serde_json::Value as Json;
use tempfile::TempDir;

use crate::program::{command, folder, run};

pub(crate) const SHOP: &str = r#"syntax = "proto3";
package shop.v1;
service Cart {
  rpc Price(PriceRequest) returns (PriceReply);
  rpc Watch(PriceRequest) returns (stream PriceReply);
}
message PriceRequest { string sku = 1; int32 quantity = 2; string card = 3 [debug_redact = true]; }
message PriceReply { int64 price = 1; string note = 2; }
"#;

pub(crate) const RULES: &str = "responses:
  - {name: bulk, when: {request.quantity: {gte: 100}}, body: {price: 4}}
  - {name: tea, when: {request.sku: tea}, body: {price: 5}}
  - {body: {price: 9}}
";

pub(crate) const FILE: &str = "rules/shop.v1.cart.price.yaml";

/// A mock with an admin listener, which ends with the test.
pub(crate) struct RunningMock {
    child: Child,
    pub(crate) folder: TempDir,
    pub(crate) address: String,
    pub(crate) admin: String,
    pub(crate) token: String,
    _lines: Lines<BufReader<ChildStdout>>,
}

impl RunningMock {
    pub(crate) fn start(files: &[(&str, &str)], more: &[&str]) -> Self {
        let settings = "[admin]\nlisten = \"127.0.0.1:0\"\ntoken_file = \"admin.token\"\n";
        let files = [&[("protos/shop.proto", SHOP), ("tidewire.toml", settings)], files].concat();
        let folder = folder(&files);
        let arguments = [&["mock", "--port", "0"], more].concat();
        let mut child = command(folder.path(), &arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut line = |before: &str| {
            let line = lines.next().unwrap().unwrap();
            line.strip_prefix(before).expect(&line).to_owned()
        };
        let (address, admin) = (line("listening on "), line("admin on "));
        let token = std::fs::read_to_string(folder.path().join("admin.token")).unwrap();
        let token = token.trim().to_owned();
        Self { child, folder, address, admin, token, _lines: lines }
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn price(&self, request: &str) -> String {
        let ran = run(self.path(), &["call", &self.address, "Price", request]);
        ran.check(0, &[]).stdout.trim().to_owned()
    }

    /// What `tidewire mocks` prints with these arguments and `--json`.
    pub(crate) fn mocks(&self, arguments: &[&str]) -> Json {
        let ran = self.mocks_ran(&[arguments, &["--json"]].concat());
        serde_json::from_str(&ran.check(0, &[]).stdout).unwrap()
    }

    pub(crate) fn mocks_ran(&self, arguments: &[&str]) -> crate::program::Ran {
        let arguments = [&["mocks"], arguments, &["--admin", &self.admin]].concat();
        run(self.path(), &arguments)
    }

    /// The status and the body that the admin listener answers with.
    pub(crate) fn http(&self, line: &str, body: &Json) -> (u16, Json) {
        self.http_as(line, body, &self.token)
    }

    pub(crate) fn http_as(&self, line: &str, body: &Json, token: &str) -> (u16, Json) {
        let mut stream = TcpStream::connect(&self.admin).unwrap();
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let length = body.len();
        write!(
            stream,
            "{line} HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\nauthorization: Bearer {token}\r\n\
             content-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
        )
        .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let status = answer.split(' ').nth(1).unwrap().parse().unwrap();
        let body = answer.split_once("\r\n\r\n").unwrap().1;
        (status, serde_json::from_str(body).unwrap_or_else(|_| Json::String(answer.clone())))
    }
}

impl Drop for RunningMock {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
