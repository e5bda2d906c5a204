#!/usr/bin/env python3
"""Writes protoc's verdict into crates/proto/tests/cases/protoc.txt.

    python3 -m venv /tmp/protoc && /tmp/protoc/bin/pip install grpcio-tools
    /tmp/protoc/bin/python scripts/protoc-cases.py

A case begins with `=== name`, then `=> verdict`, then the text of `a.proto`; `%% b.proto` begins
another file that it imports. The verdict is `accepted` or the first place protoc points at and what
it says there. CI does not run this: the verdicts are committed, and the tests compare ours to them.
"""

import pathlib
import re
import subprocess
import sys
import tempfile

CASES = pathlib.Path(__file__).parent.parent / "crates/proto/tests/cases/protoc.txt"


def verdict(text):
    with tempfile.TemporaryDirectory() as folder:
        parts = re.split(r"^%% (.*)\n", "%% a.proto\n" + text, flags=re.M)[1:]
        for name, content in zip(parts[::2], parts[1::2]):
            (pathlib.Path(folder) / name).write_text(content, encoding="utf-8", newline="")
        protoc = [sys.executable, "-m", "grpc_tools.protoc", "-I", folder]
        run = subprocess.run(
            [*protoc, f"--descriptor_set_out={folder}/set.binpb", "a.proto"],
            capture_output=True,
            text=True,
            check=False,
        )
    if run.returncode == 0:
        return "accepted"
    found = re.findall(r"^(?:.*/)?a\.proto:(?! warning)(?!.*: warning)(.*)", run.stderr, flags=re.M)
    # protoc itself aborts on some files, without a place.
    return found[0].strip() if found else "refused"


def main():
    cases = re.split(r"^=== (.*)\n", CASES.read_text(encoding="utf-8"), flags=re.M)[1:]
    with CASES.open("w", encoding="utf-8", newline="") as out:
        for name, text in zip(cases[::2], cases[1::2]):
            text = re.sub(r"^=> .*\n", "", text)
            out.write(f"=== {name}\n=> {verdict(text)}\n{text}")


if __name__ == "__main__":
    main()
