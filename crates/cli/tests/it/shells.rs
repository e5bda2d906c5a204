//! Completion in bash, zsh and fish as a person has it: keys typed at a terminal.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use crate::program::folder;
use crate::server::{Background, behaviour};

/// The command line of each shell, which finds its settings in the home folder.
const SHELLS: [(&str, &[&str]); 3] = [
    ("bash", &["--rcfile", "bash.rc", "-i"]),
    ("zsh", &["-d", "-i"]),
    ("fish", &["--no-config", "-i", "-C", "source fish.rc"]),
];

const SETTINGS: [(&str, &str); 3] = [
    ("bash.rc", "PS1='ready> '\neval \"$(tidewire completions bash)\"\n"),
    (
        ".zshrc",
        "PS1='ready> '\nautoload -Uz compinit\ncompinit -u -D\neval \"$(tidewire completions zsh)\"\n",
    ),
    (
        "fish.rc",
        "function fish_prompt; echo -n 'ready> '; end\ntidewire completions fish | source\n",
    ),
];

/// Completes as the program does, however busy the machine, and prints the words that it is
/// otherwise called with.
const PROGRAM: &str = concat!(
    "#!/bin/sh\nprogram='",
    env!("CARGO_BIN_EXE_tidewire"),
    "'\ncase $1 in\ncompletions) exec \"$program\" \"$@\" ;;\n",
    "complete) shift; exec \"$program\" complete --timeout 1m \"$@\" ;;\n",
    "*) printf '<%s>' \"$@\" ;;\nesac\n"
);

/// The words that the program is called with by a line, tab keys in it pressed, in every shell.
#[track_caller]
fn check(line: &str, expected: &str) {
    for (shell, arguments) in SHELLS {
        let home = folder(&SETTINGS);
        std::fs::write(home.path().join("shop.json"), "{}").unwrap();
        let program = home.path().join("tidewire");
        std::fs::write(&program, PROGRAM).unwrap();
        std::fs::set_permissions(&program, Permissions::from_mode(0o755)).unwrap();
        let path = std::env::var("PATH").unwrap_or_default();
        let typed = Command::new("python3")
            .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/shell.py"))
            .args([&format!("{line}>out\\rexit\\r"), shell])
            .args(arguments)
            .current_dir(home.path())
            .env_clear()
            .env("HOME", home.path())
            .env("TERM", "xterm")
            .env("PATH", format!("{}:{path}", home.path().display()))
            .output()
            .unwrap();
        let seen = String::from_utf8_lossy(&typed.stderr);
        let out = std::fs::read_to_string(home.path().join("out")).unwrap_or_default();
        assert_eq!(out, expected, "{shell}: {line}\n{seen}");
    }
}

#[test]
fn methods_and_requests_come_by_the_tab_key_in_every_shell() {
    let server = Background::start(behaviour());
    let at = &server.address;
    let words = format!("<call><{at}><Look><{{\"key\":\"\"}}>");
    check(&format!("tidewire call {at} Loo\\t\\t"), &words);
    let words = format!("<call><{at}><BehaviourService/Look>");
    check(&format!("tidewire call {at} BehaviourService/Lo\\t"), &words);
    let words = format!("<call><--protocol><connect><{at}><Look>");
    check(&format!("tidewire call --protoc\\tcon\\t{at} Loo\\t"), &words);
    check("tidewire insp\\t", "<inspect>");
}

#[test]
fn files_come_by_the_tab_key_where_nothing_else_may_stand() {
    check("tidewire check sho\\t", "<check><shop.json>");
}
