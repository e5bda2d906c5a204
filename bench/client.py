#!/usr/bin/env python3
"""What Tidewire's client costs beside connectrpc's own: client CPU per call, side by side.

The server (Tidewire's, the same for both) runs on core 0, the client on core 1, with one thread each
and 64 calls in flight. Rounds are interleaved (A B A B ...), each in a fresh process that warms up for
half a second. CPU is that of the client's process, divided by the calls that it made.

--shared   the machine has other work: rates mean nothing and are left out, CPU is what it is
--count    instructions per call by callgrind instead, which other work does not change: those of a long
           run less those of a short one, so that starting cancels out (needs valgrind)

Usage: bench/client.py [--rounds N] [--seconds S] [--only PART] [--shared | --count]
"""
import argparse, os, re, statistics, subprocess, sys, tempfile

BIN = os.path.join(os.path.dirname(os.path.abspath(__file__)), "peers", "target", "release")
CLIENTS = ("client-connectrpc", "client-tidewire")
CELLS = {
    "gRPC, HTTP/2": ("grpc", "h2"),
    "Connect protobuf, HTTP/2": ("connect", "h2"),
    "Connect protobuf, HTTP/1.1": ("connect", "h1"),
    "Connect JSON, HTTP/2": ("json", "h2"),
    "Connect JSON, HTTP/1.1": ("json", "h1"),
}


def run(client, address, way, seconds, under=()):
    command = ["taskset", "-c", "1", *under, os.path.join(BIN, client), address, *way, "64", str(seconds)]
    output = subprocess.run(command, capture_output=True, text=True)
    if output.returncode:
        sys.exit(output.stderr)
    count, cpu, in_all = output.stdout.split()
    return int(count), float(cpu), int(in_all)


def measured(name, way, address, options):
    cpu, rate = ([], []), ([], [])
    for _ in range(options.rounds):
        for i, client in enumerate(CLIENTS):
            count, seconds, _ = run(client, address, way, options.seconds)
            cpu[i].append(seconds / count * 1e6)
            rate[i].append(count / options.seconds)
    for i, client in enumerate(CLIENTS):
        c, r = statistics.median(cpu[i]), statistics.median(rate[i])
        line = f"| {name} | {client} | {c:.2f} ({min(cpu[i]):.2f}–{max(cpu[i]):.2f}) | {c / statistics.median(cpu[0]):.3f} |"
        print(line if options.shared else f"{line} {r:,.0f} | {r / statistics.median(rate[0]):.3f} |", flush=True)


def counted(name, way, address, options):
    base = None
    with tempfile.TemporaryDirectory() as folder:
        out = os.path.join(folder, "callgrind")
        for client in CLIENTS:
            runs = []
            for seconds in (1, 1 + 2 * options.seconds):
                _, _, calls = run(client, address, way, seconds, ("valgrind", "--tool=callgrind", f"--callgrind-out-file={out}"))
                runs.append((calls, int(re.search(r"^totals: (\d+)", open(out).read(), re.M).group(1))))
            each = (runs[1][1] - runs[0][1]) / (runs[1][0] - runs[0][0])
            base = base or each
            print(f"| {name} | {client} | {each:,.0f} | {each / base:.3f} |", flush=True)


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--rounds", type=int, default=5)
    arguments.add_argument("--seconds", type=float, default=2)
    arguments.add_argument("--only", default="")
    arguments.add_argument("--shared", action="store_true")
    arguments.add_argument("--count", action="store_true")
    options = arguments.parse_args()
    server = subprocess.Popen(["taskset", "-c", "0", os.path.join(BIN, "tidewire-hello")], stdout=subprocess.PIPE, text=True)
    address = server.stdout.readline().strip()
    columns = ["case", "client", "CPU µs/call, median (min–max)", "ratio", "calls/s, median", "ratio"]
    if options.count:
        columns = ["case", "client", "instructions/call", "ratio"]
    elif options.shared:
        columns = columns[:4]
    print("| " + " | ".join(columns) + " |\n" + "|---" * len(columns) + "|")
    try:
        for name, way in CELLS.items():
            if options.only in name:
                (counted if options.count else measured)(name, way, address, options)
    finally:
        server.kill()


main()
