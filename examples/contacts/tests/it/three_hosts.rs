//! The script that starts three hosts, and the page that shows what each answers.

use std::process::Stdio;

use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};

use crate::chromium::Page;

/// The running script, the page's address, and the database's.
struct Script {
    process: Child,
    /// It may say more.
    _lines: Lines<BufReader<ChildStdout>>,
    url: String,
    database: String,
}

impl Script {
    /// Starts the script and reads what it prints until all is there.
    async fn start() -> Self {
        // A run that is killed leaves nothing behind: the script ends what it started.
        let mut process = Command::new("setpriv")
            .args(["--pdeathsig", "TERM", "--"])
            .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/three-hosts.sh"))
            .arg("--page")
            .env("CONTACTS_PROGRAM", env!("CARGO_BIN_EXE_contacts"))
            .env_remove("DATABASE_URL")
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let mut url = String::new();
        let mut database = String::new();
        while let Some(line) = lines.next_line().await.unwrap() {
            if let Some(rest) = line.strip_prefix("open ") {
                url = rest.split(' ').next().unwrap().to_owned();
            }
            if line.starts_with("  psql ") {
                database = line.split('\'').nth(1).unwrap().to_owned();
            }
            if line.starts_with("Ctrl-C") {
                return Self { process, _lines: lines, url, database };
            }
        }
        let mut errors = String::new();
        process.stderr.take().unwrap().read_to_string(&mut errors).await.unwrap();
        panic!("the script ended: {errors}");
    }

    async fn psql(&self, sql: &str) {
        let mut psql = Command::new("psql");
        psql.args(["-X", "-q", "-v", "ON_ERROR_STOP=1", &self.database, "-c", sql]);
        assert!(psql.status().await.unwrap().success(), "{sql}");
    }

    async fn stop(mut self) {
        let id = self.process.id().unwrap().to_string();
        assert!(Command::new("kill").arg(id).status().await.unwrap().success());
        self.process.wait().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_page_shows_on_all_three_hosts_what_psql_changed_and_what_one_of_them_did() {
    let script = Script::start().await;
    let mut page = Page::open(&script.url, 1280).await;
    let all = |text: &str| {
        format!(
            "[...document.querySelectorAll('main pre')].filter(it => \
             it.textContent.includes({text:?})).length === 3"
        )
    };
    page.until(&all("Byron")).await;
    script.psql("UPDATE contact SET surname = 'X' WHERE id = 1").await;
    page.until(&all("\"surname\": \"X\"")).await;
    let etags = "new Set([...document.querySelectorAll('main dd:first-of-type')]\
                 .map(it => it.textContent)).size";
    page.until(&format!("{etags} === 1")).await;
    page.value("document.querySelector('#write').click()").await;
    page.until("document.querySelector('#said').textContent !== ''").await;
    let said = page.value("document.querySelector('#said').textContent").await;
    assert_eq!(said, "Read with the write's token at once: B has it, C has it.");
    page.until(&all("on A at")).await;
    assert_eq!(page.faults, Vec::<String>::new());
    page.close().await;
    script.stop().await;
}
