#!/usr/bin/env python3
"""What was wanted of a run of the suites and what was found: python3 bench/wanted.py bench-runs/FOLDER

Reads the Markdown of the suites in FOLDER. CPU is Tidewire's time per request over the peer's, the median of the
rounds' ratios (least to most); a rate is the median's. Writes FOLDER/wanted.md.
"""

import pathlib
import re
import sys

from readme_table import section

HANDLERS = [f"{form}, handler, {n} connections" for form in ("text", "JSON") for n in (8, 64)]
PIPELINED = [f"{form}, handler, 8 connections, 16 pipelined" for form in ("text", "JSON")]
METHODS = [f"{form}, method, {n} connections" for form in ("text", "JSON") for n in (8, 64)]
GRPC = [f"gRPC, {n} under way" for n in (1, 10, 50, 100)]
PASSED = [f"HTTP warm, {language}" for language in ("Python", "Node", "Go", "Rust", ".NET Core 3.1.2")]
LIVE = {"Sum, 1,000 in flight": 1_200_000, "GetUser, 1,000 in flight": 1_000_000, "SayHello, 1,000 in flight": 750_000}
STREAMS = ["Stream1", "Stream100", "Stream10K"]
# The file, sections, ours, the peer, what may be at most the peer's CPU time times this.
CPU = [
    ("web", HANDLERS, "tidewire", "hyper", 1.05),
    *(("web", HANDLERS, "tidewire", peer, 1.0) for peer in ("actix-web", "axum", "nginx")),
    ("web", PIPELINED, "tidewire", "hyper", 1.3),
    ("web", METHODS, "tidewire", "axum", 1.0),
    ("protocols", GRPC, "tidewire", "tonic", 0.85),
    ("hosting", PASSED, "tidewire", "bare hyper proxy", 1.15),
    ("rpc", list(LIVE), "tidewire", "tonic", 0.125),
    *(("rpc", STREAMS, ours, "tonic", 1.0) for ours in ("tidewire", "tidewire, gRPC", "tidewire, Connect")),
]
# The file, section, the peer, what the rate is to be at least: the peer's times this, or with no peer so many a second.
RATES = [
    *(("rpc", title, None, rate) for title, rate in LIVE.items()),
    *(("rpc", title, "tarpc", 2) for title in LIVE),
    *(("rpc", title, "tonic", 8) for title in LIVE),
    ("mock", "gRPC, 50 under way", None, 100_000),
    ("stacks", "Contacts", "Go net/http, pgx", 1.5),
]


def spread(cell):
    """The median, the least and the most of a ratio's cell."""
    middle, *bounds = [float(number.replace(",", "")) for number in re.findall(r"[\d.,]*\d", cell)]
    return middle, *(bounds or [middle, middle])


def cpu(servers, ours, peer):
    """Our CPU time over the peer's, and how it is shown."""
    theirs = spread(servers[peer]["to Tidewire"])
    if ours == "tidewire":
        return 1 / theirs[0], f"{1 / theirs[0]:.2f} ({1 / theirs[2]:.2f}–{1 / theirs[1]:.2f})"
    # Both are to Tidewire over live, each with a median of its own.
    middle = spread(servers[ours]["to Tidewire"])[0] / theirs[0]
    return middle, f"{middle:.2f}"


def rate(servers, peer):
    """Our rate, or how many times the peer's that is, and how it is shown."""
    of = lambda server: spread(next(cell for name, cell in servers[server].items() if name.endswith("/s")))[0]
    if peer is None:
        return of("tidewire"), f"{of('tidewire'):,.0f}"
    times = of("tidewire") / of(peer)
    return times, f"{times:.2f}"


def rows(folder):
    """The suite, the case, against what, what was wanted, what was found, and whether that is enough."""
    for suite, titles, ours, peer, most in CPU:
        against = f"CPU to {peer}" + ("" if ours == "tidewire" else f", of {ours.removeprefix('tidewire, ')}")
        for title in titles:
            yield suite, title, against, f"≤ {most:g}", lambda servers: cpu(servers, ours, peer), lambda value: value <= most
    for suite, title, peer, least in RATES:
        against = f"rate to {peer}" if peer else "a second"
        yield suite, title, against, f"≥ {least:,}", lambda servers: rate(servers, peer), lambda value: value >= least


def main():
    folder = pathlib.Path(sys.argv[1]).resolve()
    lines = [
        "# What was wanted of this run, and what was found",
        "",
        "Written by `bench/wanted.py` from the suites of this folder, and from what of them was run. CPU is Tidewire's time",
        "per request over the peer's: the median of the rounds' ratios (least to most). Rates are medians.",
        "",
        "| suite | case | against | wanted | found | |",
        "|---|---|---|--:|--:|---|",
    ]
    for suite, title, against, wanted, measure, is_enough in rows(folder):
        try:
            value, found = measure(section(folder / f"{suite}.md", title))
        except (FileNotFoundError, KeyError, ValueError):
            # Not among what was run.
            continue
        lines.append(
            f"| [{suite}]({suite}.md) | {title} | {against} | {wanted} | {found} | "
            f"{'met' if is_enough(value) else '**missed**'} |"
        )
    (folder / "wanted.md").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
