#!/usr/bin/env python3
"""The mutation table of memo: every deliberate fault is found by the proof that it names.

    scripts/memo-mutants.py               all of them
    scripts/memo-mutants.py NAME...       only these
    scripts/memo-mutants.py --check       only that every edit still applies exactly once

The faults are in crates/memo/mutants.toml. Each is a list of texts to replace; a text is looked for in all
sources of memo and memo-memory and has to be there exactly once, so that files may move and lines may shift. The
mutants are built in a copy below target/, where nothing but memo and its macros is a member.

What finds a mutant:

    programs      the random programs (MEMO_PROGRAMS of them, 6,000 unless told)
    lib::NAME     the tests of the module NAME beside the code of memo
    it::NAME      the tests of the module NAME of crates/memo/tests/it
    miri::NAME    the same under Miri, with many seeds
    equivalent    nothing can, for the reason given; it is applied but not run

A run of all of them writes bench-runs/memo/mutants.md.
"""

import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import time
import tomllib

ROOT = pathlib.Path(__file__).resolve().parent.parent
COPY = ROOT / "target" / "mutants"
# A mutant that hangs the tests is found as well.
SECONDS_MAX = {"programs": 400, "lib": 400, "it": 400, "miri": 3600}
NOTHING = "no test has this name"


def copy():
    """A workspace of memo and its macros alone; its build folder survives from run to run."""
    COPY.mkdir(parents=True, exist_ok=True)
    manifest = (ROOT / "Cargo.toml").read_text()
    manifest = re.sub(r"(?m)^members = .*$", 'members = ["crates/memo", "crates/memo-macros", "crates/memo-memory"]', manifest)
    manifest = re.sub(r"(?m)^default-members = .*\n", "", manifest)
    manifest = re.sub(r"(?m)^exclude = .*\n", "", manifest)
    # Built once and run for seconds: building is most of the time.
    manifest = manifest.replace("[profile.dev.package.tidewire-memo]\nopt-level = 2", "[profile.dev.package.tidewire-memo]\nopt-level = 0")
    (COPY / "Cargo.toml").write_text(manifest)
    for name in ["Cargo.lock", "rust-toolchain.toml", "clippy.toml"]:
        if (ROOT / name).exists():
            shutil.copy2(ROOT / name, COPY / name)
    for crate in ["memo", "memo-macros", "memo-memory"]:
        target = COPY / "crates" / crate
        shutil.rmtree(target, ignore_errors=True)
        # With new times: what a run that was interrupted has built is of a mutant.
        shutil.copytree(ROOT / "crates" / crate, target, copy_function=shutil.copyfile)


def sources(root):
    folders = [root / "crates" / crate / "src" for crate in ["memo", "memo-memory"]]
    paths = sorted(path for folder in folders for path in folder.rglob("*.rs"))
    return {path: path.read_text() for path in paths}


def squeezed(text):
    """Any white space matches any other, so that formatting does not matter."""
    return r"\s+".join(re.escape(word) for word in text.split())


def apply(edits, texts):
    """The changed files, or why an edit does not apply."""
    changed = {}
    for edit in edits:
        pattern = re.compile(squeezed(edit["old"]))
        hits = [(path, hit) for path, text in texts.items() for hit in pattern.finditer(changed.get(path, text))]
        if len(hits) != 1:
            return None, f"{len(hits)} places for: {' '.join(edit['old'].split())[:70]}"
        path, hit = hits[0]
        text = changed.get(path, texts[path])
        changed[path] = text[: hit.start()] + edit["new"] + text[hit.end() :]
    return changed, None


def command(found_by):
    kind, _, name = found_by.partition("::")
    if kind == "programs":
        return ["cargo", "test", "-q", "-p", "tidewire-memo", "--test", "it", "programs"]
    if kind == "lib":
        return ["cargo", "test", "-q", "-p", "tidewire-memo", "--lib", name]
    if kind == "it":
        return ["cargo", "test", "-q", "-p", "tidewire-memo", "--test", "it", name]
    if kind == "miri":
        return ["cargo", f"+{os.environ.get('MEMO_NIGHTLY', 'nightly')}", "miri", "test", "-q", "-p", "tidewire-memo", "--test", "it", name]
    raise SystemExit(f"mutants: nothing is called {found_by}")


def environment(found_by):
    own = {
        "CARGO_TARGET_DIR": str(COPY / "target"),
        "CARGO_INCREMENTAL": "1",
        "CARGO_PROFILE_DEV_DEBUG": "0",
        "CARGO_PROFILE_TEST_DEBUG": "0",
        "MEMO_PROGRAMS": os.environ.get("MEMO_PROGRAMS", "6000"),
        "MEMO_RAW": "1",
        "RUSTFLAGS": "-Awarnings",
    }
    if found_by.startswith("miri"):
        own["CARGO_TARGET_DIR"] = str(COPY / "miri")
        own["MIRIFLAGS"] = "-Zmiri-disable-isolation -Zmiri-ignore-leaks -Zmiri-many-seeds=0..8"
    return {**os.environ, **own}


def keep_only(found_by):
    """Leaves the programs out of the binary, or everything else; what takes long, unless it is asked for."""
    kind, _, name = found_by.partition("::")
    name = name.partition("::")[0]
    only = {"programs": {"programs"}, "miri": {name}}.get(kind)
    slow = {"programs", "growth", "threads"} - {name}
    main = COPY / "crates" / "memo" / "tests" / "it" / "main.rs"
    head = (ROOT / "crates" / "memo" / "tests" / "it" / "main.rs").read_text()

    def stays(module):
        return module == "support" or (module in only if only else module not in slow)

    chosen = re.sub(r"(?m)^mod (\w+);\n", lambda found: found.group(0) if stays(found.group(1)) else "", head)
    if main.read_text() != chosen:
        main.write_text(chosen)


def run(found_by):
    """Whether the proof passes, what it said, and whether it was built."""
    keep_only(found_by)
    started = subprocess.Popen(
        command(found_by), cwd=COPY, env=environment(found_by), start_new_session=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
    )
    try:
        output, _ = started.communicate(timeout=SECONDS_MAX[found_by.partition("::")[0]])
    except subprocess.TimeoutExpired:
        # With what it started, which would go on for ever.
        os.killpg(started.pid, signal.SIGKILL)
        started.communicate()
        return False, "it hangs", True
    built = "error: could not compile" not in output and "error[E" not in output
    return started.returncode == 0, said(output), built


def said(output):
    """One line that says what went wrong, or that nothing was there to go wrong."""
    if not re.search(r"(?m)^test result: \w+\. [1-9]", output) and " 0 failed" in output:
        return NOTHING
    for pattern in [r"(?m)^.* findings\n(.*)$", r"(?m)^test (.*) \.\.\. FAILED", r"(?m)^(\S+) --- FAILED", r"(?m)^(error(?:\[E\d+\])?: .*)$",
                    r"(?m)^(thread .* panicked .*)$"]:
        if found := re.search(pattern, output):
            return found.group(1)[:110]
    return ""


def places(mutant, texts):
    """The files that a mutant changes."""
    return ", ".join(sorted(str(path.relative_to(COPY / "crates")) for path in apply(mutant["edits"], texts)[0]))


def write(rows, survivors):
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True).stdout.strip()
    lines = [
        "# Deliberate faults in memo",
        "",
        f"Commit `{commit}`, `python3 scripts/memo-mutants.py`, {os.environ.get('MEMO_PROGRAMS', '6000')} random programs each:"
        f" {len(rows)} mutants, {survivors} not caught.",
        "",
        "| mutant | file | found by | how it showed |",
        "|---|---|---|---|",
    ]
    for row in rows:
        lines.append("| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in row) + " |")
    (ROOT / "bench-runs" / "memo" / "mutants.md").write_text("\n".join(lines) + "\n")


def main(arguments):
    with open(ROOT / "crates" / "memo" / "mutants.toml", "rb") as file:
        mutants = tomllib.load(file)["mutant"]
    chosen = [argument for argument in arguments if not argument.startswith("--")]
    unknown = set(chosen) - {mutant["name"] for mutant in mutants}
    if unknown:
        raise SystemExit(f"mutants: nothing is called {', '.join(sorted(unknown))}")
    mutants = [mutant for mutant in mutants if not chosen or mutant["name"] in chosen]
    texts = sources(ROOT)
    broken = [(mutant["name"], why) for mutant in mutants if (why := apply(mutant["edits"], texts)[1])]
    for name, why in broken:
        print(f"{name}: does not apply: {why}")
    if broken or "--check" in arguments:
        print(f"{len(mutants) - len(broken)} of {len(mutants)} mutants apply")
        return 1 if broken else 0
    copy()
    texts = sources(COPY)
    for found_by in sorted({mutant["by"] for mutant in mutants} - {"equivalent"}, key=lambda by: (by.startswith("miri"), by)):
        passes, what, _ = run(found_by)
        if not passes or what == NOTHING:
            raise SystemExit(f"mutants: {found_by} fails without a mutant: {what}")
    survivors, rows = 0, []
    for mutant in mutants:
        started = time.monotonic()
        if mutant["by"] == "equivalent":
            print(f"{mutant['name']}: equivalent: {mutant['why']}", flush=True)
            rows.append((mutant["name"], places(mutant, texts), "equivalent", mutant["why"]))
            continue
        changed, _ = apply(mutant["edits"], texts)
        for path, text in changed.items():
            path.write_text(text)
        passes, what, built = run(mutant["by"])
        for path in changed:
            path.write_text(texts[path])
        verdict = "SURVIVES" if passes else "caught" if built else "DOES NOT BUILD"
        survivors += passes or not built
        print(f"{mutant['name']}: {verdict} by {mutant['by']}: {what} ({time.monotonic() - started:.0f} s)", flush=True)
        rows.append((mutant["name"], places(mutant, texts), mutant["by"] if verdict == "caught" else verdict, what))
    print(f"{len(mutants)} mutants, {survivors} not caught")
    if not chosen:
        write(rows, survivors)
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
