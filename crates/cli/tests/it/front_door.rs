//! `tidewire serve` in front of somebody else's server: pages that are kept, tags, and changes of
//! the configuration.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tempfile::TempDir;

use crate::cluster;
use crate::hosting::{Served, ask, body_of, send, write};
use crate::program::{folder, run, until};

/// A server that nobody wrote for Tidewire: it says how often it was asked, and ends with the test.
struct Shop {
    url: String,
    asked: Arc<AtomicUsize>,
}

impl Shop {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let asked = Arc::<AtomicUsize>::default();
        let count = Arc::clone(&asked);
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let count = Arc::clone(&count);
                std::thread::spawn(move || answer(&stream, &count));
            }
        });
        Self { url, asked }
    }

    fn asked(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }
}

fn answer(stream: &TcpStream, count: &AtomicUsize) -> Option<()> {
    let mut lines = BufReader::new(stream).lines();
    let mut out = stream;
    loop {
        let head: Vec<String> =
            lines.by_ref().map_while(Result::ok).take_while(|line| !line.is_empty()).collect();
        let path = head.first()?.split(' ').nth(1)?.to_owned();
        let number = count.fetch_add(1, Ordering::SeqCst) + 1;
        let body = format!("{path} {number}");
        let tag = path.trim_start_matches("/shop/");
        let head = "HTTP/1.1 200 OK\r\nCache-Control: max-age=600";
        let length = body.len();
        // What only the response to a command may say.
        let head = match path.ends_with("?says") {
            true => format!("{head}\r\nTidewire-Changed: items/2"),
            false => head.to_owned(),
        };
        write!(out, "{head}\r\nCache-Tag: {tag}\r\nContent-Length: {length}\r\n\r\n{body}").ok()?;
    }
}

fn settings(shop: &Shop, more: &str) -> String {
    let url = &shop.url;
    format!(
        "[server]\nlisten = \"127.0.0.1:0\"\n[admin]\nlisten = \"unix:admin.sock\"\n[[service]]\n\
         name = \"shop\"\nurl = \"{url}\"\nroute = \"/shop/*\"\ncache = true\n{more}"
    )
}

#[test]
fn pages_are_kept_until_somebody_says_that_they_changed() {
    let shop = Shop::start();
    let folder = folder(&[("tidewire.toml", &settings(&shop, ""))]);
    run(folder.path(), &["check"]).check(0, &["checked 1 file: nothing wrong"]);
    let served = Served::start(folder.path());
    let get = |path: &str| body_of(&ask(&served.address, path));
    for _ in 0..3 {
        assert_eq!(get("/shop/items/1"), "/shop/items/1 1");
    }
    assert_eq!(get("/shop/items/2"), "/shop/items/2 2");
    run(folder.path(), &["invalidate", "items/1"]).check(0, &["1 page ended"]);
    assert_eq!(get("/shop/items/1"), "/shop/items/1 3");
    assert_eq!(get("/shop/items/2"), "/shop/items/2 2");
    run(folder.path(), &["invalidate", "--service", "shop"]).check(0, &["2 pages ended"]);
    assert_eq!(get("/shop/items/2"), "/shop/items/2 4");
    assert_eq!(shop.asked(), 4);
}

/// A program that says that an item changed, to nobody but the gateway.
const WRITER: &str = r#"
import tidewire

app = tidewire.App()

def page(environ, start_response):
    app.changed("items", 1)
    start_response("200 OK", [("Content-Length", "5")])
    return [b"saved"]

app.wsgi(page)
app.serve()
"#;

#[test]
fn a_program_that_says_that_something_changed_ends_the_pages_of_an_upstream() {
    let shop = Shop::start();
    let sdk = concat!(env!("CARGO_MANIFEST_DIR"), "/../../sdk/python");
    let writer = format!(
        "[[service]]\nname = \"writer\"\nroute = \"/save\"\nrun = [\"python3\", \"app.py\"]\n\
         protocol = \"native\"\nstart_timeout = \"2m\"\nenvironment = {{ PYTHONPATH = {sdk:?} }}\n"
    );
    let folder = folder(&[("app.py", WRITER), ("tidewire.toml", &settings(&shop, &writer))]);
    let served = Served::start(folder.path());
    let get = |path: &str| body_of(&ask(&served.address, path));
    let before = ["items/1", "items/2", "items"].map(|page| get(&format!("/shop/{page}")));
    assert_eq!(get("/save"), "saved");
    let after = ["items/1", "items/2", "items"].map(|page| get(&format!("/shop/{page}")));
    let is_same: Vec<_> = before.iter().zip(&after).map(|(one, other)| one == other).collect();
    assert_eq!(is_same, [false, true, false], "its own page, and that of all items");
}

/// Says that an item changed, to nobody but the gateway, in reply to any command.
const SAVER: &str = r#"
import tidewire

app = tidewire.App()

def page(environ, start_response):
    app.changed("items", 1)
    start_response("200 OK", [("Content-Length", "5"), ("Tidewire-Changed", "orders/7, carts")])
    return [b"saved"]

app.wsgi(page)
app.serve()
"#;

fn url_of(database: &tokio_postgres::Config) -> String {
    let tokio_postgres::config::Host::Unix(folder) = &database.get_hosts()[0] else {
        panic!("tests use Unix sockets")
    };
    let folder = folder.to_string_lossy().replace('/', "%2F");
    format!("postgres:///{}?host={folder}&user=postgres", database.get_dbname().unwrap())
}

/// A program at `/save`, and a change log that pages are kept by for so long without news of it.
fn saver(url: &str, lease: &str) -> String {
    let sdk = concat!(env!("CARGO_MANIFEST_DIR"), "/../../sdk/python");
    format!(
        "[[service]]\nname = \"saver\"\nroute = \"/save\"\nrun = [\"python3\", \"app.py\"]\n\
         protocol = \"native\"\nstart_timeout = \"2m\"\nenvironment = {{ PYTHONPATH = {sdk:?} }}\n\
         [oplog]\nurl = \"{url}\"\nlease = \"{lease}\"\n"
    )
}

/// Two hosts on one database, each with this program at `/save` and the shop's pages.
struct TwoHosts {
    folders: [TempDir; 2],
    hosts: [Served; 2],
}

impl TwoHosts {
    fn start(shop: &Shop, program: &str) -> Self {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let database = runtime.block_on(cluster::database());
        Self::start_on(&url_of(&database), shop, program)
    }

    fn start_on(url: &str, shop: &Shop, program: &str) -> Self {
        // However busy the machine, what a reply promises about the log is waited for.
        let patient = saver(url, "1h") + "token_wait = \"1m\"\n";
        let settings = settings(shop, &patient);
        let folders =
            [(); 2].map(|()| folder(&[("app.py", program), ("tidewire.toml", &settings)]));
        let hosts = folders.each_ref().map(|folder| Served::start(folder.path()));
        Self { folders, hosts }
    }
}

#[test]
fn what_changes_on_one_host_ends_the_pages_of_another_by_the_change_log() {
    let shop = Shop::start();
    let TwoHosts { folders, hosts } = &TwoHosts::start(&shop, SAVER);
    let pages = ["items/1", "items/2", "items", "orders/7", "orders", "carts/3"];
    let look = |headers: &str| {
        pages.map(|page| body_of(&send(&hosts[1].address, &format!("GET /shop/{page}"), headers)))
    };
    let before = look("");
    assert_eq!(look(""), before);
    let saved = send(&hosts[0].address, "POST /save", "content-length: 0\r\n");
    let token = saved.lines().find(|line| line.starts_with("tidewire-token: "));
    let after = look(&format!("{}\r\n", token.unwrap_or_else(|| panic!("no token: {saved}"))));
    let is_same: Vec<_> = before.iter().zip(&after).map(|(one, other)| one == other).collect();
    assert_eq!(is_same, [false, true, false, false, true, false]);
    run(folders[0].path(), &["invalidate", "items/2"]).check(0, &["0 pages ended"]);
    until(|| look("")[1] != before[1]);
}

/// Bodies of pages over one connection, so that those that come again are prepared.
fn bodies(served: &Served) -> impl FnMut(&str) -> String {
    let stream = TcpStream::connect(&served.address).unwrap();
    let mut input = BufReader::new(stream.try_clone().unwrap());
    let mut output = stream;
    move |path| {
        write!(output, "GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n").unwrap();
        let mut length = 0;
        loop {
            let mut line = String::new();
            assert!(input.read_line(&mut line).unwrap() > 0, "the connection ended");
            if let Some(value) = line.strip_prefix("content-length: ") {
                length = value.trim().parse().unwrap();
            }
            if line == "\r\n" {
                break;
            }
        }
        let mut body = vec![0; length];
        input.read_exact(&mut body).unwrap();
        String::from_utf8(body).unwrap()
    }
}

#[test]
fn a_page_that_is_prepared_is_as_fresh_as_the_change_log_says() {
    let shop = Shop::start();
    let cluster = cluster::Cluster::start();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let url = url_of(&runtime.block_on(cluster.database()));
    let settings = settings(&shop, &saver(&url, "2s"));
    let folder = folder(&[("app.py", SAVER), ("tidewire.toml", &settings)]);
    let served = Served::start(folder.path());
    let mut bodies = bodies(&served);
    let mut page = || bodies("/shop/items/1");
    // Until it has read the log once, pages end.
    until(|| [(); 6].map(|()| page()).windows(2).all(|two| two[0] == two[1]));
    let before = page();
    send(&served.address, "POST /save", "content-length: 0\r\n");
    until(|| page() != before);
    let before = [(); 6].map(|()| page());
    cluster.crash();
    // When the lease has ended, by this gateway's own clock.
    until(|| page() != before[5]);
    let before = [(); 6].map(|()| page());
    cluster.resume();
    until(|| page() != before[5]);
}

/// Has saved something, and never comes to say so.
const SILENT: &str = r#"
import threading

import tidewire

app = tidewire.App()

def page(environ, start_response):
    open("saved", "w").close()
    threading.Event().wait()

app.wsgi(page)
app.serve()
"#;

#[test]
fn a_host_that_is_killed_before_its_program_says_what_it_saved_leaves_no_page_to_the_others() {
    let shop = Shop::start();
    leaves_no_page(TwoHosts::start(&shop, SILENT));
}

#[test]
fn a_process_that_is_killed_before_its_program_says_what_it_saved_leaves_no_page_to_others_on_its_file()
 {
    let shop = Shop::start();
    let data = folder(&[("shop.sqlite", "")]);
    let url = format!("sqlite:{}", data.path().join("shop.sqlite").display());
    leaves_no_page(TwoHosts::start_on(&url, &shop, SILENT));
}

/// Kills the one of two hosts in a command.
fn leaves_no_page(hosts: TwoHosts) {
    let TwoHosts { folders, hosts: [one, other] } = hosts;
    let look = || body_of(&ask(&other.address, "/shop/items/1"));
    let before = look();
    assert_eq!(look(), before);
    let mut command = TcpStream::connect(&one.address).unwrap();
    command
        .write_all(b"POST /save HTTP/1.1\r\nhost: localhost\r\ncontent-length: 0\r\n\r\n")
        .unwrap();
    until(|| folders[0].path().join("saved").exists());
    assert_eq!(look(), before, "it may be about to say it");
    // By SIGKILL.
    drop(one);
    until(|| look() != before);
}

/// A server of plain HTTP that ends in a command, once it has saved something.
const MORTAL: &str = r#"
import http.server, os

class Shop(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        body = (self.path + (" saved" if os.path.exists("saved") else " as it was")).encode()
        self.send_response(200)
        for header in ("Cache-Control", "max-age=600"), ("Content-Length", str(len(body))):
            self.send_header(*header)
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self):
        open("saved", "w").close()
        os._exit(1)

http.server.ThreadingHTTPServer(("127.0.0.1", int(os.environ["PORT"])), Shop).serve_forever()
"#;

#[test]
fn a_program_that_ends_in_a_command_leaves_none_of_its_pages_on_any_host() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let database = runtime.block_on(cluster::database());
    let settings = format!(
        "[server]\nlisten = \"127.0.0.1:0\"\n[admin]\nlisten = \"unix:admin.sock\"\n[[service]]\n\
         name = \"shop\"\nrun = [\"python3\", \"-I\", \"-S\", \"app.py\"]\nroute = \"/*\"\nready = \"/\"\ncache = true\n\
         start_timeout = \"2m\"\n[oplog]\nurl = \"{}\"\nlease = \"1h\"\n",
        url_of(&database)
    );
    let folders = [(); 2].map(|()| folder(&[("app.py", MORTAL), ("tidewire.toml", &settings)]));
    let hosts = folders.each_ref().map(|folder| Served::start(folder.path()));
    let look = |host: usize| body_of(&ask(&hosts[host].address, "/items/1"));
    assert_eq!([look(0), look(1)], ["/items/1 as it was"; 2]);
    // Both programs show one truth from now on.
    std::fs::write(folders[1].path().join("saved"), "").unwrap();
    assert_eq!([look(0), look(1)], ["/items/1 as it was"; 2], "pages are kept");
    let failed = send(&hosts[0].address, "POST /items/1", "content-length: 0\r\n");
    assert!(failed.starts_with("HTTP/1.1 502"), "{failed}");
    assert_eq!(look(0), "/items/1 saved");
    until(|| look(1) == "/items/1 saved");
}

#[test]
fn whoever_invalidates_is_told_that_other_hosts_were_not() {
    let shop = Shop::start();
    let cluster = cluster::Cluster::start();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let database = runtime.block_on(cluster.database());
    let url = url_of(&database);
    let more = format!("[oplog]\nurl = \"{url}\"\ntoken_wait = \"100ms\"\nlease = \"1h\"\n");
    let folder = folder(&[("tidewire.toml", &settings(&shop, &more))]);
    let served = Served::start(folder.path());
    let before = body_of(&ask(&served.address, "/shop/items/1"));
    cluster.crash();
    run(folder.path(), &["invalidate", "items/1"])
        .check(1, &["1 page ended here, but other hosts are not told yet"]);
    assert_ne!(body_of(&ask(&served.address, "/shop/items/1")), before);
    run(folder.path(), &["invalidate", "--service", "shop"])
        .check(1, &["1 page ended here, but other hosts are not told yet"]);
}

#[test]
fn however_many_commands_run_while_the_change_log_is_away_its_end_is_told_once() {
    let shop = Shop::start();
    let cluster = cluster::Cluster::start();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let database = runtime.block_on(cluster.database());
    let more = format!("{}token_wait = \"500ms\"\n", saver(&url_of(&database), "5s"));
    let folder = folder(&[("app.py", SAVER), ("tidewire.toml", &settings(&shop, &more))]);
    let served = Served::start(folder.path());
    let save = || send(&served.address, "POST /save", "content-length: 0\r\n");
    let has_token = || save().contains("tidewire-token: ");
    until(has_token);
    cluster.crash();
    until(|| !has_token());
    for _ in 0..5 {
        save();
    }
    cluster.resume();
    until(has_token);
    let unknown = "the change log does not know that commands";
    let next_time = || served.says_until("replies have a tidewire-token again");
    // On a slow machine a reply may have left without one before the database was away.
    let mut said = next_time();
    while !said.iter().any(|line| line.contains(unknown)) {
        said = next_time();
    }
    for line in ["a reply leaves without a tidewire-token", unknown, "changes wait to be written"] {
        assert_eq!(said.iter().filter(|it| it.contains(line)).count(), 1, "{line}: {said:#?}");
    }
}

#[test]
fn a_page_that_says_what_it_changed_changes_nothing_and_the_log_says_so() {
    let shop = Shop::start();
    let plain =
        format!("[[service]]\nname = \"plain\"\nurl = \"{}\"\nroute = \"/plain/*\"\n", shop.url);
    let folder = folder(&[("tidewire.toml", &settings(&shop, &plain))]);
    let served = Served::start(folder.path());
    let other = ask(&served.address, "/shop/items/2");
    for (path, said) in [
        ("/shop/a?says", "service=shop path=\"/shop/a\" left_out=0"),
        ("/plain/b?says", "service=plain path=\"/plain/b\" left_out=0"),
    ] {
        let reply = ask(&served.address, path);
        assert!(!reply.to_ascii_lowercase().contains("tidewire-changed"), "{reply}");
        let line = served.says("Tidewire-Changed is ignored here");
        assert!(line.contains(said) && line.contains("only commands"), "{line}");
    }
    assert_eq!(body_of(&ask(&served.address, "/shop/items/2")), body_of(&other));
}

#[test]
fn an_upstream_comes_and_goes_with_the_configuration_and_a_wrong_one_changes_nothing() {
    let (shop, other) = (Shop::start(), Shop::start());
    let folder = folder(&[("tidewire.toml", &settings(&shop, ""))]);
    let served = Served::start(folder.path());
    let get = |path: &str| ask(&served.address, path);
    assert_eq!(body_of(&get("/shop/a")), "/shop/a 1");
    let also = format!("[[service]]\nurl = \"{}\"\nroute = [\"/a/*\", \"/b\"]\n", other.url);
    write(folder.path(), "tidewire.toml", &settings(&shop, &also));
    served.says("programs are those of the configuration");
    assert_eq!(body_of(&get("/a/x")), "/a/x 1");
    assert_eq!(body_of(&get("/b")), "/b 2");
    assert_eq!(body_of(&get("/shop/a")), "/shop/a 1", "it was not touched");
    write(folder.path(), "tidewire.toml", &settings(&shop, &also.replace("http://", "ftp://")));
    served.says("the configuration cannot be used");
    assert_eq!(body_of(&get("/b")), "/b 3");
    write(folder.path(), "tidewire.toml", &settings(&shop, ""));
    served.says("programs are those of the configuration");
    assert!(get("/b").starts_with("HTTP/1.1 404 "));
    assert_eq!(body_of(&get("/shop/a")), "/shop/a 1");
}
