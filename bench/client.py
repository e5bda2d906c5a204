#!/usr/bin/env python3
"""What Tidewire's client costs beside connectrpc's own: client CPU per call, side by side.

The server (Tidewire's, the same for both) runs on core 0, the client on core 1, with one thread each
and 64 calls in flight. Rounds are interleaved (A B A B ...), each in a fresh process that warms up for
half a second. CPU is that of the client's process, divided by the calls that it made.

Usage: bench/client.py [--rounds N] [--seconds S] [--only PART]
"""
import argparse, os, statistics, subprocess, sys

BIN = os.path.join(os.path.dirname(os.path.abspath(__file__)), "peers", "target", "release")
CLIENTS = ("client-connectrpc", "client-tidewire")
CELLS = {
    "gRPC, HTTP/2": ("grpc", "h2"),
    "Connect protobuf, HTTP/2": ("connect", "h2"),
    "Connect protobuf, HTTP/1.1": ("connect", "h1"),
    "Connect JSON, HTTP/2": ("json", "h2"),
    "Connect JSON, HTTP/1.1": ("json", "h1"),
}


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--rounds", type=int, default=5)
    arguments.add_argument("--seconds", type=float, default=2)
    arguments.add_argument("--only", default="")
    options = arguments.parse_args()
    server = subprocess.Popen(["taskset", "-c", "0", os.path.join(BIN, "tidewire-hello")], stdout=subprocess.PIPE, text=True)
    address = server.stdout.readline().strip()
    print("| case | client | CPU µs/call, median (min–max) | ratio | calls/s, median | ratio |")
    print("|---|---|---|---|---|---|")
    try:
        for name, way in CELLS.items():
            if options.only not in name:
                continue
            cpu, rate = ([], []), ([], [])
            for _ in range(options.rounds):
                for i, client in enumerate(CLIENTS):
                    command = ["taskset", "-c", "1", os.path.join(BIN, client), address, *way, "64", str(options.seconds)]
                    output = subprocess.run(command, capture_output=True, text=True)
                    if output.returncode:
                        sys.exit(output.stderr)
                    count, seconds = output.stdout.split()
                    cpu[i].append(float(seconds) / int(count) * 1e6)
                    rate[i].append(int(count) / options.seconds)
            for i, client in enumerate(CLIENTS):
                c, r = statistics.median(cpu[i]), statistics.median(rate[i])
                print(f"| {name} | {client} | {c:.2f} ({min(cpu[i]):.2f}–{max(cpu[i]):.2f}) | {c / statistics.median(cpu[0]):.3f}"
                      f" | {r:,.0f} | {r / statistics.median(rate[0]):.3f} |", flush=True)
    finally:
        server.kill()


main()
