//! How the console of a mock is found, and how it is left out; the page itself is tested in a
//! browser (`tests/console`).

use std::io::{BufRead as _, BufReader, Lines};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};

use tempfile::TempDir;

use crate::mocked::SHOP;
use crate::program::{command, folder, ran, run};

/// A mock without any setting.
struct Plain {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Plain {
    fn start(folder: &Path, more: &[&str]) -> Self {
        let arguments = [&["mock", "--port", "0"], more].concat();
        let mut child = command(folder, &arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, lines }
    }

    fn line(&mut self, begin: &str) -> String {
        let line = self.lines.next().unwrap().unwrap();
        line.strip_prefix(begin).expect(&line).to_owned()
    }

    fn end(&mut self) {
        let id = self.child.id().to_string();
        assert!(Command::new("kill").arg(id).status().unwrap().success());
        assert!(self.child.wait().unwrap().success());
    }
}

impl Drop for Plain {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn shop() -> TempDir {
    folder(&[("protos/shop.proto", SHOP)])
}

#[test]
fn a_mock_prints_its_console_and_commands_find_it_until_it_ends() {
    let here = shop();
    let mut mock = Plain::start(here.path(), &[]);
    mock.line("listening on 127.0.0.1:");
    let admin = mock.line("admin on ");
    mock.line("mocking shop.v1.Cart");
    mock.line("docs at ");
    let url = mock.line(&format!("console at http://{admin}/#"));
    let code = url.split(' ').next().unwrap();
    assert!(code.len() == 32 && code.bytes().all(|byte| byte.is_ascii_hexdigit()), "{url}");
    let another = run(here.path(), &["console"]);
    another.check(0, &[&format!("http://{admin}/#")]);
    assert!(!another.stdout.contains(code), "each code is another one");
    run(here.path(), &["mocks", "list-rules"]).check(0, &["shop.v1.Cart/Price"]);
    run(here.path(), &["top", "--once", "--admin", &admin]).check(0, &[]);
    mock.end();
    run(here.path(), &["console"]).check(2, &["where is the program?"]);
    assert_eq!(std::fs::read_dir(here.path().join(".run/tidewire")).unwrap().count(), 0);
}

#[test]
fn a_program_of_another_folder_is_named_where_it_is_looked_at() {
    let here = shop();
    let mut mock = Plain::start(here.path(), &[]);
    for begin in ["listening on ", "admin on ", "mocking ", "docs at ", "console at "] {
        mock.line(begin);
    }
    let started = format!(", started in {}", here.path().canonicalize().unwrap().display());
    let whose = format!("no admin.listen here; this is process {} at 127.0.0.1:", mock.child.id());
    let other = folder(&[("tidewire.toml", "[server]\nlisten = \"127.0.0.1:0\"\n")]);
    for words in [["console"].as_slice(), &["mocks", "list-rules"], &["ps"]] {
        let run_dir = here.path().join(".run");
        let mut there = command(other.path(), words);
        let there = ran(there.env("XDG_RUNTIME_DIR", run_dir).output().unwrap());
        assert!(there.stderr.contains(&whose) && there.stderr.contains(&started), "{there:?}");
        assert!(!run(here.path(), words).stderr.contains("this is process"), "{words:?}");
    }
}

#[test]
fn of_several_mocks_one_is_to_be_named_and_one_that_was_killed_is_forgotten() {
    let here = shop();
    let mut first = Plain::start(here.path(), &[]);
    let mut second = Plain::start(here.path(), &[]);
    for mock in [&mut first, &mut second] {
        mock.line("listening on ");
    }
    let addresses = [&mut first, &mut second].map(|mock| mock.line("admin on "));
    for mock in [&mut first, &mut second] {
        mock.line("mocking ");
        mock.line("docs at ");
        mock.line("console at ");
    }
    let folder = here.path().canonicalize().unwrap();
    let about = |mock: &Plain, admin: &str| {
        format!("  --admin {admin}   process {} at 127.0.0.1:", mock.child.id())
    };
    let lines = [about(&first, &addresses[0]), about(&second, &addresses[1])];
    let started = format!(", started in {}\n", folder.display());
    run(here.path(), &["console"])
        .check(2, &["several programs run; say which:\n", &lines[0], &lines[1], &started]);
    let start = format!("http://{}/#", addresses[1]);
    run(here.path(), &["console", "--admin", &addresses[1]]).check(0, &[&start]);
    first.child.kill().unwrap();
    first.child.wait().unwrap();
    run(here.path(), &["console"]).check(0, &[&start]);
}

#[test]
fn a_console_is_left_out_where_that_is_said_and_a_socket_has_none() {
    let here = shop();
    let mut mock = Plain::start(here.path(), &["--no-console"]);
    mock.line("listening on ");
    mock.line("mocking ");
    mock.line("docs at ");
    assert!(!here.path().join(".run").exists());
    run(here.path(), &["console"]).check(2, &["where is the program?"]);
    run(here.path(), &["console", "--admin", "unix:a.sock"]).check(2, &["no browser reaches"]);
    // Tokens that others could read are not written.
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::create_dir_all(here.path().join(".run/tidewire")).unwrap();
    std::fs::set_permissions(here.path().join(".run/tidewire"), mode).unwrap();
    let mut open = Plain::start(here.path(), &[]);
    open.line("listening on ");
    let admin = open.line("admin on ");
    open.line("mocking ");
    open.line("docs at ");
    open.line(&format!("console at http://{admin}/#"));
    assert_eq!(std::fs::read_dir(here.path().join(".run/tidewire")).unwrap().count(), 0);
}
