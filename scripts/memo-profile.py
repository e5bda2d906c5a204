#!/usr/bin/env python3
"""Where the instructions of one call of memo go, by function as written, what is inlined included.

    scripts/memo-profile.py BARS KIND [BEFORE]    KIND and BEFORE as `bars count` takes them

Callgrind counts each instruction in two runs that differ in the number of calls alone, or, with BEFORE, in what
those calls do; addr2line says through which functions an instruction came to be where it is. A row is the
innermost function of memo, or of the program that calls it, with everything of other crates inlined into it.
`in all` adds what is inlined into a function, as far as it was. BARS is the program of `cargo bench --no-run`.
"""

import collections
import pathlib
import re
import subprocess
import sys
import tempfile

CALLS = 40_000
OWN = re.compile(r"(?:^|/)crates/(memo(?:-memory)?/(?:src|benches)/.*)$")


def counts(bars, kind, calls):
    """Instructions by address, and what callgrind calls the function where there is no line."""
    with tempfile.NamedTemporaryFile() as file:
        subprocess.run(
            ["valgrind", "--tool=callgrind", "--dump-instr=yes", f"--callgrind-out-file={file.name}", bars, "count", kind, str(calls)],
            check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )
        lines = pathlib.Path(file.name).read_text().splitlines()
    found, names, known, address, is_call, function, thing = collections.Counter(), {}, {}, 0, False, "", ""
    for line in lines:
        if name := re.match(r"(c?fn|c?ob)=(\(\d+\))(?: (.*))?$", line):
            what, number, text = name.groups()
            space = known.setdefault(what[-2:], {})
            if text:
                space[number] = text
            if what == "fn":
                function = space[number]
            elif what == "ob":
                thing = space[number]
        elif line.startswith("calls="):
            is_call = True
        elif cost := re.match(r"(0x[0-9a-f]+|\+\d+|-\d+|\*) \S+(?: (\d+))?$", line):
            at, amount = cost.groups()
            address = address if at == "*" else address + int(at) if at[0] in "+-" else int(at, 16)
            if not is_call and amount:
                found[address] += int(amount)
                names[address] = (function, thing)
            is_call = False
    return found, names


def frames(bars, addresses):
    """The functions through which each address came to be, the innermost first: (file, function)."""
    asked = "\n".join(f"{address:#x}" for address in addresses)
    said = subprocess.run(["addr2line", "-a", "-i", "-f", "-C", "-e", bars], input=asked, check=True, capture_output=True, text=True)
    chains, chain, function = [], None, None
    for line in said.stdout.splitlines():
        if re.fullmatch(r"0x[0-9a-f]{16}", line):
            chain, function = [], None
            chains.append(chain)
        elif function is None:
            function = line
        else:
            chain.append((line.split(":")[0], function))
            function = None
    return dict(zip(addresses, chains))


def short(function):
    """The last name of a path, without generics."""
    plain = function
    while (less := re.sub(r"<[^<>]*>", "", plain)) != plain:
        plain = less
    parts = [part for part in plain.split("::") if part and "{" not in part]
    return parts[-1] if parts else function


def main(bars, kind, before=None):
    after, names = counts(bars, kind, CALLS)
    less, more_names = counts(bars, before or kind, CALLS if before else 1)
    names = {**more_names, **names}
    each = {address: (after[address] - less[address]) / (CALLS - (before is None)) for address in {*after, *less}}
    each = {address: cost for address, cost in each.items() if abs(cost) > 0.001}
    own = [address for address in each if names[address][1].endswith(pathlib.Path(bars).name)]
    chains = frames(bars, own)
    selves, alls = collections.Counter(), collections.Counter()
    for address, cost in each.items():
        mine = [(OWN.search(file).group(1), short(function)) for file, function in chains.get(address, []) if OWN.search(file)]
        mine = mine or [("", short(names[address][0]))]
        selves[mine[0]] += cost
        for place in dict.fromkeys(mine):
            alls[place] += cost
    print(f"{sum(each.values()):.1f} instructions a call\n\n| function | file | of its own | in all |\n|---|---|---|---|")
    for (file, function), cost in sorted(alls.items(), key=lambda row: -row[1]):
        if cost >= 4:
            print(f"| `{function}` | {file} | {selves[(file, function)]:.0f} | {cost:.0f} |")


if __name__ == "__main__":
    if len(sys.argv) not in (3, 4):
        sys.exit(__doc__)
    main(*sys.argv[1:])
