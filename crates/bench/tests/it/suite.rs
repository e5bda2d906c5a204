//! `bench suite`, with peers that are scripts.

use std::path::PathBuf;

use tidewire_bench::command::Outcome;

use crate::harness::{Manner, Peer, answer, bench, scratch};

/// A server of what the suite `web` asks for.
pub(crate) fn good() -> Peer {
    Peer::start(|seen| {
        let body = match seen.head.split(' ').nth(1) {
            Some("/plaintext") => "Hello, World!",
            Some("/method/plaintext") => "Hello World!",
            _ => r#"{"message":"Hello World!"}"#,
        };
        Manner::Answer(answer(200, body))
    })
}

/// A folder of peers, of which `lines` are the commands of a shell.
pub(crate) fn peers(lines: &[(&str, &str)]) -> PathBuf {
    let folder = scratch("peers");
    std::fs::create_dir_all(&folder).unwrap();
    let mut text = String::new();
    for (name, line) in lines {
        text +=
            &format!("[[web]]\nname = {name:?}\nrun = [\"sh\", \"-c\", {line:?}]\nsetup = \"-\"\n");
    }
    text += "[[web]]\nname = \"missing\"\nrun = [\"no-such-program\"]\nsetup = \"install it\"\n";
    std::fs::write(folder.join("peers.toml"), text).unwrap();
    folder
}

#[test]
fn a_suite_measures_who_is_there_and_says_who_is_not_and_why() {
    let server = good();
    let talks = format!("echo {}; exec sleep 600", server.address);
    let lost = Peer::start(|_| Manner::Answer(answer(404, "")));
    let folder = peers(&[
        ("tidewire", &talks),
        ("lost", &talks.replace(&server.address.to_string(), &lost.address.to_string())),
        ("wrong", &talks.replace(&server.address.to_string(), "127.0.0.1:1")),
        ("dies", "exit 3"),
    ]);
    let out = scratch("suite");
    let (from, to) = (folder.to_str().unwrap(), out.to_str().unwrap());
    let run = ["suite", "web", "-z", "2s", "--rounds", "2", "--only", "method, 8"];
    let ran = bench(&[&run[..], &["--peers", from, "--out", to]].concat());
    assert_eq!(ran.outcome.unwrap(), Outcome::Done, "{}", ran.text);
    assert!(ran.text.contains("absent: missing: no-such-program is missing: install it"));
    let text = std::fs::read_to_string(out.join("web.md")).unwrap();
    assert!(text.contains("## text, method, 8 connections"), "{text}");
    assert!(text.contains("## JSON, method, 8 connections") && !text.contains("64 connections\n"));
    assert!(text.contains("| tidewire | **"), "{text}");
    assert!(text.contains("| wrong | cannot connect to 127.0.0.1:1"), "{text}");
    assert!(text.contains("| lost | the first answer says that the request is wrong"), "{text}");
    assert!(text.contains("| dies | ended by itself (exit status: 3) |"), "{text}");
    assert!(text.contains("Absent: missing (no-such-program is missing: install it)."), "{text}");
    let json = std::fs::read_to_string(out.join("web.json")).unwrap();
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    // Two cases, four peers, two rounds, interleaved.
    let peers: Vec<&str> = json["measurements"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["peer"].as_str().unwrap())
        .collect();
    assert_eq!(peers, ["tidewire", "lost", "wrong", "dies"].repeat(4));
}

#[test]
fn answers_with_another_body_are_no_figures() {
    let server = Peer::good();
    let folder = peers(&[("tidewire", &format!("echo {}; exec sleep 600", server.address))]);
    let out = scratch("suite");
    let (from, to) = (folder.to_str().unwrap(), out.to_str().unwrap());
    let run = ["suite", "web", "-z", "2s", "--rounds", "1", "--only", "text, method, 8"];
    let ran = bench(&[&run[..], &["--peers", from, "--out", to]].concat());
    assert_eq!(ran.outcome.unwrap(), Outcome::NothingAnswered);
    assert!(ran.text.contains("nothing was answered well") && ran.text.contains("check: body"));
}

#[test]
fn a_peer_that_compiles_while_it_runs_is_loaded_before_it_is_measured() {
    let asked = || Peer::start(|_| Manner::Answer(answer(200, "Hello World!")));
    let (cold, warm) = (asked(), asked());
    let folder = peers(&[]);
    let peer = |name: &str, server: &Peer, more: &str| {
        let address = server.address;
        format!(
            "[[web]]\nname = {name:?}\nsetup = \"-\"\n{more}\
             run = [\"sh\", \"-c\", \"echo {address}; exec sleep 600\"]\n"
        )
    };
    let text = peer("tidewire", &cold, "") + &peer("compiles", &warm, "warm_up = 2\n");
    std::fs::write(folder.join("peers.toml"), text).unwrap();
    let out = scratch("suite");
    let (from, to) = (folder.to_str().unwrap(), out.to_str().unwrap());
    let run = ["suite", "web", "-z", "500ms", "--rounds", "1", "--only", "text, method, 8"];
    let ran = bench(&[&run[..], &["--peers", from, "--out", to]].concat());
    assert_eq!(ran.outcome.unwrap(), Outcome::Done, "{}", ran.text);
    let text = std::fs::read_to_string(out.join("web.md")).unwrap();
    assert!(
        text.contains("Loaded for 2 s before each measurement") && text.contains(": compiles.")
    );
    let json = std::fs::read_to_string(out.join("web.json")).unwrap();
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    // What is asked before the half of a second that is measured is in no figure.
    let not_counted = |at: usize, server: &Peer| {
        let figures = &json["measurements"][at]["figures"];
        server.served() as f64 - figures["ok_per_second"].as_f64().unwrap() * 0.5
    };
    let (of_cold, of_warm) = (not_counted(0, &cold), not_counted(1, &warm));
    assert!(of_warm > of_cold + 16.0, "{of_warm} and {of_cold}");
}

#[test]
fn what_a_suite_needs_is_named_before_it_begins() {
    assert!(bench(&["suite", "--list"]).text.contains("web "));
    assert!(bench(&["suite", "wbe"]).error().contains("there are: web"));
    let nowhere = scratch("nowhere");
    let error = bench(&["suite", "web", "--peers", nowhere.to_str().unwrap()]).error();
    assert!(error.contains("--peers") && error.contains("peers.toml"), "{error}");
    let file = scratch("file");
    std::fs::write(&file, "").unwrap();
    let error = bench(&["suite", "web", "--out", file.to_str().unwrap()]).error();
    assert!(error.contains("cannot be written"), "{error}");
}

#[test]
fn a_ramp_has_every_second_of_its_clients_and_a_backing_service_is_started_once_for_all() {
    let server = Peer::start(|_| Manner::Answer(answer(204, "")));
    let folder = scratch("peers");
    std::fs::create_dir_all(folder.join("stacks")).unwrap();
    let step = "[[step]]\nname = \"health\"\npath = \"/health\"\nexpect = { status = [204] }\n";
    std::fs::write(folder.join("stacks/health.toml"), step).unwrap();
    let address = server.address;
    let peer = |name: &str, of: &str| {
        format!(
            "[[stacks]]\nname = {name:?}\nrun = [\"sh\", \"-c\", \"echo listening on $AT; exec sleep 600\"]\n\
             setup = \"-\"\nenvironment = {{ AT = {of:?} }}\n"
        )
    };
    let text = format!(
        "[[backing]]\nname = \"store\"\nsetup = \"-\"\nrun = [\"sh\", \"-c\", \"echo started >> starts; echo \
         http://{address}/; exec sleep 600\"]\n[[backing]]\nname = \"lame\"\nsetup = \"-\"\nrun = [\"sh\", \"-c\", \"exit 4\"]\n\
         [[backing]]\nname = \"idle\"\nsetup = \"-\"\nrun = [\"sh\", \"-c\", \"echo started >> idle\"]\n{}{}{}",
        peer("tidewire", "{store}"),
        peer("by port", "127.0.0.1:{store.port}"),
        peer("without", "{lame}"),
    );
    std::fs::write(folder.join("peers.toml"), text).unwrap();
    let out = scratch("suite");
    let (from, to) = (folder.to_str().unwrap(), out.to_str().unwrap());
    let run = ["suite", "stacks", "-z", "2s", "--rounds", "1", "--only", "Health"];
    let ran = bench(&[&run[..], &["--peers", from, "--out", to]].concat());
    assert_eq!(ran.outcome.unwrap(), Outcome::Done, "{}", ran.text);
    assert_eq!(std::fs::read_to_string(folder.join("starts")).unwrap(), "started\n");
    assert!(!folder.join("idle").exists(), "a service that nobody needs is not started");
    let read =
        |ending: &str| std::fs::read_to_string(out.join(format!("stacks.{ending}"))).unwrap();
    let markdown = read("md");
    assert!(
        markdown.contains("| | errors | mean | p90 | p95 | p99 | requests/s | knee |"),
        "{markdown}"
    );
    assert!(
        markdown.contains("| without | the backing service lame did not start: ended by itself"),
        "{markdown}"
    );
    let json: serde_json::Value = serde_json::from_str(&read("json")).unwrap();
    let seconds = json["measurements"][1]["seconds"].as_array().unwrap();
    let clients: Vec<u64> = seconds.iter().map(|one| one["clients"].as_u64().unwrap()).collect();
    assert!(clients.is_sorted() && clients.last() > clients.first(), "{clients:?}");
    assert!(json["measurements"][1]["figures"]["knee"].as_u64().unwrap() >= 1);
    let page = read("html");
    assert!(page.contains("data-case=\"Health\"") && page.contains("\"peer\":\"by port\""));
}

#[test]
fn runs_are_one_page_with_the_history_of_each_figure_and_each_has_a_table_for_documents() {
    let server = good();
    let folder = peers(&[("tidewire", &format!("echo {}; exec sleep 600", server.address))]);
    let runs = scratch("runs");
    for run in ["1-a", "2-b"] {
        let (from, to) = (folder.to_str().unwrap(), runs.join(run));
        let words = ["suite", "web", "-z", "2s", "--rounds", "1", "--only", "text, method, 8"];
        let ran = bench(&[&words[..], &["--peers", from, "--out", to.to_str().unwrap()]].concat());
        assert_eq!(ran.outcome.unwrap(), Outcome::Done, "{}", ran.text);
    }
    std::fs::write(runs.join("1-a/other.json"), "{}").unwrap();
    let text = std::fs::read_to_string(runs.join("2-b/web-summary.md")).unwrap();
    assert!(text.starts_with("| | tidewire |"), "{text}");
    assert!(text.contains("| text, method, 8 connections |") && text.contains("/s, "), "{text}");
    let runs = runs.to_str().unwrap();
    let ran = bench(&["index", runs]);
    assert_eq!(ran.outcome.unwrap(), Outcome::Done, "{}", ran.text);
    let page = std::fs::read_to_string(format!("{runs}/index.html")).unwrap();
    assert!(page.contains("<a href=\"2-b/web.html\">") && page.contains("data-suite=\"web\""));
    let empty = scratch("empty");
    std::fs::create_dir_all(&empty).unwrap();
    assert!(bench(&["index", empty.to_str().unwrap()]).error().contains("bench suite NAME --out"));
}

#[test]
fn two_runs_of_a_suite_are_compared_by_what_the_peers_cost_beside_tidewire() {
    let folder = scratch("compare");
    std::fs::create_dir_all(&folder).unwrap();
    // CPU of Tidewire and of its peer by round; the machine was slower in the second run.
    let result = |name: &str, suite: &str, rounds: &[(f64, f64)]| {
        let one = |peer: &str, round: usize, cpu: f64| {
            serde_json::json!({ "case": "text", "peer": peer, "round": round, "figures": {
                "ok_per_second": 1.0, "failed": 0, "errors": 0.0, "mean": 1.0, "p50": 1.0, "p90": 1.0,
                "p95": 1.0, "p99": 1.0, "cpu_per_request": cpu, "rss_bytes": 1, "knee": null } })
        };
        let all: Vec<_> = rounds
            .iter()
            .enumerate()
            .flat_map(|(round, (ours, theirs))| {
                [one("tidewire", round, *ours), one("axum", round, *theirs)]
            })
            .collect();
        let context = serde_json::json!({ "command": "", "version": "", "commit": null, "started_at": 0,
            "cpu": "", "cores": 2, "system": "" });
        let file = serde_json::json!({ "format": "tidewire-suite/1", "suite": suite, "context": context,
            "rounds": rounds.len(), "seconds": 4.0, "pinned": true, "absent": [], "measurements": all,
            "interrupted": false });
        let path = folder.join(name);
        std::fs::write(&path, file.to_string()).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let noise = [1.0, 1.02, 0.98, 1.01, 0.99, 1.0];
    let run = |scale: f64, ratio: f64| noise.map(|one| (scale * one, scale * ratio)).to_vec();
    let base = result("base.json", "web", &run(1e-5, 1.5));
    let same = result("same.json", "web", &run(3e-5, 1.5));
    let worse = result("worse.json", "web", &run(1e-5, 1.2));
    let short = result("short.json", "web", &run(1e-5, 1.5)[..3]);
    let other = result("other.json", "protocols", &run(1e-5, 1.5));

    let ran = bench(&["compare", &base, &same, "--fail-above", "5%"]);
    assert!(ran.text.contains("1 of 1 rows show no difference"), "{}", ran.text);
    assert!(ran.text.contains("text: axum") && ran.text.contains("1.50"), "{}", ran.text);
    assert_eq!(ran.outcome.unwrap(), Outcome::Done);
    let ran = bench(&["compare", &base, &worse, "--fail-above", "5%"]);
    assert!(ran.text.contains("worse") && ran.text.contains("0 of 1 rows"), "{}", ran.text);
    assert_eq!(ran.outcome.unwrap(), Outcome::Regressed);
    let ran = bench(&["compare", &base, &short, "--fail-above", "5%"]);
    assert!(ran.text.contains("too few samples"), "{}", ran.text);
    assert_eq!(ran.outcome.unwrap(), Outcome::NothingCompared);
    assert!(bench(&["compare", &base, &other]).error().contains("two suites, web and protocols"));
}

#[test]
fn a_peer_that_loads_itself_is_told_what_to_do_and_says_what_it_counted() {
    let folder = scratch("peers");
    std::fs::create_dir_all(&folder).unwrap();
    let peer = |name: &str, line: &str| {
        format!(
            "[[memo]]\nname = {name:?}\nrun = [\"sh\", \"-c\", {line:?}, \"sh\"]\nsetup = \"-\"\n"
        )
    };
    let counts = |calls: u64, stale: u64| {
        format!(
            "echo \"$1 $2\" >> told; echo '{{\"calls\":{calls},\"seconds\":2,\"cpu_seconds\":4,\
             \"writes_per_second\":10,\"stale\":{stale},\"rss_bytes\":1048576}}'"
        )
    };
    let text = peer("tidewire", &counts(4000, 0))
        + &peer("by hand", &counts(1000, 7))
        + &peer("lost", "echo nothing much")
        + &peer("dies", "exit 3");
    std::fs::write(folder.join("peers.toml"), text).unwrap();
    let out = scratch("suite");
    let (from, to) = (folder.to_str().unwrap(), out.to_str().unwrap());
    let run = ["suite", "memo", "-z", "2s", "--rounds", "1", "--only", "checked"];
    let ran = bench(&[&run[..], &["--peers", from, "--out", to]].concat());
    assert_eq!(ran.outcome.unwrap(), Outcome::Done, "{}", ran.text);
    assert_eq!(std::fs::read_to_string(folder.join("told")).unwrap(), "checked 2\n".repeat(2));
    let text = std::fs::read_to_string(out.join("memo.md")).unwrap();
    assert!(text.contains("| | reads/s | CPU | to Tidewire | stale reads |"), "{text}");
    assert!(
        text.contains("| tidewire | **2,000** | **1.00 ms** | 1.00 | **0** | 10.0 |"),
        "{text}"
    );
    assert!(text.contains("| by hand | 500 | 4.00 ms | 4.00 | 7 | 10.0 |"), "{text}");
    assert!(text.contains("| lost | printed \"nothing much\", which is not a count"), "{text}");
    assert!(text.contains("| dies | ended by itself (exit status: 3) |"), "{text}");
}

#[test]
fn two_hosts_are_compared_by_what_they_cost_and_how_long_they_are_stale() {
    let folder = scratch("peers");
    std::fs::create_dir_all(&folder).unwrap();
    let peer = |name: &str, counts: &str| {
        let line = format!(
            "echo '{{\"seconds\":2,\"cpu_seconds\":4,\"writes_per_second\":100,{counts},\"rss_bytes\":1048576}}'"
        );
        let lacks = "lacks = [\"alone\", \"readers\", \"checked\"]";
        format!(
            "[[memo]]\nname = {name:?}\nrun = [\"sh\", \"-c\", {line:?}]\nsetup = \"-\"\n{lacks}\n"
        )
    };
    let ours = "\"calls\":4000,\"stale\":3,\"stale_late\":0,\"stale_for\":{\"p50\":0,\"p99\":0.004},\
                \"wrong\":0,\"failed\":0";
    let theirs = "\"calls\":1000,\"stale\":500,\"stale_late\":400,\
                  \"stale_for\":{\"p50\":0.5,\"p99\":0.99},\"wrong\":2,\"failed\":5";
    let nothing = "\"calls\":0,\"stale\":0,\"stale_late\":0,\"stale_for\":{\"p50\":0,\"p99\":0},\
                   \"wrong\":0,\"failed\":9";
    let text = peer("tidewire, PostgreSQL, written on another host", ours)
        + &peer("expires", theirs)
        + &peer("broken", nothing)
        + "[[memo]]\nname = \"without\"\nrun = [\"sh\", \"{database}\"]\nsetup = \"-\"\n\
           [[backing]]\nname = \"database\"\nsetup = \"-\"\n\
           run = [\"sh\", \"-c\", \"echo PostgreSQL is not installed >&2; exit 1\"]\n";
    std::fs::write(folder.join("peers.toml"), text).unwrap();
    let out = scratch("suite");
    let (from, to) = (folder.to_str().unwrap(), out.to_str().unwrap());
    let run = ["suite", "memo", "-z", "2s", "--rounds", "1", "--only", " 100 writes/s"];
    let ran = bench(&[&run[..], &["--peers", from, "--out", to]].concat());
    assert_eq!(ran.outcome.unwrap(), Outcome::Done, "{}", ran.text);
    let text = std::fs::read_to_string(out.join("memo.md")).unwrap();
    assert!(text.contains("## Two hosts on the same cores, 100 writes/s"), "{text}");
    let ours = "| tidewire, PostgreSQL, written on another host | **2,000** | **1.00 ms** | 1.00 | **3** | \
                **0 µs** | **4.00 ms** | **0** | **0** | 100 |";
    assert!(text.contains(ours), "{text}");
    let theirs =
        "| expires | 500 | 4.00 ms | 4.00 | 500 | 500 ms | 990 ms | 400 | 7 | 100 | **1.0 MiB** |";
    assert!(text.contains(theirs), "{text}");
    assert!(text.contains("| expires, once | 5 requests failed, which are in no figure"), "{text}");
    assert!(text.contains("| broken | counted no calls |"), "{text}");
    let absent = "| without | the backing service database did not start: ended by itself (exit status: 1): \
                  PostgreSQL is not installed |";
    assert!(text.contains(absent), "{text}");
}

#[test]
fn a_peer_that_brings_its_client_is_loaded_by_it_on_another_core_and_pays_as_server() {
    let folder = scratch("peers");
    std::fs::create_dir_all(&folder).unwrap();
    let peer = |name: &str, server: &str, client: Option<&str>| {
        let client = client.map_or_else(String::new, |line| {
            format!("client = [\"sh\", \"-c\", {line:?}, \"{{address}}\"]\n")
        });
        let run = format!("run = [\"sh\", \"-c\", {server:?}, \"none\"]\n");
        format!("[[rpc]]\nname = {name:?}\n{run}{client}setup = \"-\"\n")
    };
    let counts = "echo \"$0 $1 $2 $3 $4 $(grep Cpus_allowed_list /proc/self/status | cut -f2)\" >> told; \
                  echo '{\"calls\":4000,\"made\":5000,\"seconds\":2,\"cpu_seconds\":50,\"rss_bytes\":1048576,\
                  \"latency\":{\"mean\":0.001,\"p50\":0.001,\"p90\":0.002,\"p95\":0.003,\"p99\":0.004}}'";
    let serves = "echo listening on here:1; exec sleep 600";
    // Its client is not done before its server is, which has ended and is not waited for yet.
    let dies = "echo $$ > dead; echo here:2";
    let after = format!(
        "until grep -qs 'State:.*[ZX]' /proc/$(cat dead)/status || ! test -e /proc/$(cat dead); do :; done; {counts}"
    );
    let text = peer("tidewire", serves, Some(counts))
        + &peer("in process", counts, None)
        + &peer("dead", dies, Some(&after))
        + &peer("silent", "exit 3", Some(counts));
    std::fs::write(folder.join("peers.toml"), text).unwrap();
    let out = scratch("suite");
    let (from, to) = (folder.to_str().unwrap(), out.to_str().unwrap());
    let run = ["suite", "rpc", "-z", "2s", "--rounds", "1", "--only", "Sum, 1 in flight"];
    // On their own threads, which stay where a suite puts its load.
    let ran = std::thread::scope(|threads| {
        let run = [&run[..], &["--peers", from, "--out", to]].concat();
        threads.spawn(move || bench(&run)).join().unwrap()
    });
    assert_eq!(ran.outcome.unwrap(), Outcome::Done, "{}", ran.text);
    let told = std::fs::read_to_string(folder.join("told")).unwrap();
    let text = std::fs::read_to_string(out.join("rpc.md")).unwrap();
    let lines: Vec<&str> = told.lines().collect();
    // The second core that this process may have, or all of them where they are not divided.
    let own = allowed_cores();
    let load = match text.contains("not pinned") {
        true => own,
        false => second_of(&own),
    };
    assert_eq!(lines[0], format!("here:1 sum-1 2 0.5 1 {load}"));
    assert_eq!(lines[1], format!("none sum-1 2 0.5 1 {load}"));
    assert!(text.contains("| | answers/s | p50 | p99 | CPU | to Tidewire | RSS |"), "{text}");
    let server = "| tidewire | **2,000** | **1.00 ms** | **4.00 ms** |";
    assert!(text.contains(server), "{text}");
    // It is not charged for what its client spent; who has no server is, by all calls.
    assert!(
        !text.contains("| tidewire | **2,000** | **1.00 ms** | **4.00 ms** | 10.0 ms"),
        "{text}"
    );
    assert!(
        text.contains("| in process | **2,000** | **1.00 ms** | **4.00 ms** | 10.0 ms |"),
        "{text}"
    );
    assert!(text.contains("| dead | ended by itself (exit status: 0) |"), "{text}");
    assert!(text.contains("| silent | ended by itself (exit status: 3) |"), "{text}");
    let ran = std::thread::scope(|threads| {
        let capped = ["--capped", "4", "--only", "tidewire", "--peers", from, "--out", to];
        let run = [&run[..], &capped].concat();
        threads.spawn(move || bench(&run)).join().unwrap()
    });
    assert_eq!(ran.outcome.unwrap(), Outcome::Done, "{}", ran.text);
    let told = std::fs::read_to_string(folder.join("told")).unwrap();
    assert!(told.lines().last().unwrap().starts_with("here:1 sum-1 2 0.5 4 "), "{told}");
    let text = std::fs::read_to_string(out.join("rpc.md")).unwrap();
    assert!(text.contains("; 4 connections; 1 interleaved rounds"), "{text}");
}

/// Those that the system lists for this process, as in `0-1` or `0,4-7`.
fn allowed_cores() -> String {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    list.unwrap().trim().to_owned()
}

fn second_of(list: &str) -> String {
    let mut cores = list.split(',').flat_map(|range| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        first.parse::<usize>().unwrap()..=last.parse().unwrap()
    });
    cores.nth(1).unwrap().to_string()
}
