#!/usr/bin/env python3
"""What Tidewire costs over the libraries it stands on: server CPU per request, side by side.

Each server runs on core 0 with one thread, the load generator on core 1. Rounds are interleaved
(A B A B ...). CPU is utime + stime of the server over the measured seconds, divided by the requests
that the load generator counted in them. A rate is the server's only if the server was busy all the
time: a run in which one was not is refused at its end. Needs h2load and wrk (Debian: nghttp2-client, wrk).

--shared   the machine has other work: rates mean nothing and are left out, CPU is what it is
--count    instructions and allocations per request by callgrind instead, which other work does not
           change: those of COUNTED requests more, so that starting and connecting cancel out
           (needs valgrind)

Usage: bench/overhead.py [--rounds N] [--seconds S] [--only PART] [--shared | --count]
"""
import argparse, json, os, re, statistics, struct, subprocess, sys, tempfile

import callgrind

HERE = os.path.dirname(os.path.abspath(__file__))
BIN = os.path.join(HERE, "peers", "target", "release")
# How many requests are counted, after how many others.
COUNTED, BEFORE = 1000, 200
# How many times more of plain HTTP.
FILLED = 50
# The least share of a core that a server under full load takes.
BUSY_MIN = 0.9
TICK = os.sysconf("SC_CLK_TCK")
JSON_BODY = json.dumps({
    "name": "it", "d": 4.2, "f": 4.2, "b": True, "n": 42, "l": "42", "c1": "hello",
    "pets": [{"name": "Garfield", "color": "orange"}, {"name": "Snoopy", "color": "white"}],
}, separators=(",", ":")).encode()


def pb(field, wire, payload):
    return bytes([field << 3 | wire]) + payload


def text(field, value):
    return pb(field, 2, bytes([len(value)]) + value.encode())


def message():
    pet = lambda name, color: text(1, name) + text(2, color)
    pets = b"".join(pb(9, 2, bytes([len(p)]) + p) for p in (pet("Garfield", "orange"), pet("Snoopy", "white")))
    return (text(1, "it") + pb(2, 1, struct.pack("<d", 4.2)) + pb(3, 5, struct.pack("<f", 4.2)) + pb(4, 0, b"\1")
            + pb(5, 0, b"\x2a") + pb(6, 0, b"\x2a") + text(7, "hello") + pets)


class Server:
    def __init__(self, name, under=()):
        command = ["taskset", "-c", "0", *under, os.path.join(BIN, name)]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self.address = self.process.stdout.readline().strip()

    def cpu(self):
        fields = open(f"/proc/{self.process.pid}/stat").read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / TICK

    def stop(self):
        self.process.terminate()
        self.process.wait()


def load(command):
    output = subprocess.run(["taskset", "-c", "1"] + command, capture_output=True, text=True).stdout
    if command[0] == "wrk":
        if re.search(r"Non-2xx|Socket errors", output):
            sys.exit(f"errors are not answers: {output}")
        return int(re.search(r"(\d+) requests in", output).group(1)), float(re.search(r"Requests/sec:\s+([\d.]+)", output).group(1))
    done, failed = re.search(r"(\d+) succeeded, (\d+) failed", output).groups()
    ok = re.search(r"status codes: (\d+) 2xx", output).group(1)
    if int(failed) or int(ok) < int(done):
        sys.exit(f"errors are not answers: {output}")
    return int(done), float(re.search(r"finished in [^,]+, ([\d.]+) req/s", output).group(1))


def cells(folder):
    """The servers of each case, and the commands that load one: for some seconds, and for some requests."""
    grpc, proto, body = (os.path.join(folder, name) for name in ("grpc", "proto", "json"))
    encoded = message()
    open(grpc, "wb").write(b"\0" + struct.pack(">I", len(encoded)) + encoded)
    open(proto, "wb").write(encoded)
    open(body, "wb").write(JSON_BODY)
    pipeline = os.path.join(HERE, "pipeline.lua")

    def h2load(extra, path):
        command = lambda how: lambda a, n: ["h2load", "-t", "1", how, str(n), *extra, f"http://{a}{path}"]
        return command("-D"), command("-n")

    def call(extra, file, content_type, method="Greeter/SayHello"):
        return h2load([*extra, "-d", file, "-H", f"content-type: {content_type}", "-H", "te: trailers"], f"/hello.v1.{method}")

    def plain(extra, count):
        wrk = lambda a, s: ["wrk", "-t1", *extra, f"-d{s}s", f"http://{a}/plaintext"]
        if "-s" in extra:
            wrk = lambda a, s: ["wrk", "-t1", "-c8", f"-d{s}s", "-s", pipeline, f"http://{a}/plaintext"]
        return wrk, h2load(count, "/plaintext")[1]

    h1, h2 = ["--h1", "-c", "64"], ["-c", "8", "-m", "8"]
    of_plain, of_rpc = ("bare-hyper", "tidewire-hello"), ("bare-hyper", "bare-connectrpc", "tidewire-hello")
    of_grpc, of_stream = ("bare-hyper", "bare-connectrpc", "bare-tonic", "tidewire-hello"), ("bare-hyper", "bare-tonic", "tidewire-hello")
    return {
        "plain, HTTP/1.1, c=64": (of_plain, *plain(["-c64"], h1)),
        "plain, HTTP/1.1, pipelined 16, c=8": (of_plain, *plain(["-s"], ["--h1", "-c", "8", "-m", "16"])),
        "gRPC, c=8 m=8": (of_grpc, *call(h2, grpc, "application/grpc")),
        "Connect JSON, HTTP/1.1, c=64": (of_rpc, *call(h1, body, "application/json")),
        "Connect JSON, HTTP/2, c=8 m=8": (of_rpc, *call(h2, body, "application/json")),
        "Connect protobuf, HTTP/1.1, c=64": (of_rpc, *call(h1, proto, "application/proto")),
        "Connect protobuf, HTTP/2, c=8 m=8": (of_rpc, *call(h2, proto, "application/proto")),
        "gRPC stream of 1,000, c=4 m=1": (of_stream, *call(["-c", "4"], grpc, "application/grpc", "Many/ManyHello")),
    }


def measured(name, servers, command, options, idle):
    running = [Server(server) for server in servers]
    cpu, rate = [[] for _ in servers], [[] for _ in servers]
    for _ in range(options.rounds):
        for i, server in enumerate(running):
            load(command(server.address, 1))
            before = server.cpu()
            count, per_second = load(command(server.address, options.seconds))
            cpu[i].append((server.cpu() - before) / count * 1e6)
            rate[i].append(per_second)
    for server in running:
        server.stop()
    base_cpu, base_rate = statistics.median(cpu[0]), statistics.median(rate[0])
    for i, server in enumerate(servers):
        c, r = statistics.median(cpu[i]), statistics.median(rate[i])
        line = f"| {name} | {server} | {c:.2f} ({min(cpu[i]):.2f}–{max(cpu[i]):.2f}) | {c / base_cpu:.3f} |"
        if not options.shared:
            busy = statistics.median(a * b for a, b in zip(cpu[i], rate[i])) / 1e6
            if busy < BUSY_MIN:
                idle.append(f"{name}: {server} was busy for {busy:.0%} of the time")
            line += f" {r:,.0f} | {r / base_rate:.3f} |"
        print(line, flush=True)


def counted(name, servers, command, folder):
    many = 20 if "stream" in name else 1
    # A connection of HTTP/1.1 first fills the buffer that it reads into, and makes another one for each request then.
    many = 1 / FILLED if name.startswith("plain") else many
    floor = None
    for server in servers:
        totals = []
        for requests in (int(BEFORE / many), int((BEFORE + COUNTED) / many)):
            out = os.path.join(folder, "callgrind")
            running = Server(server, ("valgrind", "--tool=callgrind", f"--callgrind-out-file={out}"))
            load(command(running.address, requests))
            running.stop()
            totals.append(callgrind.counts(out))
        each, allocations = ((after - before) / int(COUNTED / many) for before, after in zip(*totals))
        floor = floor or each
        print(f"| {name} | {server} | {each:,.0f} | {each / floor:.3f} | {each - floor:,.0f} | {allocations:.1f} |", flush=True)


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--rounds", type=int, default=5)
    arguments.add_argument("--seconds", type=int, default=2)
    arguments.add_argument("--only", default="")
    arguments.add_argument("--shared", action="store_true")
    arguments.add_argument("--count", action="store_true")
    options = arguments.parse_args()
    columns = ["case", "server", "CPU µs/request, median (min–max)", "ratio", "requests/s, median", "ratio"]
    if options.count:
        columns = ["case", "server", "instructions/request", "ratio", "over bare hyper", "allocations"]
    elif options.shared:
        columns = columns[:4]
    print("| " + " | ".join(columns) + " |\n" + "|---" * len(columns) + "|")
    idle = []
    with tempfile.TemporaryDirectory() as folder:
        for name, (servers, for_seconds, for_requests) in cells(folder).items():
            if options.only not in name:
                continue
            if options.count:
                counted(name, servers, for_requests, folder)
            else:
                measured(name, servers, for_seconds, options, idle)
    if idle:
        sys.exit("\n".join(idle) + "\nthese rates are the load generator's: run again with nothing beside it")


main()
