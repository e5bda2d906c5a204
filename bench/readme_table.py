#!/usr/bin/env python3
"""Writes the table of README.md from committed runs: python3 bench/readme_table.py

Each figure is copied from a run's Markdown file, without its spread, and the best of a row is bold;
nothing is computed here. Figures of one column have one unit in each row. The result is
bench-runs/readme-table.md, which `cargo xtask tables` copies into README.md.
"""

import pathlib
import re

RUNS = pathlib.Path(__file__).parent.parent / "bench-runs"
PROTOCOLS = "2026-11-28-2-core-vm/protocols.md"
WEB = "2026-11-28-2-core-vm/web.md"
STACKS = "2026-11-22-2-core-vm/stacks.md"
HOSTING = "2026-11-28-2-core-vm/hosting.md"

# What README calls a row, the run's file and section, and the two peers.
ROWS = [
    ("Connect JSON, 50 calls in flight", PROTOCOLS, "Connect JSON, 50 under way", ["connectrpc", "connect-go"]),
    ("gRPC, 50 calls in flight", PROTOCOLS, "gRPC, 50 under way", ["tonic", "grpc-go"]),
    ("REST method, JSON, 64 connections", WEB, "JSON, method, 64 connections", ["actix-web", "Go net/http"]),
    ("Contacts in PostgreSQL, up to 300 clients", STACKS, "Contacts", ["Go net/http, pgx", "Node Fastify, pg"]),
    ("Unmodified Python program, 8 connections", HOSTING, "HTTP warm, Python", ["uWSGI", "nginx"]),
]


def section(path, title):
    """The rows of the table below `## title`, by server: column to cell."""
    text = (RUNS / path).read_text()
    (body,) = re.findall(rf"^## {re.escape(title)}\n(.*?)(?=^## |\Z)", text, re.M | re.S)
    lines = [line.strip().strip("|").split("|") for line in body.splitlines() if line.startswith("|")]
    head, _, *rows = [[cell.strip() for cell in line] for line in lines]
    return {row[0]: dict(zip(head[1:], row[1:])) for row in rows}


def median(cell):
    return re.sub(r"\s*\(.*\)", "", cell).replace("**", "")


def main():
    lines = [
        "| | Tidewire | peer | peer |",
        "|---|---|---|---|",
    ]
    for name, path, title, peers in ROWS:
        servers = section(path, title)
        names = ["tidewire", *peers]
        columns = []
        for column, best, unit in (("requests/s", max, "/s"), ("CPU", min, ""), ("RSS", min, "")):
            texts = [median(servers[server][column]) for server in names]
            assert len({text.split()[-1] for text in texts if " " in text}) <= 1, (name, texts)
            sizes = [float(text.split()[0].replace(",", "")) for text in texts]
            columns.append([
                f"**{text}{unit}**" if size == best(sizes) else text + unit
                for text, size in zip(texts, sizes)
            ])
        cells = ["<br>".join(cell) for cell in zip(["", *peers], *columns)]
        cells[0] = cells[0].removeprefix("<br>")
        lines.append(f"| [{name}](bench-runs/{path}) | " + " | ".join(cells) + " |")
    (RUNS / "readme-table.md").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
