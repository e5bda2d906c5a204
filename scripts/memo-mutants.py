#!/usr/bin/env python3
"""The mutation table of memo: every deliberate fault is found by the proof that it names, or by a cheaper one.

    scripts/memo-mutants.py               all of them
    scripts/memo-mutants.py NAME...       only these
    scripts/memo-mutants.py --check       only that every edit still applies exactly once
    scripts/memo-mutants.py --left        only those that target/mutants/log.json has no finding of

The faults are in crates/memo/mutants.toml. Each is a list of texts to replace; a text is looked for in all
sources of memo and has to be there exactly once, so that files may move and lines may shift. The
mutants are built in a copy below target/, where nothing but memo and its macros is a member; what a run finds
first ends it. Those whose new text says MUTANT are built all at once, and that word is true for the one that
runs; the others are built once each.

What finds a mutant:

    programs      the first random programs, the quick tests, then MEMO_PROGRAMS programs (10,000 unless told)
    lib::NAME     the tests of the module NAME beside the code of memo
    it::NAME      the tests of the module NAME of crates/memo/tests/it
    model::NAME   the test NAME of crates/memo/tests/model.rs under shuttle
    miri::NAME    tests of crates/memo/tests/it under Miri, with many seeds
    equivalent    nothing can, for the reason given; it is applied but not run

Each run adds to a log, target/mutants/log.json, of which bench-runs/memo/mutants.md is written; what has no row
there is said to be not run.
"""

import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
import tomllib

ROOT = pathlib.Path(__file__).resolve().parent.parent
COPY = ROOT / "target" / "mutants"
LOG = COPY / "log.json"
PROGRAMS = os.environ.get("MEMO_PROGRAMS", "10000")
# Most of what programs find, the first of them do.
FIRST_PROGRAMS = "500"
# What takes long, and runs only where it is named.
SLOW = ["growth::", "threads::", "programs::", "weak_memory::", "a_million_distinct", "a_hundred_thousand_changes", "deep_chain", "million_deep"]
# What MUTANT stands for, and where it is asked.
SWITCH = 'fault::mutant("{}")'
SWITCHES = """
/// Whether this deliberate fault is on.
pub(crate) fn mutant(name: &str) -> bool {
    static ON: std::sync::OnceLock<String> = std::sync::OnceLock::new();
    ON.get_or_init(|| std::env::var("MEMO_MUTANT").unwrap_or_default()) == name
}
"""
# A mutant that hangs is found as well: this many times what the proof takes without one.
PATIENCE = 8
NOT_RUN = "not run"


def copy():
    """A workspace of memo and its macros alone; its build folder survives from run to run."""
    COPY.mkdir(parents=True, exist_ok=True)
    manifest = (ROOT / "Cargo.toml").read_text()
    manifest = re.sub(r"(?m)^members = .*$", 'members = ["crates/memo", "crates/memo-macros"]', manifest)
    manifest = re.sub(r"(?m)^(default-members|exclude) = .*\n", "", manifest)
    # Built for each and run for seconds: building is most of the time.
    manifest = re.sub(r"(tidewire-memo\]\nopt-level = )\d", r"\g<1>0", manifest)
    (COPY / "Cargo.toml").write_text(manifest)
    for name in ["Cargo.lock", "rust-toolchain.toml", "clippy.toml"]:
        if (ROOT / name).exists():
            shutil.copy2(ROOT / name, COPY / name)
    for crate in ["memo", "memo-macros"]:
        target = COPY / "crates" / crate
        shutil.rmtree(target, ignore_errors=True)
        # With new times: what a run that was interrupted has built is of a mutant.
        shutil.copytree(ROOT / "crates" / crate, target, copy_function=shutil.copyfile)


def sources(root):
    paths = sorted((root / "crates" / "memo" / "src").rglob("*.rs"))
    return {path: path.read_text() for path in paths}


def squeezed(text):
    """Any white space matches any other, so that formatting does not matter."""
    return r"\s+".join(re.escape(word) for word in text.split())


def apply(edits, texts, name=""):
    """The changed files, or why an edit does not apply."""
    changed = {}
    for edit in edits:
        pattern = re.compile(squeezed(edit["old"]))
        hits = [(path, hit) for path, text in texts.items() for hit in pattern.finditer(changed.get(path, text))]
        if len(hits) != 1:
            return None, f"{len(hits)} places for: {' '.join(edit['old'].split())[:70]}"
        path, hit = hits[0]
        text = changed.get(path, texts[path])
        new = edit["new"].replace("MUTANT", f"crate::memory::{SWITCH}".format(name))
        changed[path] = text[: hit.start()] + new + text[hit.end() :]
    return changed, None


def is_switched(mutant):
    return all("MUTANT" in edit["new"] for edit in mutant["edits"])


def together(mutants, texts):
    """The sources with every mutant that is switched on at run time; the others apply to these, too."""
    for mutant in filter(is_switched, mutants):
        changed, why = apply(mutant["edits"], texts, mutant["name"])
        if why:
            raise SystemExit(f"mutants: {mutant['name']} does not apply beside the others: {why}")
        texts = texts | changed
    for mutant in mutants:
        if not is_switched(mutant) and (why := apply(mutant["edits"], texts)[1]):
            raise SystemExit(f"mutants: {mutant['name']} does not apply beside the others: {why}")
    return texts


def switch_in(mutants, texts):
    """Writes them; returns the texts."""
    texts = together(mutants, texts)
    fault = COPY / "crates" / "memo" / "src" / "memory" / "fault.rs"
    texts = texts | {fault: texts[fault] + SWITCHES}
    for path, text in texts.items():
        path.write_text(text)
    return texts


def environment(kind, programs=PROGRAMS):
    own = {
        "CARGO_TARGET_DIR": str(COPY / "target"),
        "CARGO_INCREMENTAL": "1",
        "CARGO_PROFILE_DEV_DEBUG": "0",
        "CARGO_PROFILE_TEST_DEBUG": "0",
        "MEMO_PROGRAMS": programs,
        "MEMO_RAW": "1",
        "RUSTFLAGS": "-Awarnings",
    }
    if kind == "model":
        own |= {"CARGO_TARGET_DIR": str(COPY / "shuttle"), "RUSTFLAGS": "-Awarnings --cfg shuttle", "MODEL_SCHEDULES": "4000"}
    if kind == "miri":
        own |= {"CARGO_TARGET_DIR": str(COPY / "miri"), "MIRIFLAGS": "-Zmiri-disable-isolation -Zmiri-ignore-leaks -Zmiri-many-seeds=0..8"}
    return {**os.environ, **own}


def build(kind, wanted):
    """The test programs by name; none when the compiler refuses, with what it says."""
    command = ["cargo", "test", "-q", "-p", "tidewire-memo", "--no-run", "--message-format=json", *wanted]
    built = subprocess.run(command, cwd=COPY, env=environment(kind), capture_output=True, text=True, errors="replace")
    lines = [json.loads(line) for line in built.stdout.splitlines() if line.startswith("{")]
    if built.returncode:
        errors = [line["message"]["message"] for line in lines if line.get("reason") == "compiler-message" and line["message"]["level"] == "error"]
        return {}, (errors or [built.stderr.strip()[-110:]])[0]
    return {line["target"]["name"]: line["executable"] for line in lines if line.get("executable")}, ""


def steps(found_by):
    """The commands that try to find a mutant, the cheapest first; or what the compiler says."""
    kind, _, name = found_by.partition("::")
    if kind == "miri":
        nightly = f"+{os.environ.get('MEMO_NIGHTLY', 'nightly')}"
        return [(found_by, ["cargo", nightly, "miri", "test", "-q", "-p", "tidewire-memo", "--test", "it", name])], ""
    wanted = {"lib": ["--lib"], "model": ["--test", "model", "--release"]}.get(kind, ["--test", "it"])
    tests, error = build(kind, wanted)
    if not tests:
        return [], error
    if kind != "programs":
        return [(found_by, [tests["tidewire_memo" if kind == "lib" else kind], name])], ""
    skips = [word for name in SLOW for word in ["--skip", name]]
    return [
        ("first programs", [tests["it"], "programs::"]),
        ("it", [tests["it"], *skips]),
        ("programs", [tests["it"], "programs::"]),
    ], ""


FAILED = [r"^test (\S+) .*\.\.\. FAILED", r"^([^@ ].*: .*)$(?=\nMEMO_SEED=)", r"^error: (Undefined Behavior.*)$", r"^(error(?:\[E\d+\])?: .*)$"]


def run(name, command, seconds):
    """What the proof says is wrong, or nothing; it is ended when it has said so, or hangs."""
    child = subprocess.Popen(
        command, cwd=COPY / "crates" / "memo", env=environment(name.partition("::")[0], FIRST_PROGRAMS if name == "first programs" else PROGRAMS), start_new_session=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
    )
    hung = threading.Event()

    def end():
        try:
            os.killpg(child.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass

    def give_up():
        hung.set()
        end()

    timer = threading.Timer(seconds, give_up)
    timer.start()
    said, what = "", ""
    for line in child.stdout:
        said = said[-4000:] + line
        found = [hit for pattern in FAILED for hit in re.findall(f"(?m){pattern}", said)]
        if found:
            what = found[0]
            break
    timer.cancel()
    if what or hung.is_set():
        end()
    child.stdout.close()
    code = child.wait()
    if hung.is_set():
        return "it hangs"
    if not what and code:
        what = f"ends with {code}"
    if not what and not re.search(r"(?m)^test result: ok\. [1-9]", said):
        what = "no test has this name"
    return what[:110]


def proof(found_by, patience):
    """Who found what; nobody, if nothing is found."""
    commands, error = steps(found_by)
    if not commands:
        return "DOES NOT BUILD", error
    for name, command in commands:
        started = time.monotonic()
        what = run(name, command, patience.get(name, 7200))
        if what:
            return name.removeprefix("first "), what
        patience.setdefault(name, 60 + PATIENCE * (time.monotonic() - started))
    return "", ""


def places(mutant, texts):
    """The files that a mutant changes."""
    return ", ".join(sorted(str(path.relative_to(COPY / "crates")) for path in apply(mutant["edits"], texts)[0]))


def write(rows):
    commits = ", ".join(f"`{commit}`" for commit in dict.fromkeys(row["commit"] for row in rows if row["commit"]))
    survivors = sum(row["by"] in ("SURVIVES", "DOES NOT BUILD") for row in rows)
    missing = sum(row["by"] == NOT_RUN for row in rows)
    lines = [
        "# Deliberate faults in memo",
        "",
        f"`python3 scripts/memo-mutants.py` at {commits}, {PROGRAMS} random programs each where they are asked:"
        f" {len(rows)} mutants, {survivors} not caught, {missing} not run. The quick tests of `it` may find one that the"
        " random programs are named for before these do; the first finding ends its row.",
        "",
        "| mutant | file | found by | how it showed |",
        "|---|---|---|---|",
    ]
    for row in rows:
        cells = [row["name"], row["files"], row["by"], row["what"]]
        lines.append("| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in cells) + " |")
    (ROOT / "bench-runs" / "memo" / "mutants.md").write_text("\n".join(lines) + "\n")


def main(arguments):
    with open(ROOT / "crates" / "memo" / "mutants.toml", "rb") as file:
        mutants = tomllib.load(file)["mutant"]
    everyone = [mutant["name"] for mutant in mutants]
    log = json.loads(LOG.read_text()) if LOG.exists() else {}
    chosen = [argument for argument in arguments if not argument.startswith("--")]
    if unknown := set(chosen) - set(everyone):
        raise SystemExit(f"mutants: nothing is called {', '.join(sorted(unknown))}")
    if "--left" in arguments:
        chosen = [mutant["name"] for mutant in mutants if log.get(mutant["name"], {}).get("by", "SURVIVES") == "SURVIVES"]
    mutants = [mutant for mutant in mutants if not (chosen or "--left" in arguments) or mutant["name"] in chosen]
    texts = sources(ROOT)
    broken = [(mutant["name"], why) for mutant in mutants if (why := apply(mutant["edits"], texts)[1])]
    for name, why in broken:
        print(f"{name}: does not apply: {why}")
    if not broken:
        together(mutants, texts)
    if broken or "--check" in arguments:
        print(f"{len(mutants) - len(broken)} of {len(mutants)} mutants apply")
        return 1 if broken else 0
    copy()
    originals = sources(COPY)
    texts = switch_in(mutants, originals)
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True).stdout.strip()
    patience = {}
    survivors, proven = 0, {"equivalent"}
    for mutant in sorted(mutants, key=lambda mutant: (mutant["by"].startswith("miri"), mutant["by"] == "programs")):
        if mutant["by"] not in proven:
            name, what = proof(mutant["by"], patience)
            if name:
                raise SystemExit(f"mutants: {name} fails without a mutant: {what}")
            proven.add(mutant["by"])
        started = time.monotonic()
        if mutant["by"] == "equivalent":
            name, what = "equivalent", mutant["why"]
        elif is_switched(mutant):
            os.environ["MEMO_MUTANT"] = mutant["name"]
            name, what = proof(mutant["by"], patience)
            del os.environ["MEMO_MUTANT"]
        else:
            changed, _ = apply(mutant["edits"], texts)
            for path, text in changed.items():
                path.write_text(text)
            name, what = proof(mutant["by"], patience)
            for path in changed:
                path.write_text(texts[path])
        name = name or "SURVIVES"
        survivors += name in ("SURVIVES", "DOES NOT BUILD")
        print(f"{mutant['name']}: {name}: {what} ({time.monotonic() - started:.0f} s)", flush=True)
        log[mutant["name"]] = {"name": mutant["name"], "files": places(mutant, originals), "by": name, "what": what, "commit": commit}
        LOG.write_text(json.dumps(log, indent=1))
    print(f"{len(mutants)} mutants, {survivors} not caught")
    write([log.get(name) or {"name": name, "files": "", "by": NOT_RUN, "what": "", "commit": ""} for name in everyone])
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
